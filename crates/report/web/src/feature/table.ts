// Features and regions as tables.

import { h, printable } from "../dom";
import { count, duration, exact, exactNs, interval, percent, plusMinus } from "../format";
import type { FeatureRow, RegionRow } from "./rows";
import type { Column } from "../table/column";
import { DataTable } from "../table/data_table";
import { type FeatureModel, placeOf, setName } from "./model";

type Timed = FeatureRow | RegionRow;

/** Time of a row: of no feature, what is left by the others; `null` for a region that was not observed. */
function inclusiveOf(row: Timed): number | null {
  if ("id" in row) return row.method === "" ? null : row.inclusive_ns;
  return row.features.length === 0 ? row.exclusive_ns : row.inclusive_ns;
}

function exclusiveOf(row: Timed): number | null {
  return row.method === "" ? null : row.exclusive_ns;
}

const HOW = new Map([
  ["trace", "Compiled-in events: every entry"],
  ["probe", "Sites switched on in the program: every entry"],
  ["usdt", "Uprobes: every entry"],
  ["sample", "Stack samples"],
]);

function times<Row extends Timed>(model: FeatureModel, inclusive: string, exclusive: string): Column<Row>[] {
  return [
    {
      key: "share",
      label: "Share",
      help: `Share of all threads' time. ${inclusive}`,
      width: "110px",
      numeric: true,
      sort: inclusiveOf,
      text: (row) => (inclusiveOf(row) === null ? "–" : percent((inclusiveOf(row) ?? 0) / model.whole)),
      title: (row) => exactNs(inclusiveOf(row)),
      bar: (row) => (inclusiveOf(row) ?? 0) / model.whole,
      tone: () => "tone-compute",
    },
    {
      key: "inclusive_ns",
      label: "Time",
      help: `${inclusive} ± is half the 95 % interval where it comes from samples`,
      width: "140px",
      numeric: true,
      sort: inclusiveOf,
      text: (row) => duration(inclusiveOf(row)),
      note: (row) => (row.features.length === 0 ? "" : plusMinus(inclusiveOf(row), row.inclusive_ns_low, row.inclusive_ns_high)),
      title: (row) => (row.features.length === 0 ? exactNs(inclusiveOf(row)) : interval(inclusiveOf(row), row.inclusive_ns_low, row.inclusive_ns_high)),
    },
    {
      key: "exclusive_ns",
      label: "Alone",
      help: exclusive,
      width: "96px",
      numeric: true,
      sort: exclusiveOf,
      text: (row) => duration(exclusiveOf(row)),
      title: (row) => `${exactNs(row.exclusive_ns)}, ${percent(row.exclusive_ns / model.whole)}; on CPU ${duration(row.cpu_ns)}`,
    },
    {
      key: "entries",
      label: "Entries",
      help: "Times entered; – where only samples are known",
      width: "84px",
      numeric: true,
      sort: (row) => row.entries,
      text: (row) => count(row.entries),
      title: (row) => exact(row.entries),
    },
  ];
}

const how = <Row extends Timed>(): Column<Row> => ({
  key: "method",
  label: "How",
  help: "How the numbers were found",
  width: "128px",
  sort: (row) => row.method,
  text: (row) => row.method.replace("+", " + ") || "not observed",
  title: (row) => row.method.split("+").map((word) => HOW.get(word) ?? word).join(" + "),
});

export function featureTable(model: FeatureModel, open: (row: FeatureRow) => void): HTMLElement {
  const columns: Column<FeatureRow>[] = [
    {
      key: "features",
      label: "Features",
      help: "The features that were active together",
      sort: (row) => setName(row.features).toLowerCase(),
      text: (row) => printable(setName(row.features)),
      tone: (row) => (row.features.length === 0 ? "quiet" : ""),
    },
    ...times<FeatureRow>(model, "Time in which at least these features were active.", "Time in which exactly these features were active: all rows add up to the threads' time"),
    {
      key: "decided_ns",
      label: "Decides",
      help: "Time in code whose own decision depends on them, not only a caller's",
      width: "96px",
      numeric: true,
      sort: (row) => Math.max(row.decided_ns, row.exclusive_ns),
      text: (row) => (row.features.length === 0 ? "–" : duration(row.decided_ns)),
      title: (row) => `${exactNs(row.decided_ns)}, ${percent(row.decided_ns / model.whole)}`,
    },
    {
      key: "threads",
      label: "Threads",
      help: "Threads in which they were active",
      width: "80px",
      numeric: true,
      sort: (row) => row.threads,
      text: (row) => count(row.threads),
    },
    how(),
  ];
  const rows = model.report.features;
  return new DataTable<FeatureRow>({ id: "feature-table", label: "Features", columns, rows, sortBy: "decided_ns", empty: "No features were recorded.", minWidth: "760px", onOpen: open, openLabel: "Show its regions" }).element;
}

