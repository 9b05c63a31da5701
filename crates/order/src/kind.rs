//! What an event is: a closed list, part of the trace format.
//!
//! Apart because the recorder, the reader and every report speak of it.

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal, $family:ident;)*) => {
        /// The operation an event stands for. Codes are stored in traces and never reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Kind { $($(#[$doc])* $name = $code,)* }

        impl Kind {
            /// Every kind, by ascending code.
            pub const ALL: &'static [Kind] = &[$(Kind::$name,)*];

            /// The stable lower-case name used by `dump`, `stats` and reports.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$name => $text,)* }
            }

            /// The class of object the event is on.
            pub const fn family(self) -> Family {
                match self { $(Kind::$name => Family::$family,)* }
            }

            /// The kind with this code, if there is one.
            pub const fn from_code(code: u8) -> Option<Kind> {
                match code { $($code => Some(Kind::$name),)* _ => None }
            }
        }
    };
}

/// The class of object an event is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Family {
    /// Mutexes of every type, C11 `mtx_t` among them.
    Mutex,
    /// Condition variables.
    Condition,
    /// Reader-writer locks.
    RwLock,
    /// Semaphores, named ones too.
    Semaphore,
    /// Barriers.
    Barrier,
    /// Spin locks.
    SpinLock,
    /// `pthread_once`, `call_once` and C++ static guards.
    Once,
    /// Threads and processes: their start, end and cancellation.
    Thread,
    /// stdio streams.
    Stream,
    /// Other libc state with an inner lock.
    Libc,
    /// Memory that instructions change indivisibly.
    Atomic,
}

impl Family {
    /// Every family; the index of each is its code in a trace.
    pub const ALL: [Family; 11] = [
        Family::Mutex,
        Family::Condition,
        Family::RwLock,
        Family::Semaphore,
        Family::Barrier,
        Family::SpinLock,
        Family::Once,
        Family::Thread,
        Family::Stream,
        Family::Libc,
        Family::Atomic,
    ];

    /// The stable lower-case name used by `stats`.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Mutex => "mutex",
            Family::Condition => "condition",
            Family::RwLock => "rwlock",
            Family::Semaphore => "semaphore",
            Family::Barrier => "barrier",
            Family::SpinLock => "spinlock",
            Family::Once => "once",
            Family::Thread => "thread",
            Family::Stream => "stream",
            Family::Libc => "libc",
            Family::Atomic => "atomic",
        }
    }
}

kinds! {
    /// A mutex was acquired (lock, trylock, timedlock, clocklock).
    Lock = 1, "lock", Mutex;
    /// A mutex is about to be released.
    Unlock = 2, "unlock", Mutex;
    /// A condition wait is about to release its mutex.
    WaitRelease = 3, "wait-release", Condition;
    /// A condition wait woke and holds its mutex again: on both objects.
    Wake = 4, "wake", Condition;
    /// `pthread_cond_signal`.
    Signal = 5, "signal", Condition;
    /// `pthread_cond_broadcast`.
    Broadcast = 6, "broadcast", Condition;
    /// A read lock was acquired.
    ReadLock = 7, "read-lock", RwLock;
    /// A write lock was acquired.
    WriteLock = 8, "write-lock", RwLock;
    /// A read or write lock is about to be released.
    RwUnlock = 9, "rw-unlock", RwLock;
    /// A semaphore is about to be raised.
    Post = 10, "post", Semaphore;
    /// A semaphore was lowered.
    SemWait = 11, "sem-wait", Semaphore;
    /// A thread is about to arrive at a barrier.
    Arrive = 12, "arrive", Barrier;
    /// A thread left a barrier.
    Depart = 13, "depart", Barrier;
    /// A spin lock was acquired.
    SpinLock = 14, "spin-lock", SpinLock;
    /// A spin lock is about to be released.
    SpinUnlock = 15, "spin-unlock", SpinLock;
    /// An attempt at a once routine or static initialiser ended, well or not.
    OnceDone = 16, "once-done", Once;
    /// A thread was created.
    Create = 17, "create", Thread;
    /// A thread was joined.
    Join = 18, "join", Thread;
    /// The process forked; the parent's side.
    Fork = 19, "fork", Thread;
    /// The process image is about to be replaced, or a new process was spawned.
    Spawn = 20, "spawn", Thread;
    /// A thread was asked to cancel, or sent a signal.
    Cancel = 21, "cancel", Thread;
    /// The process is about to exit.
    Exit = 22, "exit", Thread;
    /// A stdio stream was locked.
    StreamLock = 23, "stream-lock", Stream;
    /// A stdio stream is about to be unlocked.
    StreamUnlock = 24, "stream-unlock", Stream;
    /// A libc call with inner state ran as one event.
    LibcCall = 25, "libc-call", Libc;
    /// A libc section that may run the program's code was entered (dlopen's constructors).
    LibcEnter = 26, "libc-enter", Libc;
    /// That section was left.
    LibcLeave = 27, "libc-leave", Libc;
    /// A signal was sent to a thread or process of the session.
    Kill = 28, "kill", Thread;
    /// A thread acts on a cancellation and is about to end.
    ThreadExit = 29, "thread-exit", Thread;
    /// A signal handler is about to run.
    Deliver = 30, "deliver", Thread;
    /// An instruction is about to change memory indivisibly.
    Atomic = 31, "atomic", Atomic;
}

#[cfg(test)]
mod tests {
    use super::{Family, Kind};

    #[test]
    fn a_familys_code_is_its_index() {
        assert!(Family::ALL.iter().enumerate().all(|(i, &f)| f as usize == i));
    }

    #[test]
    fn codes_round_trip_and_names_are_unique() {
        for (i, &k) in Kind::ALL.iter().enumerate() {
            assert_eq!(Kind::from_code(k as u8), Some(k));
            assert!(Kind::ALL[i + 1..].iter().all(|o| o.name() != k.name()));
        }
        assert_eq!(Kind::from_code(0), None);
    }
}
