//! Blocks of random bytes: translated, never run.
//!
//! Apart from the tests that run code: what is translated here may do anything.

use super::{Cache, Memory, data_bytes};
use crate::area::{Area, Context};
use crate::decode::Flow;
use crate::error::Error;
use crate::host::Host;
use crate::inserter::Inserter;
use crate::register::Gpr;
use crate::tool::{Plain, Site, Tool, Treatment};
use iced_x86::{Decoder, DecoderOptions, Instruction};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;
use std::ptr::NonNull;

const CODE_BYTES: usize = 1 << 20;

struct Bytes {
    start: u64,
    bytes: Vec<u8>,
}

impl Host for Bytes {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let from = address.checked_sub(self.start).and_then(|at| self.bytes.get(at as usize..)).unwrap_or_default();
        let count = from.len().min(into.len());
        into[..count].copy_from_slice(&from[..count]);
        count
    }

    fn is_outside(&self, address: u64) -> bool {
        address.is_multiple_of(3)
    }
}

/// Inserts as much as it can, and hands traps over.
struct Everything;

impl Tool for Everything {
    fn instrument(&self, site: &Site<'_>, insert: &mut Inserter<'_, '_>) {
        insert.clobber_flags();
        for access in site.accesses() {
            let Some(register) = insert.scratch() else { break };
            assert_ne!(register, Gpr::RSP);
            insert.address(&access, register);
        }
        while let Some(register) = insert.scratch() {
            insert.code().constant(register, site.ip());
        }
    }

    fn treatment(&self, site: &Site<'_>) -> Treatment {
        if site.flow() == Flow::Trap { Treatment::Event } else { Treatment::Copy }
    }
}

fn memory() -> Memory {
    let words =
        |bytes: usize| NonNull::new(Box::leak(vec![0u64; bytes / 8 + 8].into_boxed_slice()).as_mut_ptr()).unwrap();
    // Blocks begin at multiples of sixteen.
    let code = words(CODE_BYTES + 16).cast::<u8>();
    // SAFETY: sixteen bytes more were allocated.
    let code = unsafe { code.add(code.as_ptr().align_offset(16)) };
    let data_bytes = data_bytes(CODE_BYTES);
    Memory { code, code_bytes: CODE_BYTES, data: words(data_bytes).cast(), data_bytes }
}

/// The instructions of the last block's entry and body, and how many bytes of it are none.
fn body(cache: &Cache) -> (Vec<Instruction>, usize) {
    let piece = cache.pieces.last().expect("a block");
    let exits = &cache.exits[piece.first_exit as usize..][..piece.exit_count as usize];
    let end = exits.first().map_or(piece.length, |exit| exit.out.stub);
    // SAFETY: the block's code is in the cache's memory, and nobody writes there meanwhile.
    let code = unsafe { NonNull::slice_from_raw_parts(cache.code.add(piece.code as usize), end as usize).as_ref() };
    let all = Decoder::with_ip(64, code, cache.address() + u64::from(piece.code), DecoderOptions::NONE).into_iter();
    let valid: Vec<Instruction> = all.take_while(|i| !i.is_invalid()).collect();
    // Behind a body without exits stand words, which are no code.
    let left = if exits.is_empty() { 0 } else { code.len() - valid.iter().map(Instruction::len).sum::<usize>() };
    (valid, left)
}

/// What a thread at each byte of the last block is for the program: asked once, again, and with nothing remembered.
fn restored(cache: &mut Cache) -> [Vec<Option<Context>>; 3] {
    // SAFETY: numbers, addresses and bytes, for each of which zero is a value.
    let mut area: Area = unsafe { std::mem::MaybeUninit::zeroed().assume_init() };
    area.spills = std::array::from_fn(|word| 100 + word as u64);
    area.lookup = [7, 8, 9];
    let piece = cache.pieces.last().expect("a block");
    let places = piece.code..piece.code + piece.length;
    [false, false, true].map(|anew| {
        if anew {
            cache.recent.clear();
        }
        let of = |at: u32| {
            let mut context = Context { ip: cache.address() + u64::from(at), ..Context::default() };
            cache.restore(&mut context, &area).then_some(context)
        };
        places.clone().map(of).collect()
    })
}

