//! The races that a search has told, kept beside the trace: their numbers, and what to
//! watch to meet them again.
//!
//! Apart from the search because another command, later, asks for one of them by the
//! number that was printed.

use super::races::{Hunt, Lines};
use iced_x86::{Decoder, DecoderOptions};
use object::{Object, ObjectSegment};
use relive_findings::Report;
use relive_findings::raw::{RawAccess, RawModule, RawReport};
use relive_findings::report::{Access, Race};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The file in the trace's folder.
const FILE: &str = "races.json";
/// What is written here changes with this number.
const VERSION: u32 = 1;

/// The races of one search.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KnownRaces {
    version: u32,
    pub(super) lines: Lines,
    races: Vec<KnownRace>,
}

/// A race.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownRace {
    /// As it was printed.
    pub number: usize,
    /// Stays the same in another search.
    pub fingerprint: String,
    pub(super) places: [Place; 2],
}

/// Where an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The innermost address of its stack.
    pub(super) counter: u64,
    /// The instruction that does it: the one at that address, or the call that returns there.
    pub(super) instruction: u64,
    /// The instruction whose passes are counted: that one, or the one behind it. gdb comes to a repeated one as often as
    /// it repeats.
    pub(super) counted: u64,
}

impl KnownRaces {
    /// Those of a search, with the numbers of its report.
    pub fn new(hunt: &Hunt, report: &Report) -> Self {
        let races = report.races.iter().filter_map(|race| {
            let places = places_of(race, &hunt.found)?;
            Some(KnownRace { number: race.number, fingerprint: race.fingerprint.clone(), places })
        });
        Self { version: VERSION, lines: hunt.watched.clone(), races: races.collect() }
    }

