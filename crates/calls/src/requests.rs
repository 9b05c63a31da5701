//! The calls that are many calls: the treatment by request.
//!
//! Apart from the table of calls because a request has a number of its own, and
//! because here the table is never complete: a request that stands in no list
//! is unknown, and what the kernel would write for it is not guessed (the size
//! in the number of an ioctl is often not the size of what is written).

mod devices;
mod fcntl;
mod ioctl;
mod ipc;
mod keyctl;
mod options;
mod prctl;

use crate::{Memory, Output, Resolved, Treatment, Unknown, find};
pub(crate) use devices::TIOCLINUX;

/// Which list of requests a call has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Requests to devices, files and sockets.
    Ioctl,
    /// Commands on a descriptor.
    Fcntl,
    /// Options of a process or thread.
    Prctl,
    /// The same, of the processor.
    ArchPrctl,
    /// Commands on a set of semaphores.
    Semctl,
    /// Commands on shared memory.
    Shmctl,
    /// Commands on a queue of messages.
    Msgctl,
    /// Operations on keys.
    Keyctl,
    /// Commands on quotas.
    Quotactl,
    /// The same, on a descriptor.
    QuotactlFd,
    /// What is asked of the kernel's file systems.
    Sysfs,
    /// Limits to set.
    Setrlimit,
    /// Limits to get and perhaps to set.
    Prlimit,
    /// Options of a socket.
    Getsockopt,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    pub(crate) resolved: Resolved,
}

impl Request {
    /// Every list, in the order of the documentation.
    pub(crate) const ALL: [Request; 14] = [
        Request::Ioctl,
        Request::Fcntl,
        Request::Prctl,
        Request::ArchPrctl,
        Request::Semctl,
        Request::Shmctl,
        Request::Msgctl,
        Request::Keyctl,
        Request::Quotactl,
        Request::QuotactlFd,
        Request::Sysfs,
        Request::Setrlimit,
        Request::Prlimit,
        Request::Getsockopt,
    ];

    /// The argument with the request's number.
    pub(crate) const fn argument(self) -> u8 {
        match self {
            Request::Prctl
            | Request::ArchPrctl
            | Request::Keyctl
            | Request::Quotactl
            | Request::Sysfs
            | Request::Setrlimit => 0,
            Request::Ioctl
            | Request::Fcntl
            | Request::Shmctl
            | Request::Msgctl
            | Request::QuotactlFd
            | Request::Prlimit => 1,
            Request::Semctl | Request::Getsockopt => 2,
        }
    }

    /// The requests with a row of their own.
    pub(crate) const fn lists(self) -> &'static [&'static [Row]] {
        match self {
            Request::Ioctl => &[ioctl::TERMINALS, ioctl::FILES, ioctl::SOCKETS, devices::DEVICES],
            Request::Fcntl => &[fcntl::COMMANDS],
            Request::Prctl => &[prctl::OPTIONS],
            Request::ArchPrctl => &[prctl::PROCESSOR],
            Request::Semctl => &[ipc::SEMAPHORES],
            Request::Shmctl => &[ipc::SHARED_MEMORY],
            Request::Msgctl => &[ipc::MESSAGES],
            Request::Keyctl => &[keyctl::OPERATIONS],
            Request::Quotactl | Request::QuotactlFd => &[options::QUOTAS],
            Request::Sysfs => &[options::FILE_SYSTEMS],
            Request::Setrlimit | Request::Prlimit => &[options::LIMITS],
            Request::Getsockopt => &[options::SOCKET_OPTIONS],
        }
    }

    /// What becomes of a request without a row; `None` if nobody knows what the kernel writes for it.
    pub(crate) const fn rest(self) -> Option<Resolved> {
        match self {
            Request::Setrlimit => Some(Resolved::Emulate(&[])),
            Request::Prlimit => Some(Resolved::Emulate(options::OLD_LIMIT)),
            Request::Getsockopt => Some(Resolved::Emulate(options::OPTION_VALUE)),
            _ => None,
        }
    }

    /// The row of these arguments.
    fn resolve(self, arguments: &[usize; 6], memory: &impl Memory) -> Option<Resolved> {
        let request = arguments[usize::from(self.argument())] as u32;
        match self {
            Request::Ioctl if request == TIOCLINUX => devices::console(arguments[2], memory),
            // What stands below the 8 bits of the type of quota.
            Request::Quotactl | Request::QuotactlFd => self.row(request >> 8),
            // A question, or the limit of another process, of which a replay has none.
            Request::Prlimit if arguments[2] == 0 || arguments[0] as u32 != 0 => self.rest(),
            // The numbers of options count from zero at each level.
            Request::Getsockopt => match options::socket_option(arguments[1] as u32, request) {
                Some(number) => self.row(number),
                None => self.rest(),
            },
            _ => self.row(request),
        }
    }

    fn row(self, number: u32) -> Option<Resolved> {
        let mut rows = self.lists().iter().copied().flatten();
        rows.find(|row| row.number == number).map(|row| row.resolved).or(self.rest())
    }
}

