//! What is wrong with a model is said with its place.

use transect_feature_model::{Format, ModelError, Problem, parse, read};

fn refused(text: &str, format: Format) -> ModelError {
    parse(text, format, "test").expect_err("it should be refused")
}

fn at(error: &ModelError) -> (u32, u32) {
    error.position.map(|at| (at.line, at.column)).expect("a position")
}

#[test]
fn toml_models() {
    let cases: [(&str, (u32, u32), &str); 20] = [
        ("[[feature]]\nname = \"A\"\n[[feature]]\nname = \"A\"\n", (4, 8), "defined twice, first in line 2"),
        ("[[feature]]\nname = \"A\"\nparent = \"b\"\n", (3, 10), "the parent of `A` names `b`"),
        ("[[feature]]\nname = \"A\"\nimplies = [\"a\"]\n", (3, 12), "is `A` meant?"),
        ("[[feature]]\nname = \"A\"\nexcludes = [\"A\"]\n", (3, 13), "excludes itself"),
        ("[[feature]]\nname = \"\"\n", (2, 8), "name is empty"),
        ("[[feature]]\nname = \"A\"\nvars = [\"x\"]\n", (3, 9), "file.c:function:variable"),
        ("[[feature]]\nname = \"A\"\nvars = [\"a.c:\"]\n", (3, 9), "file.c:function:variable"),
        ("[[feature]]\nname = \"A\"\nvars = [\"a.c:f:v:w\"]\n", (3, 9), "file.c:function:variable"),
        ("[[feature]]\nname = \"A\"\nmembers = [\"field\"]\n", (3, 12), "Tag::field"),
        ("[[feature]]\nname = \"A\"\nmembers = [\"tag:a::field\"]\n", (3, 12), "file.c:Tag::field"),
        ("[[feature]]\nname = \"A\"\nvariables = [\"x\"]\n", (3, 1), "unknown field `variables`"),
        ("[[feature]]\nname = \"A\"\nmin = 1\n", (2, 8), "only one of `min` and `max`"),
        ("[[feature]]\nname = \"A\"\nmin = 2\nmax = 1\n", (2, 8), "no possible value"),
        ("[[feature]]\nname = \"A\"\nmin = 1\nmax = 9\nstep = 0\n", (2, 8), "does not lead"),
        ("[[feature]]\nname = \"A\"\nmin = 1\nmax = 9\nvalues = [1]\n", (2, 8), "keep one"),
        ("[[feature]]\nname = \"A\"\nmin = 1\nmax = 9\nstep = \"x ? 1\"\n", (5, 8), "a step such as"),
        ("[[feature]]\nname = \"A\"\nmin = 1\nmax = 9\ndefault = 10\n", (2, 8), "not one of its values"),
        ("[[feature]]\nname = \"A\"\noption = \"-a 'b\"\n", (3, 10), "unclosed quote"),
        ("constraints = [\"A & B\"]\n[[feature]]\nname = \"A\"\n", (1, 16), "the constraint names `B`"),
        ("constraints = [\"A & (A\"]\n[[feature]]\nname = \"A\"\n", (1, 16), "expected `)`, found end"),
    ];
    for (text, place, message) in cases {
        let error = refused(text, Format::Toml);
        assert!(error.to_string().contains(message), "{error}\nshould say: {message}");
        assert_eq!(at(&error), place, "{error}");
    }
    assert_eq!(refused("", Format::Toml).problem, Problem::Empty);
    assert_eq!(at(&refused("[[feature]]\nname = \n", Format::Toml)).0, 2);
}

