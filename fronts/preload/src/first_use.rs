//! What libc keeps of the outside behind inner locks: the time zone, locales and
//! messages, conversions, users, hosts, the connection to the log.
//!
//! Whoever comes first reads files and takes memory for all, so with the environment
//! recorded the first of a replay must be that of the recording. And what comes first
//! is not only the first of all: a locale is loaded again after its last user is gone.
//! So each call is entered and left in order, as a whole. Without the environment a
//! replay reads for itself, and nothing is done here.
//!
//! Look-ups of hosts wait for the network in turn. libc would let them wait together,
//! but what it keeps of interfaces and of name servers goes from one to the next.

mod settled;

use crate::libc_state::among_others;
use crate::loader::{LOADER, Section};
use crate::real::Real;
use crate::variadic::{Call, entry, steps};
use core::ffi::CStr;
use relive_rt::object::Internal;
use relive_rt::runtime::has_flag;
use relive_rt::{Mode, environment, mode};
use relive_sys::trampoline::Frame;
use relive_trace::control::flag;

pub(crate) use settled::settle_before_threads;

static TIME_ZONE: Section = Section::new(Internal::Locale);
static LOCALES: Section = Section::new(Internal::Locale);
static NAMES: Section = Section::new(Internal::Locale);
static HOSTS: Section = Section::new(Internal::Locale);
static LOG: Section = Section::new(Internal::Locale);

/// What a call must have for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    TimeZone,
    /// Locales; libraries with conversions may be opened. A constructor may ask for a locale, so the loader comes first.
    Locales,
    /// Tables of users, groups, services and the like. libc opens the modules that answer for them, past our `dlopen`.
    Names,
    /// Likewise of hosts, which may be asked for far away: neither users nor new threads are to wait for that.
    Hosts,
    Log,
}

/// Whether modules that libc opens come in turn with libraries that the program opens, and with new threads.
fn opens_modules() -> bool {
    mode() != Mode::Replay || has_flag(flag::MODULES)
}

impl Needs {
    /// What is entered, in this order.
    fn sections(self) -> [Option<&'static Section>; 2] {
        match self {
            Needs::TimeZone => [None, Some(&TIME_ZONE)],
            Needs::Locales => [Some(&LOADER), Some(&LOCALES)],
            Needs::Names => [Some(&LOADER).filter(|_| opens_modules()), Some(&NAMES)],
            Needs::Hosts => [None, Some(&HOSTS)],
            Needs::Log => [None, Some(&LOG)],
        }
    }

    fn enter(self, place: usize) {
        self.sections().into_iter().flatten().for_each(|section| section.enter(place));
    }

    fn leave(self, place: usize) {
        self.sections().into_iter().rev().flatten().for_each(|section| section.leave(place));
    }
}

/// What an entry is about.
#[derive(Debug)]
struct Operation {
    real: Real,
    needs: Needs,
    /// Named arguments of a variadic function.
    fixed: u32,
    makes: Makes,
}

/// What there is to settle once a call has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Makes {
    Nothing,
    /// The locale of all threads that have none of their own.
    TheLocale,
    /// The locale that it returns.
    ALocale,
}

type Running = Call<Operation>;

/// States of a [`Call`].
const START: usize = 0;
const RUNNING: usize = 1;

/// Slot of [`Call::own`]: whether what the call needs was entered.
const INSIDE: usize = 0;

steps!(plain, step);
steps!(stacked stacked, step);
steps!(variadic counted, step_variadic);

unsafe extern "C" fn step_variadic(call: *mut Running) -> usize {
    // SAFETY: the assembly's frame, through its variadic entry.
    unsafe {
        if (*call).state == START {
            let fixed = (*call).subject.fixed;
            (*call).frame.args[fixed as usize] = Call::list(call, fixed);
        }
        step(call)
    }
}

unsafe extern "C" fn step(call: *mut Running) -> usize {
    // SAFETY: the assembly's frame.
    let call = unsafe { &mut *call };
    if call.state == START {
        call.state = RUNNING;
        let applies = environment::is_on() && among_others() != Mode::Off;
        call.own[INSIDE] = usize::from(applies);
        if applies {
            prepare(call.subject.needs, call.frame.place);
            call.subject.needs.enter(call.frame.place);
        }
        call.frame.watch(unwound);
        return call.subject.real.address();
    }
    call.frame.unwatch();
    if call.own[INSIDE] != 0 {
        match call.subject.makes {
            Makes::Nothing => {}
            Makes::TheLocale => settled::the_locale(),
            Makes::ALocale => settled::a_locale(call.frame.result),
        }
        call.subject.needs.leave(call.frame.place);
    }
    0
}

