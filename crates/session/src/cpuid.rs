//! What a processor says of itself, as it stands in a manifest.
//!
//! Apart because the manifest is read by people, too: a line a leaf.

use relive_sys::processor::{self, Leaf};

/// Asks the processor that this runs on.
pub(crate) fn ask() -> Vec<Leaf> {
    let mut leaves = Vec::new();
    processor::each_leaf(|leaf| leaves.push(leaf));
    leaves
}

/// A line for each leaf.
pub(crate) fn to_text(leaves: &[Leaf]) -> Vec<String> {
    let line = |leaf: &Leaf| leaf.map(|word| format!("{word:x}")).join(" ");
    leaves.iter().map(line).collect()
}

/// The leaves of a manifest. A line that is none says nothing.
pub(crate) fn from_text(lines: &[String]) -> Vec<Leaf> {
    let leaf = |line: &String| {
        let words: Option<Vec<u32>> = line.split(' ').map(|word| u32::from_str_radix(word, 16).ok()).collect();
        Leaf::try_from(words?).ok()
    };
    lines.iter().filter_map(leaf).collect()
}

#[cfg(test)]
mod tests {
    use super::{ask, from_text, to_text};

    #[test]
    fn what_is_written_is_read_again() {
        let leaves = ask();
        assert!(!leaves.is_empty());
        assert_eq!(from_text(&to_text(&leaves)), leaves);
        assert!(from_text(&["1 2 3".to_owned(), "x 1 2 3 4 5".to_owned()]).is_empty());
    }
}