#[test]
fn random_bytes_become_valid_code_or_an_error() {
    // SAFETY: the memory is never given back.
    let cache = RefCell::new(unsafe { Cache::new(memory(), &Plain) }.expect("a cache"));
    let translated = RefCell::new(0);
    let bytes = proptest::collection::vec(any::<u8>(), 1..120);
    // What failed leaves the cache unfit for smaller input.
    let config = Config { cases: 4000, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let check = |(bytes, far): (Vec<u8>, bool)| {
        let mut cache = cache.borrow_mut();
        let start = if far { 0x1000 } else { cache.address() + (1 << 28) };
        let host = Bytes { start, bytes };
        let before = (cache.used, cache.pieces.len(), cache.exits.len(), cache.marks.len());
        match cache.block(&host, &Everything, false, start) {
            Ok(place) => {
                *translated.borrow_mut() += 1;
                prop_assert!(place.entry >= cache.address() && place.body > place.entry);
                let (body, left) = body(&cache);
                prop_assert!(body.len() > 1 && left == 0, "{} bytes are no code", left);
                let marks = &cache.marks[before.3..];
                prop_assert!(marks.windows(2).all(|m| m[0].offset < m[1].offset), "marks are in order");
                prop_assert!(cache.used <= CODE_BYTES);
                let [once, again, anew] = restored(&mut cache);
                prop_assert!(once == again && once == anew, "what is remembered is what is found");
                prop_assert!(once[0].is_some());
                prop_assert_eq!(cache.flush(&(start..start + 1)), 1);
            }
            Err(Error::CodeFull | Error::DataFull) => {
                let after = (cache.used, cache.pieces.len(), cache.exits.len(), cache.marks.len());
                prop_assert_eq!(before, after, "what did not fit leaves nothing behind");
                // SAFETY: nobody ever ran in this cache.
                unsafe { cache.empty() };
            }
            Err(Error::Refused { ip, .. } | Error::Unreadable { ip }) => prop_assert_eq!(ip, start),
            Err(other) => prop_assert!(false, "{}", other),
        }
        Ok(())
    };
    if let Err(why) = TestRunner::new(config).run(&(bytes, any::<bool>()), check) {
        panic!("{why}");
    }
    assert!(*translated.borrow() > 2000 && cache.borrow().emptied > 0, "{translated:?}");
}

#[test]
fn what_is_remembered_of_a_place_goes_with_its_block() {
    // SAFETY: the memory is never given back.
    let mut cache = unsafe { Cache::new(memory(), &Plain) }.expect("a cache");
    for start in [0x1000, 0x2000] {
        // mov rax, rbx; ret: the same code at the same places.
        let host = Bytes { start, bytes: vec![0x48, 0x89, 0xD8, 0xC3] };
        cache.block(&host, &Plain, false, start).expect("there is room");
        let [once, again, anew] = restored(&mut cache);
        assert!(once.iter().flatten().any(|context| context.ip == start));
        assert_eq!([&once, &again], [&anew, &anew]);
        // SAFETY: nobody ever ran in this cache.
        unsafe { cache.empty() };
    }
}

#[test]
fn what_little_room_is_left_suffices_or_is_said_not_to() {
    // SAFETY: the memory is never given back.
    let mut cache = unsafe { Cache::new(memory(), &Plain) }.expect("a cache");
    // ret; call; jrcxz; jmp rax; jmp [rip]; and a comparison with a branch.
    let programs: [&[u8]; 6] = [
        &[0xC3],
        &[0xE8, 0, 0, 0, 0],
        &[0xE3, 0],
        &[0xFF, 0xE0],
        &[0xFF, 0x25, 0, 0, 0, 0],
        &[0x48, 0x39, 0xC8, 0x74, 0],
    ];
    let mut outcomes = [0; 2];
    for left in 0..700 {
        for (number, bytes) in programs.into_iter().enumerate() {
            let start = 0x1000 + 0x100 * number as u64;
            cache.used = CODE_BYTES - left;
            let done = cache.block(&Bytes { start, bytes: bytes.to_vec() }, &Everything, false, start);
            outcomes[usize::from(done.is_ok())] += 1;
            assert!(done.is_ok() || done == Err(Error::CodeFull), "{left} bytes: {done:?}");
            // SAFETY: nobody ever ran in this cache.
            unsafe { cache.empty() };
        }
        cache.used = CODE_BYTES - left;
        assert!(cache.native(0x1000).is_ok() || left < 64, "{left} bytes");
    }
    assert!(outcomes[0] > 600 && outcomes[1] > 1200, "{outcomes:?}");
}