unsafe extern "C" fn unwound(frame: *mut Frame) {
    // SAFETY: a frame watched in `step` is the first member of its call.
    let call = unsafe { &mut *frame.cast::<Running>() };
    if call.own[INSIDE] != 0 {
        call.subject.needs.leave(call.frame.place);
    }
}

/// What a call begins on libc's side, besides its own, that others have locks for.
fn prepare(needs: Needs, place: usize) {
    let (other, begin): (_, fn()) = match needs {
        Needs::Hosts => (Needs::Names, settled::names),
        Needs::Log => (Needs::TimeZone, settled::time_zone),
        _ => return,
    };
    other.enter(place);
    begin();
    other.leave(place);
}

const fn name(terminated: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(terminated.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name ends with its only zero"),
    }
}

const fn operation(real: &'static str, needs: Needs, fixed: u32, makes: Makes) -> Operation {
    Operation { real: Real::new(name(real), None), needs, fixed, makes }
}

macro_rules! operations {
    ($steps:ident: $($needs:ident $makes:ident => $($name:ident)*;)*) => {$($(
        entry!($name, $steps, Operation =
            operation(concat!(stringify!($name), "\0"), Needs::$needs, 0, Makes::$makes));
    )*)*};
}

operations! { plain:
    TimeZone Nothing => tzset localtime localtime_r gmtime gmtime_r ctime ctime_r mktime timelocal timegm;
    TimeZone Nothing => strftime strftime_l __strftime_l wcsftime wcsftime_l __wcsftime_l strptime strptime_l;

    Locales TheLocale => setlocale;
    Locales ALocale => newlocale __newlocale;
    Locales Nothing => duplocale __duplocale freelocale __freelocale iconv_open iconv_close;
    Locales Nothing => bindtextdomain bind_textdomain_codeset textdomain;
    Locales Nothing => gettext dgettext __dgettext dcgettext __dcgettext ngettext dngettext dcngettext;
    Locales Nothing => strerror strerror_r __strerror_r __xpg_strerror_r strerror_l strsignal gai_strerror hstrerror;

    Names Nothing => getpwnam getpwnam_r getpwuid getpwuid_r getpwent getpwent_r setpwent endpwent;
    Names Nothing => getgrnam getgrnam_r getgrgid getgrgid_r getgrent getgrent_r setgrent endgrent initgroups getgrouplist;
    Names Nothing => getspnam getspnam_r getspent getspent_r setspent endspent getlogin getlogin_r;
    Names Nothing => getservbyname getservbyname_r getservbyport getservbyport_r getservent getservent_r setservent endservent;
    Names Nothing => getprotobyname getprotobyname_r getprotobynumber getprotobynumber_r;
    Names Nothing => getprotoent getprotoent_r setprotoent endprotoent;
    Names Nothing => getrpcbyname getrpcbyname_r getrpcbynumber getrpcbynumber_r getrpcent getrpcent_r setrpcent endrpcent;
    Names Nothing => setnetgrent endnetgrent innetgr;

    Hosts Nothing => getaddrinfo gethostbyname gethostbyname2 gethostbyname_r gethostbyaddr;
    Hosts Nothing => gethostent gethostent_r sethostent endhostent getnetbyname getnetbyname_r getnetbyaddr;
    Hosts Nothing => __res_init res_query __res_query res_search __res_search res_querydomain __res_querydomain;

    Log Nothing => openlog closelog vsyslog __vsyslog_chk;
}

operations! { stacked:
    Hosts Nothing => getnameinfo gethostbyname2_r gethostbyaddr_r getnetbyaddr_r;
    Names Nothing => getnetgrent_r;
}

entry!(syslog, counted, Operation = operation("vsyslog\0", Needs::Log, 2, Makes::Nothing));
entry!(__syslog_chk, counted, Operation = operation("__vsyslog_chk\0", Needs::Log, 3, Makes::Nothing));
