//! The preloaded library and the starter inside this binary, and their copies in
//! the user's cache.
//!
//! Apart because `ld.so` and the kernel want files: they are unpacked once by
//! content hash, so that several versions of the tool can live beside each other.

use anyhow::{Context, Result};
use relive_session::launch::Runtime;
use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file inside this binary.
struct Embedded {
    content: &'static [u8],
    /// Its name in the cache, which tells versions apart.
    name: &'static str,
}

static LIBRARY: Embedded = Embedded {
    content: include_bytes!(env!("RELIVE_PRELOAD_FILE")),
    name: concat!("preload-", env!("RELIVE_PRELOAD_HASH"), ".so"),
};
static STARTER: Embedded =
    Embedded { content: include_bytes!(env!("RELIVE_START_FILE")), name: concat!("start-", env!("RELIVE_START_HASH")) };

/// Library and starter as files, unpacked if they weren't yet.
pub(crate) fn runtime() -> Result<Runtime> {
    Ok(Runtime { library: LIBRARY.file()?, starter: STARTER.file()? })
}

impl Embedded {
    /// A file of the right name with other content (a torn disk, an edit) is replaced: the comparison is cheap
    /// beside starting a program.
    fn file(&self) -> Result<PathBuf> {
        let folder = cache_folder()?;
        let path = folder.join(self.name);
        if holds(&path, self.content).unwrap_or(false) {
            return Ok(path);
        }
        self.unpack(&folder, &path)
            .with_context(|| format!("unpack the runtime library to {}", path.display()))
            .context("set XDG_CACHE_HOME to a folder that can be written")?;
        Ok(path)
    }

    fn unpack(&self, folder: &Path, path: &Path) -> Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let fresh = folder.join(format!(".{}.{}", self.name, std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o700)
            .open(&fresh)
            .and_then(|mut file| file.write_all(self.content))
            .and_then(|()| fs::rename(&fresh, path));
        if written.is_err() {
            let _ = fs::remove_file(&fresh);
        }
        Ok(written?)
    }
}

/// Whether a file has this content. By pieces: two megabytes of fresh memory cost more than reading them.
fn holds(path: &Path, content: &[u8]) -> io::Result<bool> {
    const PIECE: usize = 1 << 15;
    let mut file = File::open(path)?;
    let mut piece = vec![0; PIECE];
    let mut left = content;
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(left.is_empty()),
            read => match left.strip_prefix(&piece[..read]) {
                Some(rest) => left = rest,
                None => return Ok(false),
            },
        }
    }
}

pub(crate) fn cache_folder() -> Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("relive"))
        .context("find the cache folder: neither XDG_CACHE_HOME nor HOME is set; set one of them")
}
