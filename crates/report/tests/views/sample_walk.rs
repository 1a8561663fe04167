//! Walks to be rendered.

use transect_analyze::synthetic::{large_walk, walked_proxy};
use transect_analyze::{Selection, WalkView, full_report, walk};
use transect_profile_model::{KernelTiming, Meta, Metric, Timing, UserTiming};
use transect_report::{Content, Rows};

use crate::sample_rows::{HOSTILE, RB_TREE_FIND, content, meta};

fn view() -> WalkView {
    walk(&walked_proxy(), &Selection::default()).unwrap()
}

fn under(view: WalkView) -> Content {
    let meta =
        Meta { collectors: vec!["walk".into()], timing: Timing::Count, walk: Some(view.session.clone()), ..meta() };
    Content { meta, ..content(Rows::Walk(Box::new(Some(view)))) }
}

/// Foreign names of every kind, another metric, nothing timed, nothing found in time.
fn hostile() -> WalkView {
    let mut view = view();
    let session = &mut view.session;
    session.metric = Metric::CacheMisses;
    session.kernel_timing = KernelTiming::KprobeMulti;
    session.user_timing = Some(UserTiming::Uprobes);
    session.critical = true;
    session.found_after_ns = None;
    session.probes_inserted = 0;
    session.longest_stop_ns = 0;
    view.chains.truncate(1);
    let chain = &mut view.chains[0];
    for text in [&mut chain.thread_group, &mut chain.executable, &mut chain.conclusion, &mut chain.next] {
        text.push_str(HOSTILE);
    }
    let frame = &mut chain.frames[1];
    (frame.function, frame.file, frame.woken_by) = (HOSTILE.into(), HOSTILE.into(), HOSTILE.into());
    frame.component = Some(HOSTILE.into());
    chain.frames[2].function = RB_TREE_FIND.into();
    chain.frames[2].share_high = f64::NAN;
    chain.frames[2].disputed = Some(0.7);
    view.steps.truncate(3);
    view.steps[0].note = HOSTILE.into();
    view.steps[0].function = HOSTILE.into();
    view.system_calls.truncate(1);
    view.system_calls[0].name = HOSTILE.into();
    view
}

/// Deeper than any terminal is wide; a second chain parts at the end.
fn deep() -> WalkView {
    let mut view = walk(&large_walk(3_000), &Selection::default()).unwrap();
    let frames = view.chains[0].frames.clone();
    view.chains[0].frames = frames.iter().cycle().take(60).cloned().collect();
    let mut second = view.chains[0].clone();
    for frame in &mut second.frames[57..] {
        frame.node += 1;
    }
    view.chains.push(second);
    view
}

/// The view alone, without a walk, of hostile names, deep, and in an overview.
pub fn contents() -> Vec<(&'static str, Content)> {
    vec![
        ("walk", under(view())),
        ("walk-none", content(Rows::Walk(Box::new(None)))),
        ("walk-hostile", under(hostile())),
        ("walk-deep", under(deep())),
        ("overview-walk", {
            let full = full_report(&walked_proxy(), &Selection::default());
            Content {
                meta: full.meta.clone(),
                totals: full.totals,
                loss: full.loss.clone(),
                ..content(Rows::Overview(Box::new(full)))
            }
        }),
    ]
}
