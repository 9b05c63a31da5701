//! Races that are the C library's own: of its own data, with itself.
//!
//! Apart from the search because here is decided what is told to nobody. That is decided
//! by the bytes, not by who touches them: what the library does within `fread` or
//! `qsort` to memory of its caller, the caller does.

use relive_findings::raw::{RawAccess, RawModule, RawRace, RawUnobserved};

const RUNTIME: [&str; 4] = ["libc.so", "libc-2", "ld-linux", "ld-2"];

/// Whether the bytes of a race are the C library's or the loader's, and it is not the program that touches them.
pub(super) fn is_of_library(race: &RawRace, modules: &[RawModule]) -> bool {
    let inner = race.accesses.iter().filter(|access| is_inner(access, modules)).count();
    let allocated = race.block.as_ref().and_then(|block| block.allocated.stack.addresses.first());
    match inner {
        0 => false,
        // What it allocates it often gives to its caller: `strdup`.
        1 => is_of_runtime(race.address, modules),
        _ => is_of_runtime(race.address, modules) || allocated.is_some_and(|&by| is_of_runtime(by, modules)),
    }
}

/// Says how many there were.
pub(super) fn count(races: usize, unobserved: &mut Vec<RawUnobserved>) {
    if races > 0 {
        let what = "the C library's accesses to its own data, whose locks are not recorded".to_owned();
        unobserved.push(RawUnobserved { what, count: races as u64 });
    }
}

/// Whether a function of the C library did it that another one of it has called.
fn is_inner(access: &RawAccess, modules: &[RawModule]) -> bool {
    let frames = &access.stack.addresses;
    let of_runtime = |&address: &u64| is_of_runtime(address, modules);
    frames.len() > 3 && frames[..2].iter().all(of_runtime) && !frames[2..].iter().all(of_runtime)
}

fn is_of_runtime(address: u64, modules: &[RawModule]) -> bool {
    let module = modules.iter().find(|module| (module.start..module.end).contains(&address));
    let name = module.and_then(|module| module.path().rsplit('/').next());
    name.is_some_and(|name| RUNTIME.iter().any(|beginning| name.starts_with(beginning)))
}

#[cfg(test)]
mod tests {
    use super::is_of_library;
    use relive_findings::raw::{RawAccess, RawBlock, RawModule, RawOrigin, RawRace, RawStack};

    const PROGRAM: u64 = 0x1000;
    const LIBRARY: u64 = 0x7000;

    fn is_own(address: u64, allocated: Option<u64>, stacks: [&[u64]; 2]) -> bool {
        let module =
            |file: &str, start| RawModule { file: file.to_owned(), start, end: start + 0x1000, ..RawModule::default() };
        let modules = [module("/bin/program", PROGRAM), module("/lib/libc.so.6", LIBRARY)];
        let access = |frames: &[u64]| RawAccess { stack: RawStack::of_access(frames.to_vec()), ..RawAccess::default() };
        let block = allocated.map(|by| RawBlock {
            allocated: RawOrigin { stack: RawStack::of_call(vec![by]), ..RawOrigin::default() },
            ..RawBlock::default()
        });
        is_of_library(&RawRace { address, block, accesses: stacks.map(access), ..RawRace::default() }, &modules)
    }

    #[test]
    fn it_is_decided_by_the_bytes() {
        let inner = &[LIBRARY, LIBRARY + 1, PROGRAM, LIBRARY + 2][..];
        let outer = &[LIBRARY, PROGRAM, PROGRAM, LIBRARY + 2][..];
        assert!(is_own(LIBRARY + 0x800, None, [inner, outer]), "its own variables");
        assert!(!is_own(LIBRARY + 0x800, None, [outer, outer]), "the program's doing");
        assert!(!is_own(PROGRAM + 0x800, None, [inner, inner]), "the program's variables");
        assert!(!is_own(0x9000, None, [inner, inner]), "nobody knows whose");
        assert!(is_own(0x9000, Some(LIBRARY), [inner, inner]), "a stream's buffer");
        assert!(!is_own(0x9000, Some(LIBRARY), [inner, outer]), "a copy made for the program");
        assert!(!is_own(0x9000, Some(PROGRAM), [inner, inner]), "two threads sort one block");
    }
}
