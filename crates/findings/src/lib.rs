//! Races as people and programs read them: the model of a report, names of source
//! places, text, JSON, SARIF 2.1.0, suppressions.
//!
//! What a replayed process found comes as words ([`wire`]) that hold addresses
//! ([`raw`]). [`Report::new`] finds the frames of stacks ([`locate`]), names them
//! ([`names`]), puts races of the same source places together, and hides those that
//! [`suppressions`] name. A report is then written for people ([`text`]), or for programs as
//! JSON or SARIF.
//!
//! Nothing in here knows how races are found, and nothing prints.
#![forbid(unsafe_code)]

pub mod annotations;
pub mod fingerprint;
pub mod images;
mod json;
pub mod locate;
#[cfg(test)]
mod made_up;
pub mod names;
pub mod places;
pub mod raw;
pub mod report;
mod sarif;
pub mod suppressions;
pub mod text;
pub mod wire;

pub use annotations::Annotations;
pub use report::{Options, Report, Verdict};
pub use suppressions::Suppressions;
pub use text::Style;
