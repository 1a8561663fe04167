// Every flow: who calls which API of whom, how often, for how long.

import { API_CLASSES, classLabel, classTone } from "./api_class";
import { h, printable } from "./dom";
import { bytes, count, duration, exact, exactNs, interval, percent, plusMinus } from "./format";
import { type Model, shareOf } from "./model";
import type { ApiClass, FlowRow } from "./report";
import { hrefOf } from "./route";
import { section } from "./section";
import type { Column } from "./table/column";
import { DataTable } from "./table/data_table";

function name(key: "caller" | "callee" | "api", label: string, help: string, width?: string): Column<FlowRow> {
  return {
    key,
    label,
    help,
    ...(width ? { width } : {}),
    code: key === "api",
    sort: (row) => row[key].toLowerCase(),
    text: (row) => printable(row[key]),
    title: (row) => {
      if (key !== "api") return printable(row[key]);
      const parts = [printable(row.api)];
      if (row.symbol && row.symbol !== row.api) parts.push(`symbol ${printable(row.symbol)}`);
      if (row.version) parts.push(`version ${printable(row.version)}`);
      return parts.join("\n");
    },
  };
}

function mean(row: FlowRow): number | null {
  return row.total_ns === null || row.calls === 0 ? null : row.total_ns / row.calls;
}

/** The columns of flows; what the recording did not take (percentiles, sizes, splits) has no column. */
export function flowColumns(model: Model, rows: FlowRow[]): Column<FlowRow>[] {
  const most = rows.reduce((max, row) => Math.max(max, row.attributed_ns ?? 0), 1);
  const columns: Column<FlowRow>[] = [
    name("caller", "Caller", "Component that calls", "13%"),
    name("callee", "Callee", "Component that holds the API", "13%"),
    name("api", "API", "Function as the caller's linkage table asked for it"),
    {
      key: "class",
      label: "Kind",
      help: "Kind of time the calls take",
      width: "106px",
      sort: (row) => row.class,
      text: (row) => classLabel(row.class),
      title: (row) => API_CLASSES.find((known) => known.value === row.class)?.help ?? row.class,
      tone: (row) => `kind ${classTone(row.class)}`,
    },
    {
      key: "calls",
      label: "Calls",
      help: "Calls entered; exact in every timing mode",
      width: "84px",
      numeric: true,
      sort: (row) => row.calls,
      text: (row) => count(row.calls),
      title: (row) =>
        `${exact(row.calls)} calls, ${exact(row.timed_calls ?? null)} timed` +
        (row.abandoned_calls ? `, ${exact(row.abandoned_calls)} left by unwinding, longjmp or thread end` : ""),
    },
    {
      key: "attributed_ns",
      label: "Share",
      help: "Share of the program's time: each instant of the call divided by the number of active threads",
      width: "96px",
      numeric: true,
      sort: (row) => row.attributed_ns,
      text: (row) => percent(shareOf(model, row.attributed_ns)),
      title: (row) => `${exactNs(row.attributed_ns)} attributed (each instant divided by the number of active threads)`,
      bar: (row) => (row.attributed_ns ?? 0) / most,
      tone: (row) => classTone(row.class),
    },
    {
      key: "total_ns",
      label: "Total",
      help: "Wall time from entry to return, over all threads; ± is half the 95 % interval where calls were sampled",
      width: "138px",
      numeric: true,
      sort: (row) => row.total_ns,
      text: (row) => duration(row.total_ns),
      note: (row) => plusMinus(row.total_ns, row.total_ns_low, row.total_ns_high),
      title: (row) => interval(row.total_ns, row.total_ns_low, row.total_ns_high),
    },
    {
      key: "self_ns",
      label: "Self",
      help: "Total less the calls that the callee made meanwhile into other components",
      width: "88px",
      numeric: true,
      sort: (row) => row.self_ns,
      text: (row) => duration(row.self_ns),
      title: (row) => interval(row.self_ns, row.self_ns_low, row.self_ns_high),
    },
    {
      key: "mean_ns",
      label: "Per call",
      help: "Total divided by calls",
      width: "88px",
      numeric: true,
      sort: mean,
      text: (row) => duration(mean(row)),
      title: (row) => (mean(row) === null ? "not timed" : `${mean(row)?.toFixed(2)} ns`),
    },
  ];
  const measured = (key: "p50_ns" | "p99_ns" | "max_ns", label: string, help: string): Column<FlowRow> => ({
    key,
    label,
    help,
    width: "80px",
    numeric: true,
    sort: (row) => row[key] ?? null,
    text: (row) => duration(row[key]),
    title: (row) => exactNs(row[key]),
  });
  const some = (has: (row: FlowRow) => unknown): boolean => rows.some((row) => (has(row) ?? null) !== null);
  if (some((row) => row.criticality_ns)) {
    const whole = Math.max(1, model.report.criticality?.elapsed_ns ?? model.whole);
    columns.splice(columns.findIndex((column) => column.key === "total_ns"), 0, {
      key: "criticality_ns",
      label: "Criticality",
      help: "Criticality that threads gained during the calls, waits left out: each instant divided by the number of threads that the scheduler saw active",
      width: "96px",
      numeric: true,
      sort: (row) => row.criticality_ns ?? null,
      text: (row) => duration(row.criticality_ns),
      title: (row) => `${exactNs(row.criticality_ns)}, ${percent((row.criticality_ns ?? 0) / whole)} of the elapsed time`,
    });
  }
  if (some((row) => row.p50_ns)) columns.push(measured("p50_ns", "p50", "Median call"));
  if (some((row) => row.p99_ns)) columns.push(measured("p99_ns", "p99", "99th percentile"));
  if (some((row) => row.max_ns)) columns.push(measured("max_ns", "Longest", "Longest call"));
  if (some((row) => row.bytes)) {
    columns.push({
      key: "bytes",
      label: "Bytes",
      help: "Bytes asked for, where the API's size argument is known",
      width: "84px",
      numeric: true,
      sort: (row) => row.bytes ?? null,
      text: (row) => bytes(row.bytes),
      title: (row) =>
        row.bytes === null || row.bytes === undefined
          ? "no size known"
          : `${exact(row.bytes)} bytes, ${bytes(row.bytes / Math.max(1, row.calls))} a call`,
    });
  }
  const split = (key: "thread" | "process" | "feature", label: string): void => {
    if (!some((row) => row[key])) return;
    columns.splice(0, 0, {
      key,
      label,
      help: `Rows are split by ${key}`,
      width: "96px",
      sort: (row) => String(row[key] ?? ""),
      text: (row) => printable(String(row[key] ?? "")),
    });
  };
  split("feature", "Feature");
  split("thread", "Thread");
  split("process", "Process");
  return columns;
}

