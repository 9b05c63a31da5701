//! What the findings mean for a recording.
//!
//! Apart from the findings so that all wording, and what counts as serious, is in one place.

use super::module::{Language, Module, Role};
use crate::learnt::declared;
use relive_symbols::{Symbol, Treatment};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// How serious a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// As it should be.
    Fine,
    /// May matter.
    Note,
    /// A replay may end in a divergence.
    Warning,
    /// It can't be recorded.
    Fatal,
}

/// One thing that is to be known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// How serious it is.
    pub level: Level,
    /// Which finding it is: a stable word.
    pub about: &'static str,
    /// One line.
    pub text: String,
}

/// Names that one line lists before it only counts.
const NAMES_SHOWN: usize = 6;

/// Everything that is to be said, most serious first.
pub(super) fn reach(not_recordable: Option<&str>, modules: &[Module], missing: &[String]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut say = |level, about, text: String| verdicts.push(Verdict { level, about, text });
    if let Some(why) = not_recordable {
        say(Level::Fatal, "not-recordable", why.to_owned());
    }
    for name in missing {
        say(Level::Warning, "missing", format!("library {name} was not found; set LD_LIBRARY_PATH as for a run"));
    }
    for module in modules.iter().filter(|module| matches!(module.role, Role::Program | Role::Library)) {
        of_module(module, &mut say);
    }
    of_atomics(modules, &mut say);
    of_imports(modules, &mut say);
    verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.level));
    verdicts
}

fn of_module(module: &Module, say: &mut impl FnMut(Level, &'static str, String)) {
    let name = file_name(&module.path);
    let code = &module.code;
    if module.language == Some(Language::Go) {
        let text =
            format!("{name} is made with Go, whose runtime makes threads by clone and locks by futex: not ordered");
        say(Level::Warning, "go", text);
    }
    if module.guards_inside {
        let text = format!(
            "{name} has the C++ runtime linked in: its function-local statics are invisible; link without -static-libstdc++"
        );
        say(Level::Warning, "guards", text);
    }
    if !module.defines.is_empty() {
        // The loader takes the program's own definition before a preloaded library's, and a library's after it.
        let (level, effect) = match module.role {
            Role::Program => (Level::Warning, "calls of them are not ordered"),
            _ => (Level::Note, "a recording uses its own instead"),
        };
        say(level, "defines", format!("{name} itself defines {}: {effect}", listed(module.defines.iter().copied())));
    }
    if module.unsure > 0 {
        let what = counted(module.unsure.into(), "instruction");
        let text = format!(
            "{name} may read the time, the processor or random numbers by {what} in code that nothing describes: \
             --environment records the time only"
        );
        say(Level::Note, "instructions", text);
    }
    if code.futexes > 0 && module.language != Some(Language::Go) {
        let whose =
            if module.language == Some(Language::Rust) { " (the locks of Rust's standard library)" } else { "" };
        let text = format!("{name} calls futex directly in {}{whose}: not ordered at this level", places(code.futexes));
        say(Level::Warning, "futex", text);
    }
}

fn of_atomics(modules: &[Module], say: &mut impl FnMut(Level, &'static str, String)) {
    const ORDERED: &str = "--level atomics orders what they hand over";
    let atomics = |module: &Module| module.code.locked + module.code.exchanges;
    let having = |role| modules.iter().filter(move |module| module.role == role && atomics(module) > 0);
    for module in modules.iter().filter(|module| module.role == Role::Program) {
        let (name, locked, exchanges) = (file_name(&module.path), module.code.locked, module.code.exchanges);
        let what = counted(atomics(module), "atomic instruction");
        let what = format!("{what} ({locked} with a lock prefix, {exchanges} exchanges)");
        let told = declared(Path::new(&module.path))
            .filter(|count| *count > 0)
            .map(|count| format!("{} that debug information calls atomic or volatile", counted(count, "plain access")));
        let text = match (atomics(module), told) {
            (0, None) => continue,
            (0, Some(told)) => format!("{name} has {told}: {ORDERED}"),
            (_, Some(told)) => format!("{name} has {what}, and {told}: {ORDERED}"),
            (_, None) => format!(
                "{name} has {what}: {ORDERED}; plain accesses to atomic variables, which no debug information tells, --learn \
                 finds"
            ),
        };
        say(Level::Note, "atomics", text);
    }
    if let Some(most) = having(Role::Library).max_by_key(|module| atomics(module)) {
        let what = counted(having(Role::Library).map(atomics).sum(), "atomic instruction");
        let libraries = having(Role::Library).count();
        let text = format!("{what} in libraries ({libraries}, most in {}): {ORDERED}", file_name(&most.path));
        say(Level::Note, "atomics", text);
    }
}

fn of_imports(modules: &[Module], say: &mut impl FnMut(Level, &'static str, String)) {
    let imports: BTreeMap<&str, &'static Symbol> = modules
        .iter()
        .filter(|module| module.role != Role::Cxx)
        .flat_map(|module| &module.imports)
        .map(|symbol| (symbol.name, *symbol))
        .collect();
    let of = |treatment| imports.values().filter(move |symbol| symbol.treatment == treatment);
    let count = |treatment| of(treatment).count();
    for (treatment, about) in [(Treatment::Refused, "refused"), (Treatment::Unordered, "unordered")] {
        // Symbols with the same reason make one line.
        let mut reasons: BTreeMap<&str, Vec<&'static Symbol>> = BTreeMap::new();
        for symbol in of(treatment) {
            reasons.entry(symbol.why).or_default().push(symbol);
        }
        for (why, symbols) in reasons {
            if symbols.iter().any(|symbol| is_cpp_future(symbol)) {
                say(Level::Warning, about, why.to_owned());
            } else {
                say(Level::Note, about, format!("may call {}: {why}", listed(symbols.into_iter())));
            }
        }
    }
    if ["dlopen", "dlmopen"].iter().any(|name| imports.contains_key(name)) {
        say(Level::Note, "plugins", "libraries can be opened while it runs; they were not looked at".to_owned());
    }
    let ordered = count(Treatment::Ordered) as u64;
    let passed = [Treatment::PassThrough, Treatment::Counted, Treatment::Seen].into_iter().map(count).sum::<usize>();
    let text = format!("{} called in recorded order, {passed} need none", counted(ordered, "imported function"));
    say(Level::Fine, "ordered", text);
}

fn is_cpp_future(symbol: &Symbol) -> bool {
    symbol.name.starts_with("_ZNSt28__atomic_futex")
}

fn file_name(path: &str) -> std::borrow::Cow<'_, str> {
    Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy())
}

fn places(count: u64) -> String {
    counted(count, "place")
}

/// `1 thing`, `2 things`.
fn counted(count: u64, thing: &str) -> String {
    let ending = if thing.ends_with('s') { "es" } else { "s" };
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}{ending}") }
}

fn listed(symbols: impl Iterator<Item = &'static Symbol>) -> String {
    let names: Vec<_> = symbols.map(|symbol| symbol.name).collect();
    let mut text = names[..names.len().min(NAMES_SHOWN)].join(", ");
    if names.len() > NAMES_SHOWN {
        let _ = write!(text, " and {} more", names.len() - NAMES_SHOWN);
    }
    text
}
