//! Paths, arguments and environment in JSON: Unix allows any bytes in them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A string of the operating system. In JSON a string, or `{"bytes": "hexadecimal"}` where it is not UTF-8.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(pub OsString);

#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Form<'a> {
    Plain(std::borrow::Cow<'a, str>),
    Raw { bytes: String },
}

impl Text {
    /// As the system takes it.
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// As a path.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl<T: ?Sized + AsRef<OsStr>> From<&T> for Text {
    fn from(text: &T) -> Self {
        Self(text.into())
    }
}

impl From<OsString> for Text {
    fn from(text: OsString) -> Self {
        Self(text)
    }
}

impl From<PathBuf> for Text {
    fn from(path: PathBuf) -> Self {
        Self(path.into())
    }
}

impl From<Text> for OsString {
    fn from(text: Text) -> Self {
        text.0
    }
}

impl From<Text> for PathBuf {
    fn from(text: Text) -> Self {
        text.0.into()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = match self.0.to_str() {
            Some(text) => Form::Plain(text.into()),
            None => Form::Raw { bytes: hexadecimal(self.0.as_bytes()) },
        };
        form.serialize(serializer)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|b| [b >> 4, b & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Form::deserialize(deserializer)? {
            Form::Plain(text) => Ok(Self(text.into_owned().into())),
            Form::Raw { bytes } => {
                let digit = |d: u8| (d as char).to_digit(16).map(|d| d as u8);
                let pair = |pair: &[u8]| match pair {
                    [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
                    _ => None,
                };
                let bytes: Option<Vec<u8>> = bytes.as_bytes().chunks(2).map(pair).collect();
                bytes.map(|bytes| Self(OsString::from_vec(bytes))).ok_or_else(|| D::Error::custom("not hexadecimal"))
            }
        }
    }
}
