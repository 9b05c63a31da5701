//! The preloaded library and the starter inside this binary, and their copies in
//! the user's cache.
//!
//! Apart because `ld.so` and the kernel want files: they are unpacked once by
//! content hash, so that several versions of the tool can live beside each other.

use anyhow::{Context, Result};
use relive_session::launch::Runtime;
use std::env;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A recorded process that has become another user gets the files by descriptors, and must be allowed to execute them.
const FOR_ALL: u32 = 0o755;

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
    Ok(Runtime { library: beside_sanitizers(LIBRARY.file()?), starter: STARTER.file()? })
}

/// Another name of the library, if it can have one.
///
/// `AddressSanitizer` as gcc links it ends a program whose first library is not called `libasan.so`, and ours comes first;
/// that is all the same to it, because ours comes before libc. As clang links it, it ends a program that has mapped a file
/// of such a name. The first looks at the name by which the library was asked for, the second at the file.
fn beside_sanitizers(library: PathBuf) -> PathBuf {
    let link = library.with_extension("before-libasan.so");
    let Some(name) = library.file_name() else { return library };
    let leads_there = || fs::read_link(&link).is_ok_and(|target| target == name);
    if leads_there() || symlink(name, &link).is_ok() || leads_there() { link } else { library }
}

/// Whether this process has such a library itself.
pub(crate) fn is_recorded() -> bool {
    relive_session::nested::is_recorded(LIBRARY.name)
}

impl Embedded {
    /// A file of the right name that was changed since (an edit, another owner) is replaced.
    fn file(&self) -> Result<PathBuf> {
        let folder = cache_folder()?;
        let path = folder.join(self.name);
        if self.is_as_unpacked(&path).unwrap_or(false) {
            return Ok(path);
        }
        self.unpack(&folder, &path)
            .with_context(|| format!("unpack the runtime library to {}", path.display()))
            .context("set XDG_CACHE_HOME to a folder that can be written")?;
        Ok(path)
    }

    /// By its size and by a time that no clock gives it: to compare six megabytes took as long as a short program runs.
    fn is_as_unpacked(&self, path: &Path) -> io::Result<bool> {
        let found = fs::symlink_metadata(path)?;
        let owned = found.is_file() && found.uid() == rustix::process::geteuid().as_raw();
        let ours = owned && found.mode() & FOR_ALL == FOR_ALL;
        Ok(ours && found.len() == self.content.len() as u64 && found.modified()? == self.stamp())
    }

    /// The time of the last change that an unpacked file is given: in 1970, by the content's hash.
    fn stamp(&self) -> SystemTime {
        const YEAR_SECONDS: u64 = 365 * 24 * 3600;
        let mixed = self.name.bytes().fold(0u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
        UNIX_EPOCH + Duration::from_secs(mixed % YEAR_SECONDS)
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
            .and_then(|mut file| {
                file.write_all(self.content)?;
                // Whatever the mask took away.
                file.set_permissions(Permissions::from_mode(FOR_ALL))?;
                file.set_modified(self.stamp())?;
                // The size and the time must not be there before the content is.
                file.sync_all()
            })
            .and_then(|()| fs::rename(&fresh, path));
        if written.is_err() {
            let _ = fs::remove_file(&fresh);
        }
        Ok(written?)
    }
}

pub(crate) fn cache_folder() -> Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("relive"))
        .context("find the cache folder: neither XDG_CACHE_HOME nor HOME is set; set one of them")
}
