// Features by what they call: a table of sets against APIs or components, coloured by time.

import { h, printable } from "../dom";
import { count, duration, exactNs } from "../format";
import { setKey, setName } from "./model";
import type { FeaturePalette } from "./palette";

export interface MatrixCell {
  features: string[];
  /** What stands before the row. */
  name: string;
  /** Behind the name, smaller. */
  note: string;
  ns: number;
  calls: number;
}

const MOST_ROWS = 24;
const MOST_COLUMNS = 8;

/** Rows and columns with the most time first; what does not fit is told. */
export function matrix(id: string, what: string, cells: MatrixCell[], palette: FeaturePalette): HTMLElement {
  const rows = new Map<string, { name: string; note: string; ns: number; cells: Map<string, MatrixCell> }>();
  const columns = new Map<string, { features: string[]; ns: number }>();
  for (const cell of cells) {
    const key = setKey(cell.features);
    const name = `${cell.name}\0${cell.note}`;
    let row = rows.get(name);
    if (row === undefined) rows.set(name, (row = { name: cell.name, note: cell.note, ns: 0, cells: new Map() }));
    row.ns += cell.ns;
    row.cells.set(key, cell);
    let column = columns.get(key);
    if (column === undefined) columns.set(key, (column = { features: cell.features, ns: 0 }));
    column.ns += cell.ns;
  }
  const sortedRows = [...rows.values()].sort((a, b) => b.ns - a.ns);
  const sortedColumns = [...columns].sort(([, a], [, b]) => b.ns - a.ns);
  const shownRows = sortedRows.slice(0, MOST_ROWS);
  const shownColumns = sortedColumns.slice(0, MOST_COLUMNS);
  const most = Math.max(1, ...cells.map((cell) => cell.ns));
  const head = h(
    "tr",
    {},
    h("th", { scope: "col" }, what),
    ...shownColumns.map(([, column]) => h("th", { scope: "col", class: "numeric", title: printable(setName(column.features)) }, palette.swatch(column.features), h("span", { dir: "ltr" }, printable(setName(column.features))))),
    h("th", { scope: "col", class: "numeric" }, "all"),
  );
  const body = shownRows.map((row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", title: printable(`${row.name} ${row.note}`) }, h("code", { dir: "ltr" }, printable(row.name)), row.note === "" ? null : h("small", {}, ` ${printable(row.note)}`)),
      ...shownColumns.map(([key, column]) => {
        const cell = row.cells.get(key);
        const element = h("td", { class: "numeric", title: cell === undefined ? "" : printable(`${setName(column.features)}: ${exactNs(cell.ns)}${cell.calls > 0 ? `, ${count(cell.calls)} calls` : ""}`) }, cell === undefined ? "" : duration(cell.ns));
        // Area, not length: the square root lets small times be seen.
        if (cell !== undefined) element.style.background = `color-mix(in srgb, var(--heat) ${Math.sqrt(cell.ns / most) * 55}%, transparent)`;
        return element;
      }),
      h("td", { class: "numeric all" }, duration(row.ns)),
    ),
  );
  const left = [
    sortedRows.length > shownRows.length ? `${sortedRows.length - shownRows.length} more rows` : "",
    sortedColumns.length > shownColumns.length ? `${sortedColumns.length - shownColumns.length} more sets of features` : "",
  ].filter(Boolean);
  return h(
    "div",
    { class: "panel" },
    h("div", { class: "matrix-scroll", tabindex: 0 }, h("table", { class: "matrix", id }, h("thead", {}, head), h("tbody", {}, ...body))),
    left.length === 0 ? null : h("p", { class: "graph-note" }, `${left.join(" and ")}: transect report --view flows --by feature.`),
  );
}
