//! Hands files of the session to recorded processes that may not open them by name:
//! a server that has become another user, and what it starts then.
//!
//! Apart from the service because that answers in the shared memory, and here is
//! asked by a socket, which anybody can find: only processes of the session get
//! something.

use crate::data_file::Series;
use crate::launch::Runtime;
use crate::processes;
use crate::shared::Shared;
use relive_sys::keep::{self, Content};
use relive_sys::syscall;
use relive_trace::control::IN_USE;
use relive_trace::handed::{REQUEST_BYTES, Wanted, name};
use relive_trace::kept;
use relive_trace::opened::OPENED;
use relive_trace::recording::inputs_name;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt};
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Who connects says at once what it wants.
const PATIENCE: Duration = Duration::from_secs(1);
/// Far more than a session has processes one below the other.
const GENERATIONS: usize = 10_000;

/// Answers until it is dropped.
#[derive(Debug)]
pub(crate) struct Handing {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Handing {
    /// Listens for processes of a session; their data files are in `folder`.
    ///
    /// # Errors
    /// What the system says. Without it only processes that become other users are missed.
    pub(crate) fn start(shared: &Arc<Shared>, series: Series, folder: &Path, runtime: &Runtime) -> io::Result<Self> {
        let address = SocketAddr::from_abstract_name(name(std::process::id()))?;
        let listener = UnixListener::bind_addr(&address)?;
        listener.set_nonblocking(true)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (folder, runtime) = (folder.to_owned(), runtime.clone());
        let files = Files { shared: Arc::clone(shared), series, folder, runtime };
        let stopped = Arc::clone(&stop);
        let body = move || while next(&listener, stopped.as_fd(), &files) {};
        let thread = thread::Builder::new().name("relive-handing".to_owned()).spawn(body)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Handing {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers who asks next; `false` when it is to end.
fn next(listener: &UnixListener, stop: BorrowedFd<'_>, files: &Files) -> bool {
    let mut sources = [PollFd::from_borrowed_fd(stop, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
    match poll(&mut sources, None) {
        Err(Errno::INTR) => return true,
        Err(_) => return false,
        Ok(_) => {}
    }
    if !sources[0].revents().is_empty() {
        return false;
    }
    if let Ok((asking, _)) = listener.accept() {
        // Who gets no answer finds its connection closed.
        let _ = answer(&asking, files);
    }
    true
}

fn answer(mut asking: &UnixStream, files: &Files) -> io::Result<()> {
    asking.set_nonblocking(false)?;
    asking.set_read_timeout(Some(PATIENCE))?;
    let who = sockopt::socket_peercred(asking)?;
    let asker = who.pid.as_raw_nonzero().get().unsigned_abs();
    if !files.are_of(asker) {
        return Ok(());
    }
    let mut request = [0; REQUEST_BYTES];
    asking.read_exact(&mut request)?;
    let Some(wanted) = Wanted::from_bytes(request) else { return Ok(()) };
    let file = files.open(wanted, asker)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut passed = SendAncillaryBuffer::new(&mut space);
    let descriptors = [file.as_fd()];
    passed.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(asking, &[IoSlice::new(&[0])], &mut passed, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The files of a session.
struct Files {
    shared: Arc<Shared>,
    series: Series,
    folder: PathBuf,
    runtime: Runtime,
}

impl Files {
    /// Whether a process takes part in the session, or is a child of one that does, or the launcher's: an image that
    /// asks for the shared memory does not take part yet.
    fn are_of(&self, pid: u32) -> bool {
        let slots = &self.shared.control().processes;
        let takes_part = |pid: u32| slots.iter().any(|s| s.state.load(Acquire) == IN_USE && s.pid.load(Acquire) == pid);
        let mut ancestors = std::iter::successors(Some(pid), |&pid| processes::parent(pid)).take(GENERATIONS);
        ancestors.any(|pid| pid == std::process::id() || takes_part(pid))
    }

    fn open(&self, wanted: Wanted, asker: u32) -> io::Result<File> {
        let writing = || {
            let mut options = OpenOptions::new();
            options.write(true).mode(0o600);
            options
        };
        match wanted {
            Wanted::Control => self.shared.descriptor().try_clone_to_owned().map(File::from),
            Wanted::Starter => File::open(&self.runtime.starter),
            Wanted::Library => File::open(&self.runtime.library),
            Wanted::Data(image) => writing().read(true).open(self.series.path(&self.folder, image)),
            Wanted::Inputs(image) => writing().create(true).truncate(false).open(self.folder.join(inputs_name(image))),
            Wanted::Opened => {
                writing().append(true).create(true).open(self.folder.join(OPENED.trim_start_matches('/')))
            }
            Wanted::Kept { descriptor, path } => self.keep(&format!("/proc/{asker}/fd/{descriptor}"), path),
        }
    }

    /// Copies the file behind a descriptor of a process into the trace, as that would do it by itself.
    fn keep(&self, descriptor: &str, path: u64) -> io::Result<File> {
        // To open another kind of file may wait for somebody, or do something.
        if !fs::metadata(descriptor)?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let file = File::open(descriptor)?;
        let fd = file.as_raw_fd() as u32;
        let stat = syscall::file_stat(fd).ok_or(io::ErrorKind::InvalidInput)?;
        let folder = CString::new(self.folder.as_os_str().as_bytes())?;
        let name = kept::name(path, [stat.size, stat.changed[0], stat.changed[1]]);
        if keep::keep(&folder, &name, Content::Whole(fd, stat.size)) {
            Ok(file)
        } else {
            Err(io::ErrorKind::Other.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Files, Handing};
    use crate::data_file::{Series, create_first};
    use crate::launch::Runtime;
    use crate::shared::{Setup, Shared};
    use relive_sys::handed::ask;
    use relive_sys::syscall;
    use relive_trace::control::mode;
    use relive_trace::handed::{Wanted, name};
    use relive_trace::kept;
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::sync::Arc;

    #[test]
    fn processes_of_the_session_get_its_files_and_nobody_anything_else() {
        let folder = tempfile::tempdir().unwrap();
        let setup = Setup {
            mode: mode::RECORD,
            flags: 0,
            folder: folder.path(),
            source: folder.path(),
            thread_count: 0,
            plan_bytes: 0,
            races: None,
            cpuid: &[],
        };
        let shared = Arc::new(Shared::new(&setup).unwrap());
        let data = Series::Recorded.path(folder.path(), 3);
        create_first(&data).unwrap();
        let runtime = Runtime { library: "/bin/true".into(), starter: "/nowhere".into() };
        let handing = Handing::start(&shared, Series::Recorded, folder.path(), &runtime).unwrap();
        let own = std::process::id();
        let got = |wanted: Wanted| ask(&name(own), own, &wanted.to_bytes());
        for text in [b"one ", b"two\n"] {
            let list = got(Wanted::Opened).unwrap();
            assert_eq!(syscall::write(list, text), 4);
            syscall::close(list);
        }
        assert_eq!(fs::read(folder.path().join("opened.list")).unwrap(), b"one two\n");
        let (inputs, memory) = (got(Wanted::Inputs(2)).unwrap(), got(Wanted::Control).unwrap());
        assert!(folder.path().join("p00002.inputs").exists());
        assert_eq!(syscall::file_size(memory), shared.control().total_bytes.into());
        for (wanted, path) in [(Wanted::Data(3), data.as_path()), (Wanted::Library, "/bin/true".as_ref())] {
            let same = fs::metadata(path).map(|metadata| metadata.len()).ok();
            let fd = got(wanted).unwrap();
            assert_eq!(syscall::file_size(fd), same);
            syscall::close(fd);
        }
        let (source, text) = (folder.path().join("made"), "ELF of another user");
        fs::write(&source, text).unwrap();
        let made = fs::File::open(&source).unwrap();
        fs::remove_file(&source).unwrap();
        let kept = |descriptor| got(Wanted::Kept { descriptor, path: 7 });
        let same = kept(made.as_raw_fd() as u32).unwrap();
        assert_eq!(syscall::file_identity(same), syscall::file_identity(made.as_raw_fd() as u32));
        syscall::close(same);
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let copies: Vec<_> = names.filter(|path| kept::is_name(path.file_name().unwrap().to_str().unwrap())).collect();
        assert!(matches!(&copies[..], [copy] if fs::read_to_string(copy).unwrap() == text), "{copies:?}");
        let place = fs::File::open(folder.path()).unwrap();
        let others = [place.as_raw_fd() as u32, 9999].map(kept);
        assert_eq!(others, [None, None], "no copies of what is no file");
        assert_eq!([Wanted::Data(4), Wanted::Starter].map(got), [None, None], "what is not there is not made");
        [inputs, memory].into_iter().for_each(syscall::close);
        assert_eq!(ask(&name(own), own, b"anything as long."), None);
        drop(handing);
        assert_eq!(got(Wanted::Control), None);
    }

    #[test]
    fn the_first_process_of_the_machine_is_no_part_of_a_session() {
        let setup = Setup {
            mode: mode::RECORD,
            flags: 0,
            folder: "/".as_ref(),
            source: "/".as_ref(),
            thread_count: 0,
            plan_bytes: 0,
            races: None,
            cpuid: &[],
        };
        let shared = Arc::new(Shared::new(&setup).unwrap());
        let runtime = Runtime { library: "/".into(), starter: "/".into() };
        let files = Files { shared, series: Series::Recorded, folder: "/".into(), runtime };
        assert!(files.are_of(std::process::id()) && !files.are_of(1));
    }
}
