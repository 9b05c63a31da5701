//! What the user knows of a program that its debug information does not say: what is
//! meant as atomic, and what is known to do no harm.
//!
//! One annotation a line, `MEANING:WHAT` with patterns as in [`crate::suppressions`]; `#`
//! begins a comment line. A meaning is `atomic` or `benign`, and what it is said of follows
//! it:
//!
//! - nothing: a variable by its name, `atomic:^ready$`;
//! - `_in`: a function by its name. The accesses that it makes itself are meant;
//! - `_at`: a line of the source, `atomic_at:queue.c:120$`: the accesses there, and those of functions inlined there;
//! - `_heap`: bytes of heap blocks by a function that they were allocated in or below,
//!   `atomic_heap:^make_node$+24,4`: 4 bytes from byte 24 on.
//!
//! Apart from suppressions, which hide what was found: what is atomic orders what stands
//! around it, so races that it guards are none.

use crate::names::Frame;
use crate::places;
use crate::report::{Access, Object, Race};
use crate::suppressions::matches;
use std::fmt;

/// Annotations, of one file or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations(Vec<Annotation>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Annotation {
    meaning: Meaning,
    what: What,
    /// As it was written.
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Atomic,
    Benign,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Variable(String),
    Function(String),
    Place(String),
    /// Bytes of blocks that a function allocates: from the first of these numbers on, as many as the second.
    Field(String, u64, u64),
}

/// A line that is no annotation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{file}:{line}: not an annotation: write atomic:VARIABLE, atomic_in:FUNCTION, atomic_at:FILE:LINE or \
     atomic_heap:FUNCTION+OFFSET,BYTES, or benign in place of atomic"
)]
pub struct AnnotationError {
    /// The file.
    pub file: String,
    /// The line, from 1 on.
    pub line: usize,
}

impl fmt::Display for Annotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Annotation {
    fn parse(line: &str) -> Option<Self> {
        let (kind, pattern) = line.split_once(':').filter(|(_, pattern)| !pattern.is_empty())?;
        let (meaning, of) = match kind.split_once('_') {
            Some((meaning, of)) => (meaning, of),
            None => (kind, ""),
        };
        let meaning = match meaning {
            "atomic" => Meaning::Atomic,
            "benign" => Meaning::Benign,
            _ => return None,
        };
        let what = match of {
            "" if kind == "atomic" || kind == "benign" => What::Variable(pattern.to_owned()),
            "in" => What::Function(pattern.to_owned()),
            "at" => {
                let (_, line) = pattern.rsplit_once(':').filter(|(file, _)| !file.is_empty())?;
                line.strip_suffix('$').unwrap_or(line).parse::<u32>().ok()?;
                What::Place(pattern.to_owned())
            }
            "heap" => {
                let (function, bytes) = pattern.rsplit_once('+').filter(|(function, _)| !function.is_empty())?;
                let (offset, size) = bytes.split_once(',')?;
                What::Field(function.to_owned(), offset.parse().ok()?, size.parse().ok().filter(|&size| size > 0)?)
            }
            _ => return None,
        };
        Some(Self { meaning, what, text: line.to_owned() })
    }

    /// Whether it is about the bytes that race.
    fn names_data(&self, race: &Race) -> bool {
        match &self.what {
            What::Variable(pattern) => race.object.name().is_some_and(|name| matches(pattern, name)),
            What::Field(function, offset, size) => {
                let Object::Heap(block) = &race.object else { return false };
                let first = race.address.wrapping_sub(block.start);
                let within = first >= *offset && first + race.size() <= offset.saturating_add(*size);
                within && block.allocated.stack.iter().any(|frame| is_function(function, frame))
            }
            What::Function(_) | What::Place(_) => false,
        }
    }

    /// Whether it is about where an access is made.
    fn names_place(&self, access: &Access) -> bool {
        match &self.what {
            What::Function(pattern) => access.stack.first().is_some_and(|frame| is_function(pattern, frame)),
            What::Place(pattern) => {
                // A frame that was inlined is followed by that which it was inlined into.
                let physical = access.stack.iter().position(|frame| !frame.inlined).map_or(0, |last| last + 1);
                access.stack[..physical].iter().any(|frame| is_line(pattern, frame))
            }
            What::Variable(_) | What::Field(..) => false,
        }
    }
}

fn is_function(pattern: &str, frame: &Frame) -> bool {
    let Some(name) = frame.function.as_deref() else { return false };
    matches(pattern, name) || matches(pattern, &places::plain(name))
}

/// The pattern ends with the number of a line, all of it.
fn is_line(pattern: &str, frame: &Frame) -> bool {
    let (Some(file), Some(line)) = (&frame.file, frame.line) else { return false };
    let pattern = pattern.strip_suffix('$').unwrap_or(pattern);
    matches(&format!("{pattern}$"), &format!("{file}:{line}"))
}

