//! Both formats, read into the same model, and its flat form.

use transect_feature_model::{Domain, FeatureKind, FeatureModel, Format, Step, parse};

fn toml(text: &str) -> FeatureModel {
    parse(text, Format::Toml, "test").expect("a model")
}

fn xml(binary: &str, numeric: &str, rest: &str) -> FeatureModel {
    let text = format!(
        "<vm name=\"test\"><binaryOptions>{binary}</binaryOptions><numericOptions>{numeric}</numericOptions>{rest}</vm>"
    );
    parse(&text, Format::Xml, "").expect("a model")
}

#[test]
fn a_toml_model_in_full() {
    let model = toml(
        r#"
name = "packer"
constraints = ["fast => !verify", "level * fast <= 3"]
[[feature]]
name = "level"
vars = ["pack.c:level"]
option = "-"
min = 1
max = 9
default = 6
[[feature]]
name = "format"
abstract = true
[[feature]]
name = "gz"
parent = "format"
group = "format"
option = "--format=gz"
members = ["ns::Options::format", "pack.h:ns::Options::level"]
default = true
[[feature]]
name = "xz"
parent = "format"
group = "format"
option = "--format xz"
vars = ["src/pack.cc:ns::Packer::run:format"]
implies = ["verify | fast"]
[[feature]]
name = "verify"
file = "check.c"
vars = ["verify", "main:verify", "other.c:verify"]
members = ["state::on", "other.c:state::on"]
option = "--verify 'a b'"
[[feature]]
name = "fast"
excludes = ["verify"]
[[feature]]
name = "window"
option = "-w {} --exact"
optional = true
min = 1
max = 100
step = "x * 2"
[[feature]]
name = "seed"
values = [42, 1, 42]
"#,
    );
    assert_eq!(model.name, "packer");
    let feature = |name: &str| &model.features[model.find(name).expect("it is there")];
    assert!(feature("level").mandatory && feature("format").mandatory && feature("seed").mandatory);
    assert!(!feature("fast").mandatory && !feature("window").mandatory && !feature("gz").mandatory);
    assert_eq!(feature("gz").kind, FeatureKind::Binary { default: true });
    assert_eq!(feature("level").option.arguments(Some(9.0)), ["-9"]);
    assert_eq!(feature("window").option.arguments(Some(64.0)), ["-w", "64", "--exact"]);
    assert_eq!(feature("verify").option.arguments(None), ["--verify", "a b"]);
    assert_eq!(feature("seed").domain(), Some(&Domain::Values(vec![1.0, 42.0])));
    assert_eq!(feature("window").domain().map(|d| d.iter().collect()), Some(vec![1., 2., 4., 8., 16., 32., 64.]));
    assert_eq!(feature("xz").implies, [vec![4, 5]]);
    assert_eq!(model.groups.len(), 1);
    assert!(model.groups[0].required && model.groups[0].members == [2, 3]);
    let value = |level: f64, fast: f64| move |at: usize| [Some(level), None, None, None, None, Some(fast)][at];
    assert!(model.constraints[1].holds(&value(3.0, 1.0)) && !model.constraints[1].holds(&value(4.0, 1.0)));
    let flat = model.flat();
    let (head, records) = flat.split_once('\n').expect("lines");
    assert_eq!(head, format!("transect-feature-model\t1\t{}", model.hash()));
    let expected = "feature\tlevel\nfeature\tformat\nfeature\tgz\nfeature\txz\nfeature\tverify\nfeature\tfast\n\
        feature\twindow\nfeature\tseed\nvariable\t0\tpack.c\t\tlevel\nmember\t2\tns::Options\tformat\n\
        member\t2\tns::Options\tlevel\tpack.h\n\
        variable\t3\tsrc/pack.cc\tns::Packer::run\tformat\nvariable\t4\tcheck.c\t\tverify\n\
        variable\t4\tcheck.c\tmain\tverify\nvariable\t4\tother.c\t\tverify\n\
        member\t4\tstate\ton\tcheck.c\nmember\t4\tstate\ton\tother.c\n";
    assert_eq!(records, expected);
}

