//! The tree of calls.

use ratatui::text::{Line, Span};
use transect_report::terminal::escape;
use transect_report::terminal::parts::{self, Kind, Role};

use super::{Theme, cut, rows};
use crate::app::App;

/// Nodes deeper than this have their depth as a number.
const DEEPEST: usize = 20;

/// Title, way, head and nodes.
pub fn lines(app: &App, theme: Theme, width: usize, height: usize) -> Vec<Line<'static>> {
    let view = match &app.tree.pane.shown {
        None => return vec![Line::styled("Calls", theme.of(Role::Title)), cut::way(&app.level().scope, theme, width)],
        Some((_, Err(error))) => {
            let lines = vec![cut::way(&app.level().scope, theme, width)];
            return [lines, rows::reason(theme, error, width)].concat();
        }
        Some((_, Ok(view))) => view,
    };
    let scope = &view.scope;
    let mut lines = vec![
        Line::from(vec![
            Span::styled(format!("Calls by {}", parts::measured(scope.measure)), theme.of(Role::Title)),
            Span::styled(
                format!("   {}; SELF in the function alone", parts::amount(scope, scope.total)),
                theme.of(Role::Dim),
            ),
        ]),
        cut::way(&app.level().scope, theme, width),
    ];
    let all = app.tree.rows();
    if all.is_empty() {
        lines.extend(rows::reason(theme, parts::nothing(scope), width));
        return lines;
    }
    let old = !app.is_current();
    let sight = rows::in_sight(all.len(), app.tree.selected, height.saturating_sub(lines.len() + 1));
    let position = rows::position(&sight, app.tree.selected, all.len());
    let heading = rows::left("     TOTAL     SELF  FUNCTION", width.saturating_sub(rows::width(&position))) + &position;
    lines.push(Line::styled(heading, theme.of(Role::Dim)));
    for (at, row) in all[sight.clone()].iter().enumerate() {
        let set = |role: Role| if old { theme.of(Role::Dim) } else { theme.of(role) };
        let depth = row.path.len() - 1;
        let more = depth.saturating_sub(DEEPEST);
        let more = if more > 0 { format!("+{more} ") } else { String::new() };
        let sign = match (row.node.children.is_empty(), row.open) {
            (true, _) => "  ",
            (false, true) => "- ",
            (false, false) => "+ ",
        };
        let guides = format!("  {}{more}{sign}", " ".repeat(depth.min(DEEPEST)));
        let (role, name) = match &row.node.function {
            Some(name) if row.node.kernel => (Role::Wait, format!("{} [kernel]", escape(name))),
            Some(name) => (Role::Plain, escape(name).into_owned()),
            None => (Role::Dim, "–".to_owned()),
        };
        let room = width.saturating_sub(rows::MARK + 16 + rows::width(&guides)).max(8);
        let of = |part: i64| parts::share(part, scope.total).map(rows::share).unwrap_or_default();
        let (total_role, total) = of(row.node.total);
        let (own_role, own) = if row.node.own > 0 { of(row.node.own) } else { Default::default() };
        let spans = vec![
            Span::styled(rows::right(&total, 8), set(total_role)),
            Span::styled(rows::right(&own, 8 + 1), set(own_role)),
            Span::styled(guides, set(Role::Dim)),
            Span::styled(rows::left(&parts::shorten(&name, Kind::Function, room), room), set(role)),
        ];
        lines.push(rows::row(theme, sight.start + at == app.tree.selected, spans));
    }
    lines
}
