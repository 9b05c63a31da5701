//! Documents and lists that must keep up with the code.
//!
//! Apart from `sources` because these files are not Rust.

use super::{Finding, Findings};

/// Checks that the code map names the folder of every crate.
pub(super) fn check_map(map: &str, folders: &[String], findings: &mut Findings) {
    for folder in folders {
        if !map.contains(folder.as_str()) {
            findings.errors.push(Finding::new("ARCHITECTURE.md", format!("the code map does not name {folder}")));
        }
    }
}

/// Checks that a list of known failures is sorted and gives each one's reason.
pub(super) fn check_known_failures(name: &str, text: &str, findings: &mut Findings) {
    let mut previous = "";
    for (index, line) in text.lines().enumerate().filter(|(_, l)| !l.starts_with('#') && !l.is_empty()) {
        let place = format!("{name}:{}", index + 1);
        let (case, reason) = line.rsplit_once('\t').unwrap_or((line, ""));
        if reason.trim().len() < 20 {
            findings.errors.push(Finding::new(&place, "name, a tab, and the reason why it can't work"));
        }
        if case <= previous {
            findings.errors.push(Finding::new(&place, "the list is sorted by name, each once"));
        }
        previous = case;
    }
}

#[cfg(test)]
mod tests {
    use super::{Findings, check_known_failures, check_map};

    #[test]
    fn a_crate_missing_on_the_map_is_found() {
        let mut findings = Findings::default();
        check_map("`crates/a` does", &["crates/a".into(), "crates/b".into()], &mut findings);
        assert_eq!(findings.errors.len(), 1);
    }

    #[test]
    fn known_failures_are_sorted_and_have_reasons() {
        let errors = |text: &str| {
            let mut findings = Findings::default();
            check_known_failures("x", text, &mut findings);
            findings.errors.len()
        };
        let reason = "spins on an atomic between two recorded operations";
        assert_eq!(errors(&format!("# list\na\t{reason}\nb\t{reason}\n")), 0);
        assert_eq!(errors(&format!("b\t{reason}\na\t{reason}\n")), 1);
        assert_eq!(errors("a\n"), 1);
    }
}
