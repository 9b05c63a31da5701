//! The control memory: made and filled here, then read as the atomics it holds.
//!
//! Apart because this is the only unsafe code of the crate: a memfd is mapped
//! and seen as [`Control`] and [`TurnSlot`]s. What is not atomic in them is
//! written through the file before the program starts and never read again.

use crate::learnt::Learnt;
use crate::redact::Pattern;
use relive_sys::start::TOLD;
use relive_trace::control::{
    CONTROL_MAGIC, CPUID_LEAVES, Control, FOLDER_BYTES_MAX, PATTERN_BYTES_MAX, SHARED_FILES, STOPS, Stop, TOLD_MAX,
    TurnSlot,
};
use relive_trace::kept::ENTRY_WORDS;
use relive_trace::layout::FORMAT_VERSION;
use rustix::fs::{MemfdFlags, SealFlags};
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::iter;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a session starts with.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// One of `control::mode`.
    pub mode: u32,
    /// Bits of `control::flag`.
    pub flags: u32,
    /// The trace folder or the folder for learnt order.
    pub folder: &'a Path,
    /// The trace folder.
    pub source: &'a Path,
    /// Number of recorded threads (replay).
    pub thread_count: u32,
    /// Bytes of the plan (replay).
    pub plan_bytes: u64,
    /// The folder for what the replay says of races.
    pub races: Option<&'a Path>,
    /// What the processor is to say of itself; nothing lets it speak.
    pub cpuid: &'a [[u32; 6]],
}

/// The control memory of one session.
#[derive(Debug)]
pub struct Shared {
    file: File,
    /// Where a replay has the files that the recording mapped to be shared.
    _pool: File,
    map: memmap2::MmapRaw,
    plan_offset: u64,
    thread_count: usize,
}

/// What /proc shows of it.
const NAME: &str = "relive-control";
const POOL_NAME: &str = "relive-shared";
/// Room for all shared files, of four gigabytes each; only what is used takes memory.
const POOL_BYTES: u64 = (SHARED_FILES as u64) << 32;
/// The times of files are as much behind the clock, at most.
const TICK: Duration = Duration::from_millis(10);
const TURNS_OFFSET: usize = size_of::<Control>().next_multiple_of(align_of::<TurnSlot>());

