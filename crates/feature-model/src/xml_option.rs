//! `<configurationOption>`.

use roxmltree::Node;

use crate::draft::{DefaultDraft, FeatureDraft, Placed};
use crate::xml_format::{content, exact_content, position, unexpected};
use crate::{Domain, ModelError, OptionText, Place, Problem, SourceRange, Step};

/// Texts of one option before they are put together.
#[derive(Default)]
struct Texts {
    output: String,
    prefix: String,
    postfix: String,
    min: Option<f64>,
    max: Option<f64>,
    step: Option<Step>,
    values: Vec<f64>,
}

pub(crate) fn read(node: Node<'_, '_>, numeric: bool) -> Result<FeatureDraft, ModelError> {
    let name = node.children().find(|child| child.has_tag_name("name"));
    let name = name.map(content).ok_or_else(|| missing(node, "name"))?;
    let mut texts = Texts::default();
    let mut draft = FeatureDraft {
        name,
        option: OptionText::default(),
        parent: None,
        children: Vec::new(),
        optional: Some(false),
        is_abstract: false,
        group: None,
        implies: Vec::new(),
        excludes: Vec::new(),
        domain: None,
        default: None,
        places: Vec::new(),
    };
    let mut deselectable = None;
    for part in node.children().filter(Node::is_element) {
        let text = content(part);
        match part.tag_name().name() {
            "name" => {}
            // `--level ` has its value in the next word.
            "outputString" => texts.output = exact_content(part),
            "prefix" | "preFix" => texts.prefix = exact_content(part),
            "postfix" | "postFix" => texts.postfix = exact_content(part),
            "parent" => draft.parent = Some(text).filter(|parent| !parent.text.is_empty()),
            "children" => draft.children = lists(part)?.concat(),
            "impliedOptions" => draft.implies = lists(part)?,
            "excludedOptions" => draft.excludes = lists(part)?.concat(),
            "optional" => draft.optional = Some(truth(&text)?),
            // Of older models.
            "deselectable" => deselectable = Some(truth(&text)?),
            "defaultSelected" => draft.default = Some(DefaultDraft::Selected(truth(&text)?)),
            "defaultValue" => draft.default = default_value(&decimal_point(text))?,
            "minValue" => texts.min = Some(number(&decimal_point(text))?),
            "maxValue" => texts.max = Some(number(&decimal_point(text))?),
            "stepFunction" => {
                let text = decimal_point(text);
                texts.step = match text.text.is_empty() {
                    true => None,
                    false => Some(Step::parse(&text.text).map_err(|problem| ModelError::at(text.at, problem))?),
                }
            }
            "values" => {
                for value in text.text.split([';', ',']).filter(|value| !value.trim().is_empty()) {
                    texts.values.push(number(&Placed { text: value.trim().into(), at: text.at })?);
                }
            }
            "locations" => draft.places = locations(part)?,
            _ => return Err(unexpected(part, "see vm.dtd for what an option may say")),
        }
    }
    if deselectable == Some(true) {
        draft.optional = Some(true);
    }
    let at = draft.name.at;
    let name = draft.name.text.clone();
    let with_place = |problem| ModelError::at(at, problem);
    draft.option = option_text(&texts, &name, numeric).map_err(with_place)?;
    if numeric {
        draft.domain = Some(domain(&name, texts).map_err(with_place)?);
    }
    // The name that VaRA and SPL Conqueror reserve for the program itself.
    if name == "root" || name == "base" {
        draft.optional = Some(false);
    }
    Ok(draft)
}

fn missing(node: Node<'_, '_>, missing: &'static str) -> ModelError {
    let element = node.tag_name().name().to_owned();
    ModelError::at(position(node), Problem::Missing { element, missing })
}

/// The command-line text. `noOutput`, and a label that only repeats the name, are none.
fn option_text(texts: &Texts, name: &str, numeric: bool) -> Result<OptionText, Problem> {
    let output = match texts.output.trim() {
        "noOutput" => "",
        label if label == name && !label.starts_with('-') => "",
        _ => texts.output.as_str(),
    };
    if !numeric {
        return OptionText::binary(&format!("{}{output}{}", texts.prefix, texts.postfix));
    }
    match (texts.prefix.is_empty() && texts.postfix.is_empty(), output) {
        (false, _) => OptionText::numeric(&format!("{}{{}}{}", texts.prefix, texts.postfix)),
        (true, "") => Ok(OptionText::default()),
        // `--width=` and `-` are followed by the value, `--width` by another word.
        (true, output) if output == "-" || output.ends_with(['=', ':', ' ', '\t']) => OptionText::numeric(output),
        (true, output) if output.contains("{}") => OptionText::numeric(output),
        (true, output) => OptionText::numeric(&format!("{output} {{}}")),
    }
}