/// What is done with a call, its request looked up.
///
/// # Errors
///
/// No row for the number, or the kernel's writing for the request is not known: such a call can't be recorded.
pub fn resolve(number: usize, arguments: &[usize; 6], memory: &impl Memory) -> Result<Resolved, Unknown> {
    let Some(call) = find(number) else {
        return Err(Unknown { call: "", request: number as u64 });
    };
    match call.treatment {
        Treatment::Emulate(outputs) => Ok(Resolved::Emulate(outputs)),
        Treatment::Execute(effect) => Ok(Resolved::Execute(effect)),
        Treatment::Refuse(errno) => Ok(Resolved::Refuse(errno)),
        Treatment::ByRequest(request) => {
            let number = arguments[usize::from(request.argument())] as u32;
            request.resolve(arguments, memory).ok_or(Unknown { call: call.name, request: u64::from(number) })
        }
    }
}

/// Nothing but a result.
const fn plain(name: &'static str, number: u32) -> Row {
    Row { number, name, resolved: Resolved::Emulate(&[]) }
}

const fn writes(name: &'static str, number: u32, outputs: &'static [Output]) -> Row {
    Row { number, name, resolved: Resolved::Emulate(outputs) }
}

const fn refused(name: &'static str, number: u32, errno: u16) -> Row {
    Row { number, name, resolved: Resolved::Refuse(errno) }
}

const fn executed(name: &'static str, number: u32, effect: crate::Effect) -> Row {
    Row { number, name, resolved: Resolved::Execute(effect) }
}

/// It is not permitted.
const EPERM: u16 = 1;
/// There is no such thing in this machine.
const ENODEV: u16 = 19;
/// The kernel does not know the request.
const EINVAL: u16 = 22;

#[cfg(test)]
mod tests {
    use super::{Request, resolve};
    use crate::table::tests::check_outputs;
    use crate::{Effect, Memory, Resolved, Unknown, find};
    use std::collections::BTreeSet;

    /// Memory whose every word is the same; nothing is mapped if it is zero.
    struct Uniform(u32);

    impl Memory for Uniform {
        fn u32(&self, _: usize) -> u32 {
            self.0
        }
        fn u64(&self, _: usize) -> u64 {
            u64::from(self.0)
        }
        fn try_u32(&self, _: usize) -> Option<u32> {
            (self.0 != 0).then_some(self.0)
        }
        fn try_u64(&self, address: usize) -> Option<u64> {
            self.try_u32(address).map(u64::from)
        }
        fn try_put_back(&self, _: usize, _: [u64; 2]) -> bool {
            self.0 != 0
        }
    }

    fn ask(name: &str, arguments: [usize; 6]) -> Result<Resolved, Unknown> {
        let number = (0..500).find(|n| find(*n).is_some_and(|call| call.name == name)).expect("a call");
        resolve(number, &arguments, &Uniform(0))
    }

    #[test]
    fn requests_stand_once_in_their_list_and_are_well_formed() {
        for request in Request::ALL {
            let mut numbers = BTreeSet::new();
            let mut names = BTreeSet::new();
            for row in request.lists().iter().copied().flatten() {
                assert!(numbers.insert(row.number), "{request:?} {} stands twice", row.name);
                assert!(names.insert(row.name), "{request:?} {} stands twice", row.name);
                if let Resolved::Emulate(outputs) = row.resolved {
                    check_outputs(row.name, outputs);
                }
            }
            if let Some(Resolved::Emulate(outputs)) = request.rest() {
                check_outputs("the rest", outputs);
            }
        }
    }

    #[test]
    fn a_number_without_a_row_is_unknown() {
        for number in [335, 400, 423, 472, 5000, usize::MAX] {
            let unknown = Unknown { call: "", request: number as u64 };
            assert_eq!(resolve(number, &[0; 6], &Uniform(0)), Err(unknown));
        }
    }

