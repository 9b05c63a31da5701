//! Answers the recorded processes: grows their data files, frees what the dead
//! leave, and passes on that a replay diverged.
//!
//! One thread that sleeps on the doorbell, apart from the one that waits for
//! the program: a process stands still until its file has grown.

use crate::answering;
use crate::data_file::{self, Series};
use crate::learnt::Declared;
use crate::limits;
use crate::processes;
use crate::shared::Shared;
use crate::survey;
use relive_trace::control::{IN_USE, ProcessSlot, claim};
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::futex;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often the slots are looked through for dead processes, however often the doorbell rings.
const ROUND: Duration = Duration::from_millis(500);
/// For failures without a number of their own.
const EIO: i32 = 5;

/// A running service; stops when dropped.
#[derive(Debug)]
pub struct Service {
    work: Arc<Work>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Work {
    shared: Arc<Shared>,
    folder: PathBuf,
    series: Series,
    stop: AtomicBool,
    refused: AtomicBool,
    alarm: OwnedFd,
    declared: Option<Declared>,
}

impl Service {
    /// Starts serving the processes that map `shared`; their data files are in `folder`. They are told what `declared` finds.
    ///
    /// # Errors
    /// What the system says to a new thread or eventfd.
    pub fn start(shared: Arc<Shared>, folder: PathBuf, series: Series, declared: Option<Declared>) -> io::Result<Self> {
        let alarm = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let work = Arc::new(Work {
            shared,
            folder,
            series,
            stop: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            alarm,
            declared,
        });
        let body = Arc::clone(&work);
        let thread = thread::Builder::new().name("relive-service".to_owned()).spawn(move || body.run())?;
        Ok(Self { work, thread: Some(thread) })
    }

    /// Some process did not get the space that it asked for.
    pub fn refused(&self) -> bool {
        self.work.refused.load(Acquire)
    }

