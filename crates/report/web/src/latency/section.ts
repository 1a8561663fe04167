// Latencies of functions: the table, and the picture of the chosen one over time.

import { h, printable } from "../dom";
import { count, exact } from "../format";
import type { Model } from "../model";
import type { HeatMapFunction, LatencyRow } from "../report";
import { hrefOf, type LatencyPlace } from "../route";
import { section } from "../section";
import type { Column } from "../table/column";
import { DataTable } from "../table/data_table";
import { measureOf, totalOf, totalText, type Measure } from "./amount";
import { blockLines, histogram } from "./distribution";
import { picture } from "./picture";

/** 99th percentile over median from which a tail is a finding; the summary's own threshold. */
const HEAVY_TAIL = 50;
/** Samples from which a function has a say in the scale of distributions. */
const MANY = 20;

export interface LatencySection {
  element: HTMLElement;
  /** Shows the picture of a function. */
  show(place: LatencyPlace): void;
}

/** The function that a place names. */
export function latencyRow(rows: LatencyRow[], place: LatencyPlace): LatencyRow | undefined {
  const named = rows.filter((row) => row.component === place.component && row.function === place.function);
  return named.find((row) => row.address === place.address) ?? named[0];
}

/** `null` for a report without latencies. */
export function latencySection(model: Model): LatencySection | null {
  const { latency: rows, latency_heat_map: heat, meta } = model.report;
  if (rows.length === 0 && meta.latency === undefined) return null;
  const measure = measureOf(meta.latency);
  const pictures = new Map<LatencyRow, HeatMapFunction>();
  rows.forEach((row, index) => {
    const of = heat.functions[index];
    if (of !== undefined) pictures.set(row, of);
  });

  const table = new DataTable<LatencyRow>({
    id: "latency-table",
    label: "Latencies of functions",
    columns: columns(model, measure, pictures),
    rows,
    sortBy: "total",
    empty: "No function was sampled, or none passes the filter.",
    height: 16,
    minWidth: "1120px",
    onOpen: (row) => {
      location.hash = hrefOf({ latency: placeOfRow(row) });
      show(row);
    },
  });
  const view = picture(heat, measure);
  const title = h("h3", { id: "latency-function" });
  const facts = h("dl", { class: "drill-facts latency-facts" });
  const where = h("p", { class: "path" });
  const none = h("p", { class: "empty" }, "No call has returned while it was timed: there is nothing to draw.");
  const panel = h("div", { class: "latency-picture", id: "latency-picture", "aria-labelledby": "latency-function" }, title, where, facts, view.element, none);
  const show = (row: LatencyRow): void => {
    panel.hidden = false;
    title.replaceChildren(h("code", { dir: "ltr" }, printable(row.function)));
    where.textContent = [row.component, placeInSource(row)].filter(Boolean).map(printable).join(" · ");
    facts.replaceChildren(...factsOf(row, measure));
    view.show(row, pictures.get(row));
    none.hidden = row.samples > 0;
  };
  panel.hidden = true;
  if (rows[0] !== undefined) show(rows[0]);

  const filter = filterOf(rows, table);
  return {
    element: section(
      "latency",
      "Latency",
      measure.about,
      filter,
      table.element,
      panel,
    ),
    show(place) {
      const row = latencyRow(rows, place);
      if (row !== undefined) show(row);
    },
  };
}

function placeOfRow(row: LatencyRow): LatencyPlace {
  return { component: row.component, function: row.function, ...(row.address === undefined ? {} : { address: row.address }) };
}

function factsOf(row: LatencyRow, measure: Measure): HTMLElement[] {
  const fact = (name: string, value: string, title: string): HTMLElement => h("div", { title }, h("dt", {}, name), h("dd", {}, value));
  const estimate = row.calls_estimated ?? null;
  return [
    fact("Calls", estimate === null ? `≥ ${count(row.calls_seen)}` : `≈ ${count(estimate)}`, `${exact(row.calls_seen)} calls seen while its probe was on`),
    fact("Samples", count(row.samples), `${exact(row.samples)} calls timed`),
    fact(measure.total, totalText(row, measure.short), `${totalText(row, measure.exact)}, estimated for all calls`),
    fact("Mean", measure.short(row.mean), measure.exact(row.mean)),
    fact("p50", measure.short(row.p50), measure.exact(row.p50)),
    fact("p90", measure.short(row.p90), measure.exact(row.p90)),
    fact("p99", measure.short(row.p99), measure.exact(row.p99)),
    fact(measure.largest, measure.short(row.max), measure.exact(row.max)),
  ];
}

function filterOf(rows: LatencyRow[], table: DataTable<LatencyRow>): HTMLElement {
  const haystacks = new Map(rows.map((row) => [row, `${row.function} ${row.component} ${row.symbol ?? ""} ${row.file ?? ""}`.toLowerCase()]));
  const text = h("input", {
    type: "search",
    id: "latency-filter",
    placeholder: "Filter by name …",
    "aria-label": "Filter functions by text; words must all occur",
    title: "Words must all occur in function, component or file",
    spellcheck: "false",
    autocomplete: "off",
  });
  const status = h("output", { class: "table-status", id: "latency-count", "aria-live": "polite" });
  const apply = (): void => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    table.filter((row) => words.every((word) => (haystacks.get(row) ?? "").includes(word)));
    const functions = `${exact(rows.length)} function${rows.length === 1 ? "" : "s"}`;
    status.textContent = table.length === rows.length ? functions : `${exact(table.length)} of ${functions}`;
  };
  text.addEventListener("input", apply);
  apply();
  return h("div", { class: "filters", role: "search" }, text, status);
}

