//! Prints the flows of a command: the recorder without store or report.

use transect_profile_model::Timing;

fn main() {
    let command: Vec<_> = std::env::args_os().skip(1).collect();
    let options = transect_record::Options {
        command,
        timing: match std::env::var("TIMING").as_deref() {
            Ok("full") => Timing::Full,
            Ok("count") => Timing::Count,
            _ => Timing::Adaptive { budget: 0.03 },
        },
        histogram: false,
        trace: Vec::new(),
        follow: true,
        wait_all: false,
        interval: None,
        wait_apis: Vec::new(),
        static_components: None,
        latency: None,
        agent: None,
        plan_cache: None,
    };
    match transect_record::record(&options, &mut |_| {}) {
        Ok(r) => {
            let p = &r.profile;
            let file = |c: u32| p.components[c as usize].path.rsplit('/').next().unwrap_or("").to_owned();
            let mut flows = p.flows.clone();
            flows.sort_by_key(|f| -f.total_ns.unwrap_or(0));
            for f in flows.iter().take(60) {
                eprintln!(
                    "{:>10} calls {:>8} timed {:>12?} total {:>12?} self  {} -> {}!{} [{:?}]",
                    f.calls,
                    f.timed_calls,
                    f.total_ns,
                    f.self_ns,
                    file(f.caller),
                    file(f.callee),
                    f.api,
                    f.class
                );
            }
            for t in &p.threads {
                eprintln!("{t:?}");
            }
            for l in p.locks.iter().take(20) {
                eprintln!("{l:?}");
            }
            for l in &p.loss {
                eprintln!("{l:?}");
            }
            eprintln!("{:?}", p.meta);
            std::process::exit(r.exit_status);
        }
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(125);
        }
    }
}