    /// Keeps them beside the trace.
    ///
    /// # Errors
    /// What the system says.
    pub fn keep(&self, folder: &Path) -> io::Result<()> {
        let text = serde_json::to_string(self)?;
        let new = folder.join(format!("{FILE}.{}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| fs::rename(&new, folder.join(FILE)));
        written.inspect_err(|_| _ = fs::remove_file(&new))
    }

    /// Those of the last search, if they are beside the trace.
    pub fn read(folder: &Path) -> Option<Self> {
        let known: Self = serde_json::from_str(&fs::read_to_string(folder.join(FILE)).ok()?).ok()?;
        (known.version == VERSION).then_some(known)
    }

    /// The race with this number or fingerprint.
    pub fn find(&self, name: &str) -> Option<&KnownRace> {
        self.races.iter().find(|race| race.fingerprint == name || race.number.to_string() == name)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.races.len()
    }
}

/// The places of the first race of those that the report tells as one.
fn places_of(race: &Race, found: &RawReport) -> Option<[Place; 2]> {
    let same = |raw: &RawAccess, told: &Access| {
        (raw.thread, raw.event, counter_of(raw)) == (told.thread, told.event, Some(told.counter))
    };
    let pairs = |raw: &[RawAccess; 2]| raw.iter().zip(&race.accesses).all(|(raw, told)| same(raw, told));
    let in_image =
        |image: &'_ RawReport| image.races.iter().position(|raw| raw.address == race.address && pairs(&raw.accesses));
    let (image, raw) = found.all_images().find_map(|image| Some((image, &image.races[in_image(image)?])))?;
    let place = |access: &RawAccess| {
        let counter = counter_of(access)?;
        let code = Code::around(counter, &image.modules);
        if access.stack.exact.contains(&0) {
            let counted = code.and_then(|code| code.behind_repeated()).unwrap_or(counter);
            return Some(Place { counter, instruction: counter, counted });
        }
        let instruction = code.and_then(|code| code.call_before()).unwrap_or(counter);
        Some(Place { counter, instruction, counted: instruction })
    };
    let [first, second] = &raw.accesses;
    Some([place(first)?, place(second)?])
}

/// The innermost address that the program has there.
pub(super) fn counter_of(access: &RawAccess) -> Option<u64> {
    access.stack.addresses.first().copied()
}

/// What stands in a file before and behind an address.
struct Code {
    address: u64,
    before: [u8; Code::BEFORE],
    behind: Vec<u8>,
}

impl Code {
    const BEFORE: usize = 6;
    /// No instruction is longer.
    const LONGEST: usize = 15;

    fn around(address: u64, modules: &[RawModule]) -> Option<Self> {
        let module = modules.iter().find(|module| (module.start..module.end).contains(&address))?;
        let data = fs::read(&module.file).ok()?;
        let file = object::File::parse(&*data).ok()?;
        let own = address.wrapping_sub(module.bias);
        let holds = |start: u64, size: u64| (start..start.saturating_add(size)).contains(&own);
        let segment = file.segments().find(|segment| holds(segment.address(), segment.size()))?;
        let (before, behind) = segment.data().ok()?.split_at_checked((own - segment.address()) as usize)?;
        let behind = behind.iter().take(Self::LONGEST).copied().collect();
        Some(Self { address, before: *before.last_chunk()?, behind })
    }

    /// The call that returns to the address, if it has one of the forms that compilers write to call a function by its
    /// name.
    fn call_before(&self) -> Option<u64> {
        match self.before {
            // call [rip + x]
            [0xFF, 0x15, ..] => Some(self.address - 6),
            [_, 0xE8, ..] => Some(self.address - 5),
            _ => None,
        }
    }

    /// The instruction behind the one at the address, if that is a string instruction that repeats.
    fn behind_repeated(&self) -> Option<u64> {
        let instruction = Decoder::with_ip(64, &self.behind, self.address, DecoderOptions::NONE).decode();
        let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        (repeats && instruction.is_string_instruction()).then(|| instruction.next_ip())
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, KnownRace, KnownRaces, Lines, Place, VERSION};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn races_are_found_by_number_and_fingerprint_in_what_was_kept_for_the_owner() {
        let folder = tempfile::tempdir().unwrap();
        let place = |counter| Place { counter, instruction: counter - 5, counted: counter - 5 };
        let race = |number, fingerprint: &str| KnownRace {
            number,
            fingerprint: fingerprint.to_owned(),
            places: [place(0x1000), place(0x2000)],
        };
        let races = vec![race(1, "00000000000000aa"), race(2, "00000000000000bb")];
        let mut known = KnownRaces { version: VERSION, lines: Lines::default(), races };
        known.lines.racing.insert(5, 3);
        known.keep(folder.path()).unwrap();
        let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let read = KnownRaces::read(folder.path()).unwrap();
        assert_eq!((read.find("2"), read.count()), (Some(&known.races[1]), 2));
        assert_eq!(read.find("00000000000000aa"), Some(&known.races[0]));
        assert_eq!((read.find("3"), &read.lines.racing), (None, &known.lines.racing));
        fs::write(folder.path().join("races.json"), "{}").unwrap();
        assert!(KnownRaces::read(folder.path()).is_none());
    }

    #[test]
    fn calls_and_repeated_instructions_are_told_by_their_bytes() {
        let code = |before, behind: &[u8]| Code { address: 0x100, before, behind: behind.to_vec() };
        let calls = |before| code(before, &[]).call_before();
        assert_eq!(calls([0, 0xE8, 1, 2, 3, 4]), Some(0xFB));
        assert_eq!(calls([0xFF, 0x15, 1, 2, 3, 4]), Some(0xFA));
        assert_eq!(calls([0, 0, 0, 0, 0xFF, 0xD0]), None);
        let repeated = |behind: &[u8]| code([0; 6], behind).behind_repeated();
        assert_eq!(repeated(&[0xF3, 0xA4, 0x90]), Some(0x102));
        assert_eq!(repeated(&[0xF3, 0x48, 0xAB]), Some(0x103));
        // movsb alone, and pause, which has the prefix.
        assert_eq!((repeated(&[0xA4]), repeated(&[0xF3, 0x90]), repeated(&[])), (None, None, None));
    }
}
