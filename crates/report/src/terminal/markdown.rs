//! The same pages as GitHub-flavoured Markdown: nothing is shortened, tables are pipe tables.

use super::table::Table;

/// `text` without a character that Markdown would read as markup.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '|' | '#') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// A pipe table; columns that tell nothing are left out as on a terminal.
pub(crate) fn table(table: &Table, out: &mut String) {
    let shown = table.telling();
    let columns: Vec<_> = shown.iter().map(|&at| &table.columns()[at]).collect();
    let mut line = |cells: &mut dyn Iterator<Item = String>| {
        out.push('|');
        cells.for_each(|cell| out.push_str(&format!(" {cell} |")));
        out.push('\n');
    };
    line(&mut columns.iter().map(|column| escape(column.title)));
    line(&mut columns.iter().map(|column| if column.number { "---:" } else { "---" }.to_owned()));
    for row in table.rows() {
        // Leading blanks are kept: they show the depth in a tree.
        let cell = |text: String| {
            let depth = text.chars().take_while(|c| *c == ' ').count();
            "&nbsp;".repeat(depth) + escape(&text[depth..]).trim_end()
        };
        line(&mut shown.iter().map(|&at| cell(row[at].text())));
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{Cell, Column};
    use super::*;

    #[test]
    fn names_are_no_markup_and_depth_is_kept() {
        let mut of = Table::new(&[Column::number("TIME"), Column::number("EMPTY"), Column::text("NAME")]);
        of.row([Cell::from("1 s".to_owned()), Cell::default(), Cell::from("  a|b<T>_*".to_owned())]);
        let mut out = String::new();
        table(&of, &mut out);
        assert_eq!(out, "| TIME | NAME |\n| ---: | --- |\n| 1 s | &nbsp;&nbsp;a\\|b\\<T\\>\\_\\* |\n");
    }
}
