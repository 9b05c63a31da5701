//! What an access is, packed into the word that inserted code leaves for us.
//!
//! Emitted code stores these eight bytes as two immediates; each meaning is a byte.

/// What is done to the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// It is read.
    Read,
    /// It is written, or read and written.
    Write,
    /// A locked instruction reads and writes it.
    Locked,
}

/// How the bytes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// `bytes` of them from the address on.
    Plain,
    /// Those that the span has.
    Span,
    /// As many as the key says.
    Keyed,
    /// A string instruction with a repeat; `operation` says which.
    String,
    /// The bit whose number is in the general register `register`, for an operand of `element` bytes.
    Bit,
    /// One of `lanes` elements for each bit of the mask register.
    Masked,
    /// As many elements as the mask register has bits set, without gaps.
    Packed,
    /// One element, if the mask register has any bit set.
    Broadcast,
    /// As `Masked`, by the signs of the elements of a vector register.
    MaskedBySigns,
    /// Elements at indices in a vector register.
    Scattered,
    /// The state of the processor; `operation` says which instruction.
    State,
    /// The byte that `al` chooses.
    Translate,
    /// None: a function that is followed returns.
    Returned,
    /// None: another function begins before one returned that is followed.
    Left,
    /// Nobody knows; `element` and `lanes` are the mnemonic's number.
    Unknown,
}

const CLASSES: [Class; 15] = [
    Class::Plain,
    Class::Span,
    Class::Keyed,
    Class::String,
    Class::Bit,
    Class::Masked,
    Class::Packed,
    Class::Broadcast,
    Class::MaskedBySigns,
    Class::Scattered,
    Class::State,
    Class::Translate,
    Class::Returned,
    Class::Left,
    Class::Unknown,
];

/// An access, as far as its instruction says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct What {
    pub(crate) class: Class,
    pub(crate) kind: Kind,
    /// Bytes of all of it, or of an element.
    pub(crate) element: u8,
    pub(crate) lanes: u8,
    /// The register that has the mask, the signs, or the bit's number.
    pub(crate) register: u8,
    /// The vector register that has indices.
    pub(crate) indices: u8,
    /// Bytes of an index, and what it is multiplied with, in four bits each.
    pub(crate) scale: u8,
    /// Which instruction of its class, or further bits.
    pub(crate) operation: u8,
}

impl What {
    pub(crate) const fn new(class: Class, kind: Kind, element: u8) -> Self {
        Self { class, kind, element, lanes: 1, register: 0, indices: 0, scale: 0, operation: 0 }
    }

    pub(crate) fn pack(self) -> u64 {
        u64::from_le_bytes([
            self.class as u8,
            self.kind as u8,
            self.element,
            self.lanes,
            self.register,
            self.indices,
            self.scale,
            self.operation,
        ])
    }

    /// The same again.
    ///
    /// # Panics
    /// If the word is none that [`Self::pack`] made.
    pub(crate) fn unpack(word: u64) -> Self {
        let [class, kind, element, lanes, register, indices, scale, operation] = word.to_le_bytes();
        let kind = [Kind::Read, Kind::Write, Kind::Locked][usize::from(kind)];
        Self { class: CLASSES[usize::from(class)], kind, element, lanes, register, indices, scale, operation }
    }
}

#[cfg(test)]
mod tests {
    use super::{CLASSES, Kind, What};

    #[test]
    fn every_class_and_kind_comes_back() {
        for (number, class) in CLASSES.into_iter().enumerate() {
            assert_eq!(class as usize, number);
            for kind in [Kind::Read, Kind::Write, Kind::Locked] {
                let what = What {
                    lanes: 16,
                    register: 31,
                    indices: 30,
                    scale: 0x84,
                    operation: 7,
                    ..What::new(class, kind, 64)
                };
                assert_eq!(What::unpack(what.pack()), what);
            }
        }
    }
}
