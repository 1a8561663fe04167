// Rows of a cut as a tree: one level a dimension, largest first (steps of time in their order), a click on a name filters by it.

import { h, printable } from "../dom";
import { exact, exactNs, percent, plusMinus } from "../format";
import { type CutData, textOf } from "./data";
import type { Dimension, Measure } from "./dimension";
import { instant } from "./strip";
import type { CutResult, CutRow } from "./sum";

/** Rows of one level before the rest is asked for. */
const AT_FIRST = 12;
/** The same of steps of time, which mean little apart. */
const STEPS_AT_FIRST = 40;
/** Rows that a click on the rest adds. */
const MORE = 200;
/** Rows with at least this share are open at first. */
const OPEN = 0.08;

export interface RowActions {
  /** Only parts with this key, or all others. */
  filter(dimension: Dimension, name: string | null, negated: boolean): void;
  /** A step of time. */
  range(from: number, to: number): void;
}

/** One key and what it has below; made when it is looked at, since a cut may have a million rows. */
class Node {
  readonly value: number;
  private below: Node[] | null = null;

  constructor(private readonly rows: CutRow[], readonly level: number, readonly key: number, readonly path: string, private readonly by: Dimension[]) {
    this.value = rows.reduce((sum, row) => sum + row.value, 0);
  }

  interval(result: CutResult): [number, number] {
    return result.interval(this.rows, this.level + 1);
  }

  get isLeaf(): boolean {
    return this.level + 1 === this.by.length;
  }

  get children(): Node[] {
    return (this.below ??= nodesOf(this.rows, this.level + 1, this.by, this.path));
  }
}

export interface CutView {
  data: CutData;
  by: Dimension[];
  measure: Measure;
  result: CutResult;
  amount(value: number): string;
}

function nodesOf(rows: CutRow[], level: number, by: Dimension[], path: string): Node[] {
  const dimension = by[level];
  if (dimension === undefined) return [];
  const byKey = new Map<number, CutRow[]>();
  for (const row of rows) {
    const key = row.keys[level] as number;
    const group = byKey.get(key);
    if (group === undefined) byKey.set(key, [row]);
    else group.push(row);
  }
  return [...byKey].map(([key, group]) => new Node(group, level, key, `${path}/${key}`, by)).sort((a, b) => (dimension.fact === "time" ? a.key - b.key : b.value - a.value));
}

/** That all of it has no key says little. */
function tells(node: Node): boolean {
  const [first, second] = node.children;
  return second !== undefined || first?.key !== 0 || !first.isLeaf;
}

export class CutRows {
  readonly element: HTMLElement;
  private readonly table = h("table", { class: "cut-table", role: "treegrid", "aria-label": "Rows of the cut", id: "cut-table" });
  private readonly opened = new Map<string, boolean>();
  private readonly shown = new Map<string, number>();
  private view: CutView | null = null;
  private asked = "";

  constructor(private readonly actions: RowActions) {
    this.element = h("div", { class: "cut-rows" }, this.table);
    this.table.addEventListener("keydown", (event) => this.key(event));
  }

  show(view: CutView): void {
    // Keys mean the same as long as the dimensions do.
    const asked = view.by.map(({ word }) => word).join();
    if (asked !== this.asked) this.opened.clear();
    this.asked = asked;
    this.shown.clear();
    this.view = view;
    this.draw();
  }

  /** Shows nothing: the question has no answer. */
  clear(): void {
    this.view = null;
    this.table.replaceChildren();
  }

  private draw(focus?: string): void {
    const { view } = this;
    if (view === null) return;
    const unit = view.measure.unit === "ns" ? "Time" : "Samples";
    const head = h(
      "tr",
      {},
      h("th", { scope: "col" }, view.by.map(({ word }) => word).join(" › ") || "everything"),
      h("th", { scope: "col", class: "numeric", title: "Part of what is shown" }, "Share"),
      h("th", { scope: "col", class: "numeric", title: "± is half the 95 % interval where it comes from samples" }, unit),
    );
    const rows: HTMLElement[] = [];
    const add = (nodes: Node[], path: string): void => {
      const isTime = view.by[nodes[0]?.level ?? 0]?.fact === "time";
      const count = this.shown.get(path) ?? (isTime ? STEPS_AT_FIRST : AT_FIRST);
      for (const node of nodes.slice(0, count)) {
        const open = !node.isLeaf && (this.opened.get(node.path) ?? (node.value >= OPEN * view.result.total && tells(node)));
        rows.push(this.row(view, node, open));
        if (open) add(node.children, node.path);
      }
      if (nodes.length <= count) return;
      const rest = nodes.slice(count);
      const more = h("button", { type: "button", class: "cut-more", "data-path": `${path}…` }, `… ${exact(rest.length)} more, ${view.amount(rest.reduce((sum, node) => sum + node.value, 0))}`);
      more.addEventListener("click", () => {
        this.shown.set(path, count + MORE);
        this.draw(rest[0]?.path);
      });
      const cell = h("div", { class: "cut-name" }, more);
      cell.style.setProperty("--level", String(nodes[0]?.level ?? 0));
      rows.push(h("tr", {}, h("td", { colspan: 3 }, cell)));
    };
    const { rows: all, total } = view.result;
    add(nodesOf(all, 0, view.by, ""), "");
    if (total === 0) rows.push(h("tr", {}, h("td", { colspan: 3, class: "empty" }, "Nothing meets the filters in this range of time.")));
    else rows.push(h("tr", { class: "cut-total" }, h("th", { scope: "row" }, "total"), h("td", { class: "numeric" }, "100 %"), h("td", { class: "numeric", title: this.exact(view, total, view.result.interval(all, 0)) }, view.amount(total), this.spread(total, view.result.interval(all, 0)))));
    this.table.replaceChildren(h("thead", {}, head), h("tbody", {}, ...rows));
    if (focus !== undefined) this.table.querySelector<HTMLElement>(`[data-path="${CSS.escape(focus)}"]`)?.focus();
  }

