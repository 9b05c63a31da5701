//! `relive record`: run a program and leave a trace.

use crate::args::{RecordArgs, Then};
use crate::embedded;
use crate::learn;
use crate::message::{self, ExitWith};
use crate::output;
use crate::races;
use anyhow::{Context, Result, anyhow, bail};
use relive_session::learnt::{Learnt, Lists};
use relive_session::limits::{Limit, Limits};
use relive_session::program::{Program, ProgramError};
use relive_session::record::{RecordError, RecordOptions, Recorded, record};
use relive_session::store::Store;
use relive_trace::manifest::Level;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// As a shell says that a program can't be executed, and that it isn't there.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Records; the exit status is the program's.
pub(crate) fn run(options: &RecordArgs) -> Result<u8> {
    let (folder, status) = record_to_folder(options)?;
    match options.then {
        None => Ok(status),
        Some(Then::Races) => {
            let found = races::in_recording(&folder, options)?;
            Ok(if status == 0 { found } else { status })
        }
    }
}

const KEEP: &str = "keep what was learnt";

/// Records into a folder; where that is, and the program's exit status.
pub(crate) fn record_to_folder(options: &RecordArgs) -> Result<(PathBuf, u8)> {
    let program = Program::find(&options.program).map_err(with_exit_code)?;
    let learns = options.learn || options.learnt.is_some();
    let level = if learns { Level::Atomics } else { options.level.into() };
    let environment = options.environment || options.then.is_some() || level != Level::Sync;
    if environment {
        program.check_environment()?;
    }
    let runtime = embedded::runtime()?;
    let lists = Lists::of(&runtime, options.learnt.as_deref());
    let mut learnt = match level {
        Level::Sync => Learnt::default(),
        Level::Atomics => known(&lists, &program, options)?,
    };
    let folder = match &options.output {
        Some(folder) => create_named(folder)?,
        None => Store::from_environment()?.create(&options.program[0])?,
    };
    let once = |learnt: &Learnt| {
        let options_of_session = RecordOptions {
            program: &program,
            runtime: &runtime,
            folder: &folder,
            version: env!("CARGO_PKG_VERSION"),
            environment,
            level,
            accesses: learnt,
            quiet: options.quiet,
            redacted: &options.redact_env,
            limits: Limits { duration: options.duration, bytes: options.max_size },
        };
        let recorded = record(&options_of_session, &mut |limit| tell_limit(limit, options)).map_err(|error| {
            let _ = fs::remove_dir_all(&folder);
            start_failure(error)
        })?;
        anyhow::Ok(recorded)
    };
    let mut recorded = once(&learnt)?;
    if options.learn {
        learn::until_ordered(&mut learnt, &folder, recorded.ordered, options.quiet, |learnt| {
            lists.keep(learnt).context(KEEP)?;
            empty(&folder)?;
            recorded = once(learnt)?;
            Ok(recorded.ordered)
        })?;
    }
    report(&recorded, &folder, options.quiet);
    let status = recorded.outcome.exit_status();
    Ok((folder, status))
}

/// What was learnt before of the program and of whatever it may load.
fn known(lists: &Lists, program: &Program, options: &RecordArgs) -> Result<Learnt> {
    if let (Lists::File(list), false) = (lists, options.learn || options.quiet)
        && !list.exists()
    {
        message::say(format_args!("{} is not there: nothing is ordered that was learnt", list.display()));
    }
    let known = lists.load(&program.executable, &program.loader).context("read what was learnt")?;
    if known.of_others > 0 {
        // Another program of the same name has nothing of it.
        if known.found > 0 && !options.quiet {
            message::say(format_args!(
                "{} of {} accesses that were learnt in other builds are ordered in this one",
                known.found, known.of_others
            ));
        }
        // A list of the user's is changed by who learns. What can't be kept is found again next time.
        if let Lists::Cache(_) = lists {
            let _ = lists.keep(&known.learnt);
        }
    }
    Ok(known.learnt)
}

/// Makes room for another recording.
fn empty(folder: &Path) -> Result<()> {
    let fail = || format!("empty trace folder {}", folder.display());
    for entry in fs::read_dir(folder).with_context(fail)? {
        let path = entry.with_context(fail)?.path();
        if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.with_context(fail)?;
    }
    Ok(())
}

/// The program runs on: its user should know from when on unrecorded.
fn tell_limit(limit: Limit, options: &RecordArgs) {
    let reached = match limit {
        Limit::Duration => format!("after {}", humantime::format_duration(options.duration.unwrap_or_default())),
        Limit::Bytes => format!("at a size of {}", output::bytes(options.max_size.unwrap_or_default())),
    };
    if !options.quiet {
        message::say(format_args!("recording stopped {reached}; the program goes on, the trace is valid up to here"));
    }
}

fn report(recorded: &Recorded, folder: &Path, quiet: bool) {
    if let Some(why) = &recorded.incomplete {
        message::say(why);
        return;
    }
    if quiet {
        return;
    }
    let size = output::bytes(recorded.bytes);
    let processes = match recorded.files {
        1 => String::new(),
        count => format!("{count} processes, "),
    };
    let rest = match (recorded.left_running, recorded.stopped) {
        (0, 0) => String::new(),
        (0, _) => ", not to the end".to_owned(),
        (count, _) => format!(", {count} still running and recorded up to here"),
    };
    message::say(format_args!("recorded to {} ({processes}{size}{rest})", folder.display()));
    if recorded.unordered_waits > 0 {
        let times = output::counted(recorded.unordered_waits, "time");
        message::say(format_args!(
            "its threads waited for each other {times} by futex calls of their own, which this level does not order: \
             if it doesn't replay, --level atomics or --learn will help"
        ));
    }
}

/// A folder that the user named: new, or there and empty.
fn create_named(folder: &Path) -> Result<PathBuf> {
    let fail = || format!("create trace folder {}", folder.display());
    match fs::read_dir(folder) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                bail!("{}: it exists and is not empty; name a new folder", fail());
            }
        }
        Err(_) => DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            // Whatever the mask took away.
            .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(0o700)))
            .map_err(|cause| anyhow!("{}: {cause}; name another one", fail()))?,
    }
    fs::canonicalize(folder).with_context(fail)
}

pub(crate) fn with_exit_code(error: ProgramError) -> anyhow::Error {
    let code = match &error {
        ProgramError::NotFound { .. } => NOT_FOUND,
        ProgramError::NotExecutable { .. } => NOT_EXECUTABLE,
        ProgramError::NotRecordable { .. } => return error.into(),
    };
    ExitWith { code, message: error.to_string() }.into()
}

fn start_failure(error: RecordError) -> anyhow::Error {
    match error {
        RecordError::Start { .. } => ExitWith { code: NOT_EXECUTABLE, message: error.to_string() }.into(),
        error => error.into(),
    }
}
