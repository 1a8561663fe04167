// A tree as a flame graph hanging from its root; what a width is, its nodes know.

import { h, printable } from "./dom";

const ROW = 22;
/** Frames narrower than this share of the width are not drawn. */
const LEAST = 0.0015;
/** Those narrower than this have no text: it would not be seen. */
const LEGIBLE = 0.01;
/** Rows in sight. */
const MOST_ROWS = 24;

export interface FlameNode<N> {
  parent: N | null;
  depth: number;
  children: N[];
}

export interface FlameOptions<N> {
  id: string;
  label: string;
  /** The width. */
  value(node: N): number;
  /** Further classes of its box. */
  classes(node: N): string;
  /** What stands behind its name. */
  small(node: N): string;
  /** What is said of it, its name first; empty lines are left out. */
  lines(node: N): string[];
  /** Its colour, where its class does not say. */
  background?(node: N): string;
  /** Boxes of the same text have the same shade. */
  shade(node: N): string;
  /** A node was chosen. */
  show(node: N): void;
}

export interface FlameGraph<N> {
  element: HTMLElement;
  setRoot(root: N): void;
  /** Draws again what has changed in looks. */
  redraw(): void;
  /** Chooses a node, and makes room for it if it is too narrow to be seen. */
  mark(node: N): void;
}

export function flameGraph<N extends FlameNode<N>>(options: FlameOptions<N>): FlameGraph<N> {
  const { value } = options;
  const frame = h("div", { class: "flame", id: options.id, role: "tree", "aria-label": options.label });
  const note = h("p", { class: "graph-note" });
  let root: N | null = null;
  let zoomed: N | null = null;
  let focus: N | null = null;
  let elements = new Map<N, HTMLElement>();
  let nodes = new WeakMap<Element, N>();

  const draw = (): void => {
    const top = zoomed;
    if (top === null) return;
    elements = new Map();
    nodes = new WeakMap();
    let hidden = 0;
    let deepest = 0;
    const frames: HTMLElement[] = [];
    const whole = Math.max(1, value(top));
    const place = (node: N, left: number, width: number, row: number): void => {
      if (width < LEAST && row > 0) {
        hidden += 1;
        return;
      }
      deepest = Math.max(deepest, row);
      const element = frameOf(node, options, node === top || isAbove(node, top), width >= LEGIBLE);
      element.style.left = `${left * 100}%`;
      element.style.width = `${width * 100}%`;
      element.style.top = `${row * ROW}px`;
      elements.set(node, element);
      nodes.set(element, node);
      frames.push(element);
    };
    // The way from the root stands above, at full width.
    const way: N[] = [];
    for (let node: N | null = top.parent; node !== null; node = node.parent) way.unshift(node);
    way.forEach((node, row) => place(node, 0, 1, row));
    const descend = (node: N, left: number, row: number): void => {
      place(node, left, value(node) / whole, row);
      if (!elements.has(node)) return;
      let at = left;
      const widest = [...node.children].sort((a, b) => value(b) - value(a));
      for (const child of widest) {
        descend(child, at, row + 1);
        at += value(child) / whole;
      }
    };
    descend(top, 0, way.length);
    frame.replaceChildren(...frames);
    frame.style.height = `${Math.min(deepest + 1, MOST_ROWS) * ROW + 2}px`;
    note.textContent = hidden > 0 ? `${hidden.toLocaleString("en-US")} frames too narrow to draw: zoom in by clicking their caller.` : "";
    mark(focus !== null && elements.has(focus) ? focus : top, false);
  };
  const mark = (node: N, grab: boolean): void => {
    focus = node;
    for (const [each, element] of elements) {
      element.tabIndex = each === node ? 0 : -1;
      element.classList.toggle("selected", each === node);
    }
    if (grab) elements.get(node)?.focus();
    options.show(node);
  };
  const zoom = (node: N): void => {
    zoomed = node;
    focus = node;
    draw();
    elements.get(node)?.focus({ preventScroll: true });
  };
  const nodeOf = (target: EventTarget | null): N | undefined => {
    const box = target instanceof Element ? target.closest(".flame-box") : null;
    return box === null ? undefined : nodes.get(box);
  };
  frame.addEventListener("click", (event) => {
    const node = nodeOf(event.target);
    if (node !== undefined) zoom(node);
  });
  frame.addEventListener("keydown", (event) => {
    if (focus === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = focus;
    const near = (by: number): N | undefined => {
      const all = at.parent?.children.filter((each) => elements.has(each)) ?? [];
      return all[all.indexOf(at) + by];
    };
    const targets: Record<string, () => N | null | undefined> = {
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
    redraw: draw,
    mark(node) {
      if (!elements.has(node)) {
        zoomed = node;
        focus = node;
        draw();
      } else {
        mark(node, false);
      }
    },
  };
}

function isAbove<N extends FlameNode<N>>(node: N, other: N): boolean {
  for (let each: N | null = other.parent; each !== null; each = each.parent) if (each === node) return true;
  return false;
}

function frameOf<N extends FlameNode<N>>(node: N, options: FlameOptions<N>, plain: boolean, legible: boolean): HTMLElement {
  const lines = options.lines(node).filter(Boolean).map(printable);
  const element = h(
    "div",
    {
      class: `flame-box ${options.classes(node)}${plain ? " plain" : ""}`,
      role: "treeitem",
      tabindex: -1,
      title: lines.join("\n"),
      "aria-label": lines.join(", "),
      "aria-level": node.depth + 1,
    },
    legible ? h("span", { dir: "ltr" }, lines[0] ?? "", h("small", {}, options.small(node))) : null,
  );
  // Neighbours differ a little, the same name is the same everywhere.
  if (options.background !== undefined && !plain) element.style.background = options.background(node);
  element.style.setProperty("--shade", `${46 + (hash(options.shade(node)) % 5) * 9}%`);
  return element;
}

function hash(text: string): number {
  let value = 7;
  for (let at = 0; at < text.length; at += 1) value = (value * 31 + text.charCodeAt(at)) >>> 0;
  return value;
}