export interface FlowSection {
  element: HTMLElement;
  /** Sets the filter from elsewhere on the page. */
  show(filter: { caller?: string; callee?: string; text?: string }): void;
  focusFilter(): void;
}

export function flowSection(model: Model): FlowSection {
  const rows = model.report.flows;
  const table = new DataTable<FlowRow>({
    id: "flow-table",
    label: "Flows",
    columns: flowColumns(model, rows),
    rows,
    sortBy: "attributed_ns",
    empty: "No flow passes the filter.",
    height: 18,
    minWidth: "1180px",
    onOpen: (row) => {
      location.hash = hrefOf({ component: row.callee, api: row.api });
    },
  });

  const haystacks = new Map(
    rows.map((row) => [
      row,
      `${row.caller} ${row.callee} ${row.api} ${row.symbol ?? ""} ${row.version ?? ""} ${row.class}`.toLowerCase(),
    ]),
  );
  const text = h("input", {
    type: "search",
    id: "flow-filter",
    placeholder: "Filter by name …",
    "aria-label": "Filter flows by text; words must all occur",
    title: "Words must all occur in caller, callee, API or kind. Press / to come here.",
    spellcheck: "false",
    autocomplete: "off",
  });
  const caller = componentSelect("flow-caller", "Caller", rows.map((row) => row.caller));
  const callee = componentSelect("flow-callee", "Callee", rows.map((row) => row.callee));
  const present = API_CLASSES.filter((known) => rows.some((row) => row.class === known.value));
  const kinds = present.map((known) => {
    const box = h("input", { type: "checkbox", checked: true, value: known.value, "data-kind": known.value });
    return { value: known.value, box, label: h("label", { class: `chip ${classTone(known.value)}`, title: known.help }, box, known.label) };
  });
  const status = h("output", { class: "table-status", id: "flow-count", "aria-live": "polite" });
  const clear = h("button", { type: "button", class: "quiet", id: "flow-clear" }, "Clear");

  const apply = (): void => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const allowed = new Set<ApiClass>(kinds.filter((kind) => kind.box.checked).map((kind) => kind.value));
    const all = allowed.size === kinds.length;
    table.filter((row) => {
      if (caller.select.value !== "" && row.caller !== caller.select.value) return false;
      if (callee.select.value !== "" && row.callee !== callee.select.value) return false;
      if (!all && !allowed.has(row.class)) return false;
      if (words.length === 0) return true;
      const haystack = haystacks.get(row) ?? "";
      return words.every((word) => haystack.includes(word));
    });
    const filtered = table.length !== rows.length;
    status.textContent = filtered ? `${exact(table.length)} of ${exact(rows.length)} flows` : `${exact(rows.length)} flows`;
    clear.hidden = !filtered && text.value === "";
  };
  const reset = (): void => {
    text.value = "";
    caller.select.value = "";
    callee.select.value = "";
    for (const kind of kinds) kind.box.checked = true;
  };
  text.addEventListener("input", apply);
  text.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") {
      event.preventDefault();
      table.element.focus();
    }
  });
  for (const control of [caller.select, callee.select, ...kinds.map((kind) => kind.box)]) {
    control.addEventListener("change", apply);
  }
  clear.addEventListener("click", () => {
    reset();
    apply();
    text.focus();
  });
  apply();

  return {
    element: section(
      "flows",
      "Flows",
      "Every API that one component calls in another. Click a header to sort, a row to see who else calls that API.",
      h(
        "div",
        { class: "filters", role: "search" },
        text,
        caller.label,
        callee.label,
        h("span", { class: "chips", role: "group", "aria-label": "Kinds of time" }, ...kinds.map((kind) => kind.label)),
        clear,
        status,
      ),
      table.element,
    ),
    show(filter) {
      reset();
      text.value = filter.text ?? "";
      caller.select.value = filter.caller ?? "";
      callee.select.value = filter.callee ?? "";
      apply();
      document.getElementById("flows")?.scrollIntoView();
      text.focus({ preventScroll: true });
    },
    focusFilter() {
      text.scrollIntoView({ block: "center" });
      text.focus();
      text.select();
    },
  };
}

function componentSelect(id: string, label: string, names: string[]): { label: HTMLElement; select: HTMLSelectElement } {
  const options = [...new Set(names)].sort().map((value) => h("option", { value }, printable(value)));
  const select = h("select", { id }, h("option", { value: "" }, "any"), ...options);
  return { label: h("label", { class: "select" }, `${label} `, select), select };
}
