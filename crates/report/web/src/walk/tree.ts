// The joined call tree, collapsed but for the chosen chain. Only rows in sight of an open caller are built.

import { h, printable } from "../dom";
import { duration, exact, percent } from "../format";
import type { WalkChain } from "../report";
import { METHODS, shareText, splitBar, splitText } from "./bar";
import { type GroupTree, place, sourceLine, type WalkNode } from "./model";

/** Callees shown at once; the rest on demand. */
const MOST_CALLEES = 12;

export interface CallTree {
  element: HTMLElement;
  /** Opens the tree of a group along a chain. */
  show(tree: GroupTree, chain: WalkChain | undefined): void;
}

interface Line {
  node: WalkNode;
  /** Callees of `node` left out here, if this line offers them. */
  more: number;
  level: number;
}

export function callTree(select: (node: WalkNode) => void): CallTree {
  const body = h("div", { class: "call-tree", id: "call-tree", role: "tree", "aria-label": "Call tree. Right opens a function, left closes it, Enter shows it in the flame graph." });
  let tree: GroupTree | null = null;
  let chain = new Set<number>();
  let open = new Set<WalkNode>();
  let whole = new Set<WalkNode>();
  let lines: Line[] = [];
  let elements: HTMLElement[] = [];
  let focus = 0;

  const draw = (): void => {
    lines = [];
    const descend = (node: WalkNode, level: number): void => {
      const shown = whole.has(node) ? node.children : node.children.filter((child, at) => at < MOST_CALLEES || chain.has(child.row));
      for (const child of shown) {
        lines.push({ node: child, more: 0, level });
        if (open.has(child)) descend(child, level + 1);
      }
      if (shown.length < node.children.length) lines.push({ node, more: node.children.length - shown.length, level });
    };
    if (tree !== null) descend(tree.root, 0);
    elements = lines.map((line, at) => rowOf(line, at));
    body.replaceChildren(...(elements.length > 0 ? elements : [h("p", { class: "empty" }, "No sample and no stack was taken.")]));
    mark(Math.min(focus, lines.length - 1), false);
  };
  const rowOf = (line: Line, at: number): HTMLElement => {
    const { node } = line;
    const indent = h("span", { class: "tree-indent" });
    indent.style.width = `${Math.min(line.level, 30) * 0.9}em`;
    if (line.more > 0) {
      const element = h("div", { class: "tree-row tree-more", role: "treeitem", "aria-level": line.level + 1, tabindex: -1 }, h("span", { class: "tree-name" }, indent, `… ${exact(line.more)} smaller`));
      element.dataset.at = String(at);
      return element;
    }
    const frame = chain.has(node.row) ? tree?.frames.get(node.row) : undefined;
    const share = frame?.share ?? node.total / Math.max(1, tree?.group.total ?? 1);
    const source = sourceLine(node.file, node.line);
    const where = place(node);
    const split = { on: node.on, ready: node.ready, blocked: node.blocked };
    const method = frame === undefined ? "" : (METHODS.get(frame.method)?.[0] ?? "");
    const element = h(
      "div",
      {
        class: `tree-row ${node.kernel ? "in-kernel" : "in-program"}${frame === undefined ? "" : " on-chain"}`,
        role: "treeitem",
        "aria-level": line.level + 1,
        "aria-expanded": node.children.length === 0 ? null : String(open.has(node)),
        "aria-label": [printable(node.name), printable(where), percent(share), frame === undefined ? "" : "on the chain"].filter(Boolean).join(", "),
        tabindex: -1,
        title: [node.name, where, node.file === "" ? "" : `${node.file}:${node.line}`, splitText(split)].filter(Boolean).map(printable).join("\n"),
      },
      h(
        "span",
        { class: "tree-name" },
        indent,
        h("span", { class: "tree-twisty", "aria-hidden": "true" }, node.children.length === 0 ? "" : open.has(node) ? "▾" : "▸"),
        h("span", { class: "walk-name", dir: "ltr" }, printable(node.name)),
        h("small", { dir: "ltr" }, ` ${printable(where)}${source === "" ? "" : ` ${printable(source)}`}`),
      ),
      h("span", { class: "tree-method" }, method),
      h("span", { class: "numeric" }, frame === undefined ? percent(share) : shareText(frame)),
      h("span", { class: "numeric tree-time" }, duration(node.on + node.ready + node.blocked)),
      h("span", { class: "walk-bar-cell" }, splitBar(share, split)),
    );
    element.dataset.at = String(at);
    return element;
  };
  const mark = (at: number, grab: boolean): void => {
    if (lines[at] === undefined) return;
    focus = at;
    elements.forEach((element, each) => {
      element.tabIndex = each === at ? 0 : -1;
    });
    if (grab) elements[at]?.focus();
  };
  const toggle = (line: Line, to?: boolean): void => {
    if (line.more > 0) {
      whole.add(line.node);
    } else if (line.node.children.length > 0) {
      if (to ?? !open.has(line.node)) open.add(line.node);
      else open.delete(line.node);
    }
    draw();
    elements[focus]?.focus({ preventScroll: true });
  };
  body.addEventListener("click", (event) => {
    const element = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-at]") : null;
    const at = Number(element?.dataset.at ?? -1);
    const line = lines[at];
    if (line === undefined) return;
    focus = at;
    if (line.more === 0) select(line.node);
    toggle(line);
  });
  body.addEventListener("keydown", (event) => {
    const line = lines[focus];
    if (line === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const isOpen = line.more === 0 && open.has(line.node);
    const above = (): number => {
      for (let at = focus - 1; at >= 0; at -= 1) if ((lines[at]?.level ?? 0) < line.level) return at;
      return focus;
    };
    const acts: Record<string, () => void> = {
      ArrowDown: () => mark(focus + 1, true),
      ArrowUp: () => mark(focus - 1, true),
      Home: () => mark(0, true),
      End: () => mark(lines.length - 1, true),
      ArrowRight: () => (isOpen ? mark(focus + 1, true) : toggle(line, true)),
      ArrowLeft: () => (isOpen ? toggle(line, false) : mark(above(), true)),
      Enter: () => (line.more > 0 ? toggle(line) : select(line.node)),
      " ": () => toggle(line),
    };
    const act = acts[event.key];
    if (act === undefined) return;
    event.preventDefault();
    act();
  });
  const head = h(
    "div",
    { class: "tree-row tree-head", "aria-hidden": "true" },
    h("span", { class: "tree-name" }, "Function"),
    h("span", { class: "tree-method" }, "Measured"),
    h("span", { class: "numeric" }, "Share"),
    h("span", { class: "numeric tree-time" }, "Time"),
    h("span", { class: "walk-bar-cell" }, "On CPU, runnable, blocked"),
  );
  return {
    element: h("div", {}, head, body),
    show(group, along) {
      tree = group;
      chain = new Set(along?.frames.map((frame) => frame.node));
      whole = new Set();
      open = new Set();
      focus = 0;
      const follow = (node: WalkNode): void => {
        for (const child of node.children) {
          if (!chain.has(child.row)) continue;
          open.add(child);
          follow(child);
        }
      };
      follow(group.root);
      draw();
    },
  };
}
