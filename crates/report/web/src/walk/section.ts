// The walk: chains from main down to the function that holds the time, in their call tree and in a flame graph.

import { h, printable } from "../dom";
import { count, duration, exact, percent, plural } from "../format";
import type { Report, Walk } from "../report";
import { section } from "../section";
import { chainList } from "./chains";
import { walkFlame } from "./flame";
import { groupTrees } from "./model";
import { callTree } from "./tree";

const WHOLE = new Map([
  ["wall", "wall time, waiting included"],
  ["cpu", "CPU time"],
  ["page-faults", "page faults"],
  ["cycles", "CPU cycles"],
  ["cache-misses", "cache misses"],
]);

/** What shares are shares of. */
function whole(walk: Walk): string {
  return walk.critical ? "critical time" : (WHOLE.get(walk.metric) ?? walk.metric);
}

const KERNEL = new Map([
  ["kprobe-session", "kernel timed by kprobe sessions"],
  ["fentry", "kernel timed by fentry"],
  ["kprobe-multi", "kernel timed by kprobe.multi"],
  ["kprobe", "kernel timed by kprobes"],
  ["sampling", "kernel sampled, system calls exact"],
]);

const USER = new Map([
  ["probes", "program timed by probes"],
  ["uprobes", "program timed by uprobes"],
]);

const MOST_SYSTEM_CALLS = 16;
const MOST_STEPS = 400;

export function walkSections(report: Report): HTMLElement[] {
  const { walk } = report;
  if (walk === null) return [];
  const trees = groupTrees(walk, report.walk_tree);
  const flame = walkFlame(walk.metric);
  const tree = callTree((node) => flame.select(node));
  const chosen = h("span", { dir: "ltr" });
  const chains = chainList(walk, trees, (group, chain) => {
    chosen.textContent = printable(group.group.thread_group);
    tree.show(group, chain);
    flame.show(group, chain);
  });
  const entry = (swatch: string, text: string): HTMLElement => h("span", { class: "entry" }, h("span", { class: `swatch ${swatch}`, "aria-hidden": "true" }), text);
  const legend = h("p", { class: "legend" }, entry("walk-program", "program"), entry("walk-kernel", "kernel"), entry("walk-on", "on CPU"), entry("walk-ready", "runnable"), entry("walk-blocked", "blocked"));
  const left = report.walk_tree.left_out;
  return [
    section(
      "walk",
      "Where the time goes",
      `Each chain leads from main, or from a thread's start, through every function that holds ${percent(walk.threshold)} or more of its thread group's ${whole(walk)}, on into the kernel. The last line is where to look. Choose a chain to see it in the call tree and the flame graph below.`,
      facts(walk),
      walk.chains.length === 0 ? h("p", { class: "empty" }, "No chain: nothing was observed.") : h("div", { class: "panel" }, legend, chains.element),
    ),
    ...(report.walk_tree.node.length === 0
      ? []
      : [
          section(
            "call-tree-section",
            "Call tree",
            "Program and kernel in one tree, callers above what they call; the chosen chain is opened and marked. Click a function to open it and to see it in the flame graph.",
            h("div", { class: "panel" }, tree.element, left > 0 ? h("p", { class: "graph-note" }, `${exact(left)} small nodes are left out here; the profile's table walk_nodes has all.`) : null),
          ),
          section(
            "walk-flame",
            "Flame graph",
            "The same tree by width: callers above what they call. Click a function to make it the whole width, Escape to go back.",
            flame.element,
          ),
        ]),
    ...systemCalls(walk),
    ...steps(walk),
  ];
}

