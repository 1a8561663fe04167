//! Systems whose costs are known, measured by a made-up clock with noise.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use transect_feature_model::{FeatureModel, Format, parse};
use transect_influence::campaign::{self, CampaignSettings};
use transect_influence::{
    CommandTemplate, Influence, Measure, Measurement, Method, PlanSettings, RunError, Term, compare, csv, explain,
    page, plan, text,
};

/// Time under each set of features for a command line, in units of a millisecond.
type Cost = Box<dyn Fn(&[String]) -> Vec<(Vec<&'static str>, f64)>>;

struct Synthetic {
    cost: Cost,
    noise: f64,
    random: StdRng,
}

impl Measure for Synthetic {
    fn measure(&mut self, command: &[String]) -> Result<Measurement, RunError> {
        if command.iter().any(|word| word == "--fail") {
            return Err(RunError("the program ended with status 1".into()));
        }
        let mut sets = BTreeMap::new();
        for (set, units) in (self.cost)(command) {
            let disturbed = units * 1e6 * (1.0 + self.noise * (self.random.random::<f64>() - 0.5));
            *sets.entry(set.iter().map(|name| (*name).to_owned()).collect()).or_insert(0.0) += disturbed;
        }
        Ok(Measurement { wall_ns: sets.values().sum(), sets })
    }
}

fn influence(model: &FeatureModel, cost: Cost, method: Method, settings: PlanSettings, noise: f64) -> Influence {
    let plan = plan(model, &settings).expect("a plan");
    let command = CommandTemplate::new(vec!["program".into(), "{options}".into()]).expect("a command");
    let mut clock = Synthetic { cost, noise, random: StdRng::seed_from_u64(7) };
    let runs = CampaignSettings { repetitions: 4, seed: 3, stop_at_failure: false };
    let seen = campaign::run(&plan, model, &command, &runs, &mut clock, &mut |_| {}).expect("runs");
    explain(model, command.words(), &seen, method, settings.order).expect("terms")
}

fn toml(features: &[(&str, &str)]) -> FeatureModel {
    let one = |(name, rest): &(&str, &str)| format!("[[feature]]\nname = \"{name}\"\noption = \"-{name}\"\n{rest}\n");
    parse(&features.iter().map(one).collect::<String>(), Format::Toml, "synthetic").expect("a model")
}

fn term<'a>(influence: &'a Influence, features: &[&str]) -> &'a Term {
    let found = influence.terms.iter().find(|term| term.features == features);
    found.unwrap_or_else(|| panic!("no term {features:?} in {:#?}", influence.terms))
}

fn near(term: &Term, units: f64, tolerance: f64) {
    let off = (term.ns as f64 / 1e6 - units).abs();
    assert!(off <= tolerance, "{term:?} should be {units}");
}

fn has(command: &[String], word: &str) -> bool {
    command.iter().any(|own| own == word)
}

/// Listing 2.2: 1 without options, 2 with A, 2 with B, 7 with both.
fn listing(command: &[String]) -> Vec<(Vec<&'static str>, f64)> {
    let (a, b) = (has(command, "-A"), has(command, "-B"));
    let unit = |on: bool, units: f64| if on { units } else { 0.0 };
    vec![(vec![], 1.0), (vec!["A"], unit(a, 1.0)), (vec!["B"], unit(b, 1.0)), (vec!["A", "B"], unit(a && b, 4.0))]
}

#[test]
fn two_features_that_interact() {
    let model = toml(&[("A", ""), ("B", "")]);
    for method in [Method::Regions, Method::Wall] {
        let found = influence(&model, Box::new(listing), method, PlanSettings::default(), 0.02);
        near(term(&found, &[]), 1.0, 0.05);
        near(term(&found, &["A"]), 1.0, 0.1);
        near(term(&found, &["B"]), 1.0, 0.1);
        near(term(&found, &["A", "B"]), 4.0, 0.2);
        assert!(term(&found, &["A", "B"]).is_significant());
        assert_eq!((found.configurations, found.runs), (4, 16));
        assert!(found.undetermined.is_empty() && found.explained.expect("they differ") > 0.99);
    }
}

/// The region of both options has time where only one is on: nothing at all in three of four configurations.
#[test]
fn an_option_that_spares_the_work_of_another() {
    let model = toml(&[("A", ""), ("B", "")]);
    let cost = |command: &[String]| {
        let (a, b) = (has(command, "-A"), has(command, "-B"));
        let spared = if a && !b { 3.0 } else { 0.0 };
        vec![(vec![], 2.0), (vec!["A"], f64::from(u8::from(a))), (vec!["A", "B"], spared)]
    };
    let found = influence(&model, Box::new(cost), Method::Regions, PlanSettings::default(), 0.002);
    near(term(&found, &["A"]), 4.0, 0.1);
    near(term(&found, &["A", "B"]), -3.0, 0.1);
    assert!(found.explained.expect("they differ") > 0.99);
}