  private exact(view: CutView, value: number, [low, high]: [number, number]): string {
    const itself = view.measure.unit === "ns" ? exactNs(value) : exact(value);
    return low === high ? itself : `${itself}, estimated from samples; 95 % interval ${exact(low)} to ${exact(high)}`;
  }

  private spread(value: number, [low, high]: [number, number]): HTMLElement {
    return h("small", {}, plusMinus(value, low, high));
  }

  private row(view: CutView, node: Node, open: boolean): HTMLElement {
    const dimension = view.by[node.level] as Dimension;
    const text = textOf(view.data, dimension, node.key);
    const name = text === null ? `– no ${dimension.word}` : typeof text === "number" ? `${instant(text, dimension.step)} – ${instant(text + dimension.step, dimension.step)}` : printable(text);
    const help = text === null ? `no ${dimension.word}` : `${dimension.word}: ${name}`;
    const cell = h("div", { class: "cut-name" });
    cell.style.setProperty("--level", String(node.level));
    const toggle = h("button", { type: "button", class: "cut-toggle", "data-path": `${node.path}^`, "aria-label": `${open ? "Close" : "Open"} ${name}`, "aria-expanded": open, tabindex: -1 }, open ? "▾" : "▸");
    toggle.addEventListener("click", () => this.toggle(node.path, !open));
    cell.append(!node.isLeaf ? toggle : h("span", { class: "cut-toggle" }));
    if (dimension.word === "stack") {
      cell.append(h("span", { class: "cut-key code", dir: "ltr", title: name }, name));
    } else {
      const key = h("button", { type: "button", class: `cut-key${text === null ? " none" : ""}`, "data-path": node.path, dir: "ltr", title: typeof text === "number" ? "Select this step of time" : `${help}\nClick: only this. Alt and click: not this.` }, name);
      key.addEventListener("click", (event) => {
        if (typeof text === "number") this.actions.range(text, text + dimension.step);
        else this.actions.filter(dimension, text, event.altKey);
      });
      cell.append(key);
      if (typeof text !== "number") {
        const not = h("button", { type: "button", class: "cut-not", "aria-label": `Not ${help}`, title: `Not this: leave out ${help}` }, "≠");
        not.addEventListener("click", () => this.actions.filter(dimension, text, true));
        cell.append(not);
      }
    }
    const interval = node.interval(view.result);
    const share = view.result.total === 0 ? 0 : node.value / view.result.total;
    const bar = h("span", { class: "cut-bar", "aria-hidden": "true" });
    bar.style.width = `${share * 100}%`;
    return h(
      "tr",
      { "aria-level": node.level + 1, ...(!node.isLeaf ? { "aria-expanded": String(open) } : {}) },
      h("td", {}, cell),
      h("td", { class: "numeric cut-share" }, bar, h("span", {}, percent(share))),
      h("td", { class: "numeric", title: this.exact(view, node.value, interval) }, view.amount(node.value), this.spread(node.value, interval)),
    );
  }

  private toggle(path: string, open: boolean): void {
    this.opened.set(path, open);
    this.draw(path);
  }

  /** Arrows go from name to name; right opens, left closes. */
  private key(event: KeyboardEvent): void {
    const at = event.target instanceof HTMLElement ? event.target.closest("tr") : null;
    const key = at?.querySelector<HTMLElement>(".cut-key");
    if (at === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      const all = [...this.table.querySelectorAll<HTMLElement>("button.cut-key, .cut-more")];
      const near = at.querySelector<HTMLElement>("button.cut-key, .cut-more");
      const next = near === null ? undefined : all[all.indexOf(near) + step];
      if (next === undefined) return;
      event.preventDefault();
      next.focus();
    } else if ((event.key === "ArrowRight" || event.key === "ArrowLeft") && key?.dataset.path !== undefined && at.hasAttribute("aria-expanded")) {
      event.preventDefault();
      this.toggle(key.dataset.path, event.key === "ArrowRight");
    }
  }
}
