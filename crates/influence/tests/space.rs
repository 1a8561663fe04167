//! The configurations of random models against all assignments, judged one by one.

use std::collections::HashSet;

use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use transect_feature_model::{FeatureModel, Format, parse};
use transect_influence::{Configuration, InfluenceError, PlanSettings, Sampling, Space, plan, sampling};

const FEATURES: usize = 6;

/// What a feature of a random model says.
#[derive(Debug, Clone)]
struct Draw {
    parent: Option<usize>,
    optional: bool,
    numeric: bool,
    group: bool,
    implies: Vec<usize>,
    excludes: Vec<usize>,
}

fn draw(own: usize) -> impl Strategy<Value = Draw> {
    let others = prop::collection::vec(0..FEATURES, 0..2);
    let parent = if own == 0 { Just(None).boxed() } else { prop::option::of(0..own).boxed() };
    (parent, any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.3), others.clone(), others).prop_map(
        move |(parent, optional, numeric, group, implies, excludes)| Draw {
            parent,
            optional,
            numeric,
            group,
            implies,
            excludes: excludes.into_iter().filter(|other| *other != own).collect(),
        },
    )
}

fn constraint() -> impl Strategy<Value = String> {
    let feature = (0..FEATURES).prop_map(|own| format!("f{own}"));
    let leaf = prop_oneof![
        feature.clone(),
        (feature.clone(), feature.clone(), 0..8_i32).prop_map(|(a, b, n)| format!("{a} + 2 * {b} <= {n}")),
        (feature, 0..4_i32).prop_map(|(a, n)| format!("{a} != {n}")),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let op = prop::sample::select(vec!["&", "|", "=>", "<=>"]);
        prop_oneof![
            inner.clone().prop_map(|a| format!("!({a})")),
            (inner.clone(), op, inner).prop_map(|(a, op, b)| format!("({a}) {op} ({b})")),
        ]
    })
}

fn model() -> impl Strategy<Value = FeatureModel> {
    let features: Vec<_> = (0..FEATURES).map(|own| draw(own).boxed()).collect();
    (features, prop::collection::vec(constraint(), 0..3)).prop_map(|(draws, constraints)| {
        let mut text = format!("constraints = {constraints:?}\n");
        for (own, draw) in draws.iter().enumerate() {
            text += &format!("[[feature]]\nname = \"f{own}\"\noption = \"--f{own}=\"\n");
            let names = |list: &[usize]| format!("{:?}", list.iter().map(|at| format!("f{at}")).collect::<Vec<_>>());
            text += &format!("implies = {}\nexcludes = {}\n", names(&draw.implies), names(&draw.excludes));
            if let Some(parent) = draw.parent {
                text += &format!("parent = \"f{parent}\"\n");
            }
            match (draw.numeric, draw.group) {
                (true, _) => text += &format!("values = [0, 2, 3]\noptional = {}\n", draw.optional),
                (false, true) => text += &format!("group = \"g{:?}\"\n", draw.parent),
                (false, false) => text += &format!("optional = {}\n", draw.optional),
            }
        }
        parse(&text, Format::Toml, "random").unwrap_or_else(|error| panic!("{error}\n{text}"))
    })
}

/// All assignments that the model allows, found by trying each.
fn by_trying(model: &FeatureModel) -> Vec<Configuration> {
    let mut all = vec![Vec::new()];
    for feature in &model.features {
        let mut values = vec![None];
        values.extend(feature.domain().map_or(vec![1.0], |domain| domain.iter().collect()).into_iter().map(Some));
        all = all
            .iter()
            .flat_map(|own: &Vec<_>| values.iter().map(|value| [own.clone(), vec![*value]].concat()))
            .collect();
    }
    all.into_iter().map(|values| Configuration { values }).filter(|own| own.is_valid(model)).collect()
}

