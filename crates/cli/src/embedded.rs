//! The preloaded library inside this binary, and its copy in the user's cache.
//!
//! Apart because `ld.so` wants a file: the library is unpacked once by content
//! hash, so that several versions of the tool can live beside each other.

use anyhow::{Context, Result};
use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

static LIBRARY: &[u8] = include_bytes!(env!("RELIVE_PRELOAD_FILE"));
const HASH: &str = env!("RELIVE_PRELOAD_HASH");

/// The library as a file, unpacked if it wasn't yet.
///
/// A file of the right name with other content (a torn disk, an edit) is replaced: the comparison is cheap
/// beside starting a program.
pub(crate) fn library() -> Result<PathBuf> {
    let folder = cache_folder()?;
    let path = folder.join(format!("preload-{HASH}.so"));
    if fs::read(&path).is_ok_and(|found| found == LIBRARY) {
        return Ok(path);
    }
    unpack(&folder, &path)
        .with_context(|| format!("unpack the runtime library to {}", path.display()))
        .context("set XDG_CACHE_HOME to a folder that can be written")?;
    Ok(path)
}

fn unpack(folder: &Path, path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let fresh = folder.join(format!(".preload-{HASH}.{}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o700)
        .open(&fresh)
        .and_then(|mut file| file.write_all(LIBRARY))
        .and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    Ok(written?)
}

fn cache_folder() -> Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("relive"))
        .context("find the cache folder: neither XDG_CACHE_HOME nor HOME is set; set one of them")
}
