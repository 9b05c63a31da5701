//! `relive pack` and `relive unpack`: a trace and its programs in one file, and
//! back; and the trace that other commands are given, packed or not.

use crate::output::{bytes, counted};
use crate::{embedded, message};
use anyhow::{Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use relive_session::pack;
use relive_session::store::Store;
use relive_session::unpack::{PackedTrace, is_packed};
use relive_trace::packed::EXTENSION;
use std::path::{Path, PathBuf};

/// Folder in the cache for what was unpacked.
const UNPACKED: &str = "unpacked";

/// `relive pack`
#[derive(Debug, Args)]
#[command(after_help = "The file has everything that a replay opens: the trace, the programs, their libraries. It is \
readable by its owner only, and holds what the trace holds: what the program read, and its environment. To replay it \
runs the programs in it: take packed traces only from people whose programs you would run.")]
pub(crate) struct PackArgs {
    /// The trace: a folder, or a name in the trace folder [default: the latest]
    trace: Option<PathBuf>,
    /// The file to make [default: NAME.relive in this folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Say nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

/// `relive unpack`
#[derive(Debug, Args)]
#[command(after_help = "Other commands take the packed file itself; they unpack it once into the user's cache.")]
pub(crate) struct UnpackArgs {
    /// The packed trace
    file: PathBuf,
    /// The folder to make [default: the file's name without .relive, in this folder]
    folder: Option<PathBuf>,
    /// Say nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

/// Packs, and says how much it became.
pub(crate) fn pack(options: &PackArgs) -> Result<u8> {
    let folder = find(options.trace.as_deref())?;
    let name = || folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let to = options.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.{EXTENSION}", name())));
    if std::fs::symlink_metadata(&to).is_ok() {
        bail!("write {}: it exists already; remove it or name another file with -o", to.display());
    }
    let bar = bar("packing", options.quiet);
    let done = pack::pack(&folder, &to, &mut |done, all| advance(&bar, done, all));
    bar.finish_and_clear();
    let done = done?;
    if done.unrecorded > 0 && !options.quiet {
        let times = counted(done.unrecorded, "time");
        message::say(format_args!(
            "it started programs that can't be recorded {times}, and those started others: a replay needs them on its machine"
        ));
    }
    if !options.quiet {
        let (before, after, files) = (bytes(done.before), bytes(done.after), counted(done.files as u64, "file"));
        message::say(format_args!("packed {}: {before} became {after}, with {files} of this machine", to.display()));
    }
    Ok(0)
}

/// Unpacks, and says where.
pub(crate) fn unpack(options: &UnpackArgs) -> Result<u8> {
    let name = || options.file.file_stem().map_or_else(|| PathBuf::from(UNPACKED), PathBuf::from);
    let folder = options.folder.clone().unwrap_or_else(name);
    let packed = PackedTrace::open(&options.file)?;
    let bar = bar("unpacking", options.quiet);
    let done = packed.unpack_to(&folder, &mut |done, all| advance(&bar, done, all));
    bar.finish_and_clear();
    done?;
    if !options.quiet {
        message::say(format_args!("unpacked {} to {}", options.file.display(), folder.display()));
    }
    Ok(0)
}

/// The folder of the trace that `named` means. A packed trace is unpacked into the cache.
pub(crate) fn find(named: Option<&Path>) -> Result<PathBuf> {
    let store = Store::from_environment();
    if let Some(named) = named {
        let in_store = store.as_ref().ok().map(|store| store.root().join(named));
        if let Some(file) = [Some(named.to_owned()), in_store].into_iter().flatten().find(|path| is_packed(path)) {
            let cache = embedded::cache_folder()?.join(UNPACKED);
            let packed = PackedTrace::open(&file)?;
            let bar = bar("unpacking", false);
            let folder = packed.unpack_once(&cache, &mut |done, all| advance(&bar, done, all));
            bar.finish_and_clear();
            return Ok(folder?);
        }
    }
    Ok(store?.resolve(named)?)
}

/// Shown on a terminal only.
fn bar(what: &'static str, quiet: bool) -> ProgressBar {
    let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(0) };
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {binary_bytes} of {binary_total_bytes}");
    bar.with_prefix(what).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn advance(bar: &ProgressBar, done: u64, all: u64) {
    bar.set_length(all);
    bar.set_position(done);
}
