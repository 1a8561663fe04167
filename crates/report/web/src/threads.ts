// Thread groups as bars of busy time and waiting: a pipeline's bottleneck is the group that is busy while others wait.

import { h, printable } from "./dom";
import { count, duration, exact, exactNs, percent, plural } from "./format";
import type { Model } from "./model";
import type { ThreadRow } from "./report";
import { section } from "./section";

/** Groups whose mean busy times differ by more than this factor are marked. */
const GROUP_IMBALANCE = 4;
/** A thread that is busy this many times the mean of its group is marked. */
const THREAD_IMBALANCE = 1.5;
/** What is busy for less than this part of the longest lifetime is not worth a mark. */
const NOTABLE = 0.1;
/** Of a thread whose calls were counted, not timed, without the scheduler's events. */
const UNKNOWN = "calls were not timed: nothing tells when it waited";
/** Threads listed of one group; the rest are said to be left out. */
const LISTED = 100;

interface Group {
  name: string;
  executable: string;
  threads: ThreadRow[];
  wall: number;
  busy: number;
  wait: number;
  /** Busy share of the mean thread's lifetime. */
  share: number;
  /** False where it is not known of every thread whether it was busy or waited. */
  known: boolean;
}

function groupsOf(rows: ThreadRow[]): Group[] {
  const several = new Set(rows.map((row) => row.process)).size > 1;
  const groups = new Map<string, ThreadRow[]>();
  for (const row of rows) {
    const owner = row.executable ?? String(row.process);
    const key = several ? `${row.group} · ${owner}` : row.group;
    const known = groups.get(key);
    if (known) known.push(row);
    else groups.set(key, [row]);
  }
  const sum = (threads: ThreadRow[], key: "wall_ns" | "busy_ns" | "wait_ns"): number =>
    threads.reduce((total, thread) => total + (thread[key] ?? 0), 0);
  return [...groups]
    .map(([name, threads]) => {
      const wall = sum(threads, "wall_ns");
      const busy = sum(threads, "busy_ns");
      const sorted = [...threads].sort((a, b) => (b.busy_ns ?? 0) - (a.busy_ns ?? 0));
      const known = threads.every((thread) => thread.busy_ns !== null);
      const executable = threads[0]?.executable ?? "";
      return { name, executable, threads: sorted, wall, busy, wait: sum(threads, "wait_ns"), share: wall > 0 ? busy / wall : 0, known };
    })
    .sort((a, b) => b.busy / b.threads.length - a.busy / a.threads.length);
}

/** A bar whose full width is `scale` nanoseconds. */
function bar(busy: number, wait: number, scale: number): HTMLElement {
  const part = (tone: string, ns: number, label: string): HTMLElement => {
    const span = h("span", { class: tone, title: `${label} ${exactNs(Math.round(ns))}` });
    span.style.width = `${scale > 0 ? Math.min(100, (ns / scale) * 100) : 0}%`;
    return span;
  };
  return h("span", { class: "busy-bar", "aria-hidden": "true" }, part("busy", busy, "busy"), part("waiting", wait, "waiting"));
}

function remarks(group: Group, groups: Group[], scale: number): string[] {
  const notes: string[] = [];
  const rivals = groups.filter((other) => other.executable === group.executable);
  if (!rivals.every((other) => other.known)) return notes;
  const mean = group.busy / group.threads.length;
  // Threads can be balanced against each other within one process only.
  const peers = group.threads.filter((thread) => thread.process === group.threads[0]?.process);
  const ofPeers = peers.reduce((sum, thread) => sum + (thread.busy_ns ?? 0), 0) / peers.length;
  const most = peers[0]?.busy_ns ?? 0;
  if (peers.length > 1 && most >= THREAD_IMBALANCE * ofPeers && most >= NOTABLE * scale) {
    notes.push(`busiest thread ${factor(most / ofPeers)} the mean`);
  }
  const means = rivals.map((other) => other.busy / other.threads.length);
  const lowest = Math.min(...means);
  const laziest = printable(rivals[means.indexOf(lowest)]?.name ?? "");
  if (rivals.length > 1 && mean === Math.max(...means) && mean > GROUP_IMBALANCE * lowest && mean >= NOTABLE * scale) {
    notes.push(lowest > 0 ? `${factor(mean / lowest)} as busy as ${laziest}` : `${laziest} is idle`);
  }
  return notes;
}

