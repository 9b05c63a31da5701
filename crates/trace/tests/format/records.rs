//! Encoder and decoder against an oracle that is written from the table in
//! `docs/trace-format.md`, with arithmetic too plain to share their mistakes.

use crate::model::{kinds, notes};
use proptest::prelude::*;
use relive_trace::record::{CALL_BYTES_MAX, Decoder, Malformed, Place, RECORD_BYTES_MAX, Record, encode, encode_call};

fn varint(mut value: u128) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let part = (value % 128) as u8;
        value /= 128;
        if value == 0 {
            bytes.push(part);
            return bytes;
        }
        bytes.push(part + 128);
    }
}

fn zigzag(value: i64) -> Vec<u8> {
    let wide = i128::from(value);
    varint(if wide >= 0 { wide as u128 * 2 } else { (-wide) as u128 * 2 - 1 })
}

fn plainly(steps: u64, record: Record) -> Vec<u8> {
    let (tag, fields): (u8, Vec<u8>) = match record {
        Record::Pair { extra } if steps <= 15 && extra <= 12 => {
            return vec![(steps + 16 * (extra - 1)) as u8];
        }
        Record::Pair { extra } => (192, varint(extra.into())),
        Record::Hash(hash) => (193, vec![hash as u8, (hash >> 8) as u8, (hash >> 16) as u8, (hash >> 24) as u8]),
        Record::Value(value) => (194, zigzag(value)),
        Record::Run { kind, result, count } => {
            (195, [vec![kind as u8], zigzag(result.into()), varint(count.into())].concat())
        }
        Record::Won { key, attempt } => (196, [varint(key.into()), varint(attempt.into())].concat()),
        Record::Signal { number, calls } => (197, [vec![number], varint(calls.into())].concat()),
        Record::Cancelled { calls } => (198, varint(calls.into())),
        Record::Wait { thread, events } => (199, [varint(thread.into()), varint(events.into())].concat()),
        Record::Stream if steps <= 15 => return vec![208 + steps as u8],
        Record::Stream => (200, Vec::new()),
        Record::Behind { gap: gap @ (0 | 4 | 16 | 256) } if steps <= 7 => {
            let class = [0, 4, 16, 256].iter().position(|&of| of == gap).unwrap();
            return vec![224 + 8 * class as u8 + steps as u8];
        }
        Record::Behind { gap } => (204, varint(gap.into())),
        Record::Own => (205, Vec::new()),
        Record::Tally { family, count } => (201, [vec![family as u8], varint(count.into())].concat()),
        Record::Call { number, result, bytes, place } => {
            let fields = [varint(number.into()), zigzag(result), varint(bytes.into())].concat();
            match place {
                Place::Stream => (202, fields),
                Place::Inputs(offset) => (203, [fields, varint(offset.into())].concat()),
            }
        }
    };
    [vec![tag], varint(steps.into()), fields, behind(record)].concat()
}

/// The bytes that a call's record is followed by.
fn behind(record: Record) -> Vec<u8> {
    match record {
        Record::Call { bytes, place: Place::Stream, .. } => (0..bytes).map(|i| (i * 7) as u8).collect(),
        _ => Vec::new(),
    }
}

/// Numbers of every length, small ones more often than a uniform choice would give.
fn numbers() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64u32).prop_map(|(value, shift)| value >> shift)
}

fn records() -> impl Strategy<Value = Record> {
    prop_oneof![
        numbers().prop_map(|extra| Record::Pair { extra: extra.max(1) }),
        (1..20u64).prop_map(|extra| Record::Pair { extra }),
        any::<u32>().prop_map(Record::Hash),
        (kinds(), any::<i16>(), 1..=u32::MAX).prop_map(|(kind, result, count)| Record::Run { kind, result, count }),
        (any::<u32>(), numbers()).prop_map(|(thread, events)| Record::Wait { thread, events }),
        notes(),
        (any::<u16>(), any::<i64>(), 0..=CALL_BYTES_MAX, places())
            .prop_map(|(number, result, bytes, place)| { Record::Call { number, result, bytes, place } }),
    ]
}

fn places() -> impl Strategy<Value = Place> {
    prop_oneof![Just(Place::Stream), numbers().prop_map(Place::Inputs)]
}

fn steps() -> impl Strategy<Value = u64> {
    prop_oneof![0..20u64, numbers()]
}

proptest! {
    #[test]
    fn records_are_encoded_as_the_table_says_and_decoded_again(list in proptest::collection::vec((steps(), records()), 0..50)) {
        let mut stream = Vec::new();
        for &(steps, record) in &list {
            let encoded = encode(steps, record);
            prop_assert!(encoded.as_bytes().len() <= RECORD_BYTES_MAX);
            let whole = [encoded.as_bytes(), &behind(record)].concat();
            prop_assert_eq!(&whole, &plainly(steps, record));
            if let Record::Call { number, result, bytes, place: Place::Stream } = record {
                let mut into = [0; RECORD_BYTES_MAX];
                let length = encode_call(&mut into, steps, number, result, bytes);
                prop_assert_eq!(&into[..length], encoded.as_bytes());
            }
            stream.extend_from_slice(&whole);
        }
        let mut decoder = Decoder::new(&stream);
        for &expected in &list {
            prop_assert_eq!(decoder.next_record(), Ok(Some(expected)));
            if let Record::Call { place: Place::Stream, .. } = expected.1 {
                prop_assert_eq!(decoder.payload(), behind(expected.1));
            }
        }
        prop_assert_eq!(decoder.next_record(), Ok(None));
    }

    #[test]
    fn any_bytes_decode_to_records_that_stand_for_themselves_or_stop(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut decoder = Decoder::new(&bytes);
        let mut before = decoder.remaining();
        while let Ok(Some((steps, record))) = decoder.next_record() {
            prop_assert!(decoder.remaining() < before);
            before = decoder.remaining();
            let again = plainly(steps, record);
            if let Record::Call { bytes, place: Place::Stream, .. } = record {
                prop_assert_eq!(decoder.payload().len(), bytes as usize);
            }
            prop_assert_eq!(Decoder::new(&again).next_record(), Ok(Some((steps, record))));
        }
        prop_assert_eq!(decoder.remaining(), before, "a malformed record is not consumed");
    }

    #[test]
    fn a_record_that_is_cut_off_says_so(steps in steps(), record in records()) {
        let bytes = plainly(steps, record);
        for length in 1..bytes.len() {
            prop_assert_eq!(Decoder::new(&bytes[..length]).next_record(), Err(Malformed::Truncated));
        }
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    let refused = |bytes: &[u8]| Decoder::new(bytes).next_record();
    assert_eq!(refused(&[0xCE, 0]), Err(Malformed::Unknown(0xCE)));
    assert_eq!(refused(&[0xCA, 0, 0, 0, 129, 4]), Err(Malformed::Range), "more bytes than a stream may hold");
    assert_eq!(refused(&[0xCB, 0, 128, 128, 4, 0, 0, 0]), Err(Malformed::Range), "a number of more than 16 bits");
    assert_eq!(refused(&[0xC0, 0, 0]), Err(Malformed::Range), "a pair without a jump");
    assert_eq!(refused(&[0xC3, 0, 1, 0, 0]), Err(Malformed::Range), "a run of none");
    assert_eq!(refused(&[0xC3, 0, 0, 0, 1]), Err(Malformed::Unknown(0)), "a kind that is none");
    assert_eq!(refused(&[0xC2, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2, 0]), Err(Malformed::Range));
    assert_eq!(refused(&[0xC6, 0, 255, 255, 255, 255, 16]), Err(Malformed::Range), "more than 32 bits");
}
