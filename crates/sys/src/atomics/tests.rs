//! Changed code runs: each instruction between its two calls, with all that it saw before.

use super::{Changed, Saved, Site, at, change, copy_of, find, is_ordered, join, operand, original, piece_of, place};
use crate::frames::Known;
use std::sync::Mutex;

/// Places and operands of instructions as they were entered, and left for 0.
static MET: Mutex<Vec<[usize; 2]>> = Mutex::new(Vec::new());

unsafe extern "C" fn enter(saved: *mut Saved) {
    // SAFETY: the routine's registers.
    let saved = unsafe { &*saved };
    MET.lock().unwrap().push([place(saved), operand(saved)]);
}

unsafe extern "C" fn leave(_: *mut Saved) {
    MET.lock().unwrap().push([0; 2]);
}

/// The code in a page of its own, changed; and how.
fn changed(code: &[u8], sites: &[Site], traps: bool) -> (usize, Changed) {
    let page = crate::syscall::mmap(4096, crate::syscall::MAP_PRIVATE_ANONYMOUS, -1, 0) as usize;
    // SAFETY: a fresh page of our own, larger than the code; nobody runs it yet.
    unsafe {
        core::ptr::copy_nonoverlapping(code.as_ptr(), page as *mut u8, code.len());
        let shown = core::slice::from_raw_parts(page as *const u8, 4096).to_vec();
        let changed = change(page, &shown, sites, traps, [enter, leave]);
        (page, changed)
    }
}

fn site(place: u32, length: u8, room: [u8; 2]) -> Site {
    Site { place, length, room, other: [0; 2], covered: false, spins: false }
}

/// One at a time: what is met is kept for all.
fn met<T>(run: impl FnOnce() -> T) -> (T, Vec<[usize; 2]>) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    MET.lock().unwrap().clear();
    let result = run();
    (result, core::mem::take(&mut *MET.lock().unwrap()))
}

#[test]
fn neighbours_go_along_and_flags_stay() {
    // `cmp esi, 7; xchg eax, [rdi]; mov ecx, [rdi + 8]; jb 1f; add eax, ecx; ret; 1: neg eax; ret`, with eax = 5 before.
    const CODE: [u8; 25] = [
        0xB8, 5, 0, 0, 0, 0x83, 0xFE, 7, 0x87, 0x07, 0x8B, 0x4F, 0x08, 0x72, 0x03, 0x01, 0xC8, 0xC3, 0xF7, 0xD8, 0xC3,
        0x90, 0x90, 0x90, 0x90,
    ];
    let mut sites = [site(8, 2, [0, 7]), site(10, 3, [0, 5])];
    join(&mut sites);
    assert!(sites[1].covered);
    let (code, done) = changed(&CODE, &sites, false);
    assert_eq!((done.jumps, done.traps, done.broken), (2, 0, 0));
    // SAFETY: a function of these arguments, which changes the four words.
    let run: extern "C" fn(*mut u32, u32) -> u32 = unsafe { core::mem::transmute(code) };
    for (second, expected) in [(9, 30 + 100), (3, 0u32.wrapping_sub(30))] {
        let mut words = [30u32, 0, 100, 0];
        let at = words.as_mut_ptr();
        let (result, met) = met(|| run(at, second));
        assert_eq!((result, words[0]), (expected, 5));
        assert_eq!(met, [[code + 8, at.addr()], [0; 2], [code + 10, at.addr() + 8], [0; 2]]);
    }
    // Each place in the pieces is known by the instruction that it belongs to, and the other way round.
    let copy = copy_of(code + 10).expect("the second one's bytes are gone");
    assert_eq!((original(copy), is_ordered(copy)), (Some(code + 10), true));
    assert_eq!(copy_of(code + 13).and_then(original), Some(code + 13), "what came along");
    assert_eq!(copy_of(code + 8), None, "the jump begins there");
    assert_eq!(piece_of(code + 8), None, "no trap");
}

