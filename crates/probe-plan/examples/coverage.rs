//! How many functions of the given objects can hold a probe, and how long planning takes: `coverage FILE…`. With
//! `SHOW=1` it lists refusals, with `ONLY=name` it plans one function.
use std::collections::BTreeMap;
use std::time::Instant;

use transect_binary_info::Object;
use transect_probe_plan::{ExitSupport, Function, PlanOptions, Refusal, plan};

fn main() {
    for path in std::env::args().skip(1) {
        let object = match Object::open(&path) {
            Ok(object) => object,
            Err(error) => {
                eprintln!("{error}");
                continue;
            }
        };
        let first = std::env::var("ONLY").ok();
        let only = |f: &Function| first.as_ref().is_none_or(|wanted| f.name == *wanted);
        let start = Instant::now();
        let plan = plan(&object, &PlanOptions { wanted: Some(&only), ..PlanOptions::default() });
        let took = start.elapsed();
        let mut with: Vec<u32> = plan.sites.iter().map(|site| site.function).collect();
        with.dedup();
        let timed = plan.sites.iter().filter(|site| site.exit == ExitSupport::PairedCall).count();
        let mut reasons = BTreeMap::new();
        for refused in &plan.refused {
            *reasons.entry(refused.reason).or_insert(0usize) += 1;
        }
        // Parts of functions are none.
        let parts = plan.refused.iter().filter(|refused| refused.reason == Refusal::PartOfFunction).count();
        let all = plan.functions.len() - parts;
        let percent = with.len() as f64 * 100.0 / all.max(1) as f64;
        println!("{path}: {all} functions, {} sites ({percent:.2} %), {timed} timed, {took:.1?}", plan.sites.len());
        for (reason, count) in reasons {
            println!("    {count:6}  {reason}");
        }
        if std::env::var_os("SHOW").is_some() {
            for refused in &plan.refused {
                println!("{:x} {} {}", refused.vaddr, plan.functions[refused.function as usize].name, refused.reason);
            }
        }
    }
}
