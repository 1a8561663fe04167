//! Static components: functions of an object that count as a component of their own are entered through code of ours.
//!
//! The plan of an object ([`transect_event_abi::static_plan`]) brings a region image: per function an entry code that
//! looks up which component the return address lies in, counts calls from other components, and goes on to the
//! displaced first instructions. Calls inside the component go on at once. Here the region is put near the object, and
//! jumps are written over the functions' first instructions, before any thread runs the object's code.
//!
//! Calls that a static component's code makes through the object's linkage slots get slots of their own (*twins*), so
//! that they are charged to the static component.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use transect_event_abi::api_table::handler;
use transect_event_abi::process::{OBJECT_CAPACITY, OBJECT_GONE, SLOT_CAPACITY};
use transect_event_abi::static_plan::{
    FIXUP_COUNTERS, SITE_DIRECT, SITE_OWN_CELL, SITE_OWN_ENTRY, SITE_OWN_SLOT, STATIC_WINDOW_CAPACITY, StaticEntry,
    StaticFunction, StaticRegion, StaticSite,
};

use crate::arch::{self, syscall as sys};
use crate::elf::Image;
use crate::hook::WritableText;
use crate::static_plan_file::StaticPlan;
use crate::{arena, object, slot};

/// What is known of an object with static components.
struct Installed {
    /// First byte of its text.
    text: AtomicU64,
    /// Bytes of text.
    length: AtomicU64,
    /// The byte map; 0 = the object has no static components.
    map: AtomicU64,
    /// Object index of its first static component.
    first: AtomicU32,
    /// Its functions, by address.
    functions: AtomicU64,
    /// Number of them.
    count: AtomicU32,
    /// The region.
    region: AtomicU64,
    /// Load bias.
    base: AtomicU64,
    /// Names of the functions.
    names: AtomicU64,
}

static INSTALLED: [Installed; OBJECT_CAPACITY] = [const {
    Installed {
        text: AtomicU64::new(0),
        length: AtomicU64::new(0),
        map: AtomicU64::new(0),
        first: AtomicU32::new(0),
        functions: AtomicU64::new(0),
        count: AtomicU32::new(0),
        region: AtomicU64::new(0),
        base: AtomicU64::new(0),
        names: AtomicU64::new(0),
    }
}; OBJECT_CAPACITY];

/// For a twin: the object's own slot number; 0 = not a twin.
static PRIMARY: [AtomicU32; SLOT_CAPACITY] = [const { AtomicU32::new(0) }; SLOT_CAPACITY];

impl Installed {
    fn of(object: u16) -> Option<&'static Installed> {
        INSTALLED.get(object as usize).filter(|i| i.map.load(Ordering::Acquire) != 0)
    }

    fn functions(&self) -> &'static [StaticFunction] {
        let (at, n) = (self.functions.load(Ordering::Relaxed), self.count.load(Ordering::Relaxed));
        // SAFETY: the plan's mapping is kept for the life of the process.
        unsafe { core::slice::from_raw_parts(at as *const StaticFunction, n as usize) }
    }

    /// Id of the static component that holds an address of the object; 0 = the rest.
    fn component(&self, address: u64) -> u32 {
        let offset = address.wrapping_sub(self.text.load(Ordering::Relaxed));
        if offset >= self.length.load(Ordering::Relaxed) {
            return 0;
        }
        // SAFETY: the map has a byte for each byte of text.
        unsafe { *((self.map.load(Ordering::Relaxed) + offset) as *const u8) as u32 }
    }
}

/// The component that an address of a loaded object belongs to: a static one, or the object itself.
pub fn component_at(object: u16, address: u64) -> u16 {
    match Installed::of(object) {
        None => object,
        Some(i) => component_of(object, i.component(address)),
    }
}

/// Object index of a component id of an object.
pub fn component_of(object: u16, id: u32) -> u16 {
    match (id, Installed::of(object)) {
        (0, _) | (_, None) => object,
        (id, Some(i)) => i.first.load(Ordering::Relaxed) as u16 + id as u16 - 1,
    }
}

/// The object that a component is part of, or is.
pub fn object_of(component: u16) -> u16 {
    if component as usize >= OBJECT_CAPACITY {
        return component;
    }
    match object::record(component).parent_plus_one.load(Ordering::Relaxed) {
        0 => component,
        parent => parent as u16 - 1,
    }
}

