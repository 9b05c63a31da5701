//! Where learnt accesses are kept: beside the runtime, a file each file of code, or in one
//! that the user names.
//!
//! Which files of code a program will load nobody knows before it does, least of all of a script.
//! So a recording is given what is known of all files: also of such as are not there, because it may
//! make them. Of those that are another build now it is given what is found there besides. Beside the runtime this may be
//! lost: it is learnt again.

use super::Learnt;
use super::builds::{self, Named};
use crate::binary;
use crate::launch::Runtime;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// No more are kept beside the runtime; those that changed last remain.
const KEPT_MAX: usize = 512;

/// Where they are kept.
#[derive(Clone, Debug)]
pub enum Lists {
    /// In the folder of the runtime.
    Cache(PathBuf),
    /// In this file and nowhere else.
    File(PathBuf),
}

/// A list that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The system says so.
    #[error("{}: {cause}; name another file with --learnt", path.display())]
    System {
        /// The list.
        path: PathBuf,
        /// What it said.
        cause: io::Error,
    },
    /// It is another thing.
    #[error("{} is no list of learnt accesses ({cause}); name another file with --learnt", path.display())]
    Content {
        /// The list.
        path: PathBuf,
        /// Where it is none.
        cause: serde_json::Error,
    },
}

/// What is known before a recording.
#[derive(Debug, Default)]
pub struct Known {
    /// All that it is to order.
    pub learnt: Learnt,
    /// So many accesses were learnt in builds that are no more,
    pub of_others: usize,
    /// and of so many of them something was found in those that are there now.
    pub found: usize,
}

/// What is kept of a file of code.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Module {
    /// Its key, in hexadecimal.
    file: String,
    /// Where it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    accesses: Vec<Place>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Place {
    /// Its offset in the file.
    at: u64,
    #[serde(flatten)]
    named: Option<Named>,
}

impl Module {
    fn key(&self) -> Option<u64> {
        u64::from_str_radix(&self.file, 16).ok()
    }

    /// Whether it is the build that is there.
    fn is_there(&self) -> bool {
        self.path.as_ref().is_some_and(|path| builds::key_of(path) == self.key())
    }

    /// Whether it is another build of the same file.
    fn replaces(&self, other: &Self) -> bool {
        let (Some(own), Some(path)) = (&self.path, &other.path) else { return false };
        self.file != other.file && (own == path || own.file_name() == path.file_name() && !path.exists())
    }

    fn words(&self) -> impl Iterator<Item = [u64; 2]> {
        let key = self.key();
        self.accesses.iter().filter_map(move |place| Some([key?, place.at]))
    }
}

impl Lists {
    /// The user's `file`, or those beside the runtime.
    pub fn of(runtime: &Runtime, file: Option<&Path>) -> Self {
        match file {
            Some(file) => Self::File(file.to_owned()),
            None => Self::Cache(runtime.library.parent().map(Path::to_owned).unwrap_or_default()),
        }
    }

    /// What a recording of the program `executable`, which `loader` starts, is to order.
    ///
    /// # Errors
    /// [`ListError`] if the user's file is there and can't be used.
    pub fn load(&self, executable: &Path, loader: &Path) -> Result<Known, ListError> {
        let modules = self.modules()?;
        let mut known = Known::default();
        // As the kernel names what is mapped.
        let executable = &fs::canonicalize(executable).unwrap_or_else(|_| executable.to_owned());
        let mut there = There { executable, loader, handed_on: matches!(self, Self::File(_)), libraries: None };
        let mut others: BTreeMap<PathBuf, (u64, Vec<&Module>)> = BTreeMap::new();
        for module in &modules {
            let Some(key) = module.key() else { continue };
            known.learnt.add(module.words());
            for path in there.of(module) {
                match builds::key_of(&path) {
                    Some(now) if now == key => known.learnt.stands_at(key, &path),
                    Some(now) => others.entry(path).or_insert((now, Vec::new())).1.push(module),
                    None => {}
                }
            }
        }
        // What was learnt in the build that is there was learnt with all that was known then.
        others.retain(|_, (now, _)| modules.iter().all(|module| module.key() != Some(*now)));
        for (path, (key, modules)) in &others {
            known.find(path, *key, modules);
        }
        Ok(known)
    }

