//! What was recorded: command, environment, binaries, host, outcome; and which
//! data files belong to the recording.
//!
//! Written twice: unfinished when the recording starts, complete when it has
//! ended normally. Only a complete manifest has the data files' checksums. Its
//! last member is a checksum of all others, so that a changed argument or
//! environment is an error and not another execution.

mod text;

use crate::error::{Fault, Problem, ReadError};
use crate::layout::{FORMAT_VERSION, READABLE};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
pub use text::Text;
use twox_hash::XxHash3_64;

/// Its name in the trace folder.
pub const MANIFEST: &str = "manifest.json";
/// No manifest is larger: arguments and environment have at most 6 MiB.
const BYTES_MAX: u64 = 64 << 20;

/// The manifest of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT_VERSION`] of the writer.
    pub format: u32,
    /// Version of relive that recorded.
    pub relive: String,
    /// Whether the recording ended normally.
    pub state: State,
    /// The program, or the interpreter of a script.
    pub program: Binary,
    /// `argv`.
    pub command: Vec<Text>,
    /// Names and values, in order.
    pub environment: Vec<(Text, Text)>,
    /// Working folder.
    pub folder: Text,
    /// Shared libraries that the program had loaded, the loader among them.
    pub libraries: Vec<Binary>,
    /// Where it was recorded.
    pub host: Host,
    /// Address-space layout randomisation was off.
    pub fixed_layout: bool,
    /// What the program took from outside is in the recording. Version 1 does not know the member.
    #[serde(default, skip_serializing_if = "is_default")]
    pub environment_recorded: bool,
    /// What is ordered. Version 5 does not know the member.
    #[serde(default, skip_serializing_if = "is_default")]
    pub level: Level,
    /// Accesses that are ordered besides. Version 5 does not know the member.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accesses: Vec<Accesses>,
    /// How it was laid out, where addresses are of our choice. Version 1 does not know the member.
    #[serde(default, skip_serializing_if = "is_default")]
    pub start: Option<Start>,
    /// What its processor said of itself, six numbers a leaf: leaf, part, four registers, in hexadecimal. Version 1 does
    /// not know the member.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cpuid: Vec<String>,
    /// Start, in milliseconds since 1970 UTC.
    pub started_ms: u64,
    /// End, likewise; absent while unfinished.
    pub ended_ms: Option<u64>,
    /// How the first process ended; absent while unfinished.
    pub outcome: Option<Outcome>,
    /// The data files; empty while unfinished.
    pub files: Vec<FileEntry>,
    /// The inputs files, of those processes that have one; empty while unfinished. Version 1 does not know the member.
    #[serde(default, skip_serializing_if = "is_default")]
    pub inputs: Vec<FileEntry>,
    /// What a user should know, one sentence each: children that were not recorded, for example.
    pub notes: Vec<String>,
    /// Checksum of everything above; see [`Manifest::write`].
    checksum: String,
}

/// What the addresses of a program depend on, besides arguments and environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The name that it was executed by: `AT_EXECFN`.
    pub name: Text,
    /// Its random bytes, `AT_RANDOM`, in hexadecimal.
    pub random: String,
    /// The soft limit of its stack in bytes; `None` for none.
    pub stack: Option<u64>,
    /// What the kernel tells programs about machine and user: types and values of the auxiliary vector. Early recordings
    /// of version 2 do not know the member.
    #[serde(default, skip_serializing_if = "is_default")]
    pub told: Vec<(u64, u64)>,
}

/// Accesses in one file of code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accesses {
    /// The file, as [`crate::accesses::key`] names it, in hexadecimal.
    pub file: String,
    /// Offsets of the instructions, in ascending order.
    pub places: Vec<u64>,
}

/// What a recording orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Synchronisation by calls, and with its environment what the kernel carries.
    #[default]
    Sync,
    /// Instructions that change memory indivisibly as well.
    Atomics,
}

/// Whether a recording ended normally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It still runs, or its launcher was killed.
    Unfinished,
    /// It ended; the data files are final.
    Complete,
}

/// A program or library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binary {
    /// Absolute path.
    pub path: Text,
    /// Its build-id in hexadecimal, if it has one.
    pub build_id: Option<String>,
    /// Bytes of the file.
    pub bytes: u64,
    /// XXH3 of the file in hexadecimal: a file that is changed in place keeps its build-id.
    pub checksum: Option<String>,
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor model.
    pub processor: String,
    /// Logical processors.
    pub processors: u32,
    /// Processor features, as in `/proc/cpuinfo`, sorted.
    pub features: Vec<String>,
}

