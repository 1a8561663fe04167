//! Instants at which more threads are active than there are CPUs: their time is that of the threads on a CPU, since a queue is as
//! short as what stands in front of it. Criticality divides it among those that queue, too.

use transect_profile_model::{Origin, SchedSample};

use super::Source;

/// Criticality of each sample with spinning left out, and with the time of queues given to those that were on a CPU, ns. Queues
/// at locks remain: they end when the lock is free. So do those that other programs caused.
pub(super) fn own_ns(source: &Source<'_>) -> Vec<i64> {
    let samples = &source.tables.samples;
    let over = |sample: &SchedSample| (i64::from(sample.n) - source.session.cpus).max(0) as f64;
    let part = 1.0 - source.contention.of_queue;
    let mut own: Vec<i64> = (0..samples.len()).map(|row| source.correction.own_ns(row)).collect();
    let queues: Vec<bool> = samples.iter().map(|sample| is_queue(source, sample)).collect();
    let (mut given, mut weights) = (0.0, 0.0);
    for ((sample, &own), &queues) in samples.iter().zip(&own).zip(&queues) {
        match queues {
            true => given += own as f64 * part,
            false if works(sample) => weights += own as f64 * over(sample),
            false => {}
        }
    }
    if weights <= 0.0 {
        return own;
    }
    for ((sample, own), &queues) in samples.iter().zip(&mut own).zip(&queues) {
        let ns = *own as f64;
        match queues {
            true => *own -= (ns * part).round() as i64,
            false if works(sample) => *own += (ns * over(sample) * given / weights).round() as i64,
            false => {}
        }
    }
    own
}

fn works(sample: &SchedSample) -> bool {
    sample.origin == Origin::Sample && !sample.spin
}

/// Whether it is of a thread that queued behind others of the program, elsewhere than at a lock.
fn is_queue(source: &Source<'_>, sample: &SchedSample) -> bool {
    let path = source.paths.stack(sample.stack).map(|facts| &source.paths.paths[facts.path as usize]);
    let takes = |id: &u32| source.paths.functions[*id as usize].locks;
    sample.origin == Origin::StackTop
        && i64::from(sample.n) > source.session.cpus
        && !path.is_some_and(|path| path.functions.iter().any(takes))
}