function facts(walk: Walk): HTMLElement {
  const words = [
    whole(walk),
    walk.critical ? "threads counted by criticality" : "",
    `threshold ${percent(walk.threshold)}`,
    USER.get(walk.user_timing ?? "") ?? "program sampled",
    countedAll(walk) || walk.kernel_timing !== "sampling" ? (KERNEL.get(walk.kernel_timing) ?? walk.kernel_timing) : "kernel sampled",
    walk.found_after_ns === null ? "" : `found after ${duration(walk.found_after_ns)}`,
    walk.probes_inserted > 0 ? `${plural(walk.probes_inserted, "probe")}, at most ${exact(walk.probes_live)} at once` : "",
    walk.longest_stop_ns > 0 ? `longest stop ${duration(walk.longest_stop_ns)}` : "",
  ];
  return h("p", { class: "walk-facts" }, words.filter(Boolean).join(" · "));
}

/** System calls were counted to the end of the walk. */
function countedAll(walk: Walk): boolean {
  return (walk.system_calls_until_ns ?? null) === null;
}

function systemCalls(walk: Walk): HTMLElement[] {
  if (walk.system_calls.length === 0) return [];
  const shown = walk.system_calls.slice(0, MOST_SYSTEM_CALLS);
  const head = ["System call", "Thread group", "Time", "On CPU", "Runnable", "Blocked", "Calls", "Mean"];
  const rows = shown.map((call) =>
    h(
      "tr",
      {},
      h("td", {}, h("code", { dir: "ltr" }, printable(call.name))),
      h("td", { dir: "ltr" }, printable(`${call.thread_group} (${call.process})`)),
      ...[duration(call.wall_ns), duration(call.on_ns), duration(call.runnable_ns), duration(call.blocked_ns), count(call.calls), duration(call.wall_ns / Math.max(1, call.calls))].map((text) => h("td", { class: "numeric" }, text)),
    ),
  );
  const left = walk.system_calls.length - shown.length;
  return [
    section(
      "system-calls",
      "System calls",
      countedAll(walk) ? "Every call is counted; of fast ones some are timed, drawn at random." : `Of the first ${duration((walk.system_calls_until_ns ?? 0) - walk.start_ns)}: they come so fast that counting all would cost too much.`,
      h("div", { class: "panel chain-scroll" }, h("table", { class: "chain" }, h("thead", {}, h("tr", {}, ...head.map((text, at) => h("th", { scope: "col", class: at > 1 ? "numeric" : "" }, text)))), h("tbody", {}, ...rows)), left > 0 ? h("p", { class: "graph-note" }, `${exact(left)} more in --view walk --format json.`) : null),
    ),
  ];
}

/** What the search did, folded: for those who doubt a share. */
function steps(walk: Walk): HTMLElement[] {
  if (walk.steps.length === 0) return [];
  const shown = walk.steps.slice(0, MOST_STEPS);
  const rows = shown.map((step) =>
    h(
      "tr",
      { class: step.followed ? "followed" : "" },
      h("td", { class: "numeric" }, duration(step.time_ns)),
      h("td", { dir: "ltr" }, printable(step.thread_group)),
      h("td", { class: "walk-step", dir: "ltr", title: printable(`${step.parent} → ${step.function}`) }, `${printable(step.parent)} → `, step.followed ? h("b", {}, printable(step.function)) : printable(step.function), step.space === "kernel" ? h("small", {}, " [kernel]") : null),
      h("td", { class: "numeric" }, percent(step.share)),
      h("td", {}, step.followed ? "followed" : ""),
      h("td", { class: "walk-note" }, printable(step.note)),
    ),
  );
  const head = ["After", "Group", "Looked at", "Share", "", "Remark"];
  return [
    section(
      "walk-steps",
      "What the search did",
      "Each line is one function that was weighed; where it was not timed, the remark says why.",
      h(
        "details",
        { class: "panel" },
        h("summary", {}, `${plural(walk.steps.length, "step")}`),
        h("div", { class: "chain-scroll" }, h("table", { class: "chain steps" }, h("thead", {}, h("tr", {}, ...head.map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, ...rows))),
        walk.steps.length > shown.length ? h("p", { class: "graph-note" }, `${exact(walk.steps.length - shown.length)} more in the profile's table walk_steps.`) : null,
      ),
    ),
  ];
}
