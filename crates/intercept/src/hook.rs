//! Hooking an object's linkage slots: by `r_offset`, whatever the linkage kind (lazy PLT, `.plt.sec`, `-z now`,
//! `-fno-plt`, IFUNC, weak, versioned).
//!
//! - A slot that is bound already: its value becomes the stub's target, the slot points at the stub.
//! - A slot that the loader has yet to bind (lazy, or an object not relocated yet): `r_offset` in the private copy of
//!   the relocation is pointed at the stub's target word, so the loader binds the stub. An unresolvable symbol that is
//!   never called is harmless, which `LD_BIND_NOW` would not allow.
//! - A slot that is also loaded as a pointer is not changed, for programs compare pointers; its calling instructions
//!   are redirected to a cell of ours that holds the stub's address.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use transect_event_abi::api_table::handler;
use transect_event_abi::plan::SlotUse;
use transect_event_abi::process::{OBJECT_CAPACITY, ObjectRecord, SLOT_CAPACITY, SLOT_INTERNAL};

use crate::arch::{self, syscall as sys};
use crate::elf::{self, Image, Rela};
use crate::plan::Plan;
use crate::{arena, object, slot, taken};

/// RELRO ranges of the objects, by index.
static RELRO: [[AtomicU64; 2]; OBJECT_CAPACITY] = [const { [const { AtomicU64::new(0) }; 2] }; OBJECT_CAPACITY];

/// True if the loader has relocated the object already.
unsafe fn is_relocated(image: &Image) -> bool {
    const R_RELATIVE: u32 = 8;
    // SAFETY: relocation targets lie in the object's writable segments.
    unsafe {
        if let Some(r) = image.rela.iter().find(|r| r.kind() == R_RELATIVE) {
            return *((image.base + r.offset) as *const u64) == image.base.wrapping_add(r.addend as u64);
        }
        let word = |r: &Rela| *((image.base.wrapping_add(r.offset)) as *const u64);
        image.base == 0
            || image.jmprel.iter().any(|r| word(r) >= image.base)
            || image.rela.iter().any(|r| r.kind() == elf::R_GLOB_DAT && word(r) != 0)
    }
}

/// Makes a range writable for the life of the value; then gives it its protection back.
struct Writable {
    start: u64,
    length: u64,
    protection: u64,
}

impl Writable {
    fn new(start: u64, end: u64, protection: u64) -> Option<Writable> {
        let (start, end) = (start & !4095, (end + 4095) & !4095);
        // SAFETY: the range belongs to an object whose code no thread runs yet, or is data.
        let ok = start < end && unsafe { sys::mprotect(start, end - start, sys::PROT_READ | sys::PROT_WRITE) };
        ok.then_some(Writable { start, length: end - start, protection })
    }
}

impl Drop for Writable {
    fn drop(&mut self) {
        // SAFETY: back to what the loader had set.
        unsafe { sys::mprotect(self.start, self.length, self.protection) };
    }
}

fn range(table: &[Rela]) -> (u64, u64) {
    let r = table.as_ptr_range();
    (r.start as u64, r.end as u64)
}

/// How many linkage slots an object has for functions, one at least.
pub fn slots(image: &Image) -> u32 {
    let lazy = image.jmprel.iter().filter(|r| r.kind() == elf::R_JUMP_SLOT).count();
    let function = |r: &&Rela| r.kind() == elf::R_GLOB_DAT && image.symbol(r.symbol()).kind() == elf::FUNC;
    ((lazy + image.rela.iter().filter(function).count()) as u32).max(1)
}