function columns(model: Model, measure: Measure, pictures: Map<LatencyRow, HeatMapFunction>): Column<LatencyRow>[] {
  const { latency: rows, latency_heat_map: heat } = model.report;
  const most = rows.reduce((max, row) => Math.max(max, totalOf(row) ?? 0), 1);
  const amount = (key: "mean" | "p50" | "p90" | "p99" | "max", label: string, help: string): Column<LatencyRow> => ({
    key,
    label,
    help,
    width: "82px",
    numeric: true,
    sort: (row) => row[key],
    text: (row) => measure.short(row[key]),
    title: (row) => measure.exact(row[key]),
    ...(key === "p99" ? { tone: (row: LatencyRow) => (isHeavy(row) ? "tone-warn" : "") } : {}),
  });
  // One call in a hundred, and functions of a few calls, do not stretch the scale of all.
  const many = rows.filter((row) => row.samples >= MANY);
  const longest = (many.length > 0 ? many : rows).reduce((max, row) => Math.max(max, row.p99 ?? 0), 1);
  const lines = blockLines(heat, longest);
  const [from, to] = lines.scale;
  const cache = new Map<LatencyRow, string>();
  const line = (row: LatencyRow): string => {
    let text = cache.get(row);
    if (text === undefined) cache.set(row, (text = lines.line(histogram(pictures.get(row), heat.buckets.length))));
    return text;
  };
  const namesakes = new Map<string, number>();
  for (const row of rows) namesakes.set(nameOf(row), (namesakes.get(nameOf(row)) ?? 0) + 1);
  const calls = (row: LatencyRow): number => row.calls_estimated ?? row.calls_seen;
  const all: Column<LatencyRow>[] = [
    {
      key: "function",
      label: "Function",
      help: "Name, demangled",
      code: true,
      sort: (row) => row.function.toLowerCase(),
      text: (row) => printable(row.function),
      // Functions of one name in one component: static functions of several files.
      note: (row) => ((namesakes.get(nameOf(row)) ?? 0) > 1 ? printable(placeInSource(row)) : ""),
      title: (row) => [row.function, row.symbol && row.symbol !== row.function ? `symbol ${row.symbol}` : "", placeInSource(row)].filter(Boolean).map(printable).join("\n"),
    },
    {
      key: "component",
      label: "Component",
      help: "Executable or library that holds it",
      width: "13%",
      sort: (row) => row.component.toLowerCase(),
      text: (row) => printable(row.component),
    },
    {
      key: "total",
      label: measure.total,
      help: "All calls, callees included: estimated number of calls times their mean",
      width: "92px",
      numeric: true,
      sort: totalOf,
      text: (row) => totalText(row, measure.short),
      title: (row) => `${totalText(row, measure.exact)}, estimated for all calls`,
      bar: (row) => (totalOf(row) ?? 0) / most,
    },
    {
      key: "calls",
      label: "Calls",
      help: "Estimated number of calls, from those seen while the probe was on",
      width: "84px",
      numeric: true,
      sort: calls,
      text: (row) => (row.calls_estimated === null || row.calls_estimated === undefined ? "≥ " : "") + count(calls(row)),
      title: (row) => {
        const [low, high] = [row.calls_low ?? null, row.calls_high ?? null];
        const between = low === null || high === null || low === high ? "" : `, between ${exact(low)} and ${exact(high)}`;
        return `${exact(calls(row))}${between}; ${exact(row.calls_seen)} seen`;
      },
    },
    {
      key: "samples",
      label: "Samples",
      help: "Calls that were timed",
      width: "80px",
      numeric: true,
      sort: (row) => row.samples,
      text: (row) => count(row.samples),
      title: (row) => exact(row.samples),
    },
    amount("mean", "Mean", "Mean of the samples"),
    amount("p50", "p50", "Median: half of the samples took at most as much"),
    amount("p90", "p90", "90 % of the samples took at most as much"),
    amount("p99", "p99", "99 % of the samples took at most as much; marked where it is 50 times the median"),
    amount("max", measure.largest, "The largest sample"),
  ];
  if (heat.buckets.length > 0) {
    all.push({
      key: "distribution",
      label: "Distribution",
      help: `How many samples took how much, from ${measure.short(from)} to ${measure.short(to)} (logarithmic)`,
      width: "168px",
      code: true,
      sort: (row) => row.p50,
      text: line,
      title: (row) => `median ${measure.short(row.p50)}; scale ${measure.short(from)} to ${measure.short(to)}`,
      tone: () => "blocks",
    });
  }
  if (rows.some((row) => row.process !== undefined)) {
    all.push({ key: "process", label: "Process", help: "Process id", width: "74px", numeric: true, sort: (row) => row.process ?? null, text: (row) => String(row.process ?? "") });
  }
  return all;
}

function nameOf(row: LatencyRow): string {
  return `${row.component}\0${row.function}\0${row.process ?? ""}`;
}

/** `src/pool.c:9`; the address where the source is not known. */
function placeInSource(row: LatencyRow): string {
  if (!row.file) return row.address === undefined ? "" : `0x${row.address.toString(16)}`;
  return `${row.file}${row.line ? `:${row.line}` : ""}`;
}

function isHeavy(row: LatencyRow): boolean {
  return row.p50 !== null && row.p99 !== null && row.p99 >= HEAVY_TAIL * Math.max(1, row.p50);
}