impl Shared {
    /// Makes and fills the memory; the first reservation of process 0 is entered by nobody but its own process.
    ///
    /// # Errors
    /// What the system says to making, growing and mapping it; `InvalidInput` if the folder's path is too long.
    pub fn new(setup: &Setup<'_>) -> io::Result<Self> {
        let folder = setup.folder.as_os_str().as_bytes();
        let source = setup.source.as_os_str().as_bytes();
        let races = setup.races.map_or(&[][..], |races| races.as_os_str().as_bytes());
        if folder.len().max(source.len()).max(races.len()) > FOLDER_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the folder's path is too long"));
        }
        let thread_count = setup.thread_count as usize;
        let plan_offset = TURNS_OFFSET + thread_count * size_of::<TurnSlot>();
        let total = plan_offset + setup.plan_bytes as usize;
        let memory = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let file = File::from(memory);
        file.set_len(total as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        let head = Head { file: &file };
        head.u64(offset_of!(Control, magic), CONTROL_MAGIC)?;
        head.u32(offset_of!(Control, version), FORMAT_VERSION)?;
        head.u32(offset_of!(Control, mode), setup.mode)?;
        head.u32(offset_of!(Control, launcher), std::process::id())?;
        head.u32(offset_of!(Control, flags), setup.flags)?;
        head.u32(offset_of!(Control, thread_count), setup.thread_count)?;
        head.u64(offset_of!(Control, turns_offset), TURNS_OFFSET as u64)?;
        head.u64(offset_of!(Control, plan_offset), plan_offset as u64)?;
        head.u64(offset_of!(Control, total_bytes), total as u64)?;
        head.u64(offset_of!(Control, allowed), u64::MAX)?;
        head.u64(offset_of!(Control, cut), u64::MAX)?;
        for word in 0..2 {
            head.u64(offset_of!(Control, keeps_since) + word * size_of::<u64>(), u64::MAX)?;
        }
        head.u32(offset_of!(Control, folder_len), folder.len() as u32)?;
        file.write_all_at(folder, offset_of!(Control, folder) as u64)?;
        head.u32(offset_of!(Control, source_len), source.len() as u32)?;
        file.write_all_at(source, offset_of!(Control, source) as u64)?;
        head.u32(offset_of!(Control, races_len), races.len() as u32)?;
        file.write_all_at(races, offset_of!(Control, races) as u64)?;
        for (index, word) in own_outputs().into_iter().flatten().enumerate() {
            head.u64(offset_of!(Control, outputs) + index * size_of::<u64>(), word)?;
        }
        let leaves = &setup.cpuid[..setup.cpuid.len().min(CPUID_LEAVES)];
        let words: Vec<u8> = leaves.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        head.u32(offset_of!(Control, cpuid.count), leaves.len() as u32)?;
        file.write_all_at(&words, offset_of!(Control, cpuid.leaves) as u64)?;
        file.write_all_at(&unborn(thread_count), TURNS_OFFSET as u64)?;
        let pool = File::from(rustix::fs::memfd_create(POOL_NAME, MemfdFlags::CLOEXEC)?);
        // Under a limit on file sizes there is none, and nothing lies in it.
        let _ = pool.set_len(POOL_BYTES);
        head.u32(offset_of!(Control, pool), pool.as_raw_fd() as u32)?;
        let map = memmap2::MmapRaw::map_raw(&file)?;
        Ok(Self { file, _pool: pool, map, plan_offset: plan_offset as u64, thread_count })
    }

    /// Lays ready what a replayed program is to be told about the machine.
    ///
    /// # Errors
    /// What the system says.
    pub fn tell(&self, told: &[(u64, u64)]) -> io::Result<()> {
        let head = Head { file: &self.file };
        // Others are addresses, which the starter knows alone.
        let known = told.iter().filter(|(kind, _)| TOLD.contains(kind));
        for (index, &(kind, value)) in known.take(TOLD_MAX - 1).enumerate() {
            let entry = offset_of!(Control, told) + index * size_of::<[u64; 2]>();
            head.u64(entry, kind)?;
            head.u64(entry + size_of::<u64>(), value)?;
        }
        Ok(())
    }

    /// Lays ready which accesses are ordered. Of files whose debug information was read for that nobody needs to ask.
    ///
    /// # Errors
    /// What the system says.
    pub fn order(&self, accesses: &Learnt) -> io::Result<()> {
        let words = accesses.words();
        Head { file: &self.file }.u32(offset_of!(Control, accesses.count), words.len() as u32)?;
        let bytes: Vec<u8> = words.flatten().flat_map(u64::to_le_bytes).collect();
        self.file.write_all_at(&bytes, offset_of!(Control, accesses.list) as u64)?;
        for file in accesses.read() {
            self.control().declared.add(file, iter::empty());
        }
        Ok(())
    }

    /// Those of them that stand in code which the session's processes have loaded, and those that were told of meanwhile.
    pub fn met(&self, accesses: &Learnt) -> Learnt {
        const BITS: usize = u64::BITS as usize;
        let met = &self.control().accesses.met;
        let bit = |index: usize| met[index / BITS].load(Ordering::Relaxed) >> (index % BITS) & 1;
        let mut met: Learnt =
            accesses.words().enumerate().filter(|(index, _)| bit(*index) != 0).map(|(_, access)| access).collect();
        self.control().declared.all(|file, place| _ = met.add([[file, place]]));
        met
    }