/// Hooks the slots of a registered object. True if the loader has relocated it already.
///
/// # Safety
/// Runs in the loader's event or before any other thread and constructor: no thread runs the object's code.
pub unsafe fn hook(image: &Image, index: u16, at_start: bool, revived: bool, plan: Option<&Plan>) -> bool {
    // SAFETY: see above; all addresses come from the object's own relocations.
    unsafe {
        let relocated = at_start || is_relocated(image);
        let o = object::record(index);
        RELRO[index as usize][0].store(image.relro.0, Ordering::Relaxed);
        RELRO[index as usize][1].store(image.relro.1, Ordering::Relaxed);
        let count = |c: &AtomicU32| {
            c.fetch_add(1, Ordering::Relaxed);
        };
        let planned = plan.map_or(0, |p| p.relocs.len());
        let mut numbers = Numbers::new(o, revived);
        if revived {
            for c in [&o.hooked, &o.address_taken, &o.refused, &o.unplanned, &o.internal] {
                c.store(0, Ordering::Relaxed);
            }
        }
        let _relro = (relocated && image.relro.1 > image.relro.0)
            .then(|| Writable::new(image.relro.0, image.relro.1, sys::PROT_READ))
            .flatten();
        let (start, end) = range(image.jmprel);
        let _jmprel = (!image.jmprel.is_empty()).then(|| Writable::new(start, end, image.protection(start))).flatten();
        let jmprel_writable = _jmprel.is_some();
        let mut rela_writable: Option<Writable> = None;
        let mut cells = Cells { next: 0, end: 0 };
        let mut text: Option<WritableText> = None;
        // In a fixed-position program other objects' calls may be bound to its PLT entries, of which their count would
        // be taken twice: such stubs go to the definition.
        let fixed = crate::loader::executable().filter(|e| e.base == 0 && e.start != image.start);
        let behind_plt = |name: &[u8]| {
            fixed.as_ref().and_then(|e| e.canonical_plt(name)).and_then(|_| crate::loader::definition(name))
        };

        // Slots of DT_JMPREL are called through the PLT only, unless the plan knows better.
        let mut planned_at = 0;
        for (i, r) in image.jmprel.iter().enumerate() {
            if r.kind() != elf::R_JUMP_SLOT {
                continue;
            }
            let at = image.base.wrapping_add(r.offset);
            let name = image.symbol_name(r.symbol());
            let api = arena::api(name);
            // The plan lists relocations in the order of their tables.
            while planned_at < planned
                && plan.is_some_and(|p| p.relocs[planned_at].table == 0 && (p.relocs[planned_at].index as usize) < i)
            {
                planned_at += 1;
            }
            let loaded = plan.and_then(|p| p.relocs.get(planned_at)).is_some_and(|x| {
                x.table == 0
                    && x.index as usize == i
                    && (x.slot_use == SlotUse::Loaded as u32 || x.slot_use == SlotUse::CalledAndLoaded as u32)
            });
            if loaded {
                count(&o.address_taken);
                taken::note(at, index);
                continue;
            }
            if api.is_some_and(|a| a.handler == handler::REFUSE) {
                count(&o.refused);
                continue;
            }
            let value = *(at as *const u64);
            if relocated && value == 0 {
                continue;
            }
            let symbol = image.symbol(r.symbol());
            if relocated && symbol.defined() && value == image.base + symbol.value() {
                count(&o.internal);
                continue;
            }
            let unbound = !relocated || (value >= image.start && value < image.end);
            if unbound && !jmprel_writable {
                count(&o.refused);
                continue;
            }
            let Some(this) = numbers.next(r.symbol()) else {
                count(&o.refused);
                continue;
            };
            slot::describe(this, index, r.symbol(), at, api, name, 0);
            slot::set_target(this, value);
            if let Some(definition) = behind_plt(name)
                && let Some(callee) = object::find(definition)
            {
                slot::set_target(this, definition);
                slot::set_callee(this, callee, definition);
                if unbound {
                    // What the loader binds is not wanted.
                    *(&raw const r.offset).cast_mut() = (CELLS[this as usize].as_ptr() as u64).wrapping_sub(image.base);
                }
            } else if unbound {
                let bound_later = if value < image.base { value + image.base } else { value };
                slot::record(this).target.store(bound_later, Ordering::Relaxed);
                let offset = (&raw const r.offset).cast_mut();
                *offset = slot::target_word(this).wrapping_sub(image.base);
            } else if let Some(callee) = object::find(value) {
                slot::set_callee(this, callee, value);
            }
            (*(at as *const AtomicU64)).store(arch::stub(this), Ordering::Release);
            count(&o.hooked);
        }

        let Some(plan) = plan else {
            let unplanned = image
                .rela
                .iter()
                .filter(|r| r.kind() == elf::R_GLOB_DAT && image.symbol(r.symbol()).kind() == elf::FUNC);
            o.unplanned.store(unplanned.count() as u32, Ordering::Relaxed);
            return relocated;
        };
        for p in plan.relocs {
            let Some(r) = image.rela.get(p.index as usize).filter(|_| p.table == 1) else { continue };
            if r.kind() != elf::R_GLOB_DAT && r.kind() != elf::R_JUMP_SLOT {
                continue;
            }
            let at = image.base.wrapping_add(r.offset);
            let value = *(at as *const u64);
            let symbol = image.symbol(r.symbol());
            let internal = relocated && value >= image.start && value < image.end;
            if (relocated && value == 0) || internal || p.slot_use == SlotUse::Unreferenced as u32 {
                continue;
            }
            let name = image.symbol_name(r.symbol());
            let api = arena::api(name);
            if p.slot_use != SlotUse::Called as u32 {
                taken::note(at, index);
            }
            if api.is_some_and(|a| a.handler == handler::REFUSE) {
                count(&o.refused);
            } else if p.slot_use == SlotUse::Called as u32 {
                if relocated {
                    let value = behind_plt(name).unwrap_or(value);
                    // Data of the same name and kind NOTYPE is never called; a target outside of code is left alone.
                    let Some(callee) = object::find(value) else { continue };
                    let Some(this) = numbers.next(r.symbol()) else {
                        count(&o.refused);
                        continue;
                    };
                    slot::describe(this, index, r.symbol(), at, api, name, 0);
                    slot::set_target(this, value);
                    slot::set_callee(this, callee, value);
                    (*(at as *const AtomicU64)).store(arch::stub(this), Ordering::Release);
                } else {
                    if symbol.defined() {
                        // Bound at load time, most likely to itself: not worth the hook.
                        count(&o.internal);
                        continue;
                    }
                    if symbol.weak() && crate::loader::definition(name).is_none() {
                        // Whether it exists is not known yet, and a stub in its slot would say that it does.
                        count(&o.address_taken);
                        continue;
                    }
                    if rela_writable.is_none() {
                        let (start, end) = range(image.rela);
                        rela_writable = Writable::new(start, end, image.protection(start));
                    }
                    if rela_writable.is_none() {
                        count(&o.refused);
                        continue;
                    }
                    let Some(this) = numbers.next(r.symbol()) else {
                        count(&o.refused);
                        continue;
                    };
                    slot::describe(this, index, r.symbol(), at, api, name, 0);
                    let definition = behind_plt(name).and_then(|d| Some((d, object::find(d)?)));
                    let bound_at = match definition {
                        Some((definition, callee)) => {
                            slot::set_target(this, definition);
                            slot::set_callee(this, callee, definition);
                            CELLS[this as usize].as_ptr() as u64
                        }
                        None => {
                            slot::set_target(this, 0);
                            slot::target_word(this)
                        }
                    };
                    *(&raw const r.offset).cast_mut() = bound_at.wrapping_sub(image.base);
                    (*(at as *const AtomicU64)).store(arch::stub(this), Ordering::Release);
                }
                count(&o.hooked);
            } else if p.slot_use == SlotUse::CalledAndLoaded as u32 && relocated && !symbol.defined() {
                let sites =
                    plan.sites.get(p.first_site as usize..(p.first_site + p.site_count) as usize).unwrap_or(&[]);
                let Some(callee) = object::find(value) else { continue };
                let Some(this) = numbers.next(r.symbol()) else {
                    count(&o.refused);
                    continue;
                };
                let reach = |cell: u64| {
                    [image.start, image.end].iter().all(|&e| i32::try_from(cell.wrapping_sub(e) as i64).is_ok())
                };
                let own = CELLS[this as usize].as_ptr() as u64;
                let Some(cell) = Some(own).filter(|&c| reach(c)).or_else(|| cells.take(image)) else {
                    count(&o.refused);
                    continue;
                };
                slot::describe(this, index, r.symbol(), cell, api, name, 0);
                slot::set_target(this, value);
                slot::set_callee(this, callee, value);
                (*(cell as *const AtomicU64)).store(arch::stub(this), Ordering::Release);
                let text = text.get_or_insert_with(|| WritableText::new(image, plan));
                let mut redirected = 0;
                for s in sites.iter().filter(|s| text.covers(image.base.wrapping_add(s.displacement_vaddr), 4)) {
                    redirected += redirect(image, at, s.displacement_vaddr, cell) as u32;
                }
                if redirected == 0 {
                    count(&o.address_taken);
                } else {
                    count(&o.hooked);
                }
            } else if symbol.kind() != elf::NOTYPE || (relocated && object::is_code(value)) {
                // Undefined symbols without a type are data as often as not.
                count(&o.address_taken);
            }
        }
        drop(text);
        drop(rela_writable);
        // Pointers in data (tables of functions) can be compared too.
        for r in image.rela {
            if r.kind() == elf::R_64 {
                let s = image.symbol(r.symbol());
                if !s.defined() && (s.kind() == elf::FUNC || s.kind() == elf::IFUNC) {
                    taken::note(image.base.wrapping_add(r.offset), index);
                }
            }
        }
        relocated
    }
}

