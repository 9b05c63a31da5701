//! A packed trace: one file that holds a trace and every file that a replay opens
//! for real.
//!
//! ```text
//! head     a skippable frame of zstd: length and checksum of what follows
//! body     a zstd frame: a tar archive of the trace's files, the index of the
//!          recording machine's files, and those files by their numbers
//! ```
//!
//! So `tar --zstd -tf` lists it. Nothing is unpacked before length and checksum
//! were compared; after that the index says where each file of the machine stood,
//! and names that could lead out of the folder are refused.

mod index;

pub use index::{INDEX, Index, PackedFile, PackedLink, Unsafe};

use twox_hash::XxHash3_64;

/// What a packed trace's name ends with.
pub const EXTENSION: &str = "relive";
/// Folder of the archive that holds the machine's files, each named by its number.
pub const CONTENTS: &str = "content";
/// Version of the head, and of what is behind it.
pub const VERSION: u32 = 1;
/// Bytes of a head.
pub const HEAD_BYTES: usize = 56;

/// `0x184D2A50`: a decoder of zstd skips as many bytes as the next word says.
const SKIPPABLE: [u8; 4] = [0x50, 0x2A, 0x4D, 0x18];
const MAGIC: [u8; 8] = *b"RLVPACK\x1a";

/// What stands in front of the compressed archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes behind the head.
    pub packed: u64,
    /// Bytes of all files once unpacked.
    pub unpacked: u64,
    /// XXH3 of the bytes behind the head.
    pub checksum: u64,
}

/// Why a file is no packed trace that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoHead {
    /// Something else.
    #[error("it is no packed trace")]
    Other,
    /// A later version.
    #[error("a later relive packed it (version {0}); use that one")]
    Newer(u32),
    /// It contradicts its checksum.
    #[error("its head is damaged")]
    Damaged,
}

impl Head {
    /// Whether a file that starts so means to be a packed trace.
    pub fn is_meant(bytes: &[u8]) -> bool {
        bytes.starts_with(&SKIPPABLE) && bytes.get(8..16) == Some(&MAGIC)
    }

    /// As it stands in the file.
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let behind = (HEAD_BYTES - 8) as u32;
        let parts: [&[u8]; 8] = [
            &SKIPPABLE,
            &behind.to_le_bytes(),
            &MAGIC,
            &VERSION.to_le_bytes(),
            &[0; 4],
            &self.packed.to_le_bytes(),
            &self.unpacked.to_le_bytes(),
            &self.checksum.to_le_bytes(),
        ];
        let end = HEAD_BYTES - size_of::<u64>();
        bytes[..end].copy_from_slice(&parts.concat());
        let own = XxHash3_64::oneshot(&bytes[..end]);
        bytes[end..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// Reads a head.
    ///
    /// # Errors
    /// [`NoHead`].
    pub fn parse(bytes: &[u8; HEAD_BYTES]) -> Result<Self, NoHead> {
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        if !Self::is_meant(bytes) {
            return Err(NoHead::Other);
        }
        match word(16) as u32 {
            VERSION => {}
            newer @ VERSION.. => return Err(NoHead::Newer(newer)),
            _ => return Err(NoHead::Damaged),
        }
        let head = Self { packed: word(24), unpacked: word(32), checksum: word(40) };
        if head.to_bytes() == *bytes { Ok(head) } else { Err(NoHead::Damaged) }
    }
}