#[test]
fn the_hash_is_of_features_and_places() {
    let one = toml("[[feature]]\nname = \"A\"\nvars = [\"a.c:a\"]\n");
    let other_option = toml("[[feature]]\nname = \"A\"\noption = \"-a\"\nvars = [\"a.c:a\"]\n");
    let other_place = toml("[[feature]]\nname = \"A\"\nvars = [\"a.c:b\"]\n");
    assert_eq!(one.hash(), other_option.hash());
    assert_ne!(one.hash(), other_place.hash());
    assert_eq!(one.hash().len(), 16);
}

#[test]
fn xml_alternatives_texts_and_locations() {
    let option =
        |name: &str, rest: &str| format!("<configurationOption><name>{name}</name>{rest}</configurationOption>");
    let range = |line: u32, removed: &str| {
        format!(
            "<sourceRange category=\"necessary\"><revisionRange><introduced>a1</introduced>{removed}</revisionRange>\
             <path> a.c </path><start><line>{line}</line><column>5</column></start><end><line>{line}</line>\
             <column>9</column></end><memberOffset>S::m</memberOffset></sourceRange>"
        )
    };
    let excludes =
        |name: &str| format!("<parent>root</parent><excludedOptions><options>{name}</options></excludedOptions>");
    let binary = [
        option("root", "<optional>False</optional><children><options>C</options></children>"),
        option("A", &format!("<outputString>-a</outputString>{}<optional>False</optional>", excludes("B"))),
        option("B", &format!("<prefix>--b=</prefix><outputString>1</outputString>{}", excludes("A"))),
        option("C", "<outputString>C</outputString><optional>True</optional><defaultValue>Selected</defaultValue>"),
        option(
            "D",
            &format!(
                "<parent>C</parent><optional> true </optional><impliedOptions><options>A | B</options></impliedOptions>\
                 <locations>{}{}</locations>",
                range(3, "<removed>b2</removed>"),
                range(7, "")
            ),
        ),
    ]
    .concat();
    let numeric = [
        option(
            "N",
            "<prefix>-l</prefix><minValue>1</minValue><maxValue>9</maxValue><stepFunction>level + 2</stepFunction>",
        ),
        option("M", "<outputString>-i</outputString><values>1;42;7</values><optional>True</optional>"),
    ]
    .concat();
    let rest = "<booleanConstraints><constraint>!D | A</constraint></booleanConstraints>\
        <nonBooleanConstraints><constraint>N + M &lt; 20</constraint></nonBooleanConstraints>\
        <mixedConstraints><constraint req=\"all\" exprKind=\"neg\">A * M = 7</constraint></mixedConstraints>";
    let model = xml(&binary, &numeric, rest);
    assert_eq!(model.groups.len(), 1);
    assert_eq!((model.groups[0].name.as_str(), model.groups[0].required), ("A|B", true));
    let words = |at: usize, value| model.features[at].option.arguments(value);
    assert_eq!(words(1, None), ["-a"]);
    assert_eq!(words(2, None), ["--b=1"]);
    assert!(model.features[3].option.is_empty(), "a label is no option");
    assert_eq!(words(5, Some(3.0)), ["-l3"]);
    assert_eq!(words(6, Some(42.0)), ["-i", "42"]);
    assert_eq!(model.features[3].kind, FeatureKind::Binary { default: true });
    assert_eq!(model.features[3].parent, Some(0));
    assert_eq!(model.features[5].domain(), Some(&Domain::Range { min: 1.0, max: 9.0, step: Step::Add(2.0) }));
    assert!(model.features[5].mandatory && !model.features[6].mandatory);
    assert!(model.flat().contains("location\t4\ta.c\t7\t5\t7\t9\tS::m\n"));
    assert!(!model.flat().contains("\t3\t5\t3\t9\t"), "removed places give way to current ones");
    // A, M = 7: refused. M alone: the mixed constraint needs both.
    let with = |a: Option<f64>, m: Option<f64>| move |at: usize| [None, a, None, None, None, Some(1.0), m][at];
    assert!(!model.constraints[2].holds(&with(Some(1.0), Some(7.0))));
    assert!(model.constraints[2].holds(&with(None, Some(7.0))));
    assert!(!model.constraints[1].holds(&with(None, Some(42.0))));
}

