//! Terms of simulated programs with options that do nothing: few configurations, noise of 1 to 5 %, truth that is drawn.

#[path = "simulated/outcome.rs"]
mod outcome;
#[path = "simulated/program.rs"]
mod program;

use outcome::{Outcome, one, simulate};
use program::Kind;
use transect_feature_model::{Format, parse};
use transect_influence::{
    Configuration, Measurement, Method, Observations, PlanSettings, csv, explain, page, plan, text,
};

const SPARSE: Kind = Kind { options: (3, 9), no_ops: 0.35, pairs: 3, multiplies: false };

#[test]
fn options_that_do_nothing_have_no_terms() {
    let outcome = simulate(200, SPARSE);
    eprintln!("{outcome:?}");
    assert!(Outcome::share(outcome.false_no_ops, outcome.no_ops) <= 0.05, "{outcome:?}");
    assert!(Outcome::share(outcome.held, outcome.terms) >= 0.93, "{outcome:?}");
    assert!(Outcome::share(outcome.sure_held, outcome.sure) >= 0.93, "{outcome:?}");
    assert_eq!(outcome.impossible, 0, "{outcome:?}");
    assert!(Outcome::share(outcome.found, outcome.large) >= 0.8, "{outcome:?}");
}

#[test]
fn what_is_predicted_badly_is_not_drawn() {
    let mut influence = one(SPARSE, 1);
    assert!(influence.terms.len() > 1, "{influence:?}");
    influence.error = Some(29.0);
    influence.error_from = Some("cross-validation".into());
    let shown = text(&influence);
    assert!(shown.lines().nth(1).is_some_and(|line| line.starts_with("error of predictions: 29.0 %")), "{shown}");
    assert!(shown.contains("(base)") && page(&influence).contains("<rect") && csv(&influence).lines().count() > 2);
    influence.error = Some(31.0);
    let shown = text(&influence);
    assert!(!shown.contains("(base)") && shown.contains("no terms are shown"), "{shown}");
    assert!(!page(&influence).contains("<rect") && csv(&influence).lines().count() == 1);
}

#[test]
fn options_that_always_go_together_are_confounded() {
    // Both or none: it can't be told which of the two takes the time.
    let model = parse(
        "[[feature]]\nname = \"A\"\noption = \"-A\"\nimplies = [\"B\"]\n\
         [[feature]]\nname = \"B\"\noption = \"-B\"\nimplies = [\"A\"]\n\
         [[feature]]\nname = \"C\"\noption = \"-C\"\n",
        Format::Toml,
        "together",
    )
    .expect("a model");
    let seconds = |own: &Configuration| 1.0 + if own.value(0).is_some() { 2.0 } else { 0.0 };
    let planned = plan(&model, &PlanSettings::default()).expect("a plan");
    let mut runs = Vec::new();
    for (place, own) in planned.configurations.iter().enumerate() {
        for noise in [0.99, 1.0, 1.01] {
            runs.push((place, Measurement { wall_ns: seconds(own) * noise * 1e9, ..Measurement::default() }));
        }
    }
    let training = planned.training;
    let seen = Observations { configurations: planned.configurations, training, runs, failed: Vec::new() };
    let found = explain(&model, &[], &seen, Method::Wall, 2).expect("terms");
    assert!(
        found.terms.iter().filter(|term| !term.features.is_empty()).all(|term| !term.is_significant()),
        "{found:?}"
    );
    let group = found.confounded.first().expect("a group");
    assert!(group.contains(&"A".to_owned()) && group.contains(&"B".to_owned()), "{:?}", found.confounded);
    assert!(text(&found).contains("confounded, one of these is real: A"), "{}", text(&found));
}

#[test]
fn levels_are_compared_with_the_last_one() {
    // The middle level is the quickest, and what is the same at all levels has no term.
    let model = parse(
        "[[feature]]\nname = \"level\"\noption = \"-l\"\nvalues = [\"1\", \"6\", \"9\"]\n\
         [[feature]]\nname = \"color\"\noption = \"-c\"\nvalues = [\"red\", \"green\"]\n\
         [[feature]]\nname = \"fast\"\noption = \"-f\"\n",
        Format::Toml,
        "levels",
    )
    .expect("a model");
    let planned = plan(&model, &PlanSettings::default()).expect("a plan");
    assert_eq!(planned.configurations.len(), 3 * 2 * 2);
    let mut runs = Vec::new();
    for (place, own) in planned.configurations.iter().enumerate() {
        let text = own.text(&model);
        let level = [("-l1", 3.0), ("-l6", 1.0), ("-l9", 2.0)].iter().find(|(option, _)| text.contains(option));
        let seconds = level.expect("a level").1 - if text.contains("-f") { 0.5 } else { 0.0 };
        let noise = [0.99, 1.0, 1.01].map(|noise| seconds * noise * 1e9);
        runs.extend(noise.map(|wall_ns| (place, Measurement { wall_ns, ..Measurement::default() })));
    }
    let training = planned.training;
    let seen = Observations { configurations: planned.configurations, training, runs, failed: Vec::new() };
    let found = explain(&model, &[], &seen, Method::Wall, 2).expect("terms");
    let labels: Vec<(String, i64)> = found.terms.iter().map(|term| (term.label(), term.ns / 10_000_000)).collect();
    let near = |label: &str, expected: i64| {
        let own = labels.iter().find(|own| own.0 == label).unwrap_or_else(|| panic!("no {label} in {labels:?}"));
        assert!((own.1 - expected).abs() <= 3, "{labels:?}");
    };
    let terms = [("(base)", 200), ("level=1", 100), ("level=6", -100), ("fast", -50)];
    terms.into_iter().for_each(|(label, own)| near(label, own));
    assert_eq!(labels.len(), 4, "{labels:?}");
}

#[test]
fn effects_that_multiply_make_no_terms_of_options_that_do_nothing() {
    let outcome = simulate(200, Kind { multiplies: true, pairs: 0, ..SPARSE });
    eprintln!("{outcome:?}");
    assert!(Outcome::share(outcome.false_no_ops, outcome.no_ops) <= 0.05, "{outcome:?}");
    assert_eq!(outcome.impossible, 0, "{outcome:?}");
}

#[test]
fn most_of_many_options_do_nothing() {
    let outcome = simulate(100, Kind { options: (9, 12), no_ops: 0.7, pairs: 4, multiplies: false });
    eprintln!("{outcome:?}");
    assert!(Outcome::share(outcome.false_no_ops, outcome.no_ops) <= 0.05, "{outcome:?}");
    assert!(Outcome::share(outcome.held, outcome.terms) >= 0.93, "{outcome:?}");
    assert_eq!(outcome.impossible, 0, "{outcome:?}");
}