/** Names of a region's features; `?` behind those that no run has shown to decide it. */
function markedName(row: RegionRow): string {
  return setName(row.features.map((name, at) => (row.verdicts[at] === "unconfirmed" ? `${name}?` : name)));
}

/** How the region depends on each of its features, and what runs say of it. */
function dependenceLines(row: RegionRow): string {
  return row.features.map((name, at) => `${name}: ${row.dependences[at] ?? "depends"}${row.verdicts[at] ? `, ${row.verdicts[at]} by runs` : ""}`).join("\n");
}

export interface RegionTable {
  element: HTMLElement;
  /** Shows regions of these features; `null` for all. */
  show(features: string[] | null): void;
}

export function regionTable(model: FeatureModel): RegionTable {
  const mean = (row: RegionRow): number | null => (row.entries === null || row.entries === 0 ? null : row.inclusive_ns / row.entries);
  const columns: Column<RegionRow>[] = [
    {
      key: "function",
      label: "Function",
      help: "Function and line of the decision",
      code: true,
      sort: (row) => row.function.toLowerCase(),
      text: (row) => printable(row.function),
      note: (row) => ` ${printable(placeOf(row))}`,
      title: (row) => printable(`${row.function}\n${row.file}:${row.line}${row.end_line > 0 ? `–${row.end_line}` : ""}\n${row.component}, region ${row.number}, ${row.kind}${row.irregular === null ? "" : `\nnot marked: ${row.irregular}`}`),
    },
    {
      key: "features",
      label: "Features",
      help: "Features of the region's own decision; ?: no run has shown that it decides this (transect feature confirm)",
      width: "170px",
      sort: (row) => setName(row.features).toLowerCase(),
      text: (row) => printable(markedName(row)),
      title: (row) => printable(dependenceLines(row)),
    },
    ...times<RegionRow>(model, "Time in the region, regions inside and what is called from there included.", "Time in which it was the innermost region"),
    {
      key: "mean",
      label: "Per entry",
      help: "Time divided by entries",
      width: "88px",
      numeric: true,
      sort: mean,
      text: (row) => duration(mean(row)),
    },
    how(),
  ];
  const table = new DataTable<RegionRow>({ id: "region-table", label: "Regions of code", columns, rows: model.report.regions, sortBy: "exclusive_ns", empty: "No region matches.", minWidth: "980px" });
  const filter = h("input", { type: "search", id: "region-filter", placeholder: "Function, file or feature", "aria-label": "Filter regions", spellcheck: "false" });
  const shown = h("span", { class: "walk-found", role: "status" });
  const all = h("button", { type: "button", class: "quiet", hidden: true }, "All regions");
  let features: string[] | null = null;
  const apply = (): void => {
    const wanted = filter.value.trim().toLowerCase();
    const set = features;
    table.filter((row) => {
      if (set !== null && !row.features.some((name) => set.includes(name))) return false;
      return wanted === "" || `${row.function} ${row.file}:${row.line} ${setName(row.features)}`.toLowerCase().includes(wanted);
    });
    all.hidden = set === null;
    shown.textContent = `${exact(table.length)} of ${exact(model.report.regions.length)}${set === null ? "" : `, of ${printable(setName(set))}`}`;
  };
  filter.addEventListener("input", apply);
  all.addEventListener("click", () => {
    features = null;
    apply();
  });
  apply();
  return {
    element: h("div", { class: "panel" }, h("div", { class: "graph-bar feature-bar" }, filter, shown, all), table.element),
    show(set) {
      features = set === null || set.length === 0 ? null : set;
      apply();
    },
  };
}
