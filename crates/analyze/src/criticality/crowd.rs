//! Instants at which more threads are active than there are CPUs: their time is that of the threads on a CPU, since a queue is as
//! short as what stands in front of it. Criticality divides it among those that queue, too.

use transect_profile_model::{Origin, SchedSample};

use super::{Source, is_lock_call};

/// Criticality of each sample with spinning left out, and with the time of queues given to those that were on a CPU, ns. Queues
/// at locks remain: they end when the lock is free. So do those that other programs caused.
pub(super) fn own_ns(source: &Source<'_>) -> Vec<i64> {
    let samples = &source.tables.samples;
    let mut own: Vec<i64> = (0..samples.len()).map(|row| source.correction.own_ns(row)).collect();
    let over = |sample: &SchedSample| (i64::from(sample.n) - source.session.cpus).max(0) as f64;
    let (mut given, mut weights) = (0.0, 0.0);
    let part = 1.0 - source.contention.of_queue;
    for (sample, own) in samples.iter().zip(&mut own) {
        match sample.origin {
            Origin::Sample if !sample.spin => weights += *own as f64 * over(sample),
            Origin::StackTop if over(sample) > 0.0 && !is_at_lock(source, sample) => given += *own as f64 * part,
            _ => {}
        }
    }
    if weights <= 0.0 {
        return own;
    }
    for (sample, own) in samples.iter().zip(&mut own) {
        let ns = *own as f64;
        match sample.origin {
            Origin::Sample if !sample.spin => *own += (ns * over(sample) * given / weights).round() as i64,
            Origin::StackTop if over(sample) > 0.0 && !is_at_lock(source, sample) => *own -= (ns * part).round() as i64,
            _ => {}
        }
    }
    own
}

fn is_at_lock(source: &Source<'_>, sample: &SchedSample) -> bool {
    let Some(facts) = source.paths.stack(sample.stack) else { return false };
    let functions = &source.paths.paths[facts.path as usize].functions;
    functions.iter().any(|&id| is_lock_call(&source.paths.functions[id as usize].name))
}