#[test]
fn large_ranges_are_not_walked() {
    let model = toml("[[feature]]\nname = \"ram\"\nmin = 1\nmax = 9223372036854775807\nstep = 1\n");
    let domain = model.features[0].domain().expect("numeric");
    assert_eq!(domain.count(1000), None);
    let spread = domain.spread(3);
    assert_eq!((spread[0], spread.len(), spread[2]), (1.0, 3, 9_223_372_036_854_775_807.0));
    assert!(domain.contains(7.0) && !domain.contains(7.5));
}

#[test]
fn fractional_steps_are_decimal() {
    let domain = |min: &str, max: &str, step: &str| {
        let text = format!("[[feature]]\nname = \"n\"\nmin = {min}\nmax = {max}\nstep = \"{step}\"\noption = \"-n\"\n");
        let model = toml(&text);
        let domain = model.features[0].domain().expect("a number").clone();
        let texts = domain.iter().map(|value| model.features[0].option.arguments(Some(value)).concat());
        (texts.collect::<Vec<_>>().join(" "), domain)
    };
    let (texts, tenths) = domain("0.0", "0.3", "x + 0.1");
    assert_eq!(texts, "-n0 -n0.1 -n0.2 -n0.3");
    assert_eq!(tenths.spread(3), [0.0, 0.1, 0.3]);
    assert_eq!(tenths.spread(10), [0.0, 0.1, 0.2, 0.3]);
    assert!(tenths.contains(0.3) && !tenths.contains(0.25));
    assert_eq!(domain("-0.3", "0.3", "x + 0.1").0, "-n-0.3 -n-0.2 -n-0.1 -n0 -n0.1 -n0.2 -n0.3");
    assert_eq!(domain("1.0", "1.4", "x * 1.1").0, "-n1 -n1.1 -n1.21 -n1.331");
    assert_eq!(domain("1e-9", "3e-9", "x + 1e-9").0, "-n0.000000001 -n0.000000002 -n0.000000003");
    // Large numbers are exact without.
    assert_eq!(
        domain("9007199254740989", "9007199254740991", "x + 1").0.rsplit_once('n').unwrap().1,
        "9007199254740991"
    );
}

#[test]
fn blanks_in_texts_of_xml_options_separate_words() {
    let option = |name: &str, rest: &str| {
        format!("<configurationOption><name>{name}</name>{rest}<optional>True</optional></configurationOption>")
    };
    let range = "<minValue>1</minValue><maxValue>3</maxValue>";
    let numeric = [
        option("word", &format!("<prefix>--level </prefix><postfix>k -v</postfix>{range}")),
        option("lines", &format!("<prefix>\n  --level\n </prefix>{range}")),
        option("blank", &format!("<outputString>--size</outputString><prefix> </prefix><postfix></postfix>{range}")),
    ];
    let binary = option("on", "<prefix>--mode </prefix><outputString>fast</outputString>");
    let model = xml(&binary, &numeric.concat(), "");
    let arguments = |name: &str| model.features[model.find(name).expect("it is there")].option.arguments(Some(2.0));
    assert_eq!(arguments("word"), ["--level", "2k", "-v"]);
    assert_eq!(arguments("lines"), ["--level2"]);
    assert_eq!(arguments("blank"), ["--size", "2"]);
    assert_eq!(arguments("on"), ["--mode", "fast"]);
}

