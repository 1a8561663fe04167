// Waits as the scheduler saw them: the graph, and the table.

import { h, printable } from "../dom";
import { count, duration, exact, exactNs } from "../format";
import type { Criticality, CriticalWait, OtherThread } from "../report";
import { section } from "../section";
import type { Column } from "../table/column";
import { DataTable } from "../table/data_table";
import { waitGraph } from "./wait_graph";

export function criticalWaitSection(view: Criticality, left: number): HTMLElement {
  const most = Math.max(1, ...view.waits.map((row) => row.critical_ns));
  const text = (key: string, label: string, help: string, value: (row: CriticalWait) => string, width?: string, code = false): Column<CriticalWait> => ({
    key,
    label,
    help,
    ...(width ? { width } : {}),
    code,
    sort: (row) => value(row).toLowerCase(),
    text: (row) => value(row) || "–",
    title: (row) => [value(row), ...(key === "waiter" ? row.stack.map(printable) : [])].join("\n"),
  });
  const party = (who: OtherThread | null | undefined): string => (who === null || who === undefined ? "" : `${printable(who.thread)}${who.function === "" ? "" : `: ${printable(who.function)}`}`);
  const table = new DataTable<CriticalWait>({
    id: "critical-wait-table",
    label: "What is waited for",
    rows: view.waits,
    sortBy: "critical_ns",
    empty: "No thread waited.",
    minWidth: "1000px",
    height: 12,
    columns: [
      text("kind", "Kind", "What kind of wait it was", (row) => row.kind, "100px"),
      text("object", "Object", "File, peer or address", (row) => printable(row.object), undefined, true),
      text("waiter", "Waiter", "Thread group that waited, and the innermost function", (row) => `${printable(row.group)}${row.stack.length > 0 ? `: ${printable(row.stack.at(-1) ?? "")}` : ""}`, "19%", true),
      text("holder", "Holder", "Who held it when the wait began", (row) => party(row.holder), "16%", true),
      text("waker", "Woken by", "Who ended the wait", (row) => party(row.waker), "16%", true),
      { key: "count", label: "Waits", help: "Number of waits", width: "80px", numeric: true, sort: (row) => row.count, text: (row) => count(row.count), title: (row) => exact(row.count) },
      { key: "ns", label: "Time", help: "Time waited, summed over threads", width: "92px", numeric: true, sort: (row) => row.ns, text: (row) => duration(row.ns), title: (row) => exactNs(row.ns) },
      {
        key: "critical_ns",
        label: "Critical",
        help: "Time in which all threads waited, plus what the holder (else the waker) gained meanwhile at low parallelism",
        width: "112px",
        numeric: true,
        sort: (row) => row.critical_ns,
        text: (row) => duration(row.critical_ns),
        title: (row) => exactNs(row.critical_ns),
        bar: (row) => row.critical_ns / most,
        tone: () => "tone-wait",
      },
    ],
  });
  return section(
    "wait-for",
    "Who waits for whom",
    "Thread groups, and what they wait for: each other, files, sockets, timers. Click an arrow or a box for kinds, objects and stacks.",
    waitGraph(view),
    h("h3", { class: "table-title" }, "What is waited for"),
    table.element,
    left > 0 ? h("p", { class: "graph-note" }, `${exact(left)} less critical rows are left out here; transect report --view criticality --format json has all.`) : null,
  );
}
