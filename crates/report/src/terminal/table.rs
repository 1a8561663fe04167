//! Tables that fit: numbers to the left, names to the right, names shortened and the least columns dropped where the
//! terminal is narrow.

use super::shorten::{shorten, width};
use super::style::{Role, Style};

/// Columns between two columns.
const GAP: usize = 2;

/// One column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// Head.
    pub title: &'static str,
    /// Numbers are right-aligned, text left-aligned.
    pub number: bool,
    /// Least columns to which its cells may be shortened; `None` for cells that may not.
    pub least: Option<usize>,
    /// Dropped where the table does not fit; the highest rank goes first, 0 stays.
    pub rank: u8,
}

impl Column {
    /// A right-aligned column that stays.
    pub(crate) const fn number(title: &'static str) -> Self {
        Self { title, number: true, least: None, rank: 0 }
    }

    /// A left-aligned column that stays as wide as its cells.
    pub(crate) const fn text(title: &'static str) -> Self {
        Self { title, number: false, least: None, rank: 0 }
    }

    /// A left-aligned column of names that may be shortened to `least` columns.
    pub(crate) const fn name(title: &'static str, least: usize) -> Self {
        Self { title, number: false, least: Some(least), rank: 0 }
    }

    /// The same column, dropped on narrow terminals, highest `rank` first.
    pub(crate) const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

/// One cell: pieces of text, each with its role. Only the last piece is shortened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell(Vec<(Role, String)>);

impl Cell {
    /// One piece.
    pub(crate) fn new(role: Role, text: impl Into<String>) -> Self {
        Self(vec![(role, text.into())])
    }

    /// One more piece.
    pub(crate) fn then(mut self, role: Role, text: impl Into<String>) -> Self {
        self.0.push((role, text.into()));
        self
    }

    fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| width(text)).sum()
    }

    fn fit(&self, columns: usize, style: Style) -> (String, usize) {
        let mut painted = String::new();
        let mut left = columns;
        let fixed: usize = self.0.iter().rev().skip(1).map(|(_, text)| width(text)).sum();
        for (i, (role, text)) in self.0.iter().enumerate() {
            let room = if i + 1 == self.0.len() || fixed >= columns { left } else { left.min(width(text)) };
            let text = shorten(text, room);
            left -= width(&text).min(left);
            painted.push_str(&style.paint(*role, &text));
        }
        (painted, columns - left)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(Role::Plain, text)
    }
}

/// Rows under their columns.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row: one cell a column.
    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        debug_assert_eq!(N, self.columns.len());
        self.rows.push(cells.into());
    }

    /// The table as lines, indented by `indent` columns.
    pub(crate) fn render(&self, indent: usize, style: Style, out: &mut String) {
        let room = style.columns().saturating_sub(indent);
        let natural: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, column)| self.rows.iter().map(|r| r[i].width()).chain([width(column.title)]).max().unwrap_or(0))
            .collect();
        let shown = self.choose(&natural, room);
        let widths = self.distribute(&natural, &shown, room);
        let heads: Vec<Cell> = self.columns.iter().map(|c| Cell::new(Role::Dim, c.title)).collect();
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = " ".repeat(indent);
            let mut pending = 0;
            for (&i, &columns) in shown.iter().zip(&widths) {
                let (text, used) = row[i].fit(columns, style);
                let padding = columns - used;
                let (before, after) = if self.columns[i].number { (padding, 0) } else { (0, padding) };
                if used > 0 {
                    line.push_str(&" ".repeat(pending + before));
                    line.push_str(&text);
                    pending = after + GAP;
                } else {
                    pending += columns + GAP;
                }
            }
            out.push_str(&line);
            out.push('\n');
        }
    }

    /// Indices of the columns that are shown: all that fit at their least widths. A column without any content is not
    /// shown at all.
    fn choose(&self, natural: &[usize], room: usize) -> Vec<usize> {
        let has_content = |i: usize| self.rows.is_empty() || self.rows.iter().any(|r| r[i].width() > 0);
        let mut shown: Vec<usize> =
            (0..self.columns.len()).filter(|&i| self.columns[i].rank == 0 || has_content(i)).collect();
        let least = |i: usize| self.columns[i].least.map_or(natural[i], |l| l.min(natural[i]));
        loop {
            let needed: usize = shown.iter().map(|&i| least(i) + GAP).sum::<usize>().saturating_sub(GAP);
            let droppable = shown.iter().copied().filter(|&i| self.columns[i].rank > 0);
            match droppable.max_by_key(|&i| self.columns[i].rank) {
                Some(drop) if needed > room => shown.retain(|&i| i != drop),
                _ => return shown,
            }
        }
    }

    /// Width of each shown column: names give way, the widest first.
    fn distribute(&self, natural: &[usize], shown: &[usize], room: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = shown.iter().map(|&i| natural[i]).collect();
        let gaps = GAP * shown.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > room {
            let candidates = shown
                .iter()
                .enumerate()
                .filter(|&(at, &i)| self.columns[i].least.is_some_and(|least| widths[at] > least.max(1)));
            match candidates.max_by_key(|&(at, _)| widths[at]) {
                Some((at, _)) => widths[at] -= 1,
                None => break,
            }
        }
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: Style = Style { width: 40, color: false };

    fn lines(table: &Table) -> Vec<String> {
        let mut out = String::new();
        table.render(0, STYLE, &mut out);
        out.lines().map(str::to_owned).collect()
    }

    #[test]
    fn numbers_right_names_shortened_extras_dropped() {
        let mut table = Table::new(&[
            Column::number("SHARE"),
            Column::number("CALLS").rank(1),
            Column::number("BYTES").rank(2),
            Column::name("API", 20),
        ]);
        table.row(
            ["61.0 %", "1,234,567", "12.0 MiB", "a_rather_long_name_of_a_function"].map(|t| Cell::from(t.to_owned())),
        );
        table.row(["5 %", "1", "", "f"].map(|t| Cell::from(t.to_owned())));
        let expected = [" SHARE      CALLS  API", "61.0 %  1,234,567  a_rather…f_a_function", "   5 %          1  f"];
        assert_eq!(lines(&table), expected);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_or_ends_in_blanks() {
        let mut table = Table::new(&[Column::number("N"), Column::name("A", 8), Column::name("B", 8)]);
        for n in 0..60 {
            table.row([n.to_string().into(), "x".repeat(n).into(), "y".repeat(60 - n).into()]);
        }
        for line in lines(&table) {
            assert!(width(&line) <= 40, "{line}");
            assert_eq!(line, line.trim_end());
        }
    }
}