    /// Keeps what is not kept yet; how much that is.
    ///
    /// # Errors
    /// [`ListError`] if it can't be written, or the user's file is another thing.
    pub fn keep(&self, learnt: &Learnt) -> Result<usize, ListError> {
        let mut modules = self.modules()?;
        let mut new = 0;
        for (key, (path, places)) in learnt.by_file() {
            let file = format!("{key:016x}");
            let at = modules.iter().position(|module| module.file == file);
            let mut module =
                at.map_or_else(|| Module { file, path: None, accesses: Vec::new() }, |at| modules.swap_remove(at));
            let more = add(&mut module, key, path, &places);
            new += more;
            if let Self::Cache(folder) = self
                && more > 0
            {
                write(&folder.join(format!("learnt-{key:016x}.json")), &module)?;
            }
            modules.push(module);
        }
        if let Self::File(path) = self
            && new > 0
        {
            // What an older build knew stands in the one that is there, too.
            let there: Vec<Module> = modules.iter().filter(|module| module.is_there()).cloned().collect();
            modules.retain(|module| !there.iter().any(|now| now.replaces(module)));
            modules.sort_by(|one, other| (&one.path, &one.file).cmp(&(&other.path, &other.file)));
            write(path, &modules)?;
        }
        Ok(new)
    }

    fn modules(&self) -> Result<Vec<Module>, ListError> {
        match self {
            Self::Cache(folder) => Ok(cached(folder)),
            Self::File(path) => {
                let fail = |cause| ListError::System { path: path.clone(), cause };
                let bytes = match fs::read(path) {
                    Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                    read => read.map_err(fail)?,
                };
                serde_json::from_slice(&bytes).map_err(|cause| ListError::Content { path: path.clone(), cause })
            }
        }
    }
}

impl Known {
    /// What other builds of the file at `path` have learnt, as far as it is found there.
    fn find(&mut self, path: &Path, key: u64, modules: &[&Module]) {
        let places = modules.iter().flat_map(|module| &module.accesses);
        // Several builds have learnt the same.
        let named: BTreeSet<&Named> = places.clone().filter_map(|place| place.named.as_ref()).collect();
        let nameless: BTreeSet<u64> = places.filter(|place| place.named.is_none()).map(|place| place.at).collect();
        let found = builds::with(path, |code| code.find(named.iter().copied())).unwrap_or_default();
        self.of_others += named.len() + nameless.len();
        self.found += found.iter().filter(|places| !places.is_empty()).count();
        self.learnt.stands_at(key, path);
        self.learnt.add(found.into_iter().flatten().map(|at| [key, at]));
    }
}

/// Files of code that a program may load.
struct There<'a> {
    executable: &'a Path,
    loader: &'a Path,
    /// The list is the user's.
    handed_on: bool,
    /// Asked for where that matters.
    libraries: Option<BTreeSet<PathBuf>>,
}

impl There<'_> {
    /// Those which may be a module, or another build of it: what is where it was, or has its name.
    fn of(&mut self, module: &Module) -> Vec<PathBuf> {
        let Some(path) = &module.path else { return Vec::new() };
        let (loader, executable) = (self.loader, self.executable);
        let mut found: Vec<PathBuf> = path.exists().then(|| path.clone()).into_iter().collect();
        // There may be many programs of a name on a machine, but in a list that was handed on it means this one.
        let may_be_it = self.handed_on || found.is_empty();
        if may_be_it && executable != path && executable.file_name() == path.file_name() {
            found.push(executable.to_owned());
        }
        if !found.is_empty() {
            return found;
        }
        let libraries = self.libraries.get_or_insert_with(|| binary::listed(loader, executable));
        let of_name = libraries.iter().filter(|library| stem(library) == stem(path));
        of_name.filter_map(|library| fs::canonicalize(library).ok()).collect()
    }
}