#[test]
fn groups_and_cycles() {
    let two = |a: &str, b: &str| format!("[[feature]]\nname = \"A\"\n{a}\n[[feature]]\nname = \"B\"\n{b}\n");
    let error = refused(&two("parent = \"B\"", "parent = \"A\""), Format::Toml);
    assert!(matches!(&error.problem, Problem::Cycle { path, .. } if path == "A -> B -> A"), "{error}");
    let error = refused(&two("group = \"g\"", "group = \"g\"\nparent = \"A\""), Format::Toml);
    assert!(matches!(error.problem, Problem::GroupParents { .. }), "{error}");
    let error = refused(&two("group = \"g\"", "group = \"g\"\noptional = true"), Format::Toml);
    assert!(matches!(error.problem, Problem::GroupOptional { .. }), "{error}");
    let error = refused(&two("group = \"g\"", "group = \"g\"\nvalues = [1]"), Format::Toml);
    assert!(matches!(error.problem, Problem::GroupNumeric { .. }), "{error}");
}

#[test]
fn xml_models() {
    let vm = |inside: &str| format!("<vm name=\"x\">\n{inside}\n</vm>");
    let options = |inside: &str| vm(&format!("<binaryOptions>\n{inside}\n</binaryOptions>"));
    let cases: [(String, (u32, u32), &str); 9] = [
        ("<vm name=\"x\">\n<binaryOptions></vm>".into(), (2, 16), "malformed XML"),
        ("<model/>".into(), (1, 1), "root is <vm>"),
        (vm("<options/>"), (2, 1), "unexpected element <options>"),
        (options("<configurationOption><parent/></configurationOption>"), (3, 1), "has no <name>"),
        (
            options("<configurationOption><name>A</name><optional>maybe</optional></configurationOption>"),
            (3, 36),
            "True",
        ),
        (
            options("<configurationOption><name>A</name><parent>B</parent></configurationOption>"),
            (3, 36),
            "parent of `A`",
        ),
        (options("<configurationOption><name>A</name><colour/></configurationOption>"), (3, 36), "<colour>"),
        (
            options(
                "<configurationOption><name>A</name><locations>\n<sourceRange><path>a.c</path></sourceRange></locations>\
                 </configurationOption>",
            ),
            (4, 1),
            "has no <start>",
        ),
        (
            vm("<numericOptions><configurationOption><name>N</name></configurationOption></numericOptions>"),
            (2, 38),
            "no possible value",
        ),
    ];
    for (text, place, message) in cases {
        let error = refused(&text, Format::Xml);
        assert!(error.to_string().contains(message), "{error}\nshould say: {message}");
        assert_eq!(at(&error), place, "{error}");
    }
}

#[test]
fn entities_are_refused_and_a_plain_document_type_is_not() {
    let body =
        "<vm name=\"x\"><binaryOptions><configurationOption><name>A</name></configurationOption></binaryOptions></vm>";
    let plain = format!("<?xml version=\"1.0\"?>\n<!DOCTYPE vm SYSTEM \"vm.dtd\">\n{body}");
    assert!(parse(&plain, Format::Xml, "").is_ok());
    let bomb =
        format!("<!DOCTYPE vm [\n<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;\">]>\n{body}").replace(">A<", ">&b;<");
    assert_eq!(refused(&bomb, Format::Xml).problem, Problem::Entities);
    let outside = format!("<!DOCTYPE vm [<!ENTITY a SYSTEM \"/etc/passwd\">]>{body}");
    assert_eq!(refused(&outside, Format::Xml).problem, Problem::Entities);
    // A comment that looks like a document type does not hide the real one.
    let hidden = format!("<!-- <!DOCTYPE vm> -->{bomb}");
    assert_eq!(refused(&hidden, Format::Xml).problem, Problem::Entities);
}

#[test]
fn files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.toml");
    assert!(matches!(read(&path).expect_err("it is not there").problem, Problem::Unreadable(_)));
    assert!(matches!(read(folder.path()).expect_err("a folder").problem, Problem::Unreadable(_)));
    std::fs::write(&path, vec![b' '; 5 << 20]).expect("write");
    assert!(matches!(read(&path).expect_err("too large").problem, Problem::TooLarge { .. }));
    std::fs::write(&path, b"name = \"x\"\n# \xff").expect("write");
    let error = read(&path).expect_err("not UTF-8");
    assert!(
        error.to_string().ends_with("m.toml:2:1: the feature model is not UTF-8 text; save it as UTF-8"),
        "{error}"
    );
}
