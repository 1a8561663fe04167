//! Loads bpf/unwind_test.bpf.c and collects the stacks that it takes.
#![allow(unsafe_code, dead_code, missing_docs, clippy::all)]

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, PrintLevel, RingBuffer, RingBufferBuilder};
use perf_event_open_sys::bindings::{PERF_COUNT_SW_CPU_CLOCK, PERF_TYPE_SOFTWARE, perf_event_attr};
use transect_bpf_collect::unwind_table::{UnwindMaps, UnwindTables};

mod skeleton {
    #![allow(unused_imports)]
    include!(concat!(env!("OUT_DIR"), "/unwind_test.skel.rs"));
}
use skeleton::*;

pub const COMPLETE: u32 = 1;
pub const TRUNCATED: u32 = 2;
pub const UNKNOWN_CODE: u32 = 4;
pub const UNREADABLE: u32 = 8;

/// One stack.
#[derive(Debug, Clone)]
pub struct Stack {
    pub tgid: i32,
    pub tid: i32,
    /// By a timer, not by blocking.
    pub sampled: bool,
    pub flags: u32,
    pub sp: u64,
    pub unknown: u64,
    pub ns: u32,
    /// Leaf first.
    pub frames: Vec<u64>,
}

pub struct StackReader {
    pub tables: UnwindTables,
    wanted: MapHandle,
    stacks: Rc<RefCell<Vec<Stack>>>,
    ring: RingBuffer<'static>,
    _links: Vec<Link>,
    known: std::collections::HashSet<i32>,
}

impl StackReader {
    /// `None`, and says so, where it is not permitted. `hertz`: of the timer, 0: none.
    pub fn load(hertz: u64) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("NOT RUN: needs root");
            return None;
        }
        match Self::try_load(hertz) {
            Ok(reader) => Some(reader),
            Err(error) => {
                println!("NOT RUN: {error}");
                assert!(!std::path::Path::new("/sys/kernel/btf/vmlinux").exists(), "the kernel refuses: {error}");
                None
            }
        }
    }

    fn try_load(hertz: u64) -> Result<Self, libbpf_rs::Error> {
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| eprint!("{text}"))));
        let object = Box::leak(Box::new(MaybeUninit::uninit()));
        let skeleton = UnwindTestSkelBuilder::default().open(object)?.load()?;
        let skeleton: &'static mut UnwindTestSkel<'static> = Box::leak(Box::new(skeleton));
        let maps = &skeleton.maps;
        let tables = UnwindTables::new(UnwindMaps {
            words: MapHandle::try_from(&maps.unwind_words)?,
            mappings: MapHandle::try_from(&maps.unwind_mappings)?,
            rules: MapHandle::try_from(&maps.unwind_rules)?,
            cache: MapHandle::try_from(&maps.unwind_cache)?,
            spaces: MapHandle::try_from(&maps.unwind_spaces)?,
            files: MapHandle::try_from(&maps.unwind_files)?,
        })
        .expect("tables");
        let wanted = MapHandle::try_from(&maps.wanted)?;
        let stacks = Rc::new(RefCell::new(Vec::new()));
        let mut builder = RingBufferBuilder::new();
        let sink = Rc::clone(&stacks);
        builder.add(&maps.stacks, move |bytes| {
            assert_eq!(bytes.len(), size_of::<types::unwind_test_stack>());
            // SAFETY: that many bytes, all integers.
            let raw = unsafe { bytes.as_ptr().cast::<types::unwind_test_stack>().read_unaligned() };
            sink.borrow_mut().push(Stack {
                tgid: raw.tgid,
                tid: raw.tid,
                sampled: raw.context == 1,
                flags: raw.flags,
                sp: raw.sp,
                unknown: raw.unknown,
                ns: raw.ns,
                frames: raw.frames[..raw.count as usize].to_vec(),
            });
            0
        })?;
        let ring = builder.build()?;
        let mut links = vec![
            skeleton.progs.on_switch.attach()?,
            skeleton.progs.on_fork.attach()?,
            skeleton.progs.on_exec.attach()?,
        ];
        if hertz > 0 {
            for cpu in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                let timer = cpu_clock(cpu as i32, hertz);
                links.push(skeleton.progs.on_timer.attach_perf_event(std::os::fd::IntoRawFd::into_raw_fd(timer))?);
            }
        }
        Ok(Self { tables, wanted, stacks, ring, _links: links, known: Default::default() })
    }

    /// Takes the stacks of this process and of those that it makes from now on.
    pub fn want(&mut self, tgid: i32) {
        self.tables.add_process(tgid);
        self.known.insert(tgid);
        assert!(self.tables.wait_idle(Duration::from_secs(60)));
        self.wanted.update(&tgid.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY).expect("wanted");
    }

    /// Collects for `duration`, or until `done`, which is told how many there are; tells the tables of unknown code as a recorder does.
    pub fn collect(&mut self, duration: Duration, mut done: impl FnMut(usize) -> bool) -> Vec<Stack> {
        let end = Instant::now() + duration;
        let mut told = 0;
        while Instant::now() < end && !done(told) {
            self.ring.poll(Duration::from_millis(5)).expect("ring");
            for stack in &self.stacks.borrow()[told..] {
                if self.known.insert(stack.tgid) {
                    self.tables.add_process(stack.tgid);
                } else if stack.unknown != 0 {
                    self.tables.process_changed(stack.tgid);
                }
            }
            told = self.stacks.borrow().len();
        }
        self.ring.consume().expect("ring");
        std::mem::take(&mut self.stacks.borrow_mut())
    }
}

fn cpu_clock(cpu: i32, hertz: u64) -> OwnedFd {
    let mut attributes = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        type_: PERF_TYPE_SOFTWARE,
        config: u64::from(PERF_COUNT_SW_CPU_CLOCK),
        ..Default::default()
    };
    attributes.set_freq(1);
    attributes.__bindgen_anon_1.sample_freq = hertz;
    // SAFETY: the structure says its own size and lives through the call.
    let fd = unsafe { perf_event_open_sys::perf_event_open(&raw mut attributes, -1, cpu, -1, 0) };
    assert!(fd >= 0, "perf_event_open: {}", std::io::Error::last_os_error());
    // SAFETY: made just now.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