    /// Lays ready which variables' values the recorded processes are to keep out of the trace.
    ///
    /// # Errors
    /// What the system says; more patterns than there is room for.
    pub fn redact(&self, patterns: &[Pattern]) -> io::Result<()> {
        let bytes: Vec<u8> = patterns.iter().flat_map(|pattern| [pattern.text(), b"\0"].concat()).collect();
        if bytes.len() > PATTERN_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the patterns of hidden variables are too long"));
        }
        self.file.write_all_at(&bytes, offset_of!(Control, redacted) as u64)?;
        Head { file: &self.file }.u32(offset_of!(Control, redacted_len), bytes.len() as u32)
    }

    /// Says at which events of which threads a debugger is to be told.
    ///
    /// # Errors
    /// What the system says.
    pub fn stop_at(&self, stops: &[(u32, u64)]) -> io::Result<()> {
        let head = Head { file: &self.file };
        for (index, &(thread, event)) in stops.iter().take(STOPS).enumerate() {
            let stop = offset_of!(Control, stops) + index * size_of::<Stop>();
            head.u64(stop + offset_of!(Stop, thread), u64::from(thread) + 1)?;
            head.u64(stop + offset_of!(Stop, event), event)?;
        }
        Ok(())
    }

    /// Says which thread waits in vain, if that is known.
    ///
    /// # Errors
    /// What the system says.
    pub fn expect_in_vain(&self, thread: Option<u32>) -> io::Result<()> {
        let word = thread.map_or(0, |thread| u64::from(thread) + 1);
        Head { file: &self.file }.u64(offset_of!(Control, in_vain), word)
    }

    /// Says that files that change from now on are to be kept in the trace.
    ///
    /// # Errors
    /// What the system says.
    pub fn keep_from_now(&self) -> io::Result<()> {
        let head = Head { file: &self.file };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(TICK);
        let at = offset_of!(Control, keeps_since);
        head.u64(at, since.as_secs())?;
        head.u64(at + size_of::<u64>(), since.subsec_nanos().into())
    }

    /// Says that the last of the bytes announced as the plan's are two lists: of so many files, of 32 bytes each, and of so
    /// many copies.
    ///
    /// # Errors
    /// What the system says.
    pub fn list_files(&self, files: usize, kept: usize) -> io::Result<()> {
        let head = Head { file: &self.file };
        let kept_offset = self.file.metadata()?.len() - (kept * size_of::<[u64; ENTRY_WORDS]>()) as u64;
        head.u64(offset_of!(Control, kept_offset), kept_offset)?;
        head.u64(offset_of!(Control, kept_count), kept as u64)?;
        head.u64(offset_of!(Control, files_offset), kept_offset - (files * size_of::<[u64; 4]>()) as u64)?;
        head.u64(offset_of!(Control, files_count), files as u64)
    }

    /// The memory's file.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The path by which the program opens it.
    pub fn path(&self) -> PathBuf {
        // Of the same length whatever the numbers: the environment stands on the stack, and moves all that is on it.
        PathBuf::from(format!("/proc/{:/>10}/fd/{:/>10}", std::process::id(), self.file.as_raw_fd()))
    }

    /// Where the plan is to be written before a program starts, exactly as many bytes as announced.
    ///
    /// # Errors
    /// What the system says.
    pub fn plan_writer(&self) -> io::Result<impl Write> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(self.plan_offset))?;
        Ok(BufWriter::with_capacity(1 << 16, file))
    }

    /// Whether the process `pid` has this memory mapped: then it is of this session, and not another one that
    /// got the id of a process that ended.
    pub fn is_mapped_by(&self, pid: u32) -> bool {
        let inode = self.file.metadata().map(|metadata| metadata.ino().to_string()).unwrap_or_default();
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        maps.lines().filter(|line| line.contains(NAME)).any(|line| line.split(' ').nth(4) == Some(inode.as_str()))
    }

    /// The head of the memory. Only its atomics are to be read.
    #[allow(unsafe_code)]
    pub fn control(&self) -> &Control {
        // SAFETY: the mapping is page-aligned, at least TURNS_OFFSET >= size_of::<Control>() bytes long, sealed
        // against shrinking and lives as long as self. Every bit pattern is a valid Control (integers only).
        // Other processes change it while we hold the reference, but whoever follows the rules only its atomics.
        unsafe { &*self.map.as_ptr().cast::<Control>() }
    }

    /// The turns of all recorded threads.
    #[allow(unsafe_code)]
    pub fn turns(&self) -> &[TurnSlot] {
        // SAFETY: as in `control`; new() made the memory thread_count slots longer than TURNS_OFFSET, which is a
        // multiple of the slots' alignment, and TurnSlot has atomics only.
        unsafe {
            let first = self.map.as_ptr().add(TURNS_OFFSET).cast::<TurnSlot>();
            std::slice::from_raw_parts(first, self.thread_count)
        }
    }
}

