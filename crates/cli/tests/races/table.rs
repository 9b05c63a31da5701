//! The table of what is to be found, `guests/races/expected.toml`, with its tags looked
//! up in the sources.
//!
//! Apart because people edit it: whatever can be wrong with an entry is found here.

use crate::stage::build::Program;
use crate::stage::registry::{self, Guest};
use serde::Deserialize;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::OnceLock;

/// What ends a line whose access races.
const MARK: &str = "// race ";
/// Sources that belong to other tests.
const ELSEWHERE: &[&str] = &["random.c"];

/// The whole table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    #[serde(rename = "case")]
    pub(crate) cases: Vec<Case>,
}

/// A program with arguments that all have the same races.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// The source, in the folder of these programs.
    pub(crate) guest: String,
    /// Sources of shared libraries that are put next to it.
    #[serde(default)]
    plugins: Vec<String>,
    /// Sources of other programs that are put next to it.
    #[serde(default)]
    programs: Vec<String>,
    /// For the compiler and linker, behind the usual ones.
    #[serde(default)]
    flags: Vec<String>,
    /// Argument lines.
    pub(crate) runs: Vec<String>,
    /// How the recorded run ends, 128+S for signal S.
    #[serde(default)]
    pub(crate) status: i32,
    /// Whether a replay may go another way, by the race itself.
    #[serde(default)]
    pub(crate) may_diverge: bool,
    /// Whether the report must say that it is not complete.
    #[serde(default)]
    pub(crate) partial: bool,
    /// Words of what must be told as not observed.
    #[serde(default)]
    pub(crate) unobserved: Option<String>,
    /// The races.
    pub(crate) pairs: Vec<Pair>,
    /// Their class where they do not say it themselves.
    #[serde(default)]
    certainty: Class,
    /// What may be reported, but not as certain.
    #[serde(default)]
    pub(crate) possible: Vec<Pair>,
    /// Features of the processor.
    #[serde(default)]
    needs: Vec<Feature>,
}

/// Two accesses, and what may be said of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Pair {
    OfTheCase(Access, Access),
    Own(Access, Access, Class),
}

/// What may be said of a race.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Class {
    #[default]
    Certain,
    /// After the first race.
    After,
    /// One of these two.
    Real,
    /// Anything.
    Unsure,
}

/// `KIND TAG`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Access {
    pub(crate) kind: Kind,
    pub(crate) tag: String,
}

/// What a line does to the location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Free,
    Any,
}

/// A line of a source of these programs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The source, in their folder.
    pub(crate) file: String,
    pub(crate) line: u32,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Feature {
    Avx,
    Avx2,
    Avx512f,
    Avx512bw,
}

impl TryFrom<String> for Access {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (kind, tag) = text.split_once(' ').ok_or_else(|| format!("{text:?} is no KIND TAG"))?;
        let kind = match kind {
            "read" => Kind::Read,
            "write" => Kind::Write,
            "free" => Kind::Free,
            "any" => Kind::Any,
            _ => return Err(format!("{kind:?} is no kind of access")),
        };
        Ok(Access { kind, tag: tag.to_owned() })
    }
}

impl Pair {
    /// Both sides.
    pub(crate) const fn sides(&self) -> [&Access; 2] {
        let (Pair::OfTheCase(one, other) | Pair::Own(one, other, _)) = self;
        [one, other]
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, other] = self.sides();
        write!(f, "{:?} {} with {:?} {}", one.kind, one.tag, other.kind, other.tag)
    }
}