/// Cells of slots whose calling instructions are redirected, for objects within reach of the agent.
static CELLS: [AtomicU64; SLOT_CAPACITY] = [const { AtomicU64::new(0) }; SLOT_CAPACITY];

/// Code segments of one object that can be made writable at once; post-link optimisers make two.
const TEXT_SEGMENTS: usize = 8;

/// The parts of an object's text that hold call sites, writable; one part a segment, for what lies between two code
/// segments may be data.
pub struct WritableText([Option<Writable>; TEXT_SEGMENTS]);

impl WritableText {
    fn new(image: &Image, plan: &Plan) -> WritableText {
        let sites = plan.sites.iter().map(|s| (s.displacement_vaddr, s.displacement_vaddr + 4));
        // SAFETY: called by `hook`: no thread runs the object's code.
        unsafe { WritableText::around(image, sites) }
    }

    /// Makes what holds these places (unrelocated start and end) writable for the life of the value.
    ///
    /// # Safety
    /// No thread runs the object's code meanwhile: it is not executable.
    pub unsafe fn around(image: &Image, places: impl Iterator<Item = (u64, u64)> + Clone) -> WritableText {
        let mut parts = [const { None }; TEXT_SEGMENTS];
        for (part, segment) in parts.iter_mut().zip(image.code()) {
            let (start, end) = (segment.address, segment.address + segment.memory_size);
            let inside = || places.clone().filter(|&(from, to)| from >= start && to <= end);
            if let (Some(first), Some(last)) = (inside().map(|p| p.0).min(), inside().map(|p| p.1).max()) {
                let protection = image.protection(image.base + first);
                *part = Writable::new(image.base + first, image.base + last, protection);
            }
        }
        WritableText(parts)
    }

