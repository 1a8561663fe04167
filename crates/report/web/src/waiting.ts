// Waits, locks and losses: plain tables.

import { printable } from "./dom";
import { count, duration, exact, exactNs, interval, percent, plusMinus } from "./format";
import type { Model } from "./model";
import { hasFlows, type LockRow, type LossRow, type WaitRow } from "./report";
import { section } from "./section";
import type { Column } from "./table/column";
import { DataTable } from "./table/data_table";

function text<Row>(key: string, label: string, help: string, value: (row: Row) => string, width?: string, code = false): Column<Row> {
  return {
    key,
    label,
    help,
    ...(width ? { width } : {}),
    code,
    sort: (row) => value(row).toLowerCase(),
    text: (row) => printable(value(row)) || "–",
  };
}

function time<Row>(key: string, label: string, help: string, value: (row: Row) => number | null, bar?: (row: Row) => number): Column<Row> {
  return {
    key,
    label,
    help,
    width: "104px",
    numeric: true,
    sort: value,
    text: (row) => duration(value(row)),
    title: (row) => exactNs(value(row)),
    ...(bar ? { bar, tone: () => "tone-wait" } : {}),
  };
}

function number<Row>(key: string, label: string, help: string, value: (row: Row) => number): Column<Row> {
  return { key, label, help, width: "104px", numeric: true, sort: value, text: (row) => count(value(row)), title: (row) => exact(value(row)) };
}

export function waitSection(model: Model): HTMLElement {
  const rows = model.report.waits;
  const most = Math.max(1, ...rows.map((row) => row.ns));
  const table = new DataTable<WaitRow>({
    id: "wait-table",
    label: "Waits",
    rows,
    sortBy: "ns",
    empty: "No thread waited in a blocking API.",
    minWidth: "760px",
    columns: [
      text("group", "Thread group", "Threads that waited", (row) => row.group, "16%"),
      text("api", "API", "Blocking API", (row) => row.api, undefined, true),
      text("object", "Object", "What was waited for", (row) => row.object, undefined, true),
      text("caller", "Caller", "Component that called", (row) => row.caller, "16%"),
      number("count", "Waits", "Number of waits", (row) => row.count),
      time("ns", "Time", "Time waited, summed over the group's threads", (row) => row.ns, (row) => row.ns / most),
      time("mean", "Each", "Time of the mean wait", (row) => (row.count > 0 ? row.ns / row.count : null)),
    ],
  });
  return section("waits", "Waits", "Time that threads spent blocked, by what they waited for. Threads wait side by side, so sums may pass the wall time.", table.element);
}

export function lockSection(model: Model): HTMLElement {
  const rows = model.report.locks;
  const most = Math.max(1, ...rows.map((row) => row.wait_ns));
  const contended = (row: LockRow): number => (row.acquisitions > 0 ? row.contended / row.acquisitions : 0);
  const table = new DataTable<LockRow>({
    id: "lock-table",
    label: "Locks",
    rows,
    sortBy: "wait_ns",
    empty: "No lock was taken through the thread library.",
    minWidth: "820px",
    columns: [
      text("object", "Lock", "Kind, address and symbol of the lock", (row) => row.object, "26%", true),
      text("path", "Call path", "Where it was acquired, outermost first", (row) => row.path, undefined, true),
      number("acquisitions", "Acquired", "Acquisitions", (row) => row.acquisitions),
      {
        key: "contended",
        label: "Contended",
        help: "Share of the acquisitions that found the lock held",
        width: "104px",
        numeric: true,
        sort: contended,
        text: (row) => percent(contended(row)),
        title: (row) => `${exact(row.contended)} of ${exact(row.acquisitions)} acquisitions found the lock held`,
        bar: contended,
        tone: () => "tone-lock",
      },
      time("wait_ns", "Waited", "Time waited for the lock", (row) => row.wait_ns, (row) => row.wait_ns / most),
      {
        ...time<LockRow>("hold_ns", "Held", "Time the lock was held; estimated from sampled acquisitions, with its 95 % interval", (row) => row.hold_ns),
        note: (row) => plusMinus(row.hold_ns, row.hold_ns_low, row.hold_ns_high),
        title: (row) => interval(row.hold_ns, row.hold_ns_low, row.hold_ns_high),
      },
    ],
  });
  return section("locks", "Locks", "Each lock by call path. A lock taken often without contention costs time too.", table.element);
}

export function lossSection(model: Model): HTMLElement {
  const rows = model.report.loss;
  const table = new DataTable<LossRow>({
    id: "loss-table",
    label: "Losses",
    rows,
    sortBy: "count",
    empty: hasFlows(model.report) ? "Nothing: every linkage slot was hooked, every event kept, every name resolved." : "Nothing: every event kept, every name resolved.",
    minWidth: "640px",
    columns: [
      text("what", "What", "What was not seen", (row) => row.what, "20%"),
      text("where", "Where", "Component, thread, process or file", (row) => row.where, "26%"),
      number("count", "Count", "How many", (row) => row.count),
      text("reason", "Reason", "Why", (row) => row.reason),
    ],
  });
  return section("loss", "Losses", "What the recording knows it did not see. Figures above are without it.", table.element);
}
