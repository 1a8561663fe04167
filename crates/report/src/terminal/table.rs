//! Tables that fit: numbers to the left, names to the right, names shortened and the least columns dropped where the
//! terminal is narrow.

use super::shorten::{Kind, shorten, width};
use super::style::{Role, Style};

/// Columns between two columns.
const GAP: usize = 2;

/// Rank of columns that only a very narrow terminal goes without.
pub(crate) const LAST_RESORT: u8 = 1;

/// From this rank on, columns go before names get less than ample room.
const EXTRA: u8 = 5;

/// Columns of a name that still tell something.
const SCRAP: usize = 6;

/// One column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// Head.
    pub title: &'static str,
    /// Numbers are right-aligned, text left-aligned.
    pub number: bool,
    /// What its cells are and the columns that they should keep; `None` for cells that are never shortened.
    pub shape: Option<(Kind, usize)>,
    /// Dropped where the table does not fit; the highest rank goes first, 0 is never dropped, [`LAST_RESORT`] goes only where
    /// names would be left with less than [`SCRAP`] columns.
    pub rank: u8,
}

impl Column {
    /// A right-aligned column that is never dropped.
    pub(crate) const fn number(title: &'static str) -> Self {
        Self { title, number: true, shape: None, rank: 0 }
    }

    /// A left-aligned column that is never narrower than its cells.
    pub(crate) const fn text(title: &'static str) -> Self {
        Self { title, number: false, shape: None, rank: 0 }
    }

    /// A left-aligned column of names that should keep `least` columns.
    pub(crate) const fn name(title: &'static str, kind: Kind, least: usize) -> Self {
        Self { title, number: false, shape: Some((kind, least)), rank: 0 }
    }

    /// The same column, dropped on narrow terminals, highest `rank` first.
    pub(crate) const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

/// One cell: pieces of text, each with its role. Only the last piece is shortened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    pieces: Vec<(Role, String)>,
    /// What the last piece is, if not what its column says.
    kind: Option<Kind>,
}

impl Cell {
    /// One piece.
    pub(crate) fn new(role: Role, text: impl Into<String>) -> Self {
        Self { pieces: vec![(role, text.into())], kind: None }
    }

    /// One more piece.
    pub(crate) fn then(mut self, role: Role, text: impl Into<String>) -> Self {
        self.pieces.push((role, text.into()));
        self
    }

    /// The cell, shortened as a `kind`.
    pub(crate) fn of(self, kind: Kind) -> Self {
        Self { kind: Some(kind), ..self }
    }

    /// All of it.
    pub(crate) fn text(&self) -> String {
        self.pieces.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// False for an empty cell and for `–`.
    fn tells(&self) -> bool {
        self.pieces.iter().any(|(_, text)| !text.is_empty() && text != "–")
    }

    fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| width(text)).sum()
    }

    fn fit(&self, columns: usize, kind: Kind, style: Style) -> (String, usize) {
        let kind = self.kind.unwrap_or(kind);
        let mut painted = String::new();
        let mut left = columns;
        let fixed: usize = self.pieces.iter().rev().skip(1).map(|(_, text)| width(text)).sum();
        for (i, (role, text)) in self.pieces.iter().enumerate() {
            let room = if i + 1 == self.pieces.len() || fixed >= columns { left } else { left.min(width(text)) };
            let text = shorten(text, kind, room);
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

/// From which rank on columns are dropped, and what names have room for, given their least.
type Stage = (u8, fn(usize) -> usize);

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
        self.cells(cells.into());
    }

    /// Adds a row of a table whose columns were chosen while it runs.
    pub(crate) fn cells(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Its columns, shown or not.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Its rows, a cell a column.
    pub(crate) fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// Indices of the columns that tell something in any row.
    pub(crate) fn telling(&self) -> Vec<usize> {
        let has_content = |i: usize| self.rows.is_empty() || self.rows.iter().any(|r| r[i].tells());
        (0..self.columns.len()).filter(|&i| has_content(i)).collect()
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
                let (text, used) =
                    row[i].fit(columns, self.columns[i].shape.map_or(Kind::Text, |(kind, _)| kind), style);
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
            // A cell cut after a piece may end in blanks.
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }

    /// Indices of the columns that are shown: all that fit at their least widths. A column that tells
    /// nothing in any row is not shown at all.
    fn choose(&self, natural: &[usize], room: usize) -> Vec<usize> {
        let mut shown = self.telling();
        // What names should have: ample room before extras, their least before ordinary columns, scraps before the last.
        let stages: [Stage; 3] =
            [(EXTRA, |least| least * 3 / 2), (LAST_RESORT + 1, |least| least), (LAST_RESORT, |least| least.min(SCRAP))];
        for (lowest, room_for_names) in stages {
            let least = |i: usize| self.columns[i].shape.map_or(natural[i], |(_, l)| room_for_names(l).min(natural[i]));
            while shown.iter().map(|&i| least(i) + GAP).sum::<usize>() > room + GAP {
                let droppable = shown.iter().copied().filter(|&i| self.columns[i].rank >= lowest);
                match droppable.max_by_key(|&i| self.columns[i].rank) {
                    Some(drop) => shown.retain(|&i| i != drop),
                    None => break,
                }
            }
        }
        shown
    }

    /// Width of each shown column: names give way, first the one that has most of what it should keep; below their least widths only if nothing else is
    /// left to give.
    fn distribute(&self, natural: &[usize], shown: &[usize], room: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = shown.iter().map(|&i| natural[i]).collect();
        let gaps = GAP * shown.len().saturating_sub(1);
        let relative =
            |width: usize, i: usize| self.columns[i].shape.map_or(0, |(_, least)| width * 100 / least.max(1));
        for strict in [true, false] {
            let floor = |i: usize| self.columns[i].shape.map(|(_, least)| if strict { least.max(1) } else { 1 });
            while widths.iter().sum::<usize>() + gaps > room {
                let candidates = shown.iter().enumerate().filter(|&(at, &i)| floor(i).is_some_and(|f| widths[at] > f));
                match candidates.max_by_key(|&(at, &i)| relative(widths[at], i)) {
                    Some((at, _)) => widths[at] -= 1,
                    None => break,
                }
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
            Column::name("API", Kind::Function, 20),
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
        let mut table =
            Table::new(&[Column::number("N"), Column::name("A", Kind::Text, 8), Column::name("B", Kind::Text, 8)]);
        for n in 0..60 {
            table.row([n.to_string().into(), "x".repeat(n).into(), "y".repeat(60 - n).into()]);
        }
        for line in lines(&table) {
            assert!(width(&line) <= 40, "{line}");
            assert_eq!(line, line.trim_end());
        }
    }
}