/// Where a linkage stub goes for a target: past the entry code, if it has one, for the call is counted by the stub.
pub fn past_entry(object: u16, address: u64) -> u64 {
    let Some(i) = Installed::of(object) else { return address };
    let vaddr = address.wrapping_sub(i.base.load(Ordering::Relaxed));
    let functions = i.functions();
    let (mut low, mut high) = (0, functions.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if functions[middle].vaddr < vaddr { low = middle + 1 } else { high = middle }
    }
    match functions.get(low) {
        // SAFETY: entries lie in the region, which is never unmapped.
        Some(f) if f.vaddr == vaddr => unsafe {
            let entry = (i.region.load(Ordering::Relaxed) + f.entry as u64) as *const StaticEntry;
            // A function whose window was refused has no entry code.
            if (*entry).entry == address { (*entry).displaced } else { address }
        },
        _ => address,
    }
}

/// The function that an entry belongs to, with its name.
pub fn function(entry: &StaticEntry) -> (&'static StaticFunction, &'static [u8]) {
    let i = &INSTALLED[entry.object as usize];
    let f = &i.functions()[entry.function as usize];
    // SAFETY: names are zero-terminated strings of the plan's mapping.
    (f, unsafe { crate::elf::bytes_until_zero((i.names.load(Ordering::Relaxed) + f.name as u64) as *const u8) })
}

/// Finds out about an object's static components and puts their entry code in place.
///
/// # Safety
/// Runs in the loader's event or before any other thread and constructor: no thread runs the object's code.
pub unsafe fn install(image: &Image, index: u16, path: &[u8]) {
    let Some(plan) = StaticPlan::of(path, image.build_id) else { return };
    let h = plan.header;
    let names = (0..h.component_count).scan(plan.names, |at, _| {
        // SAFETY: the first names are those of the components.
        let name = unsafe { crate::elf::bytes_until_zero(*at as *const u8) };
        *at += name.len() as u64 + 1;
        Some(name)
    });
    let mut first = None;
    for (i, name) in names.enumerate() {
        let added = object::add_static(index, name, first.map(|f| f + i as u16));
        let Some(added) = added else { return };
        first.get_or_insert(added);
    }
    let Some(first) = first else { return };
    let refuse = |component: u32, count: u32| {
        object::record(first + component as u16 - 1).refused.fetch_add(count, Ordering::Relaxed);
    };
    // SAFETY: see above; every address comes from a plan made from this very file, and is checked before it is written.
    unsafe {
        let text = image.base.wrapping_add(h.text_start);
        let map = sys::mmap(
            0,
            h.text_length,
            sys::PROT_READ | sys::PROT_WRITE,
            sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE,
            -1,
            0,
        );
        let region = if map > 0 { near(image, h.region_length as u64) } else { None };
        let Some(region) = region else {
            plan.functions.iter().for_each(|f| refuse(f.component, 1));
            return;
        };
        for r in plan.ranges {
            let offset = r.vaddr.wrapping_sub(h.text_start);
            if offset < h.text_length && r.length as u64 <= h.text_length - offset {
                core::ptr::write_bytes((map as u64 + offset) as *mut u8, r.component as u8, r.length as usize);
            }
        }
        core::ptr::copy_nonoverlapping(plan.region.as_ptr(), region as *mut u8, plan.region.len());
        let mut within_reach = true;
        for f in plan.fixups {
            let value = match f.kind {
                FIXUP_COUNTERS => arch::counters_offset(),
                _ => image.base.wrapping_add(f.target).wrapping_sub(region + f.from as u64) as i64,
            };
            match i32::try_from(value) {
                Ok(value) => ((region + f.at as u64) as *mut i32).write_unaligned(value),
                Err(_) => within_reach = false,
            }
        }
        let code = region + h.data_length as u64;
        if !within_reach
            || !sys::mprotect(code, (h.region_length - h.data_length) as u64, sys::PROT_READ | sys::PROT_EXEC)
        {
            sys::munmap(region, h.region_length as u64);
            plan.functions.iter().for_each(|f| refuse(f.component, 1));
            return;
        }
        (region as *mut StaticRegion).write(StaticRegion {
            first_return: text + 1,
            text_length: h.text_length,
            map: map as u64,
            enter: arch::transect_static_enter as *const () as u64,
        });
        let windows = plan.functions.iter().map(|f| (f.window_vaddr, f.window_vaddr + f.window_length as u64));
        let in_text = plan.sites.iter().filter(|s| s.twin != SITE_OWN_CELL);
        let sites = in_text.map(|s| (s.displacement_vaddr - 2, s.displacement_vaddr + 4));
        let writable = WritableText::around(image, windows.chain(sites));
        for (n, f) in plan.functions.iter().enumerate() {
            let at = image.base.wrapping_add(f.window_vaddr);
            let length = (f.window_length as usize).min(STATIC_WINDOW_CAPACITY);
            let distance = i32::try_from((region + f.code as u64).wrapping_sub(at + 5) as i64);
            let as_planned = length >= 5
                && writable.covers(at, length as u64)
                && core::slice::from_raw_parts(at as *const u8, length) == &f.original[..length];
            let (true, Ok(distance)) = (as_planned, distance) else {
                refuse(f.component, 1);
                continue;
            };
            let entry = (region + f.entry as u64) as *mut StaticEntry;
            (*entry).displaced = region + f.displaced as u64;
            (*entry).entry = image.base.wrapping_add(f.vaddr);
            (*entry).object = index as u32;
            (*entry).component = f.component;
            (*entry).function = n as u32;
            let d = distance.to_le_bytes();
            (at as *mut [u8; 5]).write([0xe9, d[0], d[1], d[2], d[3]]);
            object::record(first + f.component as u16 - 1).hooked.fetch_add(1, Ordering::Relaxed);
        }
        for s in plan.sites.iter().filter(|s| is_direct(s)) {
            let at = image.base.wrapping_add(s.displacement_vaddr);
            let old = image.base.wrapping_add(s.old_target);
            let function = match s.symbol {
                0 => s.old_target,
                symbol => image.symbol(symbol).value(),
            };
            // Through linkage the loader decides: another object's definition may come first.
            let leads_there = past_entry_in(&plan, region, function, image.base)
                && (s.twin == SITE_DIRECT
                    || crate::loader::definition(image.symbol_name(s.symbol))
                        == Some(image.base.wrapping_add(function)));
            if s.twin == SITE_OWN_CELL {
                let to = if leads_there { s.target as u64 } else { s.old_target };
                ((region + s.displacement_vaddr) as *mut u64).write(region + to);
                continue;
            }
            if !leads_there || !writable.covers(at - 2, 6) {
                continue;
            }
            if s.twin == SITE_OWN_SLOT {
                const JUMP_THROUGH: [u8; 2] = [0xff, 0x25];
                let bytes = ((at - 2) as *const [u8; 6]).read();
                let distance = i32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
                let as_planned = bytes[..2] == JUMP_THROUGH && (at + 4).wrapping_add(distance as i64 as u64) == old;
                let to = i32::try_from((region + s.target as u64).wrapping_sub(at + 3) as i64);
                if let (true, Ok(to)) = (as_planned, to) {
                    let d = to.to_le_bytes();
                    ((at - 2) as *mut [u8; 6]).write([0xe9, d[0], d[1], d[2], d[3], 0x90]);
                }
            } else {
                point(at, |target| target == old, region + s.target as u64);
            }
        }
        let i = &INSTALLED[index as usize];
        i.text.store(text, Ordering::Relaxed);
        i.length.store(h.text_length, Ordering::Relaxed);
        i.first.store(first as u32, Ordering::Relaxed);
        i.functions.store(plan.functions.as_ptr() as u64, Ordering::Relaxed);
        i.count.store(h.function_count, Ordering::Relaxed);
        i.region.store(region, Ordering::Relaxed);
        i.base.store(image.base, Ordering::Relaxed);
        i.names.store(plan.names, Ordering::Relaxed);
        i.map.store(map as u64, Ordering::Release);
    }
}