    /// True if these bytes are writable now.
    pub fn covers(&self, address: u64, length: u64) -> bool {
        self.0.iter().flatten().any(|w| address >= w.start && address + length <= w.start + w.length)
    }
}

/// Numbers for an object's slots, in the order of its relocations. An object loaded again gets those it had, so that
/// its flows go on; a number whose symbol differs is not taken.
struct Numbers {
    first: u32,
    known: u32,
    used: u32,
    record: &'static ObjectRecord,
}

impl Numbers {
    fn new(record: &'static ObjectRecord, revived: bool) -> Numbers {
        let first = record.first_slot.load(Ordering::Relaxed);
        Numbers { first, known: if revived { record.slot_count.load(Ordering::Relaxed) } else { 0 }, used: 0, record }
    }

    fn next(&mut self, symbol: u32) -> Option<u32> {
        while self.used < self.known {
            let number = self.first + self.used;
            self.used += 1;
            let had = slot::record(number).symbol.load(Ordering::Relaxed);
            if had == symbol {
                return Some(number);
            }
        }
        let number = slot::reserve(1)?;
        let count = self.record.slot_count.load(Ordering::Relaxed);
        if count == 0 {
            self.first = number;
            self.record.first_slot.store(number, Ordering::Relaxed);
        }
        // A number taken by dlsym in between ends the range that is found again.
        if number == self.first + count {
            self.record.slot_count.store(count + 1, Ordering::Relaxed);
        }
        Some(number)
    }
}