#[test]
fn regions_need_fewer_configurations_than_the_whole_time() {
    // Ten features, of which f0 and f1 interact: 24 configurations are trained on, 56 terms would be possible.
    let names: Vec<String> = (0..10).map(|own| format!("f{own}")).collect();
    let features: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let model = toml(&features);
    let cost = |command: &[String]| {
        let mut sets = vec![(vec![], 5.0)];
        let static_names = ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9"];
        for (own, name) in static_names.into_iter().enumerate() {
            if has(command, &format!("-{name}")) {
                sets.push((vec![name], own as f64));
            }
        }
        if has(command, "-f0") && has(command, "-f1") {
            sets.push((vec!["f0", "f1"], 8.0));
        }
        sets
    };
    let settings = PlanSettings { configurations: 30, ..PlanSettings::default() };
    let by_regions = influence(&model, Box::new(cost), Method::Regions, settings.clone(), 0.02);
    near(term(&by_regions, &["f0", "f1"]), 8.0, 0.2);
    near(term(&by_regions, &["f9"]), 9.0, 0.2);
    assert!(by_regions.error.expect("held-out configurations") < 2.0, "{:?}", by_regions.error);
    assert_eq!(by_regions.held_out.len(), 6);
    // The whole time finds the large ones as well, by selection.
    let whole = influence(&model, Box::new(cost), Method::Wall, settings, 0.02);
    near(term(&whole, &["f0", "f1"]), 8.0, 1.0);
    near(term(&whole, &["f9"]), 9.0, 0.6);
    assert!(whole.error.expect("held-out configurations") < 5.0, "{:?}", whole.error);
}

#[test]
fn sets_of_many_features_are_not_overfitted() {
    // 29 products of 7 features, and 26 configurations: nothing would be left to judge them by.
    let names: Vec<String> = (0..7).map(|own| format!("f{own}")).collect();
    let features: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let model = toml(&features);
    let cost = |command: &[String]| {
        let unit = |on: bool, units: f64| if on { units } else { 0.0 };
        let both = has(command, "-f5") && has(command, "-f6");
        let time = 10.0 + unit(has(command, "-f0"), 2.0) + unit(both, 8.0);
        vec![(vec!["f0", "f1", "f2", "f3", "f4", "f5", "f6"], time)]
    };
    let found = influence(&model, Box::new(cost), Method::Regions, PlanSettings::default(), 0.02);
    near(term(&found, &[]), 10.0, 0.5);
    near(term(&found, &["f0"]), 2.0, 0.5);
    near(term(&found, &["f5", "f6"]), 8.0, 0.5);
    let true_terms = [&[][..], &["f0"][..], &["f5", "f6"][..]];
    let others = found.terms.iter().filter(|term| !true_terms.iter().any(|own| term.features == *own));
    others.for_each(|term| near(term, 0.0, 0.5));
}

#[test]
fn values_have_forms() {
    let model = parse(
        "[[feature]]\nname = \"level\"\noption = \"-\"\nmin = 1\nmax = 9\n\
         [[feature]]\nname = \"window\"\noption = \"-w\"\nmin = 1\nmax = 1024\nstep = \"x * 2\"\n\
         [[feature]]\nname = \"fast\"\noption = \"--fast\"\n",
        Format::Toml,
        "values",
    )
    .expect("a model");
    let value = |command: &[String], prefix: &str| {
        let mut found = command.iter().skip(1).filter_map(|word| word.strip_prefix(prefix)?.parse::<f64>().ok());
        found.next().expect("it is always there")
    };
    let cost = move |command: &[String]| {
        let level = value(command, "-");
        let fast = if has(command, "--fast") { 0.5 } else { 1.0 };
        vec![
            (vec![], 10.0),
            (vec!["fast", "level"], 3.0 * level * fast),
            (vec!["window"], 2.0 + value(command, "-w").log2()),
        ]
    };
    let settings = PlanSettings { configurations: 60, ..PlanSettings::default() };
    let found = influence(&model, Box::new(cost), Method::Regions, settings, 0.01);
    assert_eq!(found.configurations, 4 * 4 * 2, "four values of each and fast on and off");
    // From level 1 to level 9: 24 units, half of that with fast.
    near(term(&found, &["level"]), 24.0, 0.6);
    near(term(&found, &["level", "fast"]), -12.0, 0.6);
    near(term(&found, &["window"]), 10.0, 0.3);
    near(term(&found, &[]), 10.0 + 3.0 + 2.0, 0.3);
    let form = |features: &[&str]| term(&found, features).forms.iter().map(|form| form.as_str()).collect::<Vec<_>>();
    assert_eq!((form(&["level"]), form(&["window"])), (vec!["linear"], vec!["log"]));
    let error = found.error.expect("each can be left out");
    assert!(error < 2.0, "{error}");
    assert_eq!(found.error_from.as_deref(), Some("cross-validation"));
}

