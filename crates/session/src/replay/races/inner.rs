//! Races that are a library's own: of its own data, with itself.
//!
//! Apart from the search because here is decided what is told to nobody. That is decided
//! by the bytes, not by who touches them: what the C library does within `fread` or
//! `qsort` to memory of its caller, the caller does.
//!
//! The same goes for what compilers put in for OpenMP. Its barriers are what orders a
//! program's threads, so that its accesses are looked at as the program's are; but it
//! takes teams of threads down and sets them up by plain loads and stores beside each
//! other, and nobody who wrote the program can do anything about those.

use relive_findings::raw::{RawAccess, RawModule, RawRace, RawUnobserved};

/// The C library and its loader, by the beginnings of their names.
const RUNTIME: &[&str] = &["libc.so", "libc-2", "ld-linux", "ld-2"];
/// Runtimes of OpenMP: gcc's, clang's and Intel's.
const OPENMP: &[&str] = &["libgomp.so", "libgomp-", "libomp.so", "libomp5", "libiomp5"];

/// Whose own a race is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Library {
    /// The C library's or the loader's.
    C,
    /// That of OpenMP's runtime.
    OpenMp,
}

/// Whose the bytes of a race are, if they are such a library's, and it is not the program that touches them.
pub(super) fn owner(race: &RawRace, modules: &[RawModule]) -> Option<Library> {
    let of = |address, names| is_of(address, names, modules);
    let allocated = race.block.as_ref().and_then(|block| block.allocated.stack.addresses.first());
    let is_own = |names| of(race.address, names) || allocated.is_some_and(|&by| of(by, names));
    // It may let the C library copy or clear.
    let by_openmp = |access: &RawAccess| {
        access.stack.addresses.iter().find(|&&at| !of(at, RUNTIME)).is_some_and(|&at| of(at, OPENMP))
    };
    if race.accesses.iter().all(by_openmp) && is_own(OPENMP) {
        return Some(Library::OpenMp);
    }
    let is_c = match race.accesses.iter().filter(|access| is_inner(access, modules)).count() {
        0 => false,
        // What it allocates it often gives to its caller: `strdup`.
        1 => of(race.address, RUNTIME),
        _ => is_own(RUNTIME),
    };
    is_c.then_some(Library::C)
}

/// Says how many there were of each.
pub(super) fn count(owners: &[Library], unobserved: &mut Vec<RawUnobserved>) {
    let said = [
        (Library::C, "the C library's accesses to its own data, whose locks are not recorded"),
        (Library::OpenMp, "races of OpenMP's runtime in its own data"),
    ];
    for (library, what) in said {
        let count = owners.iter().filter(|&&owner| owner == library).count() as u64;
        if count > 0 {
            unobserved.push(RawUnobserved { what: what.to_owned(), count });
        }
    }
}

/// Whether a function of the C library did it that another one of it has called.
fn is_inner(access: &RawAccess, modules: &[RawModule]) -> bool {
    let frames = &access.stack.addresses;
    let of_runtime = |&address: &u64| is_of(address, RUNTIME, modules);
    frames.len() > 3 && frames[..2].iter().all(of_runtime) && !frames[2..].iter().all(of_runtime)
}

/// Whether a place lies in a file whose name begins so.
fn is_of(address: u64, names: &[&str], modules: &[RawModule]) -> bool {
    let module = modules.iter().find(|module| (module.start..module.end).contains(&address));
    let name = module.and_then(|module| module.path().rsplit('/').next());
    name.is_some_and(|name| names.iter().any(|beginning| name.starts_with(beginning)))
}

#[cfg(test)]
mod tests {
    use super::{Library, owner};
    use relive_findings::raw::{RawAccess, RawBlock, RawModule, RawOrigin, RawRace, RawStack};

    const PROGRAM: u64 = 0x1000;
    const LIBRARY: u64 = 0x7000;
    const OPENMP: u64 = 0x5000;

    fn owner_of(address: u64, allocated: Option<u64>, stacks: [&[u64]; 2]) -> Option<Library> {
        let module =
            |file: &str, start| RawModule { file: file.to_owned(), start, end: start + 0x1000, ..RawModule::default() };
        let modules = [
            module("/bin/program", PROGRAM),
            module("/lib/libc.so.6", LIBRARY),
            module("/usr/lib/libgomp.so.1.0.0", OPENMP),
        ];
        let access = |frames: &[u64]| RawAccess { stack: RawStack::of_access(frames.to_vec()), ..RawAccess::default() };
        let block = allocated.map(|by| RawBlock {
            allocated: RawOrigin { stack: RawStack::of_call(vec![by]), ..RawOrigin::default() },
            ..RawBlock::default()
        });
        owner(&RawRace { address, block, accesses: stacks.map(access), ..RawRace::default() }, &modules)
    }

    #[test]
    fn it_is_decided_by_the_bytes() {
        let inner = &[LIBRARY, LIBRARY + 1, PROGRAM, LIBRARY + 2][..];
        let outer = &[LIBRARY, PROGRAM, PROGRAM, LIBRARY + 2][..];
        let is_own = |address, allocated, stacks| owner_of(address, allocated, stacks) == Some(Library::C);
        assert!(is_own(LIBRARY + 0x800, None, [inner, outer]), "its own variables");
        assert!(!is_own(LIBRARY + 0x800, None, [outer, outer]), "the program's doing");
        assert!(!is_own(PROGRAM + 0x800, None, [inner, inner]), "the program's variables");
        assert!(!is_own(0x9000, None, [inner, inner]), "nobody knows whose");
        assert!(is_own(0x9000, Some(LIBRARY), [inner, inner]), "a stream's buffer");
        assert!(!is_own(0x9000, Some(LIBRARY), [inner, outer]), "a copy made for the program");
        assert!(!is_own(0x9000, Some(PROGRAM), [inner, inner]), "two threads sort one block");
    }

    #[test]
    fn openmp_sets_up_its_teams_by_itself() {
        let (inner, outer) = (&[OPENMP, PROGRAM][..], &[PROGRAM, OPENMP][..]);
        let is_own = |address, allocated, stacks| owner_of(address, allocated, stacks) == Some(Library::OpenMp);
        assert!(is_own(0x9000, Some(OPENMP + 8), [inner, inner]), "a team");
        assert!(is_own(OPENMP + 0x800, None, [inner, inner]), "its settings");
        assert!(is_own(0x9000, Some(OPENMP + 8), [inner, &[LIBRARY, OPENMP, PROGRAM]]), "memset, called by it");
        assert!(!is_own(0x9000, Some(PROGRAM), [inner, inner]), "what a program copies by it");
        assert!(!is_own(0x9000, Some(OPENMP), [inner, outer]), "what it gave to the program");
        assert!(!is_own(0x9000, Some(OPENMP), [outer, outer]), "what a loop's threads do");
    }
}
