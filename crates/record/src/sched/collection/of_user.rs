//! What a user without privileges sees of its own processes, in place of the kernel's records.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use transect_bpf_collect::record::{sched_task, sched_wait, stack_flags};

use super::{Collected, Collection, Totals};
use crate::error::RecordError;
use crate::sched::call_stack::{NO_STACK, StackNumber};
use crate::sched::cause::CauseNumber;
use crate::sched::mapped_file::MappedFiles;
use crate::sched::place::{Place, PlaceId};
use crate::sched::sample::{RawTimedSample, SampleKey, SampleSum};
use crate::sched::timeline::RawWait;

impl Collection {
    /// The files that places lie in.
    pub(crate) fn files(&mut self) -> &mut MappedFiles {
        &mut self.gathered.files
    }

    /// A thread has begun, or another program in it.
    pub(crate) fn user_task(&mut self, record: &sched_task) {
        self.task(record);
    }

    /// What a thread has gained in all.
    pub(crate) fn user_totals(&mut self, record: &sched_task) {
        self.gathered.tasks.update(record);
    }

    /// A process runs this program.
    pub(crate) fn user_program(&mut self, tgid: i32, path: &str) {
        self.spaces.runs(tgid, path);
    }

    /// Number of a stack, innermost place first, of a thread that was in this system call, if in any.
    pub(crate) fn user_stack(&mut self, places: &[Place], complete: bool, call: Option<i64>) -> StackNumber {
        let g = &mut self.gathered;
        let user: Vec<PlaceId> = places.iter().filter_map(|place| g.places.number(*place)).collect();
        if user.len() < places.len() {
            g.stacks.refused += 1;
            return NO_STACK;
        }
        let mut hasher = FxHasher::default();
        let call = call.and_then(|call| Place::in_call(u64::try_from(call).ok()?));
        let kernel: Vec<PlaceId> = call.and_then(|call| g.places.number(call)).into_iter().collect();
        (&user, &kernel, complete).hash(&mut hasher);
        let id = hasher.finish().max(1);
        if !g.stacks.has(id) {
            let flags = if complete { stack_flags::COMPLETE } else { stack_flags::UNKNOWN_CODE };
            g.stacks.insert(id, flags, &kernel, &user);
        }
        g.stacks.number(id)
    }

    /// Callers of a stack's innermost function, innermost first.
    pub(crate) fn user_callers(&self, stack: StackNumber) -> &[PlaceId] {
        self.gathered.stacks.get(stack).and_then(|stack| stack.user.get(1..)).unwrap_or_default()
    }

    /// Number of what a thread waits for, which blocked with this stack.
    pub(crate) fn user_cause(&mut self, record: &sched_wait, stack: StackNumber) -> CauseNumber {
        let object = self.object(record);
        let cause = self.gathered.causes.number(record, object);
        self.gathered.seen.add(cause, stack);
        cause
    }

    /// A wait by itself.
    pub(crate) fn user_wait(&mut self, wait: RawWait) {
        self.gathered.waits.push(wait);
    }

    /// The sum of so many waits between the begin and the end of `wait`.
    pub(crate) fn user_waits(&mut self, wait: RawWait, count: u64, ns: u64) {
        self.gathered.waits.add_sum(wait, count, ns);
    }

    /// Samples with one stack.
    pub(crate) fn user_samples(&mut self, key: SampleKey, sum: SampleSum) {
        self.gathered.samples.add(key, sum);
    }

    /// When one of them was taken.
    pub(crate) fn user_moment(&mut self, moment: RawTimedSample) {
        self.gathered.samples.note(moment);
    }

    /// The tables, with the number of times that threads stopped being active; they lost their CPU as often as `preemptions` says by task
    /// number.
    ///
    /// # Errors
    /// If rows that were put aside can't be read again.
    pub(crate) fn user_finish(
        mut self,
        totals: &Totals,
        slices: u64,
        preemptions: impl Iterator<Item = (u32, u64)>,
    ) -> Result<Collected, RecordError> {
        self.gathered.slice_count = slices;
        // Those of stops are known at the end.
        self.gathered.samples.moments.sort_by_key(|moment| moment.time);
        let met = self.met(totals.now);
        let mut collected = self.gathered.collected(totals, met)?;
        collected.session.estimate = true;
        collected.timeline.know_preemptions(preemptions);
        Ok(collected)
    }
}
