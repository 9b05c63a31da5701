//! `docs/trace-format.md` is the published schema: its tables are held against
//! the structures, so that neither can change alone.

use relive_order::Kind;
use relive_order::hash::CHECK_INTERVAL;
use relive_order::kind::Family;
use relive_trace::derived::DERIVED_MAGIC;
use relive_trace::layout::{self, ChunkHeader, FileHeader, end, stop};
use relive_trace::record::{CALL_BYTES_MAX, Place, Record, encode};
use std::mem::offset_of;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/trace-format.md");

/// The rows of the table under the heading `title`, as cells.
fn table(title: &str) -> Vec<Vec<String>> {
    let document = std::fs::read_to_string(DOCUMENT).expect("the schema");
    let section = document.split_once(&format!("# {title}\n")).expect(title).1;
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells =
        |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect();
    rows.skip(2).map(cells).collect()
}

macro_rules! fields {
    ($ty:ident: $($field:ident),* $(,)?) => {
        vec![$((stringify!($field), offset_of!($ty, $field)),)*]
    };
}

fn check_structure(title: &str, fields: Vec<(&str, usize)>, size: usize) {
    let rows = table(title);
    let mut end = 0;
    assert_eq!(rows.len(), fields.len(), "{title}");
    for (row, (name, offset)) in rows.iter().zip(fields) {
        assert_eq!((row[0].as_str(), row[2].as_str()), (offset.to_string().as_str(), name), "{title}");
        assert_eq!(offset, end, "{title}: {name} follows the field before it");
        end = offset + row[1].parse::<usize>().expect("a size in bytes");
    }
    assert_eq!(end, size, "{title} ends with its last field");
}

#[test]
fn the_headers_are_as_published() {
    let file = fields!(FileHeader: magic, version, process, pid, main_thread, end, stop_reason, exit_code, exit_thread, stop_clock);
    check_structure("File header", file, size_of::<FileHeader>());
    let chunk = fields!(ChunkHeader: magic, size, thread, sequence, used, hash, events, clock, run_kind, flags, run_result,
        run_count, parent, child_number, start_clock);
    check_structure("Chunk header", chunk, size_of::<ChunkHeader>());
}

#[test]
fn the_constants_are_as_published() {
    let rows = table("Constants");
    let value = |name: &str| rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name}"))[1].clone();
    let hexadecimal = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02X}")).collect::<Vec<_>>().join(" ");
    assert_eq!(value("file magic"), hexadecimal(&layout::FILE_MAGIC));
    assert_eq!(value("chunk magic"), hexadecimal(&layout::CHUNK_MAGIC.to_le_bytes()));
    assert_eq!(value("derived order magic"), hexadecimal(&DERIVED_MAGIC));
    assert_eq!(value("format version"), layout::FORMAT_VERSION.to_string());
    assert_eq!(value("window"), layout::WINDOW_BYTES.to_string());
    assert_eq!(value("file header page"), layout::FILE_HEADER_BYTES.to_string());
    assert_eq!(value("chunk header"), layout::CHUNK_HEADER_BYTES.to_string());
    assert_eq!(value("chunk sizes"), layout::CHUNK_SIZES.map(|size| size.to_string()).join(", "));
    assert_eq!(value("events between check hashes"), CHECK_INTERVAL.to_string());
    assert_eq!(value("bytes of a call in a stream"), CALL_BYTES_MAX.to_string());
    assert_eq!(value("no thread"), format!("{:08X}", layout::NONE));
}

#[test]
fn the_codes_are_as_published() {
    let codes = |title| table(title).into_iter().map(|row| (row[0].clone(), row[1].clone())).collect::<Vec<_>>();
    let own = |list: &[(u32, &str)]| {
        list.iter().map(|(code, name)| (code.to_string(), (*name).to_owned())).collect::<Vec<_>>()
    };
    let kinds: Vec<_> = Kind::ALL.iter().map(|&kind| (kind as u32, kind.name())).collect();
    assert_eq!(codes("Kinds of event"), own(&kinds));
    let ends = [(end::LIVE, "live"), (end::EXITED, "exited"), (end::EXECUTED, "executed"), (end::STOPPED, "stopped")];
    assert_eq!(codes("Ends of a process"), own(&ends));
    let stops = [
        (stop::NONE, "none"),
        (stop::NO_SPACE, "no space"),
        (stop::NO_LAUNCHER, "no launcher"),
        (stop::CLOSED, "closed"),
        (stop::REFUSED, "refused"),
        (stop::LIMIT, "limit"),
    ];
    assert_eq!(codes("Reasons to stop"), own(&stops));
}

#[test]
fn the_record_tags_are_as_published() {
    let run = Record::Run { kind: Kind::Lock, result: 0, count: 1 };
    let records = [
        ("pair", Record::Pair { extra: 99 }),
        ("hash", Record::Hash(0)),
        ("value", Record::Value(0)),
        ("run", run),
        ("won", Record::Won { key: 0, attempt: 0 }),
        ("signal", Record::Signal { number: 0, calls: 0 }),
        ("cancelled", Record::Cancelled { calls: 0 }),
        ("wait", Record::Wait { thread: 0, events: 0 }),
        ("stream", Record::Stream),
        ("tally", Record::Tally { family: Family::Once, count: 1 }),
        ("call", Record::Call { number: 0, result: 0, bytes: 0, place: Place::Stream }),
        ("call, apart", Record::Call { number: 0, result: 0, bytes: 0, place: Place::Inputs(0) }),
        ("behind", Record::Behind { gap: 0 }),
        ("own", Record::Own),
    ];
    let rows = table("Records");
    assert_eq!((rows[0][0].as_str(), rows[0][1].as_str()), ("00 to BF", "pair, compact"));
    let (last, compact) = (rows.len() - 1, rows.len() - 2);
    assert_eq!((rows[compact][0].as_str(), rows[compact][1].as_str()), ("D0 to DF", "stream, compact"));
    assert_eq!((rows[last][0].as_str(), rows[last][1].as_str()), ("E0 to FF", "behind, compact"));
    assert_eq!(rows.len(), records.len() + 3);
    for (row, (name, record)) in rows[1..compact].iter().zip(records) {
        // So many steps that no compact form will do.
        let tag = format!("{:02X}", encode(99, record).as_bytes()[0]);
        assert_eq!((row[0].as_str(), row[1].as_str()), (tag.as_str(), name));
    }
}
