//! How long a function may be.
//!
//! Apart from `sources` because it needs the syntax tree.

use super::{Finding, Findings};
use proc_macro2::Span;
use syn::visit::{self, Visit};

/// A longer function is a list of steps that want names.
const FUNCTION_LINES_MAX: usize = 70;

/// Checks every function of the file `name` with content `text`.
pub(super) fn check(name: &str, text: &str, findings: &mut Findings) {
    match syn::parse_file(text) {
        Ok(file) => Lengths { name, findings }.visit_file(&file),
        Err(e) => findings.errors.push(Finding::new(name, format!("is not Rust: {e}"))),
    }
}

struct Lengths<'a> {
    name: &'a str,
    findings: &'a mut Findings,
}

impl Lengths<'_> {
    fn measure(&mut self, signature: &syn::Signature, end: Span) {
        let first = signature.fn_token.span.start().line;
        let lines = end.end().line - first + 1;
        if lines > FUNCTION_LINES_MAX {
            let what = format!("`{}` has {lines} lines, at most {FUNCTION_LINES_MAX}", signature.ident);
            self.findings.errors.push(Finding::new(format!("{}:{first}", self.name), what));
        }
    }
}

impl<'ast> Visit<'ast> for Lengths<'_> {
    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        self.measure(&f.sig, f.block.brace_token.span.close());
        visit::visit_item_fn(self, f);
    }

    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        self.measure(&f.sig, f.block.brace_token.span.close());
        visit::visit_impl_item_fn(self, f);
    }

    fn visit_trait_item_fn(&mut self, f: &'ast syn::TraitItemFn) {
        if let Some(block) = &f.default {
            self.measure(&f.sig, block.brace_token.span.close());
        }
        visit::visit_trait_item_fn(self, f);
    }
}

#[cfg(test)]
mod tests {
    use super::{FUNCTION_LINES_MAX, Findings, check};

    fn errors(text: &str) -> usize {
        let mut findings = Findings::default();
        check("a.rs", text, &mut findings);
        findings.errors.len()
    }

    #[test]
    fn length_counts_from_fn_to_the_closing_brace() {
        let body = |lines: usize| format!("/// Docs.\nfn f() {{\n{}}}\n", "g();\n".repeat(lines));
        assert_eq!(errors(&body(FUNCTION_LINES_MAX - 2)), 0);
        assert_eq!(errors(&body(FUNCTION_LINES_MAX - 1)), 1);
        assert_eq!(errors(&format!("impl A {{ {} }}", body(FUNCTION_LINES_MAX))), 1);
    }

    #[test]
    fn what_is_not_rust_is_found() {
        assert_eq!(errors("fn {"), 1);
    }
}