/// The name of a file, without a library's version.
fn stem(path: &Path) -> &[u8] {
    const LIBRARY: &[u8] = b".so";
    let name = path.file_name().unwrap_or(OsStr::new("")).as_bytes();
    let end = name.windows(LIBRARY.len()).position(|part| part == LIBRARY);
    &name[..end.unwrap_or(name.len())]
}

/// Adds places of the file at `path`, if it is there and is the one of this key.
fn add(module: &mut Module, key: u64, path: Option<&Path>, places: &[u64]) -> usize {
    let new: Vec<u64> =
        places.iter().copied().filter(|at| module.accesses.iter().all(|place| place.at != *at)).collect();
    if new.is_empty() {
        return 0;
    }
    let path = path.or(module.path.as_deref()).map(Path::to_owned);
    let names = path
        .as_ref()
        .filter(|path| builds::key_of(path) == Some(key))
        .and_then(|path| builds::with(path, |code| new.iter().map(|&at| code.name(at)).collect::<Vec<_>>()));
    let names = names.unwrap_or_else(|| vec![None; new.len()]);
    let count = new.len();
    module.accesses.extend(new.into_iter().zip(names).map(|(at, named)| Place { at, named }));
    module.accesses.sort_by_key(|place| place.at);
    module.path = path;
    count
}

/// Those beside the runtime, the last changed first.
fn cached(folder: &Path) -> Vec<Module> {
    // What another version of relive keeps there is none.
    newest(folder, "learnt-").iter().filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect()
}

/// The lists whose names begin so, the last changed first. What are more than are kept go.
pub(super) fn newest(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<(SystemTime, PathBuf)> = entries
        .filter(|entry| {
            let name = entry.file_name();
            name.as_bytes().starts_with(prefix.as_bytes()) && name.as_bytes().ends_with(b".json")
        })
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort_unstable_by(|one, other| other.cmp(one));
    for (_, path) in files.drain(files.len().min(KEPT_MAX)..) {
        let _ = fs::remove_file(path);
    }
    files.into_iter().map(|(_, path)| path).collect()
}

