use object::elf;

/// ELF class: the size of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElfClass {
    /// 32-bit addresses.
    Elf32,
    /// 64-bit addresses.
    Elf64,
}

/// What an ELF file is for (`e_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectType {
    /// `ET_EXEC`: an executable at fixed addresses.
    Executable,
    /// `ET_DYN`: a shared library or a position-independent executable.
    Shared,
    /// Relocatable objects, cores and others, which no loader maps.
    Other(u16),
}

/// The first 20 bytes of an ELF file, which are laid out alike in every class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Size of addresses.
    pub class: ElfClass,
    /// True for little-endian files.
    pub little_endian: bool,
    /// `e_machine`, for example 62 for x86-64.
    pub machine: u16,
    /// `e_type`.
    pub object_type: ObjectType,
}

impl Identity {
    /// Reads the identity from a file's first bytes; `None` if they are not an ELF header's.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; 20] = bytes.first_chunk()?;
        if header[..4] != elf::ELFMAG {
            return None;
        }
        let class = match header[4] {
            1 => ElfClass::Elf32,
            2 => ElfClass::Elf64,
            _ => return None,
        };
        let little_endian = header[5] == 1;
        let word = |at: usize| {
            let raw = [header[at], header[at + 1]];
            if little_endian { u16::from_le_bytes(raw) } else { u16::from_be_bytes(raw) }
        };
        let object_type = match word(16) {
            2 => ObjectType::Executable,
            3 => ObjectType::Shared,
            other => ObjectType::Other(other),
        };
        Some(Self { class, little_endian, machine: word(18), object_type })
    }

    /// True for what [`crate::Object`] reads: ELF64, little-endian, x86-64.
    pub fn is_x86_64(&self) -> bool {
        self.class == ElfClass::Elf64 && self.little_endian && self.machine == elf::EM_X86_64.0
    }

    /// Class and machine in words, for messages.
    pub fn describe(&self) -> String {
        let bits = match self.class {
            ElfClass::Elf32 => "32-bit",
            ElfClass::Elf64 => "64-bit",
        };
        let machine = match elf::Machine(self.machine) {
            elf::EM_386 => "x86",
            elf::EM_X86_64 if self.class == ElfClass::Elf32 => "x32",
            elf::EM_X86_64 => "x86-64",
            elf::EM_AARCH64 => "AArch64",
            elf::EM_ARM => "Arm",
            elf::EM_RISCV => "RISC-V",
            elf::EM_PPC64 => "PowerPC",
            elf::EM_S390 => "s390",
            elf::EM_LOONGARCH => "LoongArch",
            _ => return format!("a {bits} object of machine type {}", self.machine),
        };
        format!("a {bits} {machine} object")
    }
}