/// True for what leads to a function with entry code, not through a twin.
fn is_direct(site: &StaticSite) -> bool {
    matches!(site.twin, SITE_DIRECT | SITE_OWN_ENTRY | SITE_OWN_SLOT | SITE_OWN_CELL)
}

/// True if the entry code of the function at `vaddr` is in place.
unsafe fn past_entry_in(plan: &StaticPlan, region: u64, vaddr: u64, base: u64) -> bool {
    plan.functions.binary_search_by_key(&vaddr, |f| f.vaddr).is_ok_and(|n| {
        let entry = (region + plan.functions[n].entry as u64) as *const StaticEntry;
        // SAFETY: entries lie in the region.
        unsafe { (*entry).entry == base.wrapping_add(vaddr) }
    })
}

/// Points the displacement at `at` to `target` if it leads where it is expected to.
unsafe fn point(at: u64, expected: impl Fn(u64) -> bool, target: u64) -> bool {
    // SAFETY: the caller has made the four bytes writable.
    unsafe {
        let old = (at as *const i32).read_unaligned();
        let Ok(new) = i32::try_from(target.wrapping_sub(at + 4) as i64) else { return false };
        if !expected((at + 4).wrapping_add(old as i64 as u64)) {
            return false;
        }
        (at as *mut i32).write_unaligned(new);
        true
    }
}

