//! The files of a trace folder: which belong to the recording, and whether they
//! are the ones that were written.

use crate::error::{Fault, Problem, ReadError};
use crate::manifest::FileEntry;
use crate::reader::{DataFile, Series, checksum};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A process other than the first may have been killed before its first chunk.
pub(super) fn skip_empty(file: Result<DataFile, ReadError>, process: u32) -> Result<Option<DataFile>, ReadError> {
    match file {
        Err(ReadError { problem: Problem::Empty, .. }) if process > 0 => Ok(None),
        file => file.map(Some),
    }
}

pub(super) fn open_file(path: &Path, process: u32) -> Result<DataFile, ReadError> {
    let file = DataFile::open(path, Series::Recorded)?;
    if file.header.process != process {
        let fault = Fault::Process { expected: process, found: file.header.process };
        return Err(ReadError::new(path, Some(0), fault.into()));
    }
    Ok(file)
}

pub(super) fn open_listed(folder: &Path, entry: &FileEntry) -> Result<DataFile, ReadError> {
    let path = folder.join(format!("p{:05}.trace", entry.process));
    let found = fs::metadata(&path).map_err(|error| ReadError::io(&path, error))?.len();
    if found < entry.bytes {
        return Err(ReadError::new(&path, Some(found), Problem::Truncated));
    }
    if found > entry.bytes {
        return Err(ReadError::new(&path, None, Fault::Length { expected: entry.bytes, found }.into()));
    }
    let same = |checksum| FileEntry::new(entry.process, found, checksum) == *entry;
    let corrupt = || ReadError::new(&path, None, Fault::Checksum.into());
    match open_file(&path, entry.process) {
        Ok(file) if same(file.checksum) => Ok(file),
        Ok(_) => Err(corrupt()),
        // Damage at the start can look like another version, another file, or a process without events.
        Err(error) if matches!(error.problem, Problem::NotATrace | Problem::Newer { .. } | Problem::Empty) => {
            let bytes = File::open(&path).and_then(checksum).map_err(|error| ReadError::io(&path, error))?;
            Err(if same(bytes) { error } else { corrupt() })
        }
        Err(error) => Err(error),
    }
}

/// Whether an inputs file is the one that was written.
pub(super) fn check_inputs(folder: &Path, entry: &FileEntry) -> Result<(), ReadError> {
    let path = folder.join(inputs_name(entry.process));
    let found = fs::metadata(&path).map_err(|error| ReadError::io(&path, error))?.len();
    if found < entry.bytes {
        return Err(ReadError::new(&path, Some(found), Problem::Truncated));
    }
    if found > entry.bytes {
        return Err(ReadError::new(&path, None, Fault::Length { expected: entry.bytes, found }.into()));
    }
    let sum = File::open(&path).and_then(checksum).map_err(|error| ReadError::io(&path, error))?;
    if FileEntry::new(entry.process, found, sum) != *entry {
        return Err(ReadError::new(&path, None, Fault::Checksum.into()));
    }
    Ok(())
}

/// The name of a process's inputs file in the trace folder.
pub fn inputs_name(process: u32) -> String {
    format!("p{process:05}.inputs")
}

/// The data files in `folder`, by process.
pub(super) fn data_files(folder: &Path) -> Result<Vec<(u32, PathBuf)>, ReadError> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(|error| ReadError::io(folder, error))? {
        let path = entry.map_err(|error| ReadError::io(folder, error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix('p').and_then(|rest| rest.strip_suffix(".trace"));
        if let Some(process) = number.filter(|n| n.len() >= 5).and_then(|number| number.parse().ok()) {
            found.insert((process, path));
        }
    }
    Ok(found.into_iter().collect())
}
