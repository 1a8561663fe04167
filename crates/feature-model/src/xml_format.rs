//! XML models by `vm.dtd` of vara-feature, and the older ones of SPL Conqueror.

use roxmltree::{Document, Node, ParsingOptions};

use crate::draft::{ConstraintDraft, Draft, Placed};
use crate::{ModelError, Position, Problem, Requirement, xml_option};

/// Elements, attributes and texts in a model, at most.
const NODE_LIMIT: u32 = 500_000;

pub(crate) fn read(text: &str) -> Result<Draft, ModelError> {
    let options = |allow_dtd| ParsingOptions { allow_dtd, nodes_limit: NODE_LIMIT, ..ParsingOptions::default() };
    let document = match Document::parse_with_options(text, options(false)) {
        // A reference to `vm.dtd` is common and harmless, as nothing outside is read; declarations are refused.
        Err(roxmltree::Error::DtdDetected) => {
            refuse_declarations(text)?;
            Document::parse_with_options(text, options(true))
        }
        other => other,
    };
    let document = document.map_err(|error| {
        let at = error.pos();
        ModelError::at(Position { line: at.row, column: at.col }, Problem::Xml(error.to_string()))
    })?;
    let vm = document.root_element();
    expect(vm, "vm", "the document", "a feature model's root is <vm>")?;
    let name = vm.attribute("name").unwrap_or_default().trim().to_owned();
    let mut draft = Draft {
        name,
        features: Vec::new(),
        constraints: Vec::new(),
        ignored: Vec::new(),
        alternatives_by_exclusion: true,
    };
    for part in vm.children().filter(Node::is_element) {
        match part.tag_name().name() {
            "binaryOptions" => options_of(part, false, &mut draft)?,
            "numericOptions" => options_of(part, true, &mut draft)?,
            "booleanConstraints" | "nonBooleanConstraints" | "mixedConstraints" => constraints_of(part, &mut draft)?,
            _ => {
                return Err(unexpected(
                    part,
                    "a model has <binaryOptions>, <numericOptions>, <booleanConstraints>, <nonBooleanConstraints> and \
                     <mixedConstraints>",
                ));
            }
        }
    }
    Ok(draft)
}

/// Refuses declarations; outside of comments their beginnings can stand nowhere else in a document.
fn refuse_declarations(text: &str) -> Result<(), ModelError> {
    let declarations = ["<!ENTITY", "<!ELEMENT", "<!ATTLIST", "<!NOTATION"];
    match declarations.iter().filter_map(|declaration| text.find(declaration)).min() {
        Some(at) => Err(ModelError::at(Position::of(text, at), Problem::Entities)),
        None => Ok(()),
    }
}

fn options_of(part: Node<'_, '_>, numeric: bool, draft: &mut Draft) -> Result<(), ModelError> {
    for option in part.children().filter(Node::is_element) {
        expect(option, "configurationOption", part.tag_name().name(), "it holds <configurationOption>s")?;
        draft.features.push(xml_option::read(option, numeric)?);
    }
    Ok(())
}

fn constraints_of(part: Node<'_, '_>, draft: &mut Draft) -> Result<(), ModelError> {
    for constraint in part.children().filter(Node::is_element) {
        expect(constraint, "constraint", part.tag_name().name(), "it holds <constraint>s")?;
        let word = |name: &str| constraint.attribute(name).map(str::trim);
        let wrong = |found: &str, expected| {
            Err(ModelError::at(position(constraint), Problem::Word { found: found.into(), expected }))
        };
        let requirement = match word("req") {
            None if part.tag_name().name() == "mixedConstraints" => Requirement::All,
            None | Some("none") => Requirement::None,
            Some("all") => Requirement::All,
            Some(other) => return wrong(other, "`all` or `none`, the values of `req`"),
        };
        let negated = match word("exprKind") {
            None | Some("pos") => false,
            Some("neg") => true,
            Some(other) => return wrong(other, "`pos` or `neg`, the values of `exprKind`"),
        };
        let text = content(constraint);
        if !text.text.is_empty() {
            draft.constraints.push(ConstraintDraft { text, requirement, negated });
        }
    }
    Ok(())
}

/// Where an element begins.
pub(crate) fn position(node: Node<'_, '_>) -> Position {
    let at = node.document().text_pos_at(node.range().start);
    Position { line: at.row, column: at.col }
}

/// The text in an element, without spaces around it.
pub(crate) fn content(node: Node<'_, '_>) -> Placed {
    let text: String = node.children().filter(Node::is_text).filter_map(|child| child.text()).collect();
    Placed { text: text.trim().to_owned(), at: position(node) }
}

/// The text in an element as it is, unless that is nothing but spaces, or laid out in lines.
pub(crate) fn exact_content(node: Node<'_, '_>) -> String {
    let text: String = node.children().filter(Node::is_text).filter_map(|child| child.text()).collect();
    let trimmed = text.trim();
    if trimmed.is_empty() || text.contains('\n') { trimmed.to_owned() } else { text }
}

pub(crate) fn unexpected(node: Node<'_, '_>, expected: &str) -> ModelError {
    let inside = node.parent_element().map_or("the document", |parent| parent.tag_name().name());
    let problem =
        Problem::Element { found: node.tag_name().name().into(), inside: inside.into(), expected: expected.into() };
    ModelError::at(position(node), problem)
}

fn expect(node: Node<'_, '_>, name: &str, inside: &str, expected: &str) -> Result<(), ModelError> {
    if node.tag_name().name() == name {
        return Ok(());
    }
    let (found, inside) = (node.tag_name().name().into(), inside.into());
    Err(ModelError::at(position(node), Problem::Element { found, inside, expected: expected.into() }))
}
