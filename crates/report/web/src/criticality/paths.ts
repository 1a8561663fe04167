// Critical paths: flame graph, and the lines of the chosen function.

import { h, printable } from "../dom";
import { flameGraph } from "../flame_graph";
import { count, duration, exact, exactNs, percent, plural } from "../format";
import type { Criticality, CriticalPath } from "../report";
import { section } from "../section";
import { type CallNode, callTree, pathsBelow, total } from "./call_tree";

const MOST_LINES = 14;

type Weight = "criticality" | "corrected";

export function pathSection(view: Criticality, left: number): HTMLElement {
  const elapsed = Math.max(1, view.elapsed_ns);
  const panel = h("div", { class: "flame-panel", id: "flame-panel", "aria-live": "polite" });
  const graph = flameGraph<CallNode>({
    id: "flame",
    label: "Critical call paths. Arrows go to callers, callees and neighbours; Enter makes a function the whole width.",
    value: total,
    classes: (node) => (waits(node) ? "waits" : spins(node) ? "spins" : ""),
    small: (node) => ` ${duration(total(node))}`,
    lines: (node) => [
      node.name,
      node.component,
      `${percent(total(node) / elapsed)} of the elapsed time, ${exactNs(total(node))}`,
      node.own > 0 ? `itself ${percent(node.own / elapsed)}` : "",
      node.spin > 0 ? `spinning ${percent(node.spin / Math.max(1, total(node)))} of it` : "",
      waits(node) ? "waiting while all threads waited" : "",
    ],
    shade: (node) => node.name,
    show: (node) => panel.replaceChildren(...describe(node, elapsed)),
  });
  const weights: Record<Weight, (path: CriticalPath) => number> = {
    criticality: (path) => path.criticality_ns,
    corrected: (path) => path.corrected_ns ?? path.criticality_ns,
  };
  const show = (weight: Weight): void => graph.setRoot(callTree(view.paths, weights[weight]));
  const choice = h(
    "select",
    { id: "flame-weight", "aria-label": "What widths are" },
    h("option", { value: "criticality" }, "criticality"),
    h("option", { value: "corrected" }, "criticality, spinning counted as waiting"),
  );
  choice.addEventListener("change", () => show(choice.value === "corrected" ? "corrected" : "criticality"));
  show("criticality");
  const entry = (swatch: string, text: string): HTMLElement => h("span", { class: "entry" }, h("span", { class: `swatch ${swatch}`, "aria-hidden": "true" }), text);
  const legend = h("p", { class: "legend" }, entry("flame-runs", "ran"), ...(view.spin_ns > 0 ? [entry("flame-spins", "mostly spinning")] : []), entry("flame-waits", "waited while all waited"));
  return section(
    "critical-paths",
    "Critical paths",
    "Each instant is divided among the threads that were active in it, so a function that runs while the others wait is wide. Callers are above what they call; click a function to make it the whole width.",
    view.estimate ? estimate() : null,
    view.paths.length === 0
      ? h("p", { class: "empty" }, "No sample and no stack was taken.")
      : h(
          "div",
          { class: "panel" },
          h("div", { class: "graph-bar" }, legend, view.spin_ns > 0 ? h("label", { class: "select" }, "Width ", choice) : null),
          h("div", { class: "flame-grid" }, graph.element, panel),
          left > 0 ? h("p", { class: "graph-note" }, `${exact(left)} paths of little criticality are left out here; transect report --view criticality --format json has all.`) : null,
        ),
  );
}

function waits(node: CallNode): boolean {
  return node.waiting > node.running;
}

function spins(node: CallNode): boolean {
  return node.spin > total(node) / 2;
}

export function estimate(): HTMLElement {
  return h(
    "p",
    { class: "estimate", role: "note" },
    h("b", {}, "Estimate. "),
    "The scheduler was not seen. These numbers come from samples that need no privileges, or from the blocking calls that the agent knows: who holds a lock, who wakes whom and time without a CPU are not in them.",
  );
}

function describe(node: CallNode, elapsed: number): HTMLElement[] {
  const ns = total(node);
  const fact = (name: string, value: string, title: string): HTMLElement => h("div", { title }, h("dt", {}, name), h("dd", {}, value));
  const paths = pathsBelow(node);
  const groups = [...new Set(paths.map((path) => path.group ?? "").filter(Boolean))];
  const facts = [
    fact("Criticality", percent(ns / elapsed), `${exactNs(ns)} of ${exactNs(elapsed)} elapsed`),
    fact("Time", duration(ns), exactNs(ns)),
    fact("Itself", duration(node.own), "Without what it called"),
    ...(node.spin > 0 ? [fact("Spinning", duration(node.spin), "Gained in loops that wait for another thread")] : []),
    ...(node.waiting > 0 ? [fact("Waiting", duration(node.waiting), "While all threads waited")] : []),
    fact("Samples", count(node.samples), `${exact(node.samples)} samples and waits`),
  ];
  const lines = linesOf(paths);
  const most = Math.max(1, ...lines.map((line) => line.samples));
  const shown = lines.slice(0, MOST_LINES);
  return [
    h("h3", {}, h("code", { dir: "ltr" }, printable(node.name))),
    h("p", { class: "path" }, [node.component, groups.length > 0 ? `${plural(groups.length, "thread group")}: ${groups.slice(0, 4).join(", ")}` : ""].filter(Boolean).map(printable).join(" · ")),
    h("dl", { class: "drill-facts" }, ...facts),
    ...(shown.length > 0
      ? [
          h(
            "table",
            { class: "lines", "aria-label": "Lines" },
            h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "numeric" }, "Samples"), h("th", { scope: "col" }, "Line"))),
            h("tbody", {}, ...shown.map((line) => lineRow(line, most))),
          ),
        ]
      : [h("p", { class: "empty" }, "No lines: it was not running when samples were taken, or has no line table.")]),
    ...(lines.length > shown.length ? [h("p", { class: "empty" }, `${exact(lines.length - shown.length)} more lines`)] : []),
  ];
}

interface Line {
  place: string;
  function: string;
  samples: number;
  blocked: boolean;
}

function linesOf(paths: CriticalPath[]): Line[] {
  const lines = new Map<string, Line>();
  for (const path of paths) {
    for (const line of path.lines) {
      const place = line.file === "" ? "" : line.line > 0 ? `${line.file}:${line.line}` : line.file;
      const key = `${place}\0${line.function}\0${line.origin}`;
      const known = lines.get(key);
      if (known === undefined) lines.set(key, { place, function: line.function, samples: line.samples, blocked: line.origin === "stack-top" });
      else known.samples += line.samples;
    }
  }
  return [...lines.values()].sort((a, b) => b.samples - a.samples);
}

function lineRow(line: Line, most: number): HTMLElement {
  const bar = h("span", { class: "line-bar", "aria-hidden": "true" });
  bar.style.width = `${(line.samples / most) * 100}%`;
  const name = line.place === "" ? line.function : `${line.place.split("/").at(-1) ?? line.place}  ${line.function}`;
  return h(
    "tr",
    { title: [line.place, line.function].filter(Boolean).map(printable).join("\n") },
    h("td", { class: "numeric" }, bar, h("span", {}, exact(line.samples))),
    h("td", {}, h("code", { dir: "ltr" }, printable(name)), line.blocked ? h("small", {}, " where it stopped") : null),
  );
}