#[test]
fn values_follow_texts_of_xml_options_as_models_mean_it() {
    let option = |name: &str, rest: &str| {
        format!("<configurationOption><name>{name}</name>{rest}<optional>True</optional></configurationOption>")
    };
    let range = "<minValue>1</minValue><maxValue>3</maxValue>";
    let texts =
        [("dash", "-"), ("equals", "--width="), ("word", "--width"), ("blank", "--level "), ("inside", "--x={}k")];
    let numeric: String =
        texts.map(|(name, text)| option(name, &format!("<outputString>{text}</outputString>{range}"))).concat();
    // Bounds beside values are theirs; a decimal comma.
    let both = option("both", "<minValue>1</minValue><maxValue>8</maxValue><values>1;8</values>");
    let comma =
        option("comma", "<minValue>0,5</minValue><maxValue>2,5</maxValue><stepFunction>comma + 1,0</stepFunction>");
    let model = xml("", &(numeric + &both + &comma), "");
    let feature = |name: &str| &model.features[model.find(name).expect("it is there")];
    let arguments = texts.map(|(name, _)| feature(name).option.arguments(Some(2.0)));
    assert_eq!(arguments, [vec!["-2"], vec!["--width=2"], vec!["--width", "2"], vec!["--level", "2"], vec!["--x=2k"]]);
    assert_eq!(feature("both").domain(), Some(&Domain::Values(vec![1.0, 8.0])));
    assert_eq!(feature("comma").domain(), Some(&Domain::Range { min: 0.5, max: 2.5, step: Step::Add(1.0) }));
}

#[test]
fn braces_of_a_binary_option_are_its_own() {
    let model = toml(
        "[[feature]]\nname = \"A\"\noption = \"-I{}\"\n[[feature]]\nname = \"N\"\noption = \"-n \"\nmin = 1\nmax = 4\n",
    );
    assert_eq!(model.features[0].option.arguments(Some(1.0)), ["-I{}"]);
    assert_eq!(model.features[1].option.arguments(Some(3.0)), ["-n", "3"]);
}

#[test]
fn values_with_names_are_alternatives() {
    let model = toml(
        r#"
constraints = ["fast => !\"mode=best\""]
[[feature]]
name = "mode"
option = "--mode "
vars = ["pack.c:mode"]
values = ["quick", "best", "a b"]
default = "best"
[[feature]]
name = "level"
option = "-"
values = ["1", 6, 9]
[[feature]]
name = "fast"
option = "--fast"
"#,
    );
    let names: Vec<&str> = model.features.iter().map(|feature| feature.name.as_str()).collect();
    let levels = ["mode", "mode=quick", "mode=best", "mode=a b", "level", "level=1", "level=6", "level=9", "fast"];
    assert_eq!(names, levels);
    let arguments = |name: &str| model.features[model.find(name).expect("a feature")].option.arguments(Some(1.0));
    assert_eq!(arguments("mode=a b"), ["--mode", "a b"]);
    assert_eq!(arguments("level=6"), ["-6"]);
    assert!(arguments("mode").is_empty() && !model.features[0].places.is_empty());
    assert_eq!(model.features[2].kind, FeatureKind::Binary { default: true });
    let groups: Vec<(usize, bool)> = model.groups.iter().map(|group| (group.members.len(), group.required)).collect();
    assert_eq!(groups, [(3, true), (3, true)]);
}

#[test]
fn a_default_that_is_no_level_is_refused() {
    let refused = |text: &str| parse(text, Format::Toml, "").expect_err("a wrong default").to_string();
    let table = "[[feature]]\nname = \"mode\"\noption = \"-m\"\n";
    let error = refused(&format!("{table}values = [\"a\", \"b\"]\ndefault = \"c\"\n"));
    assert!(error.contains("the default of feature `mode`, c, is not one of its values"), "{error}");
    let error = refused(&format!("{table}default = \"c\"\n"));
    assert!(error.contains("the default of feature `mode`, c,"), "{error}");
    let error = refused(&format!("{table}values = [\"a\"]\nmin = 1\nmax = 2\n"));
    assert!(error.contains("has both `values` and"), "{error}");
}