function factor(ratio: number): string {
  return ratio >= 100 ? "over 100 ×" : `${ratio.toFixed(1)} ×`;
}

export function threadSection(model: Model): HTMLElement {
  const groups = groupsOf(model.report.threads);
  const scale = Math.max(1, ...model.report.threads.map((thread) => thread.wall_ns));
  const items = groups.map((group) => {
    const n = group.threads.length;
    const notes = remarks(group, groups, scale);
    const head = h(
      "summary",
      { class: "thread-row" },
      h("span", { class: "thread-name", title: startOf(group) }, h("b", { dir: "ltr" }, printable(group.name)), h("small", {}, n === 1 ? "1 thread" : `${exact(n)} threads, mean`)),
      bar(group.busy / n, group.wait / n, scale),
      group.known
        ? h("span", { class: "thread-figure", title: `busy ${exactNs(group.busy)} of ${exactNs(group.wall)}, over ${plural(n, "thread")}` }, `${percent(group.share)} busy`)
        : h("span", { class: "thread-figure", title: UNKNOWN }, "–"),
      h("span", { class: "thread-figure raw" }, group.known ? duration(group.busy / n) : ""),
      h("span", { class: "thread-notes" }, ...notes.map((note) => h("span", { class: "badge" }, note))),
    );
    const body = h("div", { class: "thread-list" });
    const details = h("details", { class: "thread-group" }, head, body);
    // Built when first opened: a group may hold thousands of threads.
    details.addEventListener("toggle", () => {
      if (details.open && body.childElementCount === 0) body.append(...threadRows(group, scale));
    });
    return details;
  });
  const key = h(
    "p",
    { class: "legend" },
    h("span", { class: "entry" }, h("span", { class: "swatch busy" }), "busy"),
    h("span", { class: "entry" }, h("span", { class: "swatch waiting" }), "waiting: sleep, join, lock, I/O"),
    `Full width is ${duration(scale)}`,
  );
  return section(
    "threads",
    "Threads",
    "Threads that run the same start routine form a group. Open a group to see each thread.",
    groups.length > 0 ? key : null,
    groups.length > 0 ? h("div", { class: "thread-groups" }, ...items) : h("p", { class: "empty" }, "The report has no threads."),
  );
}

function startOf(group: Group): string {
  const starts = new Set(group.threads.map((thread) => thread.start_routine).filter(Boolean) as string[]);
  return starts.size > 0 ? `start routine ${[...starts].map(printable).join(", ")}` : printable(group.name);
}

/** What the thread did with its time, as far as it is known. */
function states(thread: ThreadRow): string {
  const parts: [string, number | null | undefined][] = [
    ["busy", thread.busy_ns],
    ["on a CPU", thread.on_cpu_ns],
    ["runnable", thread.runnable_ns],
    ["blocked", thread.blocked_ns],
  ];
  return parts.filter(([, ns]) => typeof ns === "number").map(([name, ns]) => `${name} ${exactNs(ns)}`).join(", ");
}

function threadRows(group: Group, scale: number): HTMLElement[] {
  const rows = group.threads.slice(0, LISTED).map((thread) =>
    h(
      "div",
      { class: "thread-row" },
      h("span", { class: "thread-name" }, h("span", { dir: "ltr" }, printable(thread.name)), h("small", {}, ` tid ${thread.tid}`)),
      bar(thread.busy_ns ?? 0, thread.wait_ns ?? 0, scale),
      thread.busy_ns === null
        ? h("span", { class: "thread-figure", title: UNKNOWN }, "–")
        : h("span", { class: "thread-figure", title: states(thread) }, `${percent(thread.wall_ns > 0 ? thread.busy_ns / thread.wall_ns : 0)} busy`),
      h("span", { class: "thread-figure raw" }, thread.busy_ns === null ? "" : duration(thread.busy_ns)),
      h("span", { class: "thread-notes", ...(thread.calls === null ? {} : { title: `${exact(thread.calls)} calls` }) }, thread.calls === null ? "" : `${count(thread.calls)} calls`),
    ),
  );
  const left = group.threads.length - rows.length;
  if (left > 0) rows.push(h("p", { class: "empty" }, `${exact(left)} less busy threads are left out here; transect report --view threads lists them.`));
  return rows;
}
