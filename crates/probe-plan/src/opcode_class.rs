//! First bytes of the instructions that lead elsewhere.

/// What a first opcode byte may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    None,
    Short,
    Call,
    Jump,
    Escape,
    Lea,
    Group5,
    Transaction,
}

/// Class of each byte.
pub(crate) const CLASS: [Class; 256] = {
    let mut class = [Class::None; 256];
    let mut byte = 0x70;
    while byte <= 0x7f {
        class[byte] = Class::Short;
        byte += 1;
    }
    byte = 0xe0;
    while byte <= 0xe3 {
        class[byte] = Class::Short;
        byte += 1;
    }
    class[0xeb] = Class::Short;
    class[0xe8] = Class::Call;
    class[0xe9] = Class::Jump;
    class[0x0f] = Class::Escape;
    class[0x8d] = Class::Lea;
    class[0xff] = Class::Group5;
    class[0xc7] = Class::Transaction;
    class
};

/// The four-byte displacement at `at`.
pub(crate) fn long(bytes: &[u8], at: usize) -> Option<i64> {
    let raw = bytes.get(at..at + 4)?.first_chunk()?;
    Some(i32::from_le_bytes(*raw).into())
}
