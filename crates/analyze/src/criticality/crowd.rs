//! Instants at which more threads are active than there are CPUs: their time is that of the threads on a CPU, since a queue is as
//! short as what stands in front of it. Criticality divides it among those that queue, too.

use transect_profile_model::{Origin, SchedSample};

use super::Source;

/// Criticality of each sample with spinning left out, and with the time of queues given to those that were on a CPU, ns: as far as
/// the program's own threads had the CPUs meanwhile. Who queues behind other programs, or while a CPU was idle, queues where it
/// stands.
pub(super) fn own_ns(source: &Source<'_>) -> Vec<i64> {
    let samples = &source.tables.samples;
    let over = |sample: &SchedSample| (i64::from(sample.n) - source.session.cpus).max(0) as f64;
    let mut own: Vec<i64> = (0..samples.len()).map(|row| source.correction.own_ns(row)).collect();
    let queues: Vec<bool> = samples.iter().map(|sample| is_queue(source, sample)).collect();
    let (mut queued, mut weights) = (0.0, 0.0);
    for ((sample, &own), &queues) in samples.iter().zip(&own).zip(&queues) {
        match queues {
            true => queued += own as f64,
            false if works(sample) => weights += own as f64 * over(sample),
            false => {}
        }
    }
    if weights <= 0.0 {
        return own;
    }
    let part = (1.0 - source.contention.of_queue) * used(source);
    let given = queued * part;
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

/// Whether more threads were active than there are CPUs.
fn is_crowded(source: &Source<'_>, sample: &SchedSample) -> bool {
    i64::from(sample.n) > source.session.cpus
}

/// Whether it is of a thread that queued behind others of the program.
fn is_queue(source: &Source<'_>, sample: &SchedSample) -> bool {
    sample.origin == Origin::StackTop && is_crowded(source, sample)
}

/// Which part of the CPUs' time threads of the program had while more of them were active than there are CPUs, 0.0–1.0.
fn used(source: &Source<'_>) -> f64 {
    let crowded = source.tables.samples.iter().filter(|sample| is_crowded(source, sample));
    let (mut elapsed, mut used) = (0.0, 0.0);
    for sample in crowded {
        elapsed += sample.criticality_ns as f64;
        used += if sample.origin == Origin::Sample { sample.active_ns as f64 } else { 0.0 };
    }
    (used / (elapsed * source.session.cpus as f64).max(1.0)).min(1.0)
}
