// Criticality of thread groups and threads, and time at each degree of parallelism, as bars.

import { h, printable } from "../dom";
import { duration, exact, exactNs, percent, plural } from "../format";
import type { Criticality, CriticalThread } from "../report";
import { section } from "../section";

/** Threads listed in an open group. */
const LISTED = 300;
/** Most critical thread against the mean of its group from which a group counts as unbalanced. */
const UNBALANCED = 2;
/** Degrees of parallelism that stand alone. */
const SINGLE = 8;

export function criticalThreadSection(view: Criticality): HTMLElement {
  const elapsed = Math.max(1, view.elapsed_ns);
  const most = Math.max(1, ...view.groups.map((group) => group.criticality_ns));
  const members = new Map<string, CriticalThread[]>();
  for (const thread of view.threads) {
    const list = members.get(thread.group);
    if (list === undefined) members.set(thread.group, [thread]);
    else list.push(thread);
  }
  const items = view.groups.map((group) => {
    const threads = members.get(group.group) ?? [];
    const mean = group.criticality_ns / Math.max(1, group.threads);
    const peak = group.threads > 1 && mean > 0 ? group.max_criticality_ns / mean : 1;
    const head = h(
      "summary",
      { class: "thread-row" },
      h("span", { class: "thread-name", title: printable(group.group) }, h("b", { dir: "ltr" }, printable(group.group)), h("small", {}, plural(group.threads, "thread"))),
      bar(group.criticality_ns, most),
      h("span", { class: "thread-figure", title: exactNs(group.criticality_ns) }, percent(group.criticality_ns / elapsed)),
      h("span", { class: "thread-figure raw" }, duration(group.criticality_ns)),
      h("span", { class: "thread-notes" }, peak >= UNBALANCED ? h("span", { class: "badge" }, `one thread has ${peak.toFixed(1)}× the mean`) : times(group)),
    );
    const body = h("div", { class: "thread-list" });
    const details = h("details", { class: "thread-group" }, head, body);
    details.addEventListener("toggle", () => {
      if (details.open && body.childElementCount === 0) body.append(...rows(threads, most, elapsed));
    });
    if (peak >= UNBALANCED && view.groups.length < 8) details.open = true;
    return details;
  });
  return section(
    "critical-threads",
    "Criticality of threads",
    "Time that each thread was active, divided by the number of active threads. Threads that share work evenly have bars of the same length.",
    items.length > 0 ? h("div", { class: "thread-groups" }, ...items) : h("p", { class: "empty" }, "No thread was seen."),
    histogram(view, elapsed),
  );
}

function rows(threads: CriticalThread[], most: number, elapsed: number): HTMLElement[] {
  const list = threads.slice(0, LISTED).map((thread) =>
    h(
      "div",
      { class: "thread-row" },
      h("span", { class: "thread-name" }, h("span", { dir: "ltr" }, printable(thread.name)), h("small", {}, ` tid ${thread.tid}`)),
      bar(thread.criticality_ns, most),
      h("span", { class: "thread-figure", title: exactNs(thread.criticality_ns) }, percent(thread.criticality_ns / elapsed)),
      h("span", { class: "thread-figure raw" }, duration(thread.criticality_ns)),
      h("span", { class: "thread-notes" }, times(thread)),
    ),
  );
  const left = threads.length - list.length;
  if (left > 0) list.push(h("p", { class: "empty" }, `${exact(left)} less critical threads are left out here.`));
  return list;
}

function times(row: { running_ns: number; runnable_ns: number; blocked_ns: number }): string {
  return `ran ${duration(row.running_ns)}, no CPU ${duration(row.runnable_ns)}, blocked ${duration(row.blocked_ns)}`;
}

function bar(ns: number, most: number): HTMLElement {
  const part = h("span", { class: "busy" });
  part.style.width = `${(ns / most) * 100}%`;
  return h("span", { class: "busy-bar", "aria-hidden": "true" }, part);
}

interface Degree {
  low: number;
  high: number;
  ns: number;
}

/** Degrees up to 8 and that of all CPUs by themselves, the others by powers of two. */
function degrees(view: Criticality): Degree[] {
  const list: Degree[] = [];
  for (const { n, ns } of view.parallelism) {
    let [low, high] = [n, n];
    if (n > SINGLE && n !== view.cpus) {
      const power = 2 ** Math.floor(Math.log2(n));
      [low, high] = [Math.max(power, SINGLE + 1), power * 2 - 1];
      if (view.cpus >= low && view.cpus <= high) [low, high] = n < view.cpus ? [low, view.cpus - 1] : [view.cpus + 1, high];
    }
    const last = list.at(-1);
    if (last !== undefined && last.low === low) last.ns += ns;
    else list.push({ low, high, ns });
  }
  while (list.length > 0 && list.at(-1)?.ns === 0) list.pop();
  return list;
}

function histogram(view: Criticality, elapsed: number): HTMLElement | null {
  const list = degrees(view);
  if (list.length === 0) return null;
  const most = Math.max(1, ...list.map((degree) => degree.ns));
  const rows = list.map((degree) => {
    const tone = degree.low === 0 ? "idle" : degree.low < view.cpus ? "low" : "high";
    const part = h("span", { class: `degree-bar ${tone}`, "aria-hidden": "true" });
    part.style.width = `${(degree.ns / most) * 100}%`;
    const note = degree.low === 0 ? "all wait" : degree.low === 1 && view.cpus > 1 ? "serial" : degree.low <= view.cpus && view.cpus <= degree.high ? "all CPUs" : degree.low > view.cpus ? "more threads than CPUs" : "";
    return h(
      "tr",
      { title: exactNs(degree.ns) },
      h("th", { scope: "row", class: "numeric" }, degree.low === degree.high ? String(degree.low) : `${degree.low}–${degree.high}`),
      h("td", { class: "degree" }, part),
      h("td", { class: "numeric" }, percent(degree.ns / elapsed)),
      h("td", { class: "numeric raw" }, duration(degree.ns)),
      h("td", { class: "raw" }, note),
    );
  });
  const mean = view.parallelism_mean === null ? "" : `${view.parallelism_mean.toFixed(2)} on average while busy, `;
  return h(
    "div",
    { class: "panel degrees" },
    h("h3", {}, "Active threads"),
    h("p", { class: "raw" }, `${mean}${plural(view.cpus, "CPU")} allowed`),
    h("table", { "aria-label": "Time at each number of active threads" }, h("tbody", {}, ...rows)),
  );
}
