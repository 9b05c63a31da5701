//! The functions of one file by its symbols alone.
//!
//! Apart from the names of a report because a thread's place in a replay that stopped is
//! wanted without debug roots, build ids and modules. Sizes count: what follows the last
//! exported function of a stripped library is not in it.

use super::elf::{Table, symbols, with_elf};
use std::path::Path;

/// Functions by where they are.
#[derive(Debug)]
pub struct Functions(Table);

impl Functions {
    /// Those of the file at `path`; `None` if it is no ELF file.
    pub fn open(path: &Path) -> Option<Self> {
        with_elf(path, |elf| Self(Table::new(symbols(elf).functions)))
    }

    /// The function that holds `address`, in the file's own terms, as a compiler wrote its name.
    pub fn at(&self, address: u64) -> Option<&str> {
        self.0.find(address).map(|symbol| &*symbol.name)
    }
}

#[cfg(test)]
mod tests {
    use super::Functions;
    use crate::names::elf::{Symbol, Table, with_elf};
    use object::Object;
    use std::path::Path;

    #[test]
    fn a_function_ends_where_its_size_says() {
        let symbol = |address, size, name: &str| Symbol { address, size, name: name.to_owned() };
        let functions = Functions(Table::new(vec![symbol(0x30, 4, "last"), symbol(0x10, 0x10, "first")]));
        let at = |address| functions.at(address);
        assert_eq!(
            [0xF, 0x10, 0x1F, 0x20, 0x33, 0x34].map(at),
            [None, Some("first"), Some("first"), None, Some("last"), None]
        );
    }

    #[test]
    fn a_program_begins_in_a_function() {
        let path = std::env::current_exe().expect("a path");
        let entry = with_elf(&path, |elf| elf.entry()).expect("an ELF file");
        let functions = Functions::open(&path).expect("the same");
        assert_eq!((functions.at(entry), functions.at(0)), (Some("_start"), None));
        assert!(Functions::open(Path::new("/nowhere")).is_none());
    }
}
