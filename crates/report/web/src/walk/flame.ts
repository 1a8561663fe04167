// The joined call tree as a flame graph: on CPU, off it, or both.

import { h, printable } from "../dom";
import { duration, exact, exactNs, percent } from "../format";
import { type FlameGraph, flameGraph } from "../flame_graph";
import type { WalkChain, WalkMetric } from "../report";
import { METHODS, shareText, splitBar } from "./bar";
import { type GroupTree, place, wall, type WalkNode, type Weight, weightOf } from "./model";

const METRICS = new Map<WalkMetric, string>([
  ["cpu", "CPU time"],
  ["page-faults", "page faults"],
  ["cycles", "cycles"],
  ["cache-misses", "cache misses"],
]);

export interface WalkFlame {
  element: HTMLElement;
  show(tree: GroupTree, chain: WalkChain | undefined): void;
  select(node: WalkNode): void;
}

export function walkFlame(metric: WalkMetric): WalkFlame {
  const panel = h("div", { class: "flame-panel", id: "walk-panel", "aria-live": "polite" });
  let tree: GroupTree | null = null;
  let chain = new Set<number>();
  let weight: Weight = METRICS.has(metric) ? "metric" : "both";
  let wanted = "";
  const onChain = (node: WalkNode): boolean => chain.has(node.row);
  const matches = (node: WalkNode): boolean => wanted !== "" && `${node.name} ${place(node)}`.toLowerCase().includes(wanted);
  const amount = (value: number): string => (weight === "metric" ? exact(value) : duration(value));

  const graph: FlameGraph<WalkNode> = flameGraph<WalkNode>({
    id: "walk-flame-graph",
    label: "Call paths of program and kernel. Arrows go to callers, callees and neighbours; Enter makes a function the whole width.",
    value: (node) => weightOf(node, weight),
    classes: (node) => `${node.kernel ? "kernel" : "program"}${onChain(node) ? " on-chain" : ""}${matches(node) ? " found" : wanted === "" ? "" : " not-found"}`,
    small: (node) => ` ${node.kernel ? "[kernel] " : ""}${amount(weightOf(node, weight))}`,
    lines: (node) => [node.name, place(node), node.file === "" ? "" : `${node.file}:${node.line}`, `${percent(weightOf(node, weight) / Math.max(1, tree === null ? 1 : weightOf(tree.root, weight)))} of ${tree?.group.thread_group ?? ""}, ${amount(weightOf(node, weight))}`, onChain(node) ? "on the chain" : ""],
    shade: (node) => node.name,
    show: (node) => panel.replaceChildren(...describe(node)),
  });
  const describe = (node: WalkNode): HTMLElement[] => {
    if (tree === null) return [];
    const fact = (name: string, value: string, title: string): HTMLElement => h("div", { title }, h("dt", {}, name), h("dd", {}, value));
    const whole = Math.max(1, tree.group.total);
    const frame = onChain(node) ? tree.frames.get(node.row) : undefined;
    const below = node.children.reduce((sum, child) => sum + child.total, 0);
    const lifetime = Math.max(1, wall(tree.root));
    return [
      h("h3", {}, h("code", { dir: "ltr" }, printable(node.name))),
      h("p", { class: "path" }, [place(node), node.file === "" ? "" : `${node.file}:${node.line}`].filter(Boolean).map(printable).join(" · ")),
      splitBar(1, { on: node.on, ready: node.ready, blocked: node.blocked }),
      h(
        "dl",
        { class: "drill-facts" },
        fact("Share", frame === undefined ? percent(node.total / whole) : shareText(frame), frame === undefined ? "From samples, adjusted to exact totals" : (METHODS.get(frame.method)?.[1] ?? "")),
        ...(node.row < 0 ? [] : [fact("Itself", percent(Math.max(0, node.total - below) / whole), "Without what it calls")]),
        fact("On CPU", duration(node.on), `${percent(node.on / lifetime)}, ${exactNs(node.on)}`),
        fact("Runnable", duration(node.ready), `${percent(node.ready / lifetime)}, ${exactNs(node.ready)}`),
        fact("Blocked", duration(node.blocked), `${percent(node.blocked / lifetime)}, ${exactNs(node.blocked)}`),
        fact("Samples", exact(node.samples), "Samples and waits seen in it"),
      ),
      ...(frame?.woken_by ? [h("p", { class: "path" }, `Its waits are mostly ended by ${printable(frame.woken_by)}.`)] : []),
    ];
  };

  const found = h("span", { class: "walk-found", role: "status" });
  const count = (): void => {
    if (wanted === "" || tree === null) {
      found.textContent = "";
      return;
    }
    let sum = 0;
    let frames = 0;
    // A function inside of a function that matches is part of it already.
    const visit = (node: WalkNode, inside: boolean): void => {
      const hit = matches(node);
      if (hit) frames += 1;
      if (hit && !inside) sum += weightOf(node, weight);
      for (const child of node.children) visit(child, inside || hit);
    };
    visit(tree.root, false);
    found.textContent = frames === 0 ? "nothing found" : `${exact(frames)} found, ${percent(sum / Math.max(1, weightOf(tree.root, weight)))} of it`;
  };
  const choices: [Weight, string][] = [["on", "on-CPU"], ["off", "off-CPU"], ["both", "both"]];
  const name = METRICS.get(metric);
  if (name !== undefined) choices.unshift(["metric", name]);
  const choice = h("fieldset", { class: "walk-weight" }, h("legend", {}, "Width is"));
  for (const [value, text] of choices) {
    const input = h("input", { type: "radio", name: "walk-weight", value, checked: value === weight });
    input.addEventListener("change", () => {
      weight = value;
      if (tree !== null) graph.setRoot(tree.root);
      count();
    });
    choice.append(h("label", {}, input, text));
  }
  const search = h("input", { type: "search", id: "walk-search", placeholder: "Find a function", "aria-label": "Find functions in the flame graph", spellcheck: "false" });
  search.addEventListener("input", () => {
    wanted = search.value.trim().toLowerCase();
    graph.redraw();
    count();
  });
  const entry = (swatch: string, text: string): HTMLElement => h("span", { class: "entry" }, h("span", { class: `swatch ${swatch}`, "aria-hidden": "true" }), text);
  return {
    element: h(
      "div",
      { class: "panel" },
      h("div", { class: "graph-bar" }, h("p", { class: "legend" }, entry("walk-program", "program"), entry("walk-kernel", "kernel"), entry("walk-chain", "on the chain")), choice, search, found),
      h("div", { class: "flame-grid" }, graph.element, panel),
    ),
    show(next, along) {
      tree = next;
      chain = new Set(along?.frames.map((frame) => frame.node));
      graph.setRoot(next.root);
      const last = along?.frames.at(-1)?.node;
      const find = (node: WalkNode): WalkNode => {
        const child = node.children.find(onChain);
        return node.row === last || child === undefined ? node : find(child);
      };
      graph.mark(find(next.root));
      count();
    },
    select: (node) => graph.mark(node),
  };
}
