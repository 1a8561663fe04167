// What ran, how it was measured and what is missing: above everything else, since every figure depends on it.

import { h, printable } from "./dom";
import { bytes, count, duration, exact, exactNs, percent, plural } from "./format";
import { type Model, shareOf, waitAttributed } from "./model";
import { type Criticality, hasFlows, type LatencySession, type Meta, type SchedSession } from "./report";
import { themeToggle } from "./theme";

export const sections = [
  ["findings", "Findings"],
  ["walk", "Chains"],
  ["call-tree-section", "Call tree"],
  ["walk-flame", "Flame graph"],
  ["system-calls", "System calls"],
  ["walk-steps", "Search"],
  ["features", "Features"],
  ["feature-flame", "Nested"],
  ["feature-timeline", "Over time"],
  ["regions", "Regions"],
  ["feature-apis", "What features call"],
  ["feature-components", "Where"],
  ["cut", "Cut"],
  ["critical-paths", "Critical paths"],
  ["timeline", "Timeline"],
  ["what-if", "What if"],
  ["wait-for", "Who waits for whom"],
  ["critical-threads", "Criticality"],
  ["components", "Components"],
  ["flows", "Flows"],
  ["latency", "Latency"],
  ["threads", "Threads"],
  ["waits", "Waits"],
  ["locks", "Locks"],
  ["loss", "Losses"],
] as const;

export function commandLine(meta: Meta): string {
  const words = typeof meta.command === "string" ? [meta.command] : (meta.command ?? []);
  return words.map((word) => printable(shellWord(word))).join(" ");
}

/** Quoted as a shell would need it. */
function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function timing(meta: Meta): { text: string; help: string } {
  const mode = typeof meta.timing === "string" ? { mode: meta.timing } : (meta.timing ?? {});
  switch (mode.mode) {
    case "adaptive": {
      const budget = mode.budget === undefined ? "" : `, budget ${percent(mode.budget)}`;
      return {
        text: `adaptive${budget}`,
        help: "Counts are exact. Long and blocking calls are all timed; hot short ones are timed one in k and their times are estimates with an interval.",
      };
    }
    case "full":
      return { text: "every call", help: "Every call was timed; counts and times are exact." };
    case "count":
      return { text: "counts only", help: "Calls were counted, not timed." };
    case "every":
      return {
        text: mode.period === undefined ? "one call in n" : `one call in ${exact(mode.period)}`,
        help: "Counts are exact; times are estimates with an interval.",
      };
    default:
      return { text: printable(mode.mode ?? "unknown"), help: "How calls were timed." };
  }
}

/** From this share of the run on a factor says more. */
const DISTORTED = 0.1;

function overheadValue(share: number | null | undefined): string {
  if (!share) return "–";
  return share < DISTORTED ? `≈ ${percent(share)}` : `ran ${(1 / (1 - Math.min(share, 0.99))).toFixed(1)} × as long`;
}

/** What the recording cost, in words. */
function overheadHelp(meta: Meta): string {
  const known = "Estimated share of the program's time that the measurement took while it ran";
  const cost = meta.overhead;
  if (!cost) return known;
  const times = `${duration(cost.agent_ns ?? 0)} in the agent, ${duration(cost.kernel_ns ?? 0)} in the kernel, summed over threads`;
  const around = `${duration(cost.start_ns ?? 0)} before the program began, ${duration(cost.end_ns ?? 0)} after it ended`;
  return `${known}: ${times}; ${around}; the recorder's CPU time ${duration(cost.recorder_ns ?? 0)}`;
}

function fact(name: string, value: string, title: string, tone = "", href?: string): HTMLElement {
  const content = href ? h("a", { href }, value) : value;
  return h("div", { class: `fact ${tone}`, title }, h("dt", {}, name), h("dd", {}, content));
}

function latencyFacts(session: LatencySession): HTMLElement[] {
  const sampling = session.sampling ?? {};
  const every = duration(session.epoch_ns);
  const size = sampling.mode === "fixed" ? `${plural(sampling.sample_size ?? 0, "sample")} every ${every}` : `${percent(sampling.share)} budget, every ${every}`;
  const stops = session.stops ?? 0;
  return [
    fact("Probes", exact(session.probes_installed), `${exact(session.probes_active)} of ${plural(session.probes_installed ?? 0, "function")} with a probe were called while it was on; ${exact(session.sites_refused)} functions have none`),
    fact("Sampling", size, "How many calls of each function are timed: a probe switches itself off after its sample and is switched on again so often"),
    fact("Samples", `${count(Math.round(session.samples_per_second ?? 0))} / s`, `${exact(session.samples)} calls timed`),
    fact("Toggles", `${count(Math.round(session.toggles_per_second ?? 0))} / s`, `${exact(session.toggles)} probes switched on or off, which took ${percent(session.toggling_share)} of one CPU`),
    ...(stops > 0 ? [fact("Stopped", duration(session.total_stop_ns), `The program stood still ${exact(stops)} times to install and remove probes, at most ${duration(session.longest_stop_ns)}`)] : []),
  ];
}

