//! Types whose values are read as they stand: numbers, characters, pointers, enumerations.
//!
//! Apart from `variables` because that finds parts, and this is what a part holds.

use super::dwarf::{Entries, Entry};
use gimli::AttributeValue;

/// How the bytes of a part of a variable are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// What they mean.
    pub meaning: Meaning,
    /// How many they are; at most eight.
    pub size: u64,
    /// How many of them stand before the address that was asked for.
    pub before: u64,
}

/// What bytes mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A number with a sign.
    Signed,
    /// A number without.
    Unsigned,
    /// A number of IEEE 754.
    Float,
    /// A character, with a sign or without.
    Character {
        /// Whether its number has a sign.
        signed: bool,
    },
    /// True or false.
    Bool,
    /// An address.
    Pointer,
    /// One of these numbers, as bits of eight bytes, by its name.
    Enumeration(Vec<(u64, String)>),
}

impl Base {
    /// What `of` holds, a type without names and qualifiers, asked for at its byte `at`.
    pub(super) fn of<'a>(entries: &Entries<'a>, of: &Entry<'a>, at: u64) -> Option<Self> {
        let size = of.number(gimli::DW_AT_byte_size);
        let (meaning, size) = match of.tag()? {
            gimli::DW_TAG_base_type => (meaning(of)?, size?),
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                (Meaning::Pointer, size.unwrap_or(8))
            }
            gimli::DW_TAG_enumeration_type => (Meaning::Enumeration(enumerators(entries, of)), size?),
            _ => return None,
        };
        let fits = match meaning {
            Meaning::Float => matches!(size, 4 | 8),
            _ => matches!(size, 1 | 2 | 4 | 8),
        };
        fits.then_some(Self { meaning, size, before: at })
    }

    /// These bits, as the program means them.
    pub fn text(&self, bits: u64) -> String {
        let unused = 64 - 8 * self.size as u32;
        let number = (bits << unused) >> unused;
        let signed = ((bits << unused) as i64) >> unused;
        match &self.meaning {
            Meaning::Signed => format!("{signed}"),
            Meaning::Float if self.size == 4 => format!("{:?}", f32::from_bits(number as u32)),
            Meaning::Float => format!("{:?}", f64::from_bits(number)),
            Meaning::Character { signed: has_sign } => {
                let code = if *has_sign { signed.to_string() } else { number.to_string() };
                match u8::try_from(number) {
                    Ok(byte @ b' '..=b'~') => format!("{code} '{}'", char::from(byte)),
                    _ => code,
                }
            }
            Meaning::Bool if number <= 1 => format!("{}", number == 1),
            Meaning::Unsigned | Meaning::Bool => format!("{number}"),
            Meaning::Pointer if number == 0 => "null".to_owned(),
            Meaning::Pointer => format!("{number:#x}"),
            Meaning::Enumeration(names) => {
                let is = |known: u64| (known << unused) >> unused == number;
                match names.iter().find(|(known, _)| is(*known)) {
                    Some((_, name)) => format!("{name} ({signed})"),
                    None => format!("{signed}"),
                }
            }
        }
    }
}

fn meaning(of: &Entry<'_>) -> Option<Meaning> {
    let AttributeValue::Encoding(encoding) = of.value(gimli::DW_AT_encoding)? else { return None };
    Some(match encoding {
        gimli::DW_ATE_signed => Meaning::Signed,
        gimli::DW_ATE_unsigned => Meaning::Unsigned,
        gimli::DW_ATE_float => Meaning::Float,
        gimli::DW_ATE_signed_char => Meaning::Character { signed: true },
        gimli::DW_ATE_unsigned_char | gimli::DW_ATE_UTF => Meaning::Character { signed: false },
        gimli::DW_ATE_boolean => Meaning::Bool,
        gimli::DW_ATE_address => Meaning::Pointer,
        _ => return None,
    })
}

fn enumerators<'a>(entries: &Entries<'a>, of: &Entry<'a>) -> Vec<(u64, String)> {
    let children = of.children().into_iter().filter(|child| child.tag() == Some(gimli::DW_TAG_enumerator));
    let number = |child: &Entry<'a>| match child.value(gimli::DW_AT_const_value)? {
        AttributeValue::Sdata(value) => Some(value as u64),
        // Bytes whose sign only the type knows: they are compared as far as they go.
        AttributeValue::Data1(value) => Some(value.into()),
        AttributeValue::Data2(value) => Some(value.into()),
        AttributeValue::Data4(value) => Some(value.into()),
        AttributeValue::Data8(value) => Some(value),
        value => value.udata_value(),
    };
    children.filter_map(|child| Some((number(&child)?, entries.name(&child)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Base, Meaning};

    #[test]
    fn bits_are_told_as_their_type_says() {
        let names = vec![(0, "IDLE".to_owned()), (u64::MAX, "BROKEN".to_owned())];
        let cases = [
            (Meaning::Signed, 2, 65_529, "-7"),
            (Meaning::Signed, 4, 0xffff_ff93, "-109"),
            (Meaning::Signed, 8, u64::MAX, "-1"),
            (Meaning::Unsigned, 4, 0xffff_ff93, "4294967187"),
            (Meaning::Float, 8, 0x3ff8_0000_0000_0000, "1.5"),
            (Meaning::Float, 4, 0x3fc0_0000, "1.5"),
            (Meaning::Character { signed: true }, 1, 252, "-4"),
            (Meaning::Character { signed: false }, 1, 252, "252"),
            (Meaning::Character { signed: true }, 1, 97, "97 'a'"),
            (Meaning::Bool, 1, 1, "true"),
            (Meaning::Bool, 1, 2, "2"),
            (Meaning::Pointer, 8, 0, "null"),
            (Meaning::Pointer, 8, 0x1000, "0x1000"),
            (Meaning::Enumeration(names.clone()), 4, 0, "IDLE (0)"),
            (Meaning::Enumeration(names.clone()), 4, 0xffff_ffff, "BROKEN (-1)"),
            (Meaning::Enumeration(names), 4, 7, "7"),
        ];
        for (meaning, size, bits, expected) in cases {
            assert_eq!(Base { meaning, size, before: 0 }.text(bits), expected);
        }
    }
}