#[test]
fn alternatives_are_told_apart_up_to_one() {
    let model = toml(&[("gz", "group = \"f\""), ("bz", "group = \"f\""), ("xz", "group = \"f\"")]);
    let cost = |command: &[String]| {
        let (bz, xz) = (has(command, "-bz"), has(command, "-xz"));
        vec![(
            vec!["bz", "gz", "xz"],
            if xz {
                9.0
            } else if bz {
                4.0
            } else {
                1.0
            },
        )]
    };
    let found = influence(&model, Box::new(cost), Method::Regions, PlanSettings::default(), 0.0);
    // The last alternative is the base: 9; the others save.
    near(term(&found, &[]), 9.0, 1e-6);
    near(term(&found, &["gz"]), -8.0, 1e-6);
    near(term(&found, &["bz"]), -5.0, 1e-6);
}

#[test]
fn failing_configurations_are_left_out_and_named() {
    let model = toml(&[("A", ""), ("B", ""), ("-fail", "")]);
    let found = influence(&model, Box::new(listing), Method::Regions, PlanSettings::default(), 0.0);
    assert_eq!(found.failed.len(), 4);
    assert_eq!(found.configurations, 4);
    near(term(&found, &["A", "B"]), 4.0, 1e-6);
    assert!(text(&found).contains("left out: -A --fail: the program ended with status 1"));
}

#[test]
fn values_that_never_ran_are_not_the_largest() {
    let model = parse("[[feature]]\nname = \"level\"\noption = \"-l \"\nvalues = [1, 2, 4]\n", Format::Toml, "")
        .expect("a model");
    let value = |command: &[String]| command[2].parse::<f64>().expect("a level");
    struct Failing(Synthetic);
    impl Measure for Failing {
        fn measure(&mut self, command: &[String]) -> Result<Measurement, RunError> {
            if command[2] == "4" { Err(RunError("no memory".into())) } else { self.0.measure(command) }
        }
    }
    let plan = plan(&model, &PlanSettings::default()).expect("a plan");
    let command = CommandTemplate::new(vec!["program".into(), "{options}".into()]).expect("a command");
    let cost: Cost = Box::new(move |command| vec![(vec!["level"], value(command))]);
    let mut clock = Failing(Synthetic { cost, noise: 0.0, random: StdRng::seed_from_u64(7) });
    let runs = CampaignSettings { repetitions: 4, seed: 3, stop_at_failure: false };
    let seen = campaign::run(&plan, &model, &command, &runs, &mut clock, &mut |_| {}).expect("runs");
    let found = explain(&model, command.words(), &seen, Method::Regions, 2).expect("terms");
    near(term(&found, &["level"]), 1.0, 1e-6);
}

#[test]
fn too_few_runs_say_why_they_failed() {
    let model = toml(&[("-fail", "")]);
    let plan = plan(&model, &PlanSettings::default()).expect("a plan");
    let command = CommandTemplate::new(vec!["program".into(), "{options}".into()]).expect("a command");
    let mut clock = Synthetic { cost: Box::new(listing), noise: 0.0, random: StdRng::seed_from_u64(7) };
    let runs = CampaignSettings { repetitions: 1, seed: 3, stop_at_failure: false };
    let seen = campaign::run(&plan, &model, &command, &runs, &mut clock, &mut |_| {}).expect("runs");
    let error = explain(&model, &[], &seen, Method::Regions, 2).expect_err("one configuration only");
    assert!(error.to_string().contains("the program ended with status 1"), "{error}");
}

#[test]
fn what_the_regions_miss_is_noted() {
    let model = toml(&[("A", ""), ("B", "")]);
    let cost = |command: &[String]| vec![(vec![], if has(command, "-A") { 5.0 } else { 1.0 })];
    let found = influence(&model, Box::new(cost), Method::Regions, PlanSettings::default(), 0.0);
    assert!(found.explained.expect("they differ") < 0.1);
    assert!(found.notes.iter().any(|note| note.contains("outside of the features' regions")));
}

