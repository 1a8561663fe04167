// Critical paths as a flame graph hanging from its root: width is criticality.

import { h, printable } from "../dom";
import { duration, exactNs, percent } from "../format";
import { type CallNode, total } from "./call_tree";

const ROW = 22;
/** Frames narrower than this share of the width are not drawn. */
const LEAST = 0.0015;
/** Rows in sight. */
const MOST_ROWS = 24;

export interface FlameGraph {
  element: HTMLElement;
  setRoot(root: CallNode): void;
}

export function flameGraph(elapsed: number, show: (node: CallNode) => void): FlameGraph {
  const frame = h("div", { class: "flame", id: "flame", role: "tree", "aria-label": "Critical call paths. Arrows go to callers, callees and neighbours; Enter makes a function the whole width." });
  const note = h("p", { class: "graph-note" });
  let root: CallNode | null = null;
  let zoomed: CallNode | null = null;
  let focus: CallNode | null = null;
  let elements = new Map<CallNode, HTMLElement>();

  const draw = (): void => {
    const top = zoomed;
    if (top === null) return;
    elements = new Map();
    let hidden = 0;
    let deepest = 0;
    const frames: HTMLElement[] = [];
    const whole = total(top);
    const place = (node: CallNode, left: number, width: number, row: number): void => {
      if (width < LEAST && row > 0) {
        hidden += 1;
        return;
      }
      deepest = Math.max(deepest, row);
      const element = frameOf(node, elapsed, node === top || isAbove(node, top));
      element.style.left = `${left * 100}%`;
      element.style.width = `${width * 100}%`;
      element.style.top = `${row * ROW}px`;
      elements.set(node, element);
      frames.push(element);
    };
    // The way from the root stands above, at full width.
    const way: CallNode[] = [];
    for (let node: CallNode | null = top.parent; node !== null; node = node.parent) way.unshift(node);
    way.forEach((node, row) => place(node, 0, 1, row));
    const descend = (node: CallNode, left: number, row: number): void => {
      place(node, left, total(node) / whole, row);
      if (!elements.has(node)) return;
      let at = left;
      for (const child of node.children) {
        descend(child, at, row + 1);
        at += total(child) / whole;
      }
    };
    descend(top, 0, way.length);
    frame.replaceChildren(...frames);
    frame.style.height = `${Math.min(deepest + 1, MOST_ROWS) * ROW + 2}px`;
    note.textContent = hidden > 0 ? `${hidden.toLocaleString("en-US")} frames too narrow to draw: zoom in by clicking their caller.` : "";
    mark(focus !== null && elements.has(focus) ? focus : top, false);
  };
  const mark = (node: CallNode, grab: boolean): void => {
    focus = node;
    for (const [each, element] of elements) {
      element.tabIndex = each === node ? 0 : -1;
      element.classList.toggle("selected", each === node);
    }
    if (grab) elements.get(node)?.focus();
    show(node);
  };
  const zoom = (node: CallNode): void => {
    zoomed = node;
    focus = node;
    draw();
    elements.get(node)?.focus({ preventScroll: true });
  };
  const nodeOf = (target: EventTarget | null): CallNode | undefined => {
    for (const [node, element] of elements) if (target instanceof Node && element.contains(target)) return node;
    return undefined;
  };
  frame.addEventListener("click", (event) => {
    const node = nodeOf(event.target);
    if (node !== undefined) zoom(node);
  });
  frame.addEventListener("keydown", (event) => {
    if (focus === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = focus;
    const near = (by: number): CallNode | undefined => {
      const all = at.parent?.children.filter((each) => elements.has(each)) ?? [];
      return all[all.indexOf(at) + by];
    };
    const targets: Record<string, () => CallNode | null | undefined> = {
      ArrowDown: () => at.children.find((each) => elements.has(each)),
      ArrowUp: () => at.parent,
      ArrowLeft: () => near(-1),
      ArrowRight: () => near(1),
      Home: () => zoomed,
    };
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      zoom(at);
    } else if (event.key === "Escape" && root !== null) {
      event.preventDefault();
      zoom(root);
    } else if (targets[event.key] !== undefined) {
      event.preventDefault();
      const next = targets[event.key]?.();
      if (next !== null && next !== undefined) mark(next, true);
    }
  });
  return {
    element: h("div", {}, h("div", { class: "flame-frame" }, frame), note),
    setRoot(tree) {
      root = tree;
      zoomed = tree;
      focus = null;
      draw();
    },
  };
}

function isAbove(node: CallNode, other: CallNode): boolean {
  for (let each: CallNode | null = other.parent; each !== null; each = each.parent) if (each === node) return true;
  return false;
}

function frameOf(node: CallNode, elapsed: number, plain: boolean): HTMLElement {
  const ns = total(node);
  const name = printable(node.name);
  const waits = node.waiting > node.running;
  const spins = !waits && node.spin > ns / 2;
  const lines = [name, node.component === "" ? "" : printable(node.component), `${percent(ns / elapsed)} of the elapsed time, ${exactNs(ns)}`, node.own > 0 ? `itself ${percent(node.own / elapsed)}` : "", node.spin > 0 ? `spinning ${percent(node.spin / Math.max(1, ns))} of it` : "", waits ? "waiting while all threads waited" : ""];
  const element = h(
    "div",
    {
      class: `flame-box${waits ? " waits" : spins ? " spins" : ""}${plain ? " plain" : ""}`,
      role: "treeitem",
      tabindex: -1,
      title: lines.filter(Boolean).join("\n"),
      "aria-label": lines.filter(Boolean).join(", "),
      "aria-level": node.depth + 1,
    },
    h("span", { dir: "ltr" }, `${name}`, h("small", {}, ` ${duration(ns)}`)),
  );
  // Neighbours differ a little, the same name is the same everywhere.
  element.style.setProperty("--shade", `${46 + (hash(node.name) % 5) * 9}%`);
  return element;
}

function hash(text: string): number {
  let value = 7;
  for (let at = 0; at < text.length; at += 1) value = (value * 31 + text.charCodeAt(at)) >>> 0;
  return value;
}
