//! The fixed-size structures of the format as bytes, and back.
//!
//! Apart so that no other file knows an offset, and because nothing here may
//! trust what it reads: fields come out as they stand.

use crate::layout::{CHUNK_HEADER_BYTES, ChunkHeader, FileHeader};
use crate::plan::{PlanHeader, PlanProcess, PlanThread};
use std::mem::offset_of;

macro_rules! structure {
    ($ty:ident, $read:ident, $write:ident, { $($field:ident: $field_ty:ty),* $(,)? }) => {
        /// Reads the structure from its bytes; `None` if there are too few.
        pub fn $read(bytes: &[u8]) -> Option<$ty> {
            Some($ty { $($field: <$field_ty>::from_le_bytes(array(bytes, offset_of!($ty, $field))?),)* })
        }

        /// Writes the structure as its bytes.
        pub fn $write(value: &$ty) -> [u8; size_of::<$ty>()] {
            let mut bytes = [0; size_of::<$ty>()];
            $({
                let at = offset_of!($ty, $field);
                bytes[at..at + size_of::<$field_ty>()].copy_from_slice(&value.$field.to_le_bytes());
            })*
            bytes
        }
    };
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// Eight bytes that stand for themselves.
trait Plain: Sized {
    fn from_le_bytes(bytes: Self) -> Self;
    fn to_le_bytes(&self) -> Self;
}

impl Plain for [u8; 8] {
    fn from_le_bytes(bytes: Self) -> Self {
        bytes
    }

    fn to_le_bytes(&self) -> Self {
        *self
    }
}

structure!(FileHeader, read_file_header, write_file_header, {
    magic: [u8; 8],
    version: u32,
    process: u32,
    pid: u32,
    main_thread: u32,
    end: u32,
    stop_reason: u32,
    exit_code: u32,
    exit_thread: u32,
    stop_clock: u64,
});

structure!(ChunkHeader, read_chunk_header, write_chunk_header, {
    magic: u32,
    size: u32,
    thread: u32,
    sequence: u32,
    used: u32,
    hash: u32,
    events: u64,
    clock: u64,
    run_kind: u8,
    flags: u8,
    run_result: i16,
    run_count: u32,
    parent: u32,
    child_number: u32,
    start_clock: u64,
});

structure!(PlanHeader, read_plan_header, write_plan_header, {
    magic: u64,
    thread_count: u32,
    process_count: u32,
    threads_offset: u64,
    processes_offset: u64,
});

structure!(PlanThread, read_plan_thread, write_plan_thread, {
    parent: u32,
    child_number: u32,
    process: u32,
    finished: u32,
    events: u64,
    start_clock: u64,
    stream_offset: u64,
    stream_len: u64,
    derived_offset: u64,
    derived_len: u64,
    children_offset: u64,
    children_count: u64,
});

structure!(PlanProcess, read_plan_process, write_plan_process, {
    main_thread: u32,
    end: u32,
    exit_code: u32,
    exit_thread: u32,
    pid: u32,
    part: u32,
});

/// Payload bytes that a chunk has room for.
pub fn capacity(header: &ChunkHeader) -> u32 {
    header.size.saturating_sub(CHUNK_HEADER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::{read_chunk_header, read_file_header, write_chunk_header, write_file_header};

    #[test]
    fn every_byte_of_a_structure_belongs_to_one_field() {
        let bytes: Vec<u8> = (1..=64).collect();
        let chunk = read_chunk_header(&bytes).unwrap();
        assert_eq!(write_chunk_header(&chunk)[..], bytes[..]);
        assert_eq!((chunk.magic, chunk.run_result), (0x0403_0201, 0x2C2B));
        let file = read_file_header(&bytes).unwrap();
        let written = write_file_header(&file);
        assert_eq!(written[..], bytes[..written.len()]);
        assert!(read_chunk_header(&bytes[..63]).is_none());
    }
}
