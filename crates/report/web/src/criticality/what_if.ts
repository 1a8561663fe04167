// What a speed-up of each path would save.

import { printable } from "../dom";
import { duration, exactNs } from "../format";
import type { Criticality, WhatIf } from "../report";
import { section } from "../section";
import type { Column } from "../table/column";
import { DataTable } from "../table/data_table";

interface Row {
  path: string;
  first: WhatIf;
  by: Map<string, WhatIf>;
}

const SPEEDUPS: [string, string, string][] = [
  ["1.1", "1.1×", "A tenth faster"],
  ["2", "2×", "Twice as fast"],
  ["inf", "∞", "If it took no time at all"],
];

const EXPLANATION =
  "How much shorter the whole run would be. The range spans what the recording leaves open: whether other threads fill the gap.";

export function whatIfSection(view: Criticality): HTMLElement | null {
  if (view.what_if.length === 0) return null;
  const rows = new Map<string, Row>();
  for (const each of view.what_if) {
    const key = `${each.scope ?? ""}\0${each.path}\0${each.object ?? ""}`;
    let row = rows.get(key);
    if (row === undefined) rows.set(key, (row = { path: each.path, first: each, by: new Map() }));
    row.by.set(String(each.speedup), each);
  }
  const scopes: Record<string, string> = { own: "with the libraries it calls", inclusive: "with what it calls", wait: "wait" };
  const most = Math.max(1e-9, ...view.what_if.map((each) => each.saving_high));
  const saving = ([key, label, help]: [string, string, string]): Column<Row> => ({
    key: `x${key}`,
    label,
    help: `${help}: predicted saving of the whole run, from–to`,
    width: "130px",
    numeric: true,
    sort: (row) => row.by.get(key)?.saving_high ?? null,
    text: (row) => range(row.by.get(key)),
    title: (row) => exactly(row.by.get(key)),
    bar: (row) => (row.by.get(key)?.saving_high ?? 0) / most,
  });
  const table = new DataTable<Row>({
    id: "what-if-table",
    label: "What if it were faster",
    rows: [...rows.values()],
    sortBy: "xinf",
    empty: "Nothing to speed up.",
    minWidth: "720px",
    columns: [
      {
        key: "path",
        label: "Made faster",
        help: "Function and its callers, or what was waited for",
        code: true,
        sort: (row) => row.path.toLowerCase(),
        text: (row) => printable(row.path) + (row.first.object ? `  ${printable(row.first.object)}` : ""),
        note: (row) => (row.first.kind ? row.first.kind : (scopes[row.first.scope ?? ""] ?? "")),
        title: (row) => [row.path, ...(row.first.stack ?? [])].map(printable).join("\n"),
      },
      ...SPEEDUPS.map(saving),
      {
        key: "time",
        label: "∞, time",
        help: "The same as time",
        width: "150px",
        numeric: true,
        sort: (row) => row.by.get("inf")?.saving_high_ns ?? null,
        text: (row) => times(row.by.get("inf")),
      },
    ],
  });
  return section(
    "what-if",
    "What if it were faster",
    view.contention.much ? rough(view.contention.of_run) : EXPLANATION,
    table.element,
  );
}

function rough(ofRun: number): string {
  const part = (ofRun * 100).toFixed(0);
  return (
    `A rough guess: for ${part} % of the run threads could have run, and other programs, or the host, had the CPUs. ` +
    "It holds beside the same load alone; record again on an idle machine."
  );
}

function range(row: WhatIf | undefined): string {
  if (row === undefined) return "–";
  const [low, high] = [row.saving_low, row.saving_high].map((share) => (share * 100).toFixed(1));
  return low === high ? `${low} %` : `${low}–${high} %`;
}

function exactly(row: WhatIf | undefined): string {
  if (row === undefined) return "not predicted";
  const best = row.saving_ns === undefined ? "" : `, best estimate ${exactNs(row.saving_ns)}`;
  return `${exactNs(row.saving_low_ns)} to ${exactNs(row.saving_high_ns)}${best}`;
}

function times(row: WhatIf | undefined): string {
  if (row === undefined) return "–";
  const [low, high] = [duration(row.saving_low_ns), duration(row.saving_high_ns)];
  return low === high ? low : `${low} – ${high}`;
}
