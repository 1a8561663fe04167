//! JSON inside a script element: the element's end must not occur in it, whatever the strings hold.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::ReportError;

/// Writes `value` as JSON without the characters `<`, `>`, `&`, U+2028 and U+2029, which become `\uXXXX`; the parsed
/// value is the same. So neither `</script>` nor `<!--` can occur, and line terminators of older JavaScript do not.
pub(super) fn write_json<R: Serialize + ?Sized>(value: &R, out: &mut dyn Write) -> Result<(), ReportError> {
    let mut serializer = Serializer::with_formatter(&mut *out, ScriptSafe);
    value.serialize(&mut serializer).map_err(|e| match e.io_error_kind() {
        Some(kind) => ReportError::Write(io::Error::new(kind, e)),
        None => ReportError::Encode(e.to_string()),
    })
}

struct ScriptSafe;

fn is_unsafe(c: char) -> bool {
    matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}')
}

impl Formatter for ScriptSafe {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|&(_, c)| is_unsafe(c)) {
            write!(writer, "{}\\u{:04x}", &rest[..at], u32::from(c))?;
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_survive_and_close_nothing() {
        let name = "</script><!-- &amp; <img onerror=\"x\"> \u{2028}\u{2029} \\u003c 'é\u{202e}";
        let value = serde_json::json!({ name: [name] });
        let mut out = Vec::new();
        write_json(&value, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
