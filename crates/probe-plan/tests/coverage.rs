//! Most functions of real programs can hold a probe.

use std::collections::HashSet;

use transect_binary_info::Object;
use transect_probe_plan::{Event, ExitSupport, Plan, PlanOptions, Refusal, Window, plan};

fn planned(path: &str) -> Option<Plan> {
    let object = Object::open(path).inspect_err(|error| eprintln!("NOT RUN: {error}")).ok()?;
    Some(plan(&object, &PlanOptions::default()))
}

#[test]
fn of_every_hundred_functions_at_least_95() {
    for path in [
        "/usr/bin/bash",
        "/usr/bin/git",
        "/usr/bin/python3",
        "/usr/bin/sqlite3",
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    ] {
        let Some(plan) = planned(path) else { continue };
        let entries = plan.sites.iter().filter(|site| site.event == Event::Entry);
        let with: HashSet<u32> = entries.map(|site| site.function).collect();
        let parts = plan.refused.iter().filter(|refused| refused.reason == Refusal::PartOfFunction).count();
        let share = with.len() as f64 / (plan.functions.len() - parts) as f64;
        eprintln!("{path}: {:.2} % of {} functions", share * 100.0, plan.functions.len() - parts);
        assert!(share >= 0.95, "{path}: {share}");
        // Every function is either there or refused, and nothing displaced is longer than a trampoline's room.
        let refused: HashSet<u32> = plan.refused.iter().map(|refused| refused.function).collect();
        assert!((0..plan.functions.len() as u32).all(|f| with.contains(&f) || refused.contains(&f)), "{path}");
        let longest = plan.sites.iter().map(|site| match &site.window {
            Window::Displaced { displaced, .. } => displaced.code.len(),
            _ => 0,
        });
        assert!(longest.max() <= Some(100), "{path}");
        assert!(plan.sites.iter().all(|site| site.window.original().len() <= 19), "{path}");
    }
}

#[test]
fn what_the_loader_and_the_c_library_need() {
    let Some(plan) = planned("/lib64/ld-linux-x86-64.so.2") else { return };
    let named = |plan: &Plan, symbol: &str| {
        let is = |f: &transect_probe_plan::Function| f.symbol == symbol || f.aliases.iter().any(|a| a == symbol);
        let function = plan.functions.iter().position(is)? as u32;
        let site = plan.sites.iter().find(|site| site.function == function && site.event == Event::Entry);
        Some((function, site.map(|site| site.exit)))
    };
    // An empty function, which debuggers and profilers stop at.
    assert!(matches!(named(&plan, "_dl_debug_state"), Some((_, Some(_)))));
    let Some(plan) = planned("/lib/x86_64-linux-gnu/libc.so.6") else { return };
    for symbol in ["setjmp", "_setjmp", "__sigsetjmp", "vfork", "getcontext", "swapcontext", "longjmp", "exit", "dlsym"]
    {
        if let Some((_, Some(exit))) = named(&plan, symbol) {
            assert_eq!(exit, ExitSupport::ReturnAddressUsed, "{symbol}");
        }
    }
    for symbol in ["malloc", "free", "fopen", "qsort", "printf", "fork", "pthread_create", "read", "getpid"] {
        assert!(matches!(named(&plan, symbol), Some((_, Some(ExitSupport::PairedCall)))), "{symbol}");
    }
}
