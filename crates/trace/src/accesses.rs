//! How a file is named in which accesses were learnt to race: the runtime and the
//! launcher must agree, on machines where its path is another one.

/// Bytes of its beginning that name a file.
pub const HEAD_BYTES: usize = 4096;

/// Names a program or library by its size and what it begins with: linkers lay what tells builds apart there.
pub fn key(size: u64, head: &[u8]) -> u64 {
    const START: u64 = 0xCBF2_9CE4_8422_2325;
    const FACTOR: u64 = 0x0000_0100_0000_01B3;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(FACTOR);
    let head = &head[..head.len().min(HEAD_BYTES)];
    size.to_le_bytes().iter().chain(head).fold(START, step)
}

#[cfg(test)]
mod tests {
    use super::{HEAD_BYTES, key};

    #[test]
    fn size_and_beginning_name_a_file() {
        let mut head = [7; HEAD_BYTES + 1];
        let name = key(5000, &head);
        assert_ne!(name, key(5001, &head));
        head[HEAD_BYTES] = 0;
        assert_eq!(name, key(5000, &head), "what comes later does not matter");
        head[HEAD_BYTES - 1] = 0;
        assert_ne!(name, key(5000, &head));
    }
}