/// Points one `call *slot(%rip)` or `jmp *slot(%rip)` at a cell.
unsafe fn redirect(image: &Image, slot_at: u64, vaddr: u64, cell: u64) -> bool {
    let at = image.base.wrapping_add(vaddr);
    if at < image.start || at + 4 > image.end {
        return false;
    }
    // SAFETY: `at` is a displacement inside the object's text, found by disassembly of this very file (by build-id);
    // it is checked to refer to the slot before it is changed. No thread runs this object yet.
    unsafe {
        let old = (at as *const i32).read_unaligned();
        if (at + 4).wrapping_add(old as i64 as u64) != slot_at {
            return false;
        }
        let Ok(new) = i32::try_from(cell.wrapping_sub(at + 4) as i64) else { return false };
        (at as *mut i32).write_unaligned(new);
        true
    }
}

/// Cells within reach of an object's text, in pages next to it.
struct Cells {
    next: u64,
    end: u64,
}

impl Cells {
    fn take(&mut self, image: &Image) -> Option<u64> {
        if self.next == self.end {
            const SIZE: u64 = 4096;
            let mut found = 0;
            let mut hint = image.end;
            for _ in 0..512 {
                // SAFETY: a new mapping where nothing is.
                let at = unsafe {
                    sys::mmap(
                        hint,
                        SIZE,
                        sys::PROT_READ | sys::PROT_WRITE,
                        sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_FIXED_NOREPLACE,
                        -1,
                        0,
                    )
                };
                if at as u64 == hint {
                    found = hint;
                    break;
                }
                if at > 0 {
                    // A kernel without MAP_FIXED_NOREPLACE took it as a hint.
                    // SAFETY: just mapped.
                    unsafe { sys::munmap(at as u64, SIZE) };
                }
                hint = match object::find(hint) {
                    Some(i) => object::record(i).end.load(Ordering::Relaxed),
                    None => hint + (1 << 20),
                };
            }
            if found == 0 {
                return None;
            }
            self.next = found;
            self.end = found + SIZE;
        }
        let cell = self.next;
        self.next += 8;
        Some(cell)
    }
}

/// Set while a thread changes a slot in read-only memory.
static UNHOOKING: AtomicU32 = AtomicU32::new(0);

/// In the child of a fork no other thread changes a slot.
pub fn forked() {
    UNHOOKING.store(0, Ordering::Relaxed);
}

/// Takes the hook out of a slot whose calls turned out to stay inside the object.
pub fn unhook(slot: u32, address: u64) {
    let r = slot::record(slot);
    let at = r.address.load(Ordering::Relaxed);
    let caller = slot::edge(slot).0;
    if at == 0 || caller as usize >= OBJECT_CAPACITY {
        return;
    }
    r.kind.fetch_or((SLOT_INTERNAL as u32) << 16, Ordering::Relaxed);
    let (start, end) =
        (RELRO[caller as usize][0].load(Ordering::Relaxed), RELRO[caller as usize][1].load(Ordering::Relaxed));
    let protected = at >= start && at < end;
    // Two threads at one page would take each other's write permission away: the second leaves its hook where it is.
    if protected && UNHOOKING.swap(1, Ordering::Acquire) != 0 {
        return;
    }
    let writable = protected.then(|| Writable::new(at, at + 8, sys::PROT_READ)).flatten();
    let stored = writable.is_some() || !protected;
    if stored {
        // SAFETY: the slot of a loaded object whose code just called through it; one aligned store to a page that is
        // writable, by itself or by the lines above.
        unsafe { (*(at as *const AtomicU64)).store(address, Ordering::Release) };
    }
    drop(writable);
    if protected {
        UNHOOKING.store(0, Ordering::Release);
    }
    if !stored {
        return;
    }
    let o = object::record(caller);
    o.hooked.fetch_sub(1, Ordering::Relaxed);
    o.internal.fetch_add(1, Ordering::Relaxed);
}
