//! What the user knows of a program that its debug information does not say: which
//! variables are meant as atomic, and which functions access others as such.
//!
//! One annotation a line, `kind:pattern`, with patterns as in [`crate::suppressions`]; `#`
//! begins a comment line:
//!
//! - `atomic`: a variable by its name. All accesses to it are atomic operations;
//! - `atomic_in`: a function by its name. The accesses that it makes itself are.
//!
//! Apart from suppressions, which hide what was found: annotated accesses order what
//! stands around them, so races that they guard are none.

use crate::places;
use crate::report::{Access, Object};
use crate::suppressions::matches;

/// Annotations, of one file or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    variables: Vec<String>,
    functions: Vec<String>,
}

/// A line that is no annotation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: not an annotation: write atomic:VARIABLE or atomic_in:FUNCTION")]
pub struct AnnotationError {
    /// The file.
    pub file: String,
    /// The line, from 1 on.
    pub line: usize,
}

impl Annotations {
    /// Adds those in `text`, which stands in `file`.
    ///
    /// # Errors
    /// For the first line that is none.
    pub fn add(&mut self, text: &str, file: &str) -> Result<(), AnnotationError> {
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let known = match line.split_once(':') {
                Some(("atomic", pattern)) => Some((&mut self.variables, pattern)),
                Some(("atomic_in", pattern)) => Some((&mut self.functions, pattern)),
                _ => None,
            };
            let Some((patterns, pattern)) = known.filter(|(_, pattern)| !pattern.is_empty()) else {
                return Err(AnnotationError { file: file.to_owned(), line: index + 1 });
            };
            patterns.push(pattern.to_owned());
        }
        Ok(())
    }

    /// Whether a variable is said to be atomic.
    pub(crate) fn name_variable(&self, object: &Object) -> bool {
        object.name().is_some_and(|name| self.variables.iter().any(|pattern| matches(pattern, name)))
    }

    /// Whether an access is said to be atomic by the function that makes it.
    pub(crate) fn name_function_of(&self, access: &Access) -> bool {
        let function = access.stack.first().and_then(|frame| frame.function.as_deref());
        function.is_some_and(|name| {
            let plain = places::plain(name);
            self.functions.iter().any(|pattern| matches(pattern, name) || matches(pattern, &plain))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{AnnotationError, Annotations};
    use crate::names::{Frame, Global};
    use crate::report::{Access, Object};

    #[test]
    fn variables_and_functions_are_named_by_patterns() {
        let mut all = Annotations::default();
        all.add("# known\n\natomic:^ready$\n", "a").unwrap();
        all.add("  atomic_in:spin_*  \n", "b").unwrap();
        let variable = |name: &str| Object::Global(Global { name: Some(name.to_owned()), ..Global::default() });
        assert!(all.name_variable(&variable("ready")));
        assert!(!all.name_variable(&variable("already")) && !all.name_variable(&Object::Unknown));
        let access = |functions: &[&str]| {
            let frame = |name: &&str| Frame { function: Some((*name).to_owned()), ..Frame::default() };
            Access { stack: functions.iter().map(frame).collect(), ..Access::default() }
        };
        assert!(all.name_function_of(&access(&["spin_lock(int*)", "main"])));
        // What such a function calls is not meant.
        assert!(!all.name_function_of(&access(&["memcpy", "spin_lock"])) && !all.name_function_of(&access(&[])));
    }

    #[test]
    fn what_is_no_annotation_is_named_with_its_line() {
        for wrong in ["race:x", "atomic:", "atomic ready", ":x"] {
            let found = Annotations::default().add(&format!("atomic:ok\n{wrong}\n"), "file");
            assert_eq!(found, Err(AnnotationError { file: "file".to_owned(), line: 2 }), "{wrong}");
        }
    }
}