fn keys(configurations: &[Configuration]) -> HashSet<String> {
    configurations.iter().map(|own| format!("{:?}", own.values)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(transect_testkit::cases(200, 2000)))]

    #[test]
    fn configurations_are_those_that_the_model_allows(model in model()) {
        let expected = by_trying(&model);
        match Space::new(&model, 8) {
            Ok(space) => {
                let found = space.all(100_000).expect("a small model").expect("few configurations");
                // Every feature has an option text, so that all differ in their arguments.
                prop_assert_eq!(found.len(), expected.len());
                prop_assert_eq!(keys(&found), keys(&expected));
            }
            Err(InfluenceError::NoConfiguration) => prop_assert!(expected.is_empty()),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn coverings_have_every_possible_combination(model in model(), strength in 1_usize..=2, seed: u64) {
        let allowed = by_trying(&model);
        let Ok(space) = Space::new(&model, 8) else { return Ok(()) };
        let mut random = StdRng::seed_from_u64(seed);
        let chosen = sampling::covering(&space, strength, &mut random).expect("a small model");
        prop_assert!(chosen.iter().all(|own| own.is_valid(&model)));
        let combinations = |configurations: &[Configuration]| {
            let mut found = HashSet::new();
            for own in configurations {
                for one in 0..FEATURES {
                    for other in if strength == 1 { one..one + 1 } else { one + 1..FEATURES } {
                        found.insert(format!("{one} {:?} {other} {:?}", own.values[one], own.values[other]));
                    }
                }
            }
            found
        };
        if space.choosable().len() >= strength {
            prop_assert_eq!(combinations(&chosen), combinations(&allowed));
        }
    }

    #[test]
    fn samples_are_allowed_and_distinct(model in model(), seed: u64) {
        let Ok(space) = Space::new(&model, 8) else { return Ok(()) };
        let mut random = StdRng::seed_from_u64(seed);
        for chosen in [
            sampling::by_distance(&space, 10, &[], &mut random).expect("a small model"),
            sampling::at_random(&space, 10, &[], &mut random).expect("a small model"),
        ] {
            prop_assert!(chosen.iter().all(|own| own.is_valid(&model)));
            prop_assert_eq!(keys(&chosen).len(), chosen.len());
        }
    }
}

#[test]
fn plans_hold_out_configurations_and_say_what_is_not_covered() {
    let features: String = (0..8).map(|own| format!("[[feature]]\nname = \"f{own}\"\noption = \"-{own}\"\n")).collect();
    let model = parse(&features, Format::Toml, "eight").expect("a model");
    let few = plan(&model, &PlanSettings { configurations: 400, ..PlanSettings::default() }).expect("a plan");
    assert!(few.complete && few.configurations.len() == 256 && few.training == 256);
    let part = plan(&model, &PlanSettings { configurations: 30, ..PlanSettings::default() }).expect("a plan");
    assert_eq!((part.configurations.len(), part.training, part.uncovered, part.complete), (30, 24, 0, false));
    assert_eq!(keys(&part.configurations).len(), 30);
    let short = plan(&model, &PlanSettings { configurations: 4, ..PlanSettings::default() }).expect("a plan");
    assert!(short.uncovered > 0);
    let random = PlanSettings { sampling: Sampling::Random, configurations: 20, ..PlanSettings::default() };
    assert_eq!(plan(&model, &random).expect("a plan").training, 16);
}

#[test]
fn impossible_models_are_told() {
    let refused = |text: &str| {
        let model = parse(text, Format::Toml, "x").expect("a model");
        plan(&model, &PlanSettings::default()).expect_err("nothing to compare").to_string()
    };
    assert!(refused("[[feature]]\nname = \"A\"\nvars = [\"a.c:a\"]\n").contains("option text"));
    assert!(
        refused("constraints = [\"A & !A\"]\n[[feature]]\nname = \"A\"\noption = \"-a\"\n")
            .contains("no configuration")
    );
    assert!(refused("[[feature]]\nname = \"A\"\noption = \"-a\"\noptional = false\n").contains("single configuration"));
}
