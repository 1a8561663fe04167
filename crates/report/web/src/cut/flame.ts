// The stacks of a cut as a flame graph.

import { h, printable } from "../dom";
import { type FlameGraph, type FlameNode, flameGraph } from "../flame_graph";
import { percent } from "../format";
import type { CutData } from "./data";
import type { CutResult } from "./sum";

interface StackNode extends FlameNode<StackNode> {
  name: string;
  kernel: boolean;
  /** With all below. */
  total: number;
  own: number;
}

export interface StackActions {
  /** Only stacks with this function, or all others. */
  filter(name: string, negated: boolean): void;
}

function treeOf(data: CutData, result: CutResult): StackNode {
  const root: StackNode = { name: "all stacks", kernel: false, total: result.total, own: 0, parent: null, depth: 0, children: [] };
  const nodes = new Map<number, StackNode>();
  const nodeOf = (key: number): StackNode => {
    const known = nodes.get(key);
    if (known !== undefined) return known;
    // Callers come before callees: stacks may be deeper than calls can be.
    const missing: number[] = [];
    for (let at = key; at > 0 && !nodes.has(at); at = data.frames[at - 1]?.[0] ?? 0) missing.push(at);
    for (const each of missing.reverse()) {
      const [above, name, kernel] = data.frames[each - 1] ?? [0, 0, 0];
      const parent = nodes.get(above) ?? root;
      const node: StackNode = { name: data.names[name - 1] ?? "", kernel: kernel === 1, total: 0, own: 0, parent, depth: parent.depth + 1, children: [] };
      parent.children.push(node);
      nodes.set(each, node);
    }
    return nodes.get(key) as StackNode;
  };
  for (const { keys, value } of result.rows) {
    const key = keys[0] as number;
    if (key === 0) {
      root.children.push({ name: "no stack", kernel: false, total: value, own: value, parent: root, depth: 1, children: [] });
      continue;
    }
    const node = nodeOf(key);
    node.own += value;
    for (let each = node; each.parent !== null; each = each.parent) each.total += value;
  }
  return root;
}

export class CutFlame {
  readonly element: HTMLElement;
  private readonly panel = h("div", { class: "flame-panel", id: "cut-flame-panel", "aria-live": "polite" });
  private readonly graph: FlameGraph<StackNode>;
  private amount: (value: number) => string = String;
  private total = 1;

  constructor(private readonly actions: StackActions) {
    this.graph = flameGraph<StackNode>({
      id: "cut-flame-graph",
      label: "Call stacks of the cut, callers above. Arrows go to callers, callees and neighbours; Enter makes a function the whole width.",
      value: (node) => node.total,
      classes: (node) => (node.kernel ? "kernel" : node.name === "no stack" ? "plain" : "program"),
      small: (node) => ` ${node.kernel ? "[kernel] " : ""}${this.amount(node.total)}`,
      lines: (node) => [node.name, node.kernel ? "kernel" : "", `${percent(node.total / this.total)}, ${this.amount(node.total)}`],
      shade: (node) => node.name,
      show: (node) => this.describe(node),
    });
    const entry = (swatch: string, text: string): HTMLElement => h("span", { class: "entry" }, h("span", { class: `swatch ${swatch}`, "aria-hidden": "true" }), text);
    this.element = h(
      "div",
      { class: "cut-flame" },
      h("h3", {}, "Call stacks"),
      h("p", { class: "legend" }, entry("walk-program", "program"), entry("walk-kernel", "[kernel]"), "callers above, width is the measure"),
      h("div", { class: "flame-grid" }, this.graph.element, this.panel),
    );
  }

  show(data: CutData, result: CutResult, amount: (value: number) => string): void {
    this.amount = amount;
    this.total = Math.max(1, result.total);
    this.element.hidden = result.total === 0;
    this.graph.setRoot(treeOf(data, result));
  }

  private describe(node: StackNode): void {
    const fact = (name: string, value: number, title: string): HTMLElement => h("div", { title }, h("dt", {}, name), h("dd", {}, `${percent(value / this.total)}, ${this.amount(value)}`));
    const button = (text: string, negated: boolean): HTMLElement => {
      const element = h("button", { type: "button", class: "quiet" }, text);
      element.addEventListener("click", () => this.actions.filter(node.name, negated));
      return element;
    };
    const isFunction = node.parent !== null && !node.kernel && node.name !== "no stack";
    this.panel.replaceChildren(
      h("h3", {}, h("code", { dir: "ltr" }, printable(node.name))),
      h("dl", { class: "drill-facts" }, fact("Total", node.total, "With all that it calls"), ...(node.parent === null ? [] : [fact("Self", node.own, "Without what it calls")])),
      ...(isFunction ? [h("p", { class: "cut-buttons" }, button("Only stacks with it", false), button("Without it", true))] : [h("p", { class: "path" }, node.parent === null ? "Click a function to make it the whole width." : node.kernel ? "A function of the kernel." : "No sample says where this was.")]),
    );
  }
}
