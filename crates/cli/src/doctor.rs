//! `relive doctor`: whether this machine and a program can be recorded.

use crate::output::{self, Align, BAD, CARE, GOOD, HEAD};
use anstyle::Style;
use anyhow::Result;
use clap::Args;
use relive_session::doctor::{Check, Level, Module, ProgramReport, Role, State, check_host, check_program};
use relive_session::store::Store;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

/// Exit status if something can't be recorded.
const NOT_RECORDABLE: u8 = 1;

/// `relive doctor`
#[derive(Debug, Args)]
#[command(after_help = "The exit status is 1 if the machine or the program can't be recorded. The program is not \
started; instructions are counted by a sweep over its code, so the figures are an estimate.")]
pub(crate) struct DoctorArgs {
    /// The program to look at, with all its libraries
    program: Option<OsString>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    recordable: bool,
    host: Vec<Check>,
    program: Option<ProgramReport>,
}

/// Looks and reports.
pub(crate) fn run(options: &DoctorArgs) -> Result<u8> {
    let store = Store::from_environment().ok();
    let host = check_host(store.as_ref().map(Store::root));
    let program = options.program.as_ref().map(check_program).transpose()?;
    let fatal = |report: &ProgramReport| report.verdicts.iter().any(|verdict| verdict.level == Level::Fatal);
    let recordable = host.iter().all(|check| check.state != State::Broken) && !program.as_ref().is_some_and(fatal);
    let report = Report { recordable, host, program };
    if options.json {
        output::json(&report)?;
    } else {
        output::print(|out| print(out, &report))?;
    }
    Ok(if recordable { 0 } else { NOT_RECORDABLE })
}

fn print(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    writeln!(out, "{HEAD}this machine{HEAD:#}")?;
    for check in &report.host {
        let (style, word) = match check.state {
            State::Fine => (GOOD, "fine"),
            State::Lacking => (CARE, "lacking"),
            State::Broken => (BAD, "broken"),
        };
        line(out, style, word, &format!("{}: {}", check.name, check.found))?;
    }
    if let Some(program) = &report.program {
        writeln!(out, "\n{HEAD}{}{HEAD:#}", program.program)?;
        modules(out, &program.modules)?;
        writeln!(out)?;
        for verdict in &program.verdicts {
            let (style, word) = match verdict.level {
                Level::Fine => (GOOD, "fine"),
                Level::Note => (CARE, "note"),
                Level::Warning => (CARE, "warning"),
                Level::Fatal => (BAD, "fatal"),
            };
            line(out, style, word, &verdict.text)?;
        }
    }
    let (style, text) = conclusion(report);
    writeln!(out, "\n{style}{text}{style:#}")
}

fn line(out: &mut dyn Write, style: Style, word: &str, text: &str) -> io::Result<()> {
    writeln!(out, "  {style}{word:<8}{style:#} {text}")
}

fn modules(out: &mut dyn Write, modules: &[Module]) -> io::Result<()> {
    let head = [
        ("MODULE", Align::Left),
        ("ORDERED", Align::Right),
        ("PASSED", Align::Right),
        ("REFUSED", Align::Right),
        ("UNORDERED", Align::Right),
        ("LOCK", Align::Right),
        ("XCHG", Align::Right),
        ("SYSCALL", Align::Right),
        ("FUTEX", Align::Right),
    ];
    let rows: Vec<_> = modules.iter().filter(|module| module.role != Role::Glibc).map(row).collect();
    output::columns(out, head, &rows)
}

fn row(module: &Module) -> [String; 9] {
    use relive_symbols::Treatment::{Counted, Ordered, PassThrough, Refused, Seen, Unordered};
    let imports = |treatments: &[_]| {
        module.imports.iter().filter(|symbol| treatments.contains(&symbol.treatment)).count().to_string()
    };
    let name = Path::new(&module.path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let code = &module.code;
    [
        name,
        imports(&[Ordered]),
        imports(&[PassThrough, Counted, Seen]),
        imports(&[Refused]),
        imports(&[Unordered]),
        code.locked.to_string(),
        code.exchanges.to_string(),
        code.syscalls.to_string(),
        code.futexes.to_string(),
    ]
}

fn conclusion(report: &Report) -> (Style, &'static str) {
    if !report.recordable {
        return (BAD, "cannot be recorded");
    }
    let warned = |program: &ProgramReport| program.verdicts.iter().any(|verdict| verdict.level == Level::Warning);
    match &report.program {
        None => (GOOD, "programs can be recorded here"),
        Some(program) if warned(program) => {
            (CARE, "can be recorded; a replay may end in a divergence report, for the reasons above")
        }
        Some(_) => (GOOD, "can be recorded"),
    }
}