/// Device and inode of standard output and standard error; zeros for one that is closed.
fn own_outputs() -> [[u64; 2]; 2] {
    let identity = |stat: rustix::io::Result<rustix::fs::Stat>| stat.map_or([0; 2], |stat| [stat.st_dev, stat.st_ino]);
    [identity(rustix::fs::fstat(std::io::stdout())), identity(rustix::fs::fstat(std::io::stderr()))]
}

/// Slots as they are before their threads exist.
fn unborn(count: usize) -> Vec<u8> {
    let never = u64::MAX.to_le_bytes();
    let mut slot = [0u8; size_of::<TurnSlot>()];
    for field in [offset_of!(TurnSlot, awaited.next), offset_of!(TurnSlot, wake_at)] {
        slot[field..field + 8].copy_from_slice(&never);
    }
    slot.repeat(count)
}

struct Head<'a> {
    file: &'a File,
}

impl Head<'_> {
    fn u32(&self, offset: usize, value: u32) -> io::Result<()> {
        self.file.write_all_at(&value.to_le_bytes(), offset as u64)
    }

    fn u64(&self, offset: usize, value: u64) -> io::Result<()> {
        self.file.write_all_at(&value.to_le_bytes(), offset as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::{Setup, Shared};
    use relive_trace::control::{CONTROL_MAGIC, mode, turn};
    use std::fs;
    use std::io::Write;
    use std::path::Path;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_session_starts_with_unborn_threads_and_its_plan_in_place() {
        let setup = Setup {
            mode: mode::REPLAY,
            flags: 1,
            folder: Path::new("/f"),
            source: Path::new("/t"),
            thread_count: 3,
            plan_bytes: 8,
            races: None,
            cpuid: &[[0, 1, 2, 3, 4, 5]],
        };
        let shared = Shared::new(&setup).unwrap();
        let mut plan = shared.plan_writer().unwrap();
        plan.write_all(b"the plan").and_then(|()| plan.flush()).unwrap();
        let control = shared.control();
        assert_eq!((control.magic, control.mode.load(Relaxed)), (CONTROL_MAGIC, mode::REPLAY));
        assert_eq!(&control.folder[..control.folder_len as usize], b"/f");
        assert_eq!(&control.source[..control.source_len as usize], b"/t");
        assert_eq!(shared.turns().len(), 3);
        for slot in shared.turns() {
            assert_eq!(slot.state.load(Relaxed), turn::UNBORN);
            assert_eq!((slot.awaited.next.load(Relaxed), slot.wake_at.load(Relaxed)), (u64::MAX, u64::MAX));
        }
        assert!(shared.is_mapped_by(std::process::id()) && !shared.is_mapped_by(1));
        assert_eq!((control.cpuid.count, control.cpuid.leaves[0]), (1, [0, 1, 2, 3, 4, 5]));
        let bytes = fs::read(shared.path()).unwrap();
        assert_eq!(bytes.len() as u64, control.total_bytes);
        assert_eq!(&bytes[control.plan_offset as usize..], b"the plan");
    }
}