impl Annotations {
    /// Adds those in `text`, which stands in `file`.
    ///
    /// # Errors
    /// For the first line that is none.
    pub fn add(&mut self, text: &str, file: &str) -> Result<(), AnnotationError> {
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if !line.is_empty() && !line.starts_with('#') {
                let wrong = || AnnotationError { file: file.to_owned(), line: index + 1 };
                self.0.push(Annotation::parse(line).ok_or_else(wrong)?);
            }
        }
        Ok(())
    }

    fn of(&self, meaning: Meaning) -> impl Iterator<Item = &Annotation> {
        self.0.iter().filter(move |annotation| annotation.meaning == meaning)
    }

    /// Whether the racing bytes are said to be atomic.
    pub(crate) fn name_data(&self, race: &Race) -> bool {
        self.of(Meaning::Atomic).any(|annotation| annotation.names_data(race))
    }

    /// Whether an access is said to be atomic by where it is made.
    pub(crate) fn name_place_of(&self, access: &Access) -> bool {
        self.of(Meaning::Atomic).any(|annotation| annotation.names_place(access))
    }

    /// The annotation by which a race does no harm, as it was written: of its bytes, or of either access.
    pub(crate) fn benign(&self, race: &Race) -> Option<String> {
        let says = |annotation: &&Annotation| {
            annotation.names_data(race) || race.accesses.iter().any(|access| annotation.names_place(access))
        };
        self.of(Meaning::Benign).find(says).map(Annotation::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::{AnnotationError, Annotations};
    use crate::names::{Frame, Global};
    use crate::report::{Access, Block, Object, Origin, Race};

    fn all(text: &str) -> Annotations {
        let mut all = Annotations::default();
        all.add(text, "file").unwrap();
        all
    }

    fn variable(name: &str) -> Race {
        let object = Object::Global(Global { name: Some(name.to_owned()), ..Global::default() });
        Race { object, ..Race::default() }
    }

    /// An access in functions, innermost first, each in a line of its own from this one on.
    fn access(functions: &[&str], line: u32, inlined: usize) -> Access {
        let frame = |(index, name): (usize, &&str)| Frame {
            function: Some((*name).to_owned()),
            file: Some("/src/queue.c".to_owned()),
            line: Some(line + index as u32),
            inlined: index < inlined,
            ..Frame::default()
        };
        Access { stack: functions.iter().enumerate().map(frame).collect(), ..Access::default() }
    }

    #[test]
    fn variables_and_functions_are_named_by_patterns() {
        let all = all("# known\n\natomic:^ready$\n  atomic_in:spin_*  \n");
        assert!(all.name_data(&variable("ready")));
        assert!(!all.name_data(&variable("already")) && !all.name_data(&Race::default()));
        assert!(all.name_place_of(&access(&["spin_lock(int*)", "main"], 1, 0)));
        // What such a function calls is not meant.
        assert!(!all.name_place_of(&access(&["memcpy", "spin_lock"], 1, 0)) && !all.name_place_of(&access(&[], 1, 0)));
    }

    #[test]
    fn lines_are_whole_numbers_and_count_for_what_is_inlined_there() {
        let all = all("atomic_at:/queue.c:12$");
        assert!(all.name_place_of(&access(&["put"], 12, 0)));
        assert!(!all.name_place_of(&access(&["put"], 2, 0)) && !all.name_place_of(&access(&["put"], 112, 0)));
        assert!(all.name_place_of(&access(&["store", "put"], 11, 1)));
        assert!(!all.name_place_of(&access(&["store", "put"], 11, 0)));
    }

    #[test]
    fn fields_are_bytes_of_blocks_by_who_allocates_them() {
        let all = all("atomic_heap:^make$+24,8");
        let race = |address, bytes, maker| {
            let allocated = Origin { thread: None, stack: access(&["malloc", maker, "main"], 1, 0).stack };
            let object = Object::Heap(Block { start: 0x100, size: 64, allocated, freed: None });
            Race { address, bytes, object, ..Race::default() }
        };
        assert!(all.name_data(&race(0x118, 0xff, "make")) && all.name_data(&race(0x11c, 0xf, "make")));
        assert!(!all.name_data(&race(0x118, 0x1ff, "make")) && !all.name_data(&race(0x117, 1, "make")));
        assert!(!all.name_data(&race(0x118, 1, "maker")));
    }

    #[test]
    fn what_does_no_harm_is_not_atomic() {
        let all = all("benign:^hits$\nbenign_at:queue.c:7\natomic:^ready$");
        assert_eq!(all.benign(&variable("hits")).as_deref(), Some("benign:^hits$"));
        assert!(!all.name_data(&variable("hits")) && all.benign(&variable("ready")).is_none());
        let accesses = [access(&["one"], 1, 0), access(&["other"], 7, 0)];
        let race = Race { accesses, ..Race::default() };
        assert_eq!(all.benign(&race).as_deref(), Some("benign_at:queue.c:7"));
    }

    #[test]
    fn what_is_no_annotation_is_named_with_its_line() {
        for wrong in [
            "race:x",
            "atomic:",
            "atomic ready",
            ":x",
            "atomic_:x",
            "atomic_at:queue.c",
            "atomic_at:queue.c:x",
            "atomic_at::3",
            "atomic_heap:make",
            "atomic_heap:make+4",
            "atomic_heap:+4,4",
            "benign_heap:make+4,0",
            "harmless_in:x",
            "atomic_on:x",
        ] {
            let found = Annotations::default().add(&format!("atomic:ok\n{wrong}\n"), "file");
            assert_eq!(found, Err(AnnotationError { file: "file".to_owned(), line: 2 }), "{wrong}");
        }
    }
}