    /// Readable once a process reported a divergence, or the recording reached a limit.
    pub fn alarm(&self) -> BorrowedFd<'_> {
        self.work.alarm.as_fd()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.work.stop.store(true, Release);
        let doorbell = &self.work.shared.control().doorbell;
        doorbell.fetch_add(1, AcqRel);
        let _ = futex::wake(doorbell, futex::Flags::empty(), i32::MAX as u32);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Work {
    fn run(&self) {
        let control = self.shared.control();
        let mut suspects = vec![0; control.processes.len()];
        let (mut alarmed, mut looked, mut answers) = (false, Instant::now(), Vec::new());
        loop {
            // Read before the slots: a request that is entered after we looked changes the word we sleep on.
            let seen = control.doorbell.load(Acquire);
            for slot in &control.processes {
                if slot.state.load(Acquire) == IN_USE {
                    self.answer(slot);
                }
            }
            survey::answer(&control.survey);
            answers.extend(answering::answer(&self.shared, self.declared.as_ref(), &self.folder));
            let told = control.divergence.claimed.load(Acquire) == claim::COMPLETE || limits::is_reached(control);
            if !alarmed && told {
                alarmed = rustix::io::write(&self.alarm, &1u64.to_ne_bytes()).is_ok();
            }
            if self.stop.load(Acquire) {
                return answers.into_iter().for_each(|answer: JoinHandle<()>| _ = answer.join());
            }
            let left = ROUND.saturating_sub(looked.elapsed());
            let left = futex::Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
            let _ = futex::wait(&control.doorbell, futex::Flags::empty(), seen, Some(&left));
            if looked.elapsed() >= ROUND {
                looked = Instant::now();
                free_dead(&control.processes, &mut suspects, |process| self.died(process));
            }
        }
    }

    /// A process ended without saying how far it had come. Its parent, which looks for that when it takes the end, may
    /// find the slot free already.
    fn died(&self, process: u32) {
        let path = self.series.path(&self.folder, process);
        if self.series == Series::Recorded
            && let Ok(clock) = data_file::latest_clock(&path)
        {
            self.shared.control().latest.fetch_max(clock, AcqRel);
        }
    }

    /// A refused process is told once; it stops recording and does not ask again.
    fn answer(&self, slot: &ProcessSlot) {
        let (wanted, reserved) = (slot.wanted.load(Acquire), slot.reserved.load(Acquire));
        if wanted <= reserved || slot.error.load(Relaxed) != 0 {
            return;
        }
        let path = self.series.path(&self.folder, slot.process.load(Acquire));
        match data_file::grow(&path, reserved, wanted) {
            Ok(()) => slot.reserved.store(wanted, Release),
            Err(error) => {
                self.refused.store(true, Release);
                slot.error.store(error.raw_os_error().unwrap_or(EIO), Release);
            }
        }
        slot.reply.fetch_add(1, AcqRel);
        let _ = futex::wake(&slot.reply, futex::Flags::empty(), i32::MAX as u32);
    }
}

/// Frees the slots of processes that died without doing so, and of images in whose place another one runs; `died` runs
/// before, with the image's index.
///
/// Only on the second sight: between taking a slot and entering its pid a process looks like the slot's dead owner.
fn free_dead(slots: &[ProcessSlot], suspects: &mut [u32], died: impl Fn(u32)) {
    let mut newest = BTreeMap::new();
    for slot in slots.iter().filter(|slot| slot.state.load(Acquire) == IN_USE) {
        let image = newest.entry(slot.pid.load(Acquire)).or_insert(0);
        *image = slot.process.load(Acquire).max(*image);
    }
    for (slot, suspect) in slots.iter().zip(suspects) {
        let pid = slot.pid.load(Acquire);
        let lives = || newest.get(&pid) == Some(&slot.process.load(Acquire)) && processes::alive(pid);
        if slot.state.load(Acquire) != IN_USE || pid == 0 || lives() {
            *suspect = 0;
        } else if *suspect != pid {
            *suspect = pid;
        } else {
            *suspect = 0;
            died(slot.process.load(Acquire));
            if slot.pid.compare_exchange(pid, 0, AcqRel, Relaxed).is_ok() {
                slot.state.store(0, Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{IN_USE, Service, free_dead};
    use crate::data_file::{Series, create_first};
    use crate::shared::{Setup, Shared};
    use relive_trace::control::mode;
    use relive_trace::layout::{CHUNK_HEADER_BYTES, CHUNK_MAGIC, ChunkHeader, FILE_HEADER_BYTES, WINDOW_BYTES};
    use rustix::thread::futex;
    use std::cell::Cell;
    use std::fs;
    use std::mem::offset_of;
    use std::path::Path;
    use std::process::Command;
    use std::sync::Arc;
    use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

    fn session(folder: &Path) -> Arc<Shared> {
        let setup = Setup {
            mode: mode::RECORD,
            flags: 0,
            folder,
            source: folder,
            thread_count: 0,
            plan_bytes: 0,
            races: None,
            cpuid: &[],
        };
        Arc::new(Shared::new(&setup).unwrap())
    }

    fn ask(shared: &Shared, process: u32, wanted: u64) -> (u64, i32) {
        let slot = &shared.control().processes[3];
        slot.pid.store(std::process::id(), Release);
        slot.process.store(process, Release);
        slot.reserved.store(if process == 0 { WINDOW_BYTES } else { 0 }, Release);
        slot.error.store(0, Release);
        let reply = slot.reply.load(Acquire);
        slot.wanted.store(wanted, Release);
        slot.state.store(IN_USE, Release);
        shared.control().doorbell.fetch_add(1, AcqRel);
        futex::wake(&shared.control().doorbell, futex::Flags::empty(), 1).unwrap();
        while slot.reply.load(Acquire) == reply {
            let _ = futex::wait(&slot.reply, futex::Flags::empty(), reply, None);
        }
        (slot.reserved.load(Acquire), slot.error.load(Acquire))
    }

    #[test]
    fn a_process_gets_the_space_it_asks_for_or_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        create_first(&Series::Recorded.path(folder.path(), 0)).unwrap();
        let shared = session(folder.path());
        let _service = Service::start(Arc::clone(&shared), folder.path().to_owned(), Series::Recorded, None).unwrap();
        assert_eq!(ask(&shared, 0, 4 * WINDOW_BYTES), (4 * WINDOW_BYTES, 0));
        assert_eq!(fs::metadata(folder.path().join("p00000.trace")).unwrap().len(), 4 * WINDOW_BYTES);
        assert_eq!(ask(&shared, 9, WINDOW_BYTES), (WINDOW_BYTES, 0));
        fs::remove_dir_all(folder.path()).unwrap();
        assert_eq!(ask(&shared, 8, WINDOW_BYTES), (0, rustix::io::Errno::NOENT.raw_os_error()));
    }

    #[test]
    fn the_slot_of_a_dead_process_is_freed_on_second_sight() {
        let shared = session(Path::new("/"));
        let slots = &shared.control().processes[..2];
        let mut child = Command::new("/bin/true").spawn().unwrap();
        child.wait().unwrap();
        slots[0].pid.store(child.id(), Release);
        slots[1].pid.store(std::process::id(), Release);
        for slot in slots {
            slot.state.store(IN_USE, Release);
        }
        slots[0].process.store(5, Release);
        let mut suspects = [0; 2];
        free_dead(slots, &mut suspects, |_| unreachable!("only once it is freed"));
        assert_eq!(slots[0].state.load(Acquire), IN_USE);
        let died = Cell::new(0);
        free_dead(slots, &mut suspects, |process| died.set(process));
        assert_eq!((slots[0].state.load(Acquire), slots[1].state.load(Acquire)), (0, IN_USE));
        assert_eq!(died.get(), 5);
    }

    #[test]
    fn the_slot_of_an_image_that_started_another_is_freed() {
        let shared = session(Path::new("/"));
        let slots = &shared.control().processes[..2];
        for (slot, image) in slots.iter().zip([7, 4]) {
            slot.pid.store(std::process::id(), Release);
            slot.process.store(image, Release);
            slot.state.store(IN_USE, Release);
        }
        let (mut suspects, died) = ([0; 2], Cell::new(0));
        for _ in 0..3 {
            free_dead(slots, &mut suspects, |process| died.set(process));
        }
        assert_eq!((slots[0].state.load(Acquire), slots[1].state.load(Acquire)), (IN_USE, 0));
        assert_eq!(died.get(), 4);
    }

    #[test]
    fn dead_processes_are_found_while_others_ask() {
        let folder = tempfile::tempdir().unwrap();
        let shared = session(folder.path());
        let mut child = Command::new("/bin/true").spawn().unwrap();
        child.wait().unwrap();
        let slot = &shared.control().processes[0];
        slot.pid.store(child.id(), Release);
        slot.state.store(IN_USE, Release);
        let _service = Service::start(Arc::clone(&shared), folder.path().to_owned(), Series::Recorded, None).unwrap();
        while slot.state.load(Acquire) == IN_USE {
            shared.control().doorbell.fetch_add(1, AcqRel);
            futex::wake(&shared.control().doorbell, futex::Flags::empty(), 1).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    #[test]
    fn how_far_a_killed_process_came_is_known_before_its_slot_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let shared = session(folder.path());
        let mut file = vec![0; FILE_HEADER_BYTES as usize + CHUNK_HEADER_BYTES as usize];
        let mut set = |offset: usize, bytes: &[u8]| {
            file[FILE_HEADER_BYTES as usize + offset..][..bytes.len()].copy_from_slice(bytes);
        };
        set(offset_of!(ChunkHeader, magic), &CHUNK_MAGIC.to_le_bytes());
        set(offset_of!(ChunkHeader, size), &CHUNK_HEADER_BYTES.to_le_bytes());
        set(offset_of!(ChunkHeader, clock), &77u64.to_le_bytes());
        fs::write(Series::Recorded.path(folder.path(), 5), file).unwrap();
        let mut child = Command::new("/bin/true").spawn().unwrap();
        child.wait().unwrap();
        let slot = &shared.control().processes[0];
        slot.process.store(5, Release);
        slot.pid.store(child.id(), Release);
        slot.state.store(IN_USE, Release);
        let _service = Service::start(Arc::clone(&shared), folder.path().to_owned(), Series::Recorded, None).unwrap();
        while slot.state.load(Acquire) == IN_USE {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(shared.control().latest.load(Acquire), 77);
    }
}