#[test]
fn operands_are_found_in_static_memory_and_beyond_the_red_zone() {
    // `mov [rsp - 8], rdi; lock inc dword ptr [rip + 32]; lock add [rsp - 8], 3; mov rax, [rsp - 8]; ret`, the word behind.
    let mut code = vec![
        0x48, 0x89, 0x7C, 0x24, 0xF8, 0xF0, 0xFF, 0x05, 32, 0, 0, 0, 0xF0, 0x48, 0x83, 0x44, 0x24, 0xF8, 3, 0x48, 0x8B,
        0x44, 0x24, 0xF8, 0xC3,
    ];
    code.resize(64, 0x90);
    let sites = [site(5, 7, [0, 7]), site(12, 7, [0, 7])];
    let (code, done) = changed(&code, &sites, false);
    assert_eq!(done.jumps, 2);
    // SAFETY: the code's own page, a function of one argument; it is made writable for the word behind it.
    let (result, met) = unsafe {
        crate::sites::protect(code, code + 4096, true);
        let run: extern "C" fn(u64) -> u64 = core::mem::transmute(code);
        met(|| run(39))
    };
    assert_eq!(result, 42);
    assert_eq!([met[0], met[1]], [[code + 5, code + 12 + 32], [0; 2]]);
    assert_eq!(met[2][0], code + 12);
}

#[test]
fn under_a_debugger_all_are_traps() {
    let code = [0xF0, 0x48, 0x0F, 0xC1, 0x07, 0xC3, 0x90, 0x90];
    let (at, done) = changed(&code, &[site(0, 5, [0, 5])], true);
    assert_eq!((done.jumps, done.traps), (0, 1));
    assert!(piece_of(at).is_some_and(|piece| original(piece) == Some(at)));
    // A breakpoint is the debugger's.
    let mut broken = code;
    broken[0] = 0xCC;
    let (at, _) = changed(&broken, &[], true);
    let shown = [&code[..], &[0; 4088]].concat();
    // SAFETY: the page that was just made, which nobody runs.
    let done = unsafe { change(at, &shown, &[site(0, 5, [0, 5])], true, [enter, leave]) };
    assert_eq!((done.jumps, done.traps, done.broken), (0, 0, 1));
}

#[test]
fn accesses_are_changed_where_they_were_learnt() {
    // Nobody knows a function there: only what a file tells of can be found.
    let code = [0x8B, 0x07, 0xC3, 0x90];
    let mut known = Known::in_bytes(&code);
    find(&code, 0, &mut known, |_| panic!("no instruction is indivisible"));
    at(&code, 0, &mut known, [0, 400].into_iter(), |_| panic!("no function is known"));
}

#[test]
fn a_jump_before_one_goes_along() {
    // `test esi, esi; jne 1f; add dword [rdi], 1; 1: mov eax, 5; ret`
    const CODE: [u8; 13] = [0x85, 0xF6, 0x75, 0x03, 0x83, 0x07, 0x01, 0xB8, 5, 0, 0, 0, 0xC3];
    let (code, done) = changed(&CODE, &[site(4, 3, [2, 3])], false);
    assert_eq!((done.jumps, done.traps, done.broken), (1, 0, 0));
    // SAFETY: a function of these arguments, which changes the word.
    let run: extern "C" fn(*mut u32, u32) -> u32 = unsafe { core::mem::transmute(code) };
    for (is_passed, sum) in [(1, 7), (0, 8)] {
        let mut word = 7;
        let (result, met) = met(|| run(&raw mut word, is_passed));
        assert_eq!((result, word), (5, sum));
        let entered = [[code + 4, (&raw const word).addr()], [0; 2]];
        assert_eq!(met, if is_passed == 0 { &entered[..] } else { &[] });
    }
    assert_eq!(copy_of(code + 4).and_then(original), Some(code + 4));
}

#[test]
fn traps_are_found_below_code_that_is_gone() {
    // `xchg eax, [rdi]; ret`
    const CODE: [u8; 3] = [0x87, 0x07, 0xC3];
    let area = crate::syscall::mmap(2 * 4096, crate::syscall::MAP_PRIVATE_ANONYMOUS, -1, 0) as usize;
    let [gone, below] = [area + 4096, area].map(|page| {
        let shown = [&CODE[..], &[0; 4096 - CODE.len()]].concat();
        // SAFETY: a fresh page of our own, as large as the code; nobody runs it.
        unsafe {
            core::ptr::copy_nonoverlapping(shown.as_ptr(), page as *mut u8, shown.len());
            assert_eq!(change(page, &shown, &[site(0, 2, [0, 0])], true, [enter, leave]).traps, 1);
        }
        page
    });
    super::forget(&(gone..gone + 4096));
    assert_eq!(piece_of(gone), None);
    assert!(piece_of(below).is_some());
}
