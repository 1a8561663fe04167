//! The plan file of one object's static components ([`transect_event_abi::static_plan`]), as the recorder made it.

use transect_event_abi::static_plan::{
    SITE_OWN_CELL, STATIC_COMPONENT_CAPACITY, STATIC_MAGIC, STATIC_VERSION, StaticEntry, StaticFixup, StaticFunction,
    StaticHeader, StaticRange, StaticRegion, StaticSite, StaticTwin,
};

use crate::arch::syscall as sys;
use crate::{arena, plan};

/// The plan file of an object's static components, mapped for good.
pub(crate) struct StaticPlan {
    /// Its head.
    pub header: &'static StaticHeader,
    /// Functions with entry code, by address.
    pub functions: &'static [StaticFunction],
    /// Text of the components.
    pub ranges: &'static [StaticRange],
    /// What is to be filled in in the region.
    pub fixups: &'static [StaticFixup],
    /// Linkage slots of the components' own.
    pub twins: &'static [StaticTwin],
    /// What is to be redirected in the text.
    pub sites: &'static [StaticSite],
    /// The region's image.
    pub region: &'static [u8],
    /// Address of the names.
    pub names: u64,
}

impl StaticPlan {
    /// Reads a plan. An empty file means that the object has no static components.
    fn open(path: &[u8]) -> Option<Option<StaticPlan>> {
        let fd = sys::open(path.as_ptr(), false);
        if fd < 0 {
            return None;
        }
        let mut header = StaticHeader::default();
        // SAFETY: plain integers of `repr(C)` without padding.
        let head =
            unsafe { core::slice::from_raw_parts_mut((&raw mut header).cast::<u8>(), size_of::<StaticHeader>()) };
        let read = sys::pread(fd, head, 0);
        let sizes = [
            size_of::<StaticHeader>() as u64,
            header.function_count as u64 * size_of::<StaticFunction>() as u64,
            header.range_count as u64 * size_of::<StaticRange>() as u64,
            header.fixup_count as u64 * size_of::<StaticFixup>() as u64,
            header.twin_count as u64 * size_of::<StaticTwin>() as u64,
            header.site_count as u64 * size_of::<StaticSite>() as u64,
            header.region_length as u64,
            header.names_length as u64,
        ];
        let length: u64 = sizes.iter().sum();
        let sound = read == size_of::<StaticHeader>() as i64
            && header.magic == STATIC_MAGIC
            && header.version == STATIC_VERSION
            && header.component_count > 0
            // The file's last byte must be there, else the mapping would end in SIGBUS.
            && sys::pread(fd, &mut [0u8; 1], length - 1) == 1;
        // SAFETY: a fresh private mapping.
        let at = if sound { unsafe { sys::mmap(0, length, sys::PROT_READ, sys::MAP_PRIVATE, fd, 0) } } else { -1 };
        sys::close(fd);
        if at <= 0 {
            return Some(None);
        }
        let mut starts = [0; 8];
        let mut next = at as u64;
        for (start, size) in starts.iter_mut().zip(sizes) {
            *start = next;
            next += size;
        }
        // SAFETY: the mapping is as long as the header says; plan files are replaced by rename, never truncated; all
        // records are multiples of eight bytes.
        let plan = unsafe {
            StaticPlan {
                header: &*(at as *const StaticHeader),
                functions: core::slice::from_raw_parts(starts[1] as *const _, header.function_count as usize),
                ranges: core::slice::from_raw_parts(starts[2] as *const _, header.range_count as usize),
                fixups: core::slice::from_raw_parts(starts[3] as *const _, header.fixup_count as usize),
                twins: core::slice::from_raw_parts(starts[4] as *const _, header.twin_count as usize),
                sites: core::slice::from_raw_parts(starts[5] as *const _, header.site_count as usize),
                region: core::slice::from_raw_parts(starts[6] as *const u8, header.region_length as usize),
                names: starts[7],
            }
        };
        if !plan.is_sound() {
            // SAFETY: nothing refers to it any more.
            unsafe { sys::munmap(at as u64, length) };
            return Some(None);
        }
        Some(Some(plan))
    }

    /// Whether no offset in it leads out of its region or its names: memory is written by them.
    fn is_sound(&self) -> bool {
        let h = self.header;
        // SAFETY: the names are the mapping's last bytes.
        let names = unsafe { core::slice::from_raw_parts(self.names as *const u8, h.names_length as usize) };
        let zeros = names.iter().filter(|&&byte| byte == 0).count();
        let fits = |at: u32, bytes: u64, end: u32| at as u64 + bytes <= end as u64;
        let (all, data) = (h.region_length, h.data_length);
        let in_data = |at: u32, bytes: u64| at.is_multiple_of(8) && fits(at, bytes, data);
        let id = |component: u32| (1..=h.component_count).contains(&component);
        let entry = size_of::<StaticEntry>() as u64 + 4 * (h.component_count as u64 + 1);
        h.component_count as usize <= STATIC_COMPONENT_CAPACITY
            && names.last() == Some(&0)
            && zeros >= h.component_count as usize
            && data <= all
            && size_of::<StaticRegion>() <= data as usize
            && self.functions.iter().all(|f| {
                in_data(f.entry, entry)
                    && id(f.component)
                    && f.code <= all
                    && f.displaced <= all
                    && f.name < h.names_length
            })
            && self.ranges.iter().all(|r| id(r.component))
            && self.fixups.iter().all(|f| fits(f.at, 4, all))
            && self.twins.iter().all(|t| in_data(t.cell, 8) && id(t.component))
            && self.sites.iter().all(|s| {
                s.twin != SITE_OWN_CELL || u32::try_from(s.displacement_vaddr).is_ok_and(|cell| in_data(cell, 8))
            })
    }

    /// The plan of the object at `path`; the recorder is asked for it if it is not there. `None` if it has no static
    /// components.
    pub fn of(path: &[u8], build_id: &[u8]) -> Option<StaticPlan> {
        let dir = &arena::header().static_dir;
        let dir = &dir[..dir.iter().position(|&b| b == 0).unwrap_or(0)];
        if dir.is_empty() {
            return None;
        }
        let file = plan::file_name(dir, path, build_id, b".static");
        match StaticPlan::open(&file.bytes) {
            Some(plan) => plan,
            None if plan::ask(path) => StaticPlan::open(&file.bytes).flatten(),
            None => None,
        }
    }
}

/// Opens any file as a static plan and reads it as who puts it in place does; whether it was one. `path`: zero-terminated.
#[cfg(feature = "fuzzing")]
pub fn fuzz(path: &[u8]) -> bool {
    let Some(Some(plan)) = StaticPlan::open(path) else { return false };
    let (h, start) = (plan.header, plan.header as *const StaticHeader as u64);
    // SAFETY: a sound plan's names end in a zero.
    let name = |at: u64| unsafe { crate::elf::bytes_until_zero(at as *const u8) }.len() as u64;
    (0..h.component_count).fold(plan.names, |at, _| at + name(at) + 1);
    plan.functions.iter().for_each(|f| _ = core::hint::black_box(name(plan.names + f.name as u64)));
    // SAFETY: it was just mapped, and nothing of it is used any more.
    unsafe { sys::munmap(start, plan.names - start + h.names_length as u64) };
    true
}