#[test]
fn chance_is_not_taken_for_missing_regions() {
    let model = toml(&[("A", ""), ("B", "")]);
    let cost = |command: &[String]| vec![(vec![], 50.0), (vec!["A"], if has(command, "-A") { 0.5 } else { 0.0 })];
    let found = influence(&model, Box::new(cost), Method::Regions, PlanSettings::default(), 0.5);
    assert!(
        found.notes.iter().any(|note| note.contains("runs of one configuration differ as much")),
        "{:?}",
        found.notes
    );
}

#[test]
fn versions_differ_where_they_do() {
    let model = toml(&[("A", ""), ("B", "")]);
    let faster = |command: &[String]| {
        let mut sets = listing(command);
        sets[3].1 /= 2.0;
        sets
    };
    let old = influence(&model, Box::new(listing), Method::Regions, PlanSettings::default(), 0.02);
    let new = influence(&model, Box::new(faster), Method::Regions, PlanSettings::default(), 0.02);
    let compared = compare(&old, &new);
    assert_eq!(compared.differences[0].features, ["A", "B"]);
    assert!(compared.differences[0].is_significant() && (compared.differences[0].ns + 2_000_000).abs() < 100_000);
    assert!(compare(&old, &old).differences.iter().all(|own| own.ns == 0));
}

#[test]
fn a_term_that_one_version_lacks_has_no_interval() {
    let model = toml(&[("A", ""), ("B", "")]);
    let old = influence(&model, Box::new(listing), Method::Wall, PlanSettings::default(), 0.02);
    let mut new = old.clone();
    new.terms.retain(|term| term.features.len() < 2);
    let compared = compare(&old, &new);
    let lacking = compared.differences.iter().find(|own| own.new_ns.is_none()).expect("A & B");
    assert!(!lacking.is_significant() && lacking.low.is_none());
    assert!(compared.notes.iter().any(|note| note.contains("lacks")));
}

#[test]
fn results_survive_json_and_hostile_names() {
    let model = parse("name = \"<script>&\"\n[[feature]]\nname = \"<b>'\\\"\"\noption = \"-A\"\n", Format::Toml, "")
        .expect("ok");
    let found = influence(&model, Box::new(listing), Method::Wall, PlanSettings::default(), 0.01);
    let json = serde_json::to_string(&found).expect("JSON");
    assert_eq!(serde_json::from_str::<Influence>(&json).expect("the same"), found);
    let page = page(&found);
    assert!(!page.contains("<script>") && !page.contains("<b>'") && page.contains("&lt;b&gt;&#39;&quot;"));
    assert!(csv(&found).contains("\"<b>'\"\"\",on,"));
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    let model = toml(&[("A", ""), ("B", "")]);
    let plan = plan(&model, &PlanSettings::default()).expect("a plan");
    let command = CommandTemplate::new(vec!["program".into(), "{options}".into()]).expect("a command");
    let (mut held, mut all) = (0_usize, 0_usize);
    for seed in 0..300 {
        let mut clock = Synthetic { cost: Box::new(listing), noise: 0.2, random: StdRng::seed_from_u64(seed) };
        let runs = CampaignSettings { repetitions: 4, seed, stop_at_failure: true };
        let seen = campaign::run(&plan, &model, &command, &runs, &mut clock, &mut |_| {}).expect("runs");
        let method = if seed % 2 == 0 { Method::Regions } else { Method::Wall };
        let found = explain(&model, &[], &seen, method, 2).expect("terms");
        for (features, units) in [(&[][..], 1.0), (&["A"][..], 1.0), (&["B"][..], 1.0), (&["A", "B"][..], 4.0)] {
            let term = term(&found, features);
            let (low, high) = (term.low.expect("repeated"), term.high.expect("repeated"));
            all += 1;
            held += usize::from((low..=high).contains(&((units * 1e6) as i64)));
        }
    }
    let share = held as f64 / all as f64;
    assert!((0.92..=0.995).contains(&share), "{share}");
}

#[test]
fn disturbed_runs_are_left_out_and_counted() {
    let model = toml(&[("A", ""), ("B", "")]);
    let count = std::cell::Cell::new(0);
    let cost = move |command: &[String]| {
        count.set(count.get() + 1);
        let mut sets = listing(command);
        // One run of seventeen is disturbed by something of ten times its length.
        if count.get() == 9 {
            sets[0].1 += 70.0;
        }
        sets
    };
    let found = influence(&model, Box::new(cost), Method::Wall, PlanSettings::default(), 0.02);
    assert_eq!(found.outliers, 1);
    near(term(&found, &["A", "B"]), 4.0, 0.2);
    assert!(text(&found).contains("far from the others of their configuration: 1"));
}

