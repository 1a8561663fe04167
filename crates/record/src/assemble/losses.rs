//! What a process' extent says it could not record.

use transect_event_abi::process::{OBJECT_APART, SLOT_INTERNAL, unprofiled};
use transect_profile_model::LossKind;

use super::Assembler;
use crate::extent;

/// Of an object that the program has loaded by `dlmopen`, or what is loaded with one.
const IN_ITS_NAMESPACE: &str =
    "the whole object: it is in a namespace of its own (dlmopen), where no calls are recorded";

impl Assembler<'_> {
    pub(super) fn add_losses(&mut self, p: &extent::Process, threads: &[extent::Thread]) {
        for o in &p.objects {
            if o.parent.is_some() {
                let reason = "no room near the object, or its code is not as in the file";
                self.loss(LossKind::SkippedFunctions, &o.path, o.refused.into(), reason);
                continue;
            }
            if o.flags & OBJECT_APART != 0 {
                self.loss(LossKind::UnhookedSlots, &o.path, o.refused.into(), IN_ITS_NAMESPACE);
                continue;
            }
            for r in self.statics.map(|s| s.refused(&o.file)).unwrap_or_default() {
                let place = if r.component.is_empty() { o.path.clone() } else { format!("{}/{}", o.path, r.component) };
                self.loss(LossKind::SkippedFunctions, &place, r.count, &r.reason);
            }
            self.loss(LossKind::UnhookedSlots, &o.path, o.address_taken.into(), "address taken: programs compare it");
            self.loss(LossKind::UnhookedSlots, &o.path, o.refused.into(), "calling convention or capacity");
            self.loss(LossKind::UnhookedSlots, &o.path, o.unplanned.into(), "no linkage plan");
        }
        let exe = &p.executable;
        self.loss(LossKind::UnhookedSlots, exe, p.slots_refused as i64, "shadow table full");
        self.loss(
            LossKind::UntimedCalls,
            exe,
            p.frames_refused as i64,
            "no frame left (deep recursion, or more than 8,192 threads at once)",
        );
        self.loss(
            LossKind::DroppedEvents,
            exe,
            p.late_calls as i64,
            "calls of threads past their last destructor, or without a record",
        );
        let reason = "whole libraries, loaded after the program restricted its system calls (seccomp)";
        self.loss(LossKind::UnhookedSlots, exe, p.confined_objects.into(), reason);
        for (i, reason) in [
            (unprofiled::WRONG_CLASS, "not a 64-bit x86 program"),
            (unprofiled::STATIC, "statically linked"),
            (unprofiled::SETUID, "set-user-id"),
            (unprofiled::UNREACHABLE, "agent not reachable from there"),
            (unprofiled::NOT_FOLLOWED, "following switched off"),
            (unprofiled::NO_EXTENT, "recording memory used up"),
            (unprofiled::SMALL_STACK, "its stack (ulimit -s) has no room for the loader to load the agent"),
            (unprofiled::NO_DESCRIPTOR, "all descriptors were in use (ulimit -n): the loader could not open the agent"),
            (unprofiled::RECORDED, "another recording, which was started inside of this one, has it"),
            (unprofiled::CONFINED, "made after the program restricted its system calls (seccomp)"),
        ] {
            self.loss(LossKind::UnprofiledChildren, exe, p.unprofiled[i].into(), reason);
        }
        if p.clock_gone {
            // The agent's own calls, which told it what timing costs, are none of the program's.
            let own = |slot: &u32| p.slots.get(slot).is_some_and(|slot| slot.flags & SLOT_INTERNAL != 0);
            let flows = threads.iter().flat_map(|thread| &thread.flows);
            let timed_before = flows.filter(|(slot, c)| c.timed > 0 && !own(slot));
            let since: i64 = timed_before.map(|(_, c)| (c.calls - c.represented).max(0)).sum();
            let reason = "the program gave up the clock (PR_SET_TSC, strict seccomp): only counted from then on";
            self.loss(LossKind::UntimedCalls, exe, since, reason);
        }
        if p.clock_lost {
            let reason = "the scheduler collector's clock could not be had: active threads as the agent knows them, no \
                          criticality";
            self.loss(LossKind::DroppedEvents, exe, threads.len() as i64, reason);
        }
        for t in threads {
            let who = format!("{} ({})", t.name, t.tid);
            self.loss(LossKind::DroppedEvents, &who, t.trace_lost as i64, "trace ring overwritten");
            self.loss(LossKind::DroppedEvents, &who, t.refused.0 as i64, "lock table full");
            self.loss(LossKind::DroppedEvents, &who, t.refused.1 as i64, "wait table full");
            self.loss(LossKind::DroppedEvents, &who, t.unmeasured as i64, "timed calls without criticality");
            self.loss(
                LossKind::DroppedEvents,
                &who,
                t.merged_regions as i64,
                "begins of feature regions too deep or too many to tell their calls apart: counted under the region around",
            );
            let tail = t.untimed.saturating_sub(p.frames_refused) as i64;
            self.loss(LossKind::UntimedCalls, &who, tail, "chain of tail calls");
        }
    }
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{Clock, Machine, Meta, Profile};

    use transect_event_abi::process::OBJECT_GONE;

    use super::super::Scale;
    use super::*;
    use crate::api_data::ApiData;
    use crate::arena::Arena;
    use crate::extent::{Object, Process, Thread};

    #[test]
    fn an_object_in_a_namespace_of_its_own_is_named() {
        let arena = Arena::unused();
        let mut process = Process::read(&arena, 1);
        let object = |path: &str, flags, refused| Object {
            base: 0,
            start: 0,
            end: 0,
            flags,
            build_id: String::new(),
            address_taken: 0,
            refused,
            unplanned: 0,
            parent: None,
            path: path.to_owned(),
            file: path.into(),
        };
        // One file in two namespaces, one of which is gone.
        process.objects = vec![
            object("/lib/libc.so.6", 0, 0),
            object("/lib/libc.so.6", OBJECT_APART, 20),
            object("/lib/libplugin.so", OBJECT_APART, 3),
            object("/lib/libplugin.so", OBJECT_APART | OBJECT_GONE, 3),
        ];
        let apis = ApiData::load(&[]).unwrap();
        let mut assembler = assembler(&apis);
        assembler.add_losses(&process, &[]);
        let found: Vec<_> = assembler.profile.loss.iter().map(|l| (l.what, l.place.as_str(), l.count)).collect();
        assert_eq!(
            found,
            [(LossKind::UnhookedSlots, "/lib/libc.so.6", 20), (LossKind::UnhookedSlots, "/lib/libplugin.so", 6)]
        );
    }

    fn assembler(apis: &ApiData) -> Assembler<'_> {
        let machine =
            Machine { hostname: String::new(), kernel: String::new(), cpu: String::new(), cpus: 1, memory_bytes: 0 };
        let clock = Clock { source: "tsc".into(), ticks_per_ns: 1.0, timed_call_ns: 0.0, counted_call_ns: 0.0 };
        let profile = Profile::new(Meta::new(machine, clock));
        Assembler::new(profile, Scale { epoch: 0, rate: 1.0 }, apis, None)
    }

    #[test]
    fn each_thing_that_found_no_room_has_a_row_of_its_own() {
        let arena = Arena::unused();
        let mut process = Process::read(&arena, 1);
        (process.slots_refused, process.frames_refused, process.late_calls) = (1, 2, 4);
        process.confined_objects = 1 << 15;
        process.unprofiled[..6].copy_from_slice(&[8, 16, 32, 64, 128, 256]);
        let mut thread = Thread::read(&arena, 2, &[], &process);
        (thread.trace_lost, thread.refused, thread.unmeasured, thread.merged_regions) = (512, (1024, 2048), 4096, 8192);
        thread.untimed = 16_384 + process.frames_refused;
        let apis = ApiData::load(&[]).unwrap();
        let mut assembler = assembler(&apis);
        assembler.add_losses(&process, &[thread]);
        let mut counts: Vec<i64> = assembler.profile.loss.iter().map(|loss| loss.count).collect();
        counts.sort_unstable();
        assert_eq!(counts, (0..16).map(|bit| 1 << bit).collect::<Vec<i64>>());
    }
}