    #[test]
    fn an_unknown_request_is_not_guessed() {
        // _IOR('z', 7, char[16]): the number states a size.
        let ioctl = 0x8010_7a07;
        assert_eq!(ask("ioctl", [3, ioctl, 0, 0, 0, 0]), Err(Unknown { call: "ioctl", request: ioctl as u64 }));
        for (name, arguments) in [
            ("fcntl", [3, 999, 0, 0, 0, 0]),
            ("prctl", [999, 0, 0, 0, 0, 0]),
            ("arch_prctl", [999, 0, 0, 0, 0, 0]),
            ("shmctl", [0, 999, 0, 0, 0, 0]),
            ("semctl", [0, 0, 999, 0, 0, 0]),
            ("keyctl", [999, 0, 0, 0, 0, 0]),
        ] {
            assert_eq!(ask(name, arguments).map_err(|unknown| unknown.call), Err(name));
        }
    }

    #[test]
    fn only_the_low_half_of_an_argument_is_the_request() {
        let outputs = ask("ioctl", [1, 0xffff_ffff_0000_5401, 0x1000, 0, 0, 0]);
        assert_eq!(outputs, ask("ioctl", [1, 0x5401, 0x1000, 0, 0, 0]));
        assert!(outputs.is_ok());
    }

    #[test]
    fn a_larger_stack_is_really_allowed() {
        const STACK: usize = 3;
        const FILES: usize = 7;
        assert_eq!(ask("setrlimit", [STACK, 0x1000, 0, 0, 0, 0]), Ok(Resolved::Execute(Effect::Memory)));
        assert_eq!(ask("prlimit64", [0, STACK, 0x1000, 0, 0, 0]), Ok(Resolved::Execute(Effect::Memory)));
        assert!(matches!(ask("prlimit64", [0, STACK, 0, 0x1000, 0, 0]), Ok(Resolved::Emulate(&[_]))));
        assert!(matches!(ask("prlimit64", [77, STACK, 0x1000, 0, 0, 0]), Ok(Resolved::Emulate(&[_]))));
        assert!(matches!(ask("prlimit64", [0, FILES, 0x1000, 0, 0, 0]), Ok(Resolved::Emulate(&[_]))));
        assert_eq!(ask("setrlimit", [FILES, 0x1000, 0, 0, 0, 0]), Ok(Resolved::Emulate(&[])));
    }

    #[test]
    fn options_of_sockets_go_by_level_and_number() {
        // TCP_ZEROCOPY_RECEIVE maps pages; the same number at another level does not.
        assert!(matches!(ask("getsockopt", [3, 6, 35, 0, 0, 0]), Ok(Resolved::Refuse(_))));
        assert!(matches!(ask("getsockopt", [3, 1, 35, 0, 0, 0]), Ok(Resolved::Emulate(_))));
        // SO_GET_FILTER counts instructions.
        assert_ne!(ask("getsockopt", [3, 1, 26, 0, 0, 0]), ask("getsockopt", [3, 0, 26, 0, 0, 0]));
    }

    #[test]
    fn a_request_to_the_console_stands_in_memory() {
        let ioctl = (0..500).find(|n| find(*n).is_some_and(|call| call.name == "ioctl")).expect("ioctl");
        let arguments = [0, 0x541c, 0x1000, 0, 0, 0];
        // The byte behind the request is whatever lies there.
        assert!(matches!(resolve(ioctl, &arguments, &Uniform(0x5506)), Ok(Resolved::Emulate(&[_]))));
        assert!(matches!(resolve(ioctl, &arguments, &Uniform(0x550c)), Ok(Resolved::Emulate(&[]))));
        assert!(resolve(ioctl, &arguments, &Uniform(0x55ff)).is_err());
        assert!(resolve(ioctl, &arguments, &Uniform(0)).is_err());
    }

    #[test]
    fn the_type_of_a_quota_is_not_part_of_the_command() {
        const GET_FORMAT: usize = 0x80_0004;
        for kind in 0..3 {
            let outputs = ask("quotactl", [GET_FORMAT << 8 | kind, 0, 0, 0x1000, 0, 0]);
            assert!(matches!(outputs, Ok(Resolved::Emulate(&[_]))));
            assert_eq!(outputs, ask("quotactl_fd", [3, GET_FORMAT << 8 | kind, 0, 0x1000, 0, 0]));
        }
    }
}