/** Facts of scheduler events, doubts first. */
function schedFacts(session: SchedSession, view: Criticality | null): HTMLElement[] {
  const elapsed = Math.max(1, (session.busy_ns ?? 0) + (session.idle_ns ?? 0));
  const unattributed = session.unattributed_ns ?? 0;
  const much = unattributed > (session.busy_ns ?? 0) / 50;
  const mean = view?.parallelism_mean ?? null;
  if (session.estimate === true) {
    return [
      fact("Criticality", "estimate", "The scheduler was not seen: numbers are the agent's times of waiting calls", "warn", "#critical-paths"),
      fact("All waiting", percent((session.idle_ns ?? 0) / elapsed), `${exactNs(session.idle_ns)} in which every thread waited`),
    ];
  }
  return [
    ...(mean === null ? [] : [fact("Active threads", `${mean.toFixed(2)} of ${exact(session.cpus)}`, `Mean number of active threads while at least one was; ${plural(session.cpus ?? 0, "CPU")} allowed`, "", "#critical-threads")]),
    fact("All waiting", percent((session.idle_ns ?? 0) / elapsed), `${exactNs(session.idle_ns)} in which every thread waited; busy ${exactNs(session.busy_ns)}`),
    fact("Slices", count(session.slices), `${exact(session.slices)} times a thread stopped being active, ${exact(session.critical_slices)} of them at low parallelism${session.per_process === true ? "; each process counts by itself" : ""}`),
    fact("Without stack", percent(unattributed / elapsed), `${exactNs(unattributed)} of criticality that no sample and no stack covers`, much ? "warn" : ""),
    ...((session.drift ?? 0) === 0 ? [] : [fact("Drift", exact(session.drift), "Largest difference between counted and real number of active threads that audits found", "warn")]),
  ];
}

export function pageHeader(model: Model): HTMLElement {
  const { meta, threads, flows, loss } = model.report;
  const command = commandLine(meta);
  document.title = `${command === "" ? "Profile" : command} · Transect`;
  const mode = timing(meta);
  const wall = model.report.wall_ns ?? meta.wall_ns;
  const processes = new Set(threads.map((thread) => thread.process)).size;
  const calls = flows.reduce((sum, flow) => sum + flow.calls, 0);
  const waiting = [...model.components.values()].reduce((sum, row) => sum + (shareOf(model, waitAttributed(row)) ?? 0), 0);
  // Summed events are in all counts and times.
  const lost = loss.filter((row) => row.what !== "summed events").reduce((sum, row) => sum + row.count, 0);
  const flowFacts = [
    fact("Calls across components", count(calls), `${exact(calls)} calls in ${plural(flows.length, "flow")}`),
    ...(waiting > 0 ? [fact("Waiting", percent(waiting), "Share of the time of all threads, each instant divided among the threads active in it, that they waited: sleep, join, lock, condition, poll", "", "#waits")] : []),
    fact("Timing", mode.text, mode.help),
  ];
  const facts = [
    fact("Wall time", duration(wall), `${exactNs(wall)} from the start to the end of what was recorded`),
    ...(threads.length > 0 ? [fact("Threads", exact(threads.length), `${plural(threads.length, "thread")} in ${plural(processes, "process").replace("processs", "processes")}`)] : []),
    ...(hasFlows(model.report) ? flowFacts : []),
    ...(meta.latency ? latencyFacts(meta.latency) : []),
    ...(meta.criticality ? schedFacts(meta.criticality, model.report.criticality) : []),
    fact(
      "Overhead",
      overheadValue(meta.overhead_estimate),
      overheadHelp(meta),
    ),
    lost > 0
      ? fact("Losses", `${count(lost)} (${plural(new Set(loss.map((row) => row.what)).size, "kind")})`, `${exact(lost)} things that the recording knows it did not see; the table of losses names each`, "warn", "#loss")
      : fact("Losses", "none", "The recording reports no losses", "good", "#loss"),
  ];
  if (meta.exit_status !== null && meta.exit_status !== undefined && meta.exit_status !== 0) {
    facts.push(fact("Exit status", String(meta.exit_status), "Exit status of the program as a shell reports it (signal N as 128 + N)", "warn"));
  }
  return h(
    "header",
    {},
    h("div", { class: "title-row" }, h("p", { class: "brand" }, "Transect ", h("span", {}, hasFlows(model.report) ? "cross-flow profile" : meta.walk ? "walk from main into the kernel" : meta.criticality ? "scheduler criticality" : meta.feature ? "time per feature" : "latency profile")), themeToggle()),
    h("h1", {}, h("code", { title: command, dir: "ltr" }, command === "" ? "unknown command" : command)),
    h("dl", { class: "facts" }, ...facts),
  );
}

/** Links to the sections that the page has. */
export function navigation(present: string[]): HTMLElement {
  const links = sections.filter(([id]) => present.includes(id)).map(([id, title]) => h("a", { href: `#${id}` }, title));
  return h("nav", { "aria-label": "Sections" }, ...links);
}

export function pageFooter(model: Model): HTMLElement {
  const { meta } = model.report;
  const machine = meta.machine ?? {};
  const parts: string[] = [];
  if (machine.hostname) parts.push(machine.hostname);
  if (machine.cpu) parts.push(machine.cpu);
  if (machine.cpus) parts.push(plural(machine.cpus, "CPU"));
  if (machine.memory_bytes) parts.push(bytes(machine.memory_bytes));
  if (machine.kernel) parts.push(`Linux ${machine.kernel}`);
  if (meta.started_unix_ns) parts.push(`recorded ${new Date(meta.started_unix_ns / 1e6).toISOString().slice(0, 19).replace("T", " ")} UTC`);
  if (meta.schema !== undefined) parts.push(`schema ${meta.schema}`);
  return h("footer", {}, h("p", {}, parts.map(printable).join(" · ")));
}