/// How the first process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It exited with this code.
    Exited(u8),
    /// This signal killed it.
    Killed(u8),
}

/// A data file of a complete recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Index of the process image.
    pub process: u32,
    /// Bytes of the file.
    pub bytes: u64,
    /// [`crate::reader::checksum`] of the file, 16 hexadecimal digits.
    pub checksum: String,
}

impl FileEntry {
    /// The entry for a data file of `bytes` bytes with this checksum.
    pub fn new(process: u32, bytes: u64, checksum: u64) -> Self {
        Self { process, bytes, checksum: hexadecimal(checksum) }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Makes a file that only its owner may read, whatever the mask.
pub(crate) fn owners_file(path: &Path) -> io::Result<File> {
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

fn no_manifest(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn hexadecimal(sum: u64) -> String {
    format!("{sum:016x}")
}

/// Just enough to tell another version.
#[derive(Deserialize)]
struct Versioned {
    format: u32,
}

impl Manifest {
    /// An unfinished manifest: a recording of `program` starts.
    pub fn new(relive: &str, program: Binary, command: Vec<Text>, folder: Text) -> Self {
        Self {
            format: FORMAT_VERSION,
            relive: relive.to_owned(),
            state: State::Unfinished,
            program,
            command,
            environment: Vec::new(),
            folder,
            libraries: Vec::new(),
            host: Host::default(),
            fixed_layout: false,
            environment_recorded: false,
            level: Level::Sync,
            accesses: Vec::new(),
            start: None,
            cpuid: Vec::new(),
            started_ms: 0,
            ended_ms: None,
            outcome: None,
            files: Vec::new(),
            inputs: Vec::new(),
            notes: Vec::new(),
            checksum: String::new(),
        }
    }

    /// Reads the manifest of the trace in `folder`.
    ///
    /// # Errors
    /// [`ReadError`]: not a trace, a newer version, or corrupt.
    pub fn read(folder: &Path) -> Result<Self, ReadError> {
        let path = folder.join(MANIFEST);
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(file) => file.take(BYTES_MAX).read_to_end(&mut bytes).map_err(|error| ReadError::io(&path, error))?,
            Err(error) if no_manifest(&error) && folder.exists() => {
                return Err(ReadError::new(folder, None, Problem::NotATrace));
            }
            Err(error) => return Err(ReadError::io(folder, error)),
        };
        Self::parse(&bytes, &path)
    }

    /// Reads a manifest from memory; `name` stands in errors.
    ///
    /// # Errors
    /// As [`Manifest::read`].
    pub fn parse(bytes: &[u8], name: &Path) -> Result<Self, ReadError> {
        let fail = |problem| Err(ReadError::new(name, None, problem));
        let invalid = |error: serde_json::Error| match error.classify() {
            serde_json::error::Category::Eof => ReadError::new(name, None, Problem::Truncated),
            _ => ReadError::new(name, None, Fault::Manifest(error.to_string()).into()),
        };
        match serde_json::from_slice::<Versioned>(bytes).map_err(invalid)?.format {
            version if READABLE.contains(&version) => {}
            0 => return fail(Fault::Manifest("format 0".to_owned()).into()),
            found => return fail(Problem::Newer { found }),
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(invalid)?;
        if manifest.checksum != manifest.compute_checksum().map_err(invalid)? {
            return fail(Fault::Checksum.into());
        }
        Ok(manifest)
    }

    /// The manifest as text, its checksum computed.
    ///
    /// # Errors
    /// None that this structure can cause.
    pub fn to_json(&mut self) -> serde_json::Result<String> {
        self.checksum = self.compute_checksum()?;
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        Ok(json)
    }

    /// Writes it into `folder`, replacing an earlier one in one step.
    ///
    /// # Errors
    /// What the system says; the earlier one stays then.
    pub fn write(&mut self, folder: &Path) -> io::Result<()> {
        let json = self.to_json()?;
        let temporary = folder.join(".manifest.json.new");
        owners_file(&temporary)?.write_all(json.as_bytes())?;
        fs::rename(&temporary, folder.join(MANIFEST)).inspect_err(|_| {
            let _ = fs::remove_file(&temporary);
        })
    }

    /// Over the compact JSON with an empty checksum: white space between values does not count.
    fn compute_checksum(&self) -> serde_json::Result<String> {
        let bare = Self { checksum: String::new(), ..self.clone() };
        let json = serde_json::to_vec(&bare)?;
        Ok(hexadecimal(XxHash3_64::oneshot(&json)))
    }
}