/// Whoever reads it meanwhile finds the old or the new one whole.
pub(super) fn write(path: &Path, content: &impl Serialize) -> Result<(), ListError> {
    let fail = |cause| ListError::System { path: path.to_owned(), cause };
    let mut text = serde_json::to_vec_pretty(content).map_err(|cause| fail(cause.into()))?;
    text.push(b'\n');
    let part = path.with_extension(format!("part{}", std::process::id()));
    fs::write(&part, text).and_then(|()| fs::rename(&part, path)).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::super::builds::key_of;
    use super::{KEPT_MAX, Learnt, ListError, Lists, stem};
    use std::fs;
    use std::path::{Path, PathBuf};

    /// A file of code with this content, and a lesson about it.
    fn lesson(path: &Path, content: &[u8], places: &[u64]) -> Learnt {
        fs::write(path, content).unwrap();
        let key = key_of(path).unwrap();
        let mut learnt: Learnt = places.iter().map(|&at| [key, at]).collect();
        learnt.stands_at(key, &fs::canonicalize(path).unwrap());
        learnt
    }

    /// Both kinds of lists, in a folder.
    fn both(folder: &Path) -> [Lists; 2] {
        [Lists::Cache(folder.to_owned()), Lists::File(folder.join("list"))]
    }

    /// How many accesses a recording of `program` orders, and how many were learnt in other builds.
    fn check(lists: &Lists, program: &Path, ordered: usize, of_others: usize) {
        let known = lists.load(program, Path::new("/no/loader")).unwrap();
        assert_eq!((known.learnt.count(), known.of_others, known.found), (ordered, of_others, 0), "{lists:?}");
    }

    #[test]
    fn what_is_kept_is_known_of_the_same_build_and_asked_for_in_another() {
        let folder = tempfile::tempdir().unwrap();
        let (program, other) = (folder.path().join("program"), folder.path().join("other"));
        for lists in both(folder.path()) {
            let learnt = lesson(&program, b"one", &[10, 20]);
            check(&lists, &program, 0, 0);
            assert_eq!(lists.keep(&learnt).unwrap(), 2);
            assert_eq!(lists.keep(&learnt).unwrap(), 0);
            assert_eq!(lists.keep(&lesson(&program, b"one", &[20, 30])).unwrap(), 1);
            check(&lists, &program, 3, 0);
            check(&lists, &other, 3, 0);
            // It has no names by which they could be found.
            fs::write(&program, b"two").unwrap();
            check(&lists, &program, 3, 3);
        }
    }

    #[test]
    fn a_program_that_was_moved_is_known_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (program, elsewhere) = (folder.path().join("program"), folder.path().join("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        for lists in both(folder.path()) {
            lists.keep(&lesson(&program, b"one", &[10])).unwrap();
            fs::rename(&program, elsewhere.join("program")).unwrap();
            check(&lists, &elsewhere.join("program"), 1, 0);
            check(&lists, &elsewhere.join("another"), 1, 0);
            fs::write(elsewhere.join("program"), b"two").unwrap();
            check(&lists, &elsewhere.join("program"), 1, 1);
            check(&lists, &elsewhere.join("another"), 1, 0);
        }
    }

    #[test]
    fn of_programs_of_one_name_a_list_that_was_handed_on_means_any() {
        let folder = tempfile::tempdir().unwrap();
        let (program, elsewhere) = (folder.path().join("program"), folder.path().join("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("program"), "another").unwrap();
        for (lists, of_others) in both(folder.path()).into_iter().zip([0, 2]) {
            lists.keep(&lesson(&program, b"one", &[10, 20])).unwrap();
            check(&lists, &elsewhere.join("program"), 2, of_others);
        }
    }

    #[test]
    fn a_list_of_the_users_has_one_build_of_each_file() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let [cache, list] = both(folder.path());
        for lists in [&cache, &list] {
            for (build, places) in [(b"one", &[10][..]), (b"two", &[11, 12])] {
                lists.keep(&lesson(&program, build, places)).unwrap();
            }
        }
        check(&cache, &program, 3, 0);
        check(&list, &program, 2, 0);
        fs::write(&program, b"one").unwrap();
        check(&cache, &program, 3, 0);
        check(&list, &program, 2, 2);
    }

    /// Keys are in no order of time.
    #[test]
    fn what_an_older_build_knew_does_not_come_back_to_a_users_list() {
        let folder = tempfile::tempdir().unwrap();
        let [_, list] = both(folder.path());
        let program = folder.path().join("program");
        for build in 0..16u8 {
            let mut learnt = list.load(&program, Path::new("/no/loader")).unwrap().learnt;
            learnt.take_in(&lesson(&program, &[build], &[u64::from(build)]));
            assert_eq!(list.keep(&learnt).unwrap(), 1);
            check(&list, &program, 1, 0);
        }
    }

    #[test]
    fn beside_the_runtime_no_more_are_kept_than_are_of_use() {
        let folder = tempfile::tempdir().unwrap();
        let [cache, _] = both(folder.path());
        let lists = || fs::read_dir(folder.path()).unwrap().count();
        for name in 0..KEPT_MAX + 8 {
            fs::write(folder.path().join(format!("learnt-{name}.json")), "of another version").unwrap();
        }
        fs::write(folder.path().join("preload.so"), "no list").unwrap();
        check(&cache, Path::new("/program"), 0, 0);
        assert_eq!(lists(), KEPT_MAX + 1);
    }

    #[test]
    fn a_users_list_that_is_none_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let [_, list] = both(folder.path());
        fs::write(folder.path().join("list"), "{}").unwrap();
        let learnt = lesson(&folder.path().join("program"), b"one", &[1]);
        assert!(matches!(list.keep(&learnt), Err(ListError::Content { .. })));
        let folder = PathBuf::from("/proc/no/such");
        assert!(matches!(Lists::File(folder).keep(&learnt), Err(ListError::System { .. })));
    }

    #[test]
    fn versions_of_a_library_have_one_name() {
        for (path, name) in [("/lib/libx.so.1.2", "libx"), ("libx-2.so", "libx-2"), ("/bin/tool", "tool"), ("/", "")] {
            assert_eq!(stem(Path::new(path)), name.as_bytes());
        }
    }
}
