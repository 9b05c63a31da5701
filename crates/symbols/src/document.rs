//! The page of the documentation that is made from the table.
//!
//! Apart from the table so that this stays data; a test keeps `docs/symbols.md` equal to it.

use crate::{Family, GROUPS, Group, TABLE, Treatment};
use core::fmt::{self, Display, Formatter};

const HEAD: &str = "\
# What is ordered, and what is not

This page is made from the closed table in `crates/symbols/src/table.rs`; to make it again after a change there, run

```
RELIVE_WRITE_DOCS=1 cargo test -p relive-symbols
```

Each symbol of glibc and libstdc++ that synchronises threads has one treatment. A test looks through the libraries of \
the machine and fails if one of them exports a name that begins like a synchronisation symbol and is not here; another \
test compares the table with what the preloaded library exports. `relive doctor PROGRAM` says which of these symbols a \
program uses.

";

/// Displays as the markdown text of `docs/symbols.md`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Document;

impl Display for Document {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        f.write_str("| treatment | meaning | symbols |\n|---|---|---:|\n")?;
        for treatment in Treatment::ALL {
            let count = TABLE.iter().filter(|symbol| symbol.treatment == treatment).count();
            writeln!(f, "| {} | {} | {count} |", treatment.name(), meaning(treatment))?;
        }
        for treatment in Treatment::ALL {
            write!(f, "\n## {}\n\n| object | why | symbols |\n|---|---|---|\n", treatment.name())?;
            for family in Family::ALL {
                let wanted = |group: &&Group| group.treatment == treatment && group.family == family;
                for group in GROUPS.iter().filter(wanted) {
                    row(f, group)?;
                }
            }
        }
        Ok(())
    }
}

fn row(f: &mut Formatter<'_>, group: &Group) -> fmt::Result {
    write!(f, "| {} | {} |", group.family.name(), group.why)?;
    for name in group.names {
        write!(f, " `{name}`")?;
    }
    f.write_str(" |\n")
}

const fn meaning(treatment: Treatment) -> &'static str {
    match treatment {
        Treatment::Ordered => "recorded, and replayed in the recorded order",
        Treatment::Refused => "the program is stopped with a message, always or in the cases named",
        Treatment::Seen => "the runtime must know of the call; nothing of it is recorded",
        Treatment::Counted => "a cancellation that strikes in it is recorded; its result is the environment's",
        Treatment::PassThrough => "not touched: no thread can see in which order such calls ran",
        Treatment::Unordered => "not ordered at this level; `relive doctor` names it",
    }
}