impl Table {
    /// The table that the guests come with.
    pub(crate) fn of_guests() -> &'static Table {
        static TABLE: OnceLock<Table> = OnceLock::new();
        TABLE.get_or_init(|| {
            let path = folder().join("expected.toml");
            let text = std::fs::read_to_string(&path).expect("the table of races");
            toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        })
    }

    /// What is wrong with it, one line each.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut names = BTreeSet::new();
        let mut tags: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for case in &self.cases {
            found.extend(case.runs.iter().map(|run| case.name(run)).filter(|name| !names.insert(name.clone())));
            let known = case.places();
            for side in case.pairs.iter().chain(&case.possible).flat_map(Pair::sides) {
                if !known.contains_key(&side.tag) {
                    found.push(format!("{}: no line is called {}", case.guest, side.tag));
                }
                tags.entry(&case.guest).or_default().insert(&side.tag);
            }
        }
        for case in &self.cases {
            let used = tags.get(case.guest.as_str());
            let unused = case.places().into_keys().filter(|tag| !used.is_some_and(|used| used.contains(tag.as_str())));
            found.extend(unused.map(|tag| format!("{}: no pair has {tag}", case.guest)));
        }
        let owned: BTreeSet<&str> =
            self.cases.iter().flat_map(Case::sources).chain(ELSEWHERE.iter().copied()).collect();
        let orphans = sources_on_disk().into_iter().filter(|source| !owned.contains(source.as_str()));
        found.extend(orphans.map(|source| format!("{source} belongs to no case")));
        found
    }
}

impl Case {
    /// The case of that test.
    pub(crate) fn find(name: &str) -> &'static Case {
        let is_it = |case: &&Case| case.runs.iter().any(|run| case.name(run) == name);
        Table::of_guests().cases.iter().find(is_it).unwrap_or_else(|| panic!("no test is called {name}"))
    }

    /// What the test of one of its runs is called.
    pub(crate) fn name(&self, run: &str) -> String {
        let stem = self.guest.split('.').next().unwrap_or_default();
        format!("{stem}::{}", run.replace(' ', "_"))
    }

    /// Whether this processor can run it.
    pub(crate) fn suits_this_processor(&self) -> bool {
        self.needs.iter().all(|feature| match feature {
            Feature::Avx => std::arch::is_x86_feature_detected!("avx"),
            Feature::Avx2 => std::arch::is_x86_feature_detected!("avx2"),
            Feature::Avx512f => std::arch::is_x86_feature_detected!("avx512f"),
            Feature::Avx512bw => std::arch::is_x86_feature_detected!("avx512bw"),
        })
    }

    /// What may be said of this pair of its.
    pub(crate) const fn class(&self, pair: &Pair) -> Class {
        match pair {
            Pair::OfTheCase(..) => self.certainty,
            Pair::Own(.., class) => *class,
        }
    }

    /// Where each tag of its sources stands.
    pub(crate) fn places(&self) -> BTreeMap<String, Place> {
        let mut places = BTreeMap::new();
        for source in self.sources() {
            for (index, text) in read(source).lines().enumerate() {
                let Some((_, tag)) = text.split_once(MARK) else { continue };
                let place = Place { file: source.to_owned(), line: index as u32 + 1 };
                let twice = places.insert(tag.trim().to_owned(), place);
                assert!(twice.is_none(), "{source}: two lines are called {tag}");
            }
        }
        places
    }

    /// Builds it unless that was done before.
    pub(crate) fn program(&self) -> Result<Program, String> {
        let stem = self.guest.replace('.', "_");
        let in_folder = |sources: &[String]| sources.iter().map(|it| format!("races/{it}")).collect::<Vec<_>>();
        let (plugins, programs) = (in_folder(&self.plugins), in_folder(&self.programs));
        // Nothing else tells that the header changed.
        let mut header = DefaultHasher::new();
        read("twins.h").hash(&mut header);
        let flags = [format!("-DTWINS={}", header.finish()), "-lm".to_owned()];
        let flags: Vec<&String> = flags.iter().chain(&self.flags).collect();
        let entry = format!(
            "name = \"races_{stem}\"\nsource = \"races/{}\"\nplugins = {plugins:?}\nprograms = {programs:?}\nflags = {flags:?}\nargs = []",
            self.guest,
        );
        toml::from_str::<Guest>(&entry).map_err(|error| error.to_string())?.program()
    }

    fn sources(&self) -> impl Iterator<Item = &str> {
        let others = self.plugins.iter().chain(&self.programs);
        std::iter::once(self.guest.as_str()).chain(others.map(String::as_str))
    }
}

/// The folder of the programs that race.
pub(crate) fn folder() -> PathBuf {
    registry::folder().join("races")
}

fn read(source: &str) -> String {
    let path = folder().join(source);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sources_on_disk() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("the folder of the programs that race");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    names.filter(|name| [".c", ".cpp"].iter().any(|kind| name.ends_with(kind))).collect()
}