#[test]
fn a_variable_above_its_options_explains_their_time() {
    let model = parse(
        "[[feature]]\nname = \"mode\"\nabstract = true\nvars = [\"a.c:mode\"]\n\
         [[feature]]\nname = \"pack\"\nparent = \"mode\"\ngroup = \"mode\"\noption = \"-p\"\n\
         [[feature]]\nname = \"unpack\"\nparent = \"mode\"\ngroup = \"mode\"\noption = \"-u\"\n\
         [[feature]]\nname = \"other\"\noption = \"-o\"\n",
        Format::Toml,
        "modes",
    )
    .expect("a model");
    let cost = |command: &[String]| vec![(vec!["mode"], if has(command, "-p") { 7.0 } else { 2.0 })];
    let found = influence(&model, Box::new(cost), Method::Regions, PlanSettings::default(), 0.0);
    near(term(&found, &["pack"]), 5.0, 1e-6);
    let only = PlanSettings { vary: vec!["mode".into()], ..PlanSettings::default() };
    assert_eq!(plan(&model, &only).expect("a plan").configurations.len(), 2);
    let one = PlanSettings { vary: vec!["unpack".into()], ..PlanSettings::default() };
    assert_eq!(plan(&model, &one).expect("a plan").configurations.len(), 2);
    // What a feature needs gives way to it, too.
    let needing = parse(
        "[[feature]]\nname = \"mode\"\nabstract = true\n\
         [[feature]]\nname = \"pack\"\nparent = \"mode\"\ngroup = \"mode\"\noption = \"-p\"\ndefault = true\n\
         [[feature]]\nname = \"unpack\"\nparent = \"mode\"\ngroup = \"mode\"\noption = \"-u\"\n\
         [[feature]]\nname = \"sparse\"\noption = \"-s\"\nimplies = [\"unpack\"]\n",
        Format::Toml,
        "modes",
    )
    .expect("a model");
    let sparse = PlanSettings { vary: vec!["sparse".into()], ..PlanSettings::default() };
    let planned = plan(&needing, &sparse).expect("a plan").configurations;
    assert!(planned.iter().any(|own| own.text(&needing).contains("-s")), "{planned:?}");
    let none = PlanSettings { vary: vec!["modes".into()], ..PlanSettings::default() };
    assert!(plan(&model, &none).expect_err("no such feature").to_string().contains("no feature `modes`"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(transect_testkit::cases(24, 100)))]

    /// Any costs of three features and their pairs come back, and the intervals hold the truth nearly always.
    #[test]
    fn any_system_of_three_is_recovered(
        base in 1.0..50.0_f64,
        singles in prop::array::uniform3(0.0..50.0_f64),
        pairs in prop::array::uniform3(0.0..50.0_f64),
        method in prop::sample::select(vec![Method::Regions, Method::Wall]),
    ) {
        let model = toml(&[("A", ""), ("B", ""), ("C", "")]);
        let names = ["A", "B", "C"];
        let couples = [(0, 1), (0, 2), (1, 2)];
        let cost = move |command: &[String]| {
            let on = |at: usize| has(command, &format!("-{}", names[at]));
            let mut sets = vec![(vec![], base)];
            sets.extend((0..3).filter(|at| on(*at)).map(|at| (vec![names[at]], singles[at])));
            let both = (0..3).filter(|at| on(couples[*at].0) && on(couples[*at].1));
            sets.extend(both.map(|at| (vec![names[couples[at].0], names[couples[at].1]], pairs[at])));
            sets
        };
        let found = influence(&model, Box::new(cost), method, PlanSettings::default(), 0.02);
        let tolerance = 0.02 * (base + singles.iter().sum::<f64>() + pairs.iter().sum::<f64>());
        // A term that can't be told from nothing is left out.
        let check = |features: &[&str], units: f64| match found.terms.iter().find(|term| term.features == features) {
            Some(term) => near(term, units, tolerance),
            None => assert!(units <= tolerance, "no term {features:?} of {units} units in {:#?}", found.terms),
        };
        check(&[], base);
        for at in 0..3 {
            check(&[names[at]], singles[at]);
            check(&[names[couples[at].0], names[couples[at].1]], pairs[at]);
        }
    }
}