fn domain(name: &str, texts: Texts) -> Result<Domain, Problem> {
    let mut values = texts.values;
    // Models say both: the values are those, the bounds are theirs.
    if !values.is_empty() {
        values.sort_by(f64::total_cmp);
        values.dedup();
        return Ok(Domain::Values(values));
    }
    Domain::range(name, texts.min, texts.max, texts.step)
}

/// The names in `<options>`: for each, those separated by `|`.
fn lists(part: Node<'_, '_>) -> Result<Vec<Vec<Placed>>, ModelError> {
    let mut all = Vec::new();
    for options in part.children().filter(Node::is_element) {
        if !matches!(options.tag_name().name(), "options" | "option") {
            return Err(unexpected(options, "it holds <options>NAME</options>"));
        }
        let names = content(options);
        let any = names.text.split('|').map(str::trim).filter(|name| !name.is_empty());
        let any: Vec<_> = any.map(|name| Placed { text: name.into(), at: names.at }).collect();
        if !any.is_empty() {
            all.push(any);
        }
    }
    Ok(all)
}

fn truth(text: &Placed) -> Result<bool, ModelError> {
    match text.text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" | "" => Ok(false),
        _ => Err(wrong(text, "`True` or `False`")),
    }
}

fn wrong(text: &Placed, expected: &'static str) -> ModelError {
    ModelError::at(text.at, Problem::Word { found: text.text.clone(), expected })
}

fn number(text: &Placed) -> Result<f64, ModelError> {
    let number = text.text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| wrong(text, "a number"))
}

/// Some models write 0,5 for a half, as SPL Conqueror reads it.
fn decimal_point(text: Placed) -> Placed {
    Placed { text: text.text.replace(',', "."), at: text.at }
}

fn default_value(text: &Placed) -> Result<Option<DefaultDraft>, ModelError> {
    match text.text.to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "selected" | "true" => Ok(Some(DefaultDraft::Selected(true))),
        "deselected" | "false" => Ok(Some(DefaultDraft::Selected(false))),
        _ => number(text).map(|value| Some(DefaultDraft::Value(value))),
    }
}

fn locations(part: Node<'_, '_>) -> Result<Vec<Place>, ModelError> {
    let mut places = Vec::new();
    for range in part.children().filter(Node::is_element) {
        if !range.has_tag_name("sourceRange") {
            return Err(unexpected(range, "it holds <sourceRange>s"));
        }
        places.push(location(range)?);
    }
    Ok(places)
}

fn location(range: Node<'_, '_>) -> Result<Place, ModelError> {
    let necessary = match range.attribute("category").map(str::trim) {
        None | Some("necessary") => true,
        Some("inessential") => false,
        Some(other) => {
            let text = Placed { text: other.into(), at: position(range) };
            return Err(wrong(&text, "`necessary` or `inessential`, the values of `category`"));
        }
    };
    let (mut path, mut start, mut end, mut member) = (None, None, None, String::new());
    let (mut introduced, mut removed) = (String::new(), String::new());
    for part in range.children().filter(Node::is_element) {
        match part.tag_name().name() {
            "path" => path = Some(content(part)),
            "start" => start = Some(line_and_column(part)?),
            "end" => end = Some(line_and_column(part)?),
            "memberOffset" => member = content(part).text,
            "revisionRange" => {
                for revision in part.children().filter(Node::is_element) {
                    match revision.tag_name().name() {
                        "introduced" => introduced = content(revision).text,
                        "removed" => removed = content(revision).text,
                        _ => return Err(unexpected(revision, "it holds <introduced> and <removed>")),
                    }
                }
            }
            _ => {
                return Err(unexpected(part, "it holds <revisionRange>, <path>, <start>, <end> and <memberOffset>"));
            }
        }
    }
    let path = path.filter(|path| !path.text.is_empty()).ok_or_else(|| missing(range, "path"))?.text;
    let (line, column) = start.ok_or_else(|| missing(range, "start"))?;
    let (end_line, end_column) = end.ok_or_else(|| missing(range, "end"))?;
    if (end_line, end_column) < (line, column) {
        let text = Placed { text: format!("{end_line}:{end_column}"), at: position(range) };
        return Err(wrong(&text, "at or after the start of the range"));
    }
    let range = SourceRange { line, column, end_line, end_column };
    Ok(Place::Location { path, range, member, introduced, removed, necessary })
}

fn line_and_column(part: Node<'_, '_>) -> Result<(u32, u32), ModelError> {
    let read = |name: &'static str| {
        let child = part.children().find(|child| child.has_tag_name(name)).ok_or_else(|| missing(part, name))?;
        let text = content(child);
        text.text.parse::<u32>().map_err(|_| wrong(&text, "a line or column"))
    };
    Ok((read("line")?, read("column")?))
}