/// Gives the calls that static components make through the object's slots slots of their own. After the object's own
/// slots have been hooked.
///
/// # Safety
/// As for [`install`].
pub unsafe fn hook_twins(image: &Image, index: u16, path: &[u8], relocated: bool) {
    let Some(i) = Installed::of(index) else { return };
    let Some(plan) = StaticPlan::of(path, image.build_id) else { return };
    let (first, region) = (i.first.load(Ordering::Relaxed) as u16, i.region.load(Ordering::Relaxed));
    // SAFETY: see above.
    unsafe {
        let sites = plan.sites.iter().filter(|s| !is_direct(s));
        let writable =
            WritableText::around(image, sites.clone().map(|s| (s.displacement_vaddr, s.displacement_vaddr + 4)));
        for (number, twin) in plan.twins.iter().enumerate() {
            let at = image.base.wrapping_add(twin.slot_vaddr);
            let value = *(at as *const u64);
            let name = image.symbol_name(twin.symbol);
            let api = arena::api(name);
            if api.is_some_and(|a| a.handler == handler::REFUSE) {
                continue;
            }
            let primary = arch::slot_of_stub(value);
            // What is not hooked and not bound, or does not leave the object, is left alone.
            let outside = relocated && object::find(value).is_some_and(|o| o != index);
            if primary.is_none() && !outside {
                continue;
            }
            let component = first + twin.component as u16 - 1;
            let Some(this) = slot::reserve(1) else {
                object::record(component).refused.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let cell = region + twin.cell as u64;
            slot::describe(this, component, twin.symbol, cell, api, name, 0);
            match primary {
                Some(p) => {
                    PRIMARY[this as usize].store(p, Ordering::Relaxed);
                    slot::set_target(this, slot::target(p));
                    slot::record(this).target.store(slot::record(p).target.load(Ordering::Relaxed), Ordering::Relaxed);
                    if let Some(callee) = Some(slot::edge(p).1).filter(|&c| c < 0xfffe) {
                        slot::set_callee(this, callee, slot::target(p));
                    }
                }
                None => {
                    if let Some(callee) = object::find(value) {
                        slot::set_target(this, value);
                        slot::set_callee(this, callee, value);
                    }
                }
            }
            (*(cell as *const AtomicU64)).store(arch::stub(this), Ordering::Release);
            for s in sites.clone().filter(|s| s.twin as usize == number) {
                let from = image.base.wrapping_add(s.displacement_vaddr);
                let old = image.base.wrapping_add(s.old_target);
                // The call may have been redirected to a cell of the slot's already.
                let redirected = |to: u64| {
                    primary.is_none() && sys::readable(to) && arch::slot_of_stub(*(to as *const u64)).is_some()
                };
                if writable.covers(from, 4) && (s.load == 0 || primary.is_some()) {
                    point(from, |to| to == old || redirected(to), region + s.target as u64);
                }
            }
        }
    }
}

/// Brings a twin's target up to date: the loader binds the object's own slot only.
pub fn follow_primary(slot: u32) {
    let primary = PRIMARY[slot as usize].load(Ordering::Relaxed);
    if primary != 0 {
        let bound = slot::target(primary);
        if bound != slot::target(slot) {
            slot::set_target(slot, bound);
        }
    }
}

/// Unmaps nothing, forgets the rest: the object is gone, threads may still stand in its entry code.
pub fn gone(index: u16) {
    INSTALLED[index as usize].map.store(0, Ordering::Release);
    let mut i = 0;
    while let Some(record) = object::known(i) {
        if record.parent_plus_one.load(Ordering::Relaxed) == index as u32 + 1 {
            record.flags.fetch_or(OBJECT_GONE, Ordering::Release);
        }
        i += 1;
    }
}

/// Room for `length` bytes within reach of all of the object: below it if possible, since the program's heap may grow
/// behind it.
unsafe fn near(image: &Image, length: u64) -> Option<u64> {
    const STEP: u64 = 1 << 20;
    const REACH: u64 = (1 << 31) - (1 << 24);
    const LOWEST: u64 = 1 << 16;
    let reach = REACH.checked_sub(image.end - image.start)?.checked_sub(length)?;
    let below = (1..reach / STEP).map(|n| image.start.wrapping_sub(length + n * STEP) & !4095);
    let below = below.take_while(|&at| at >= LOWEST && at < image.start);
    let above = (1..reach / STEP).rev().map(|n| (image.end + n * STEP) & !4095);
    for hint in below.chain(above) {
        // SAFETY: a new mapping where nothing is.
        let at = unsafe {
            sys::mmap(
                hint,
                length,
                sys::PROT_READ | sys::PROT_WRITE,
                sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_FIXED_NOREPLACE,
                -1,
                0,
            )
        };
        if at as u64 == hint {
            return Some(hint);
        }
        if at > 0 {
            // A kernel without MAP_FIXED_NOREPLACE took it as a hint.
            // SAFETY: just mapped.
            unsafe { sys::munmap(at as u64, length) };
        }
    }
    None
}
