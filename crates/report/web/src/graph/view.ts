// The component graph: boxes by self time, arrows by the time that flows from caller to callee.

import { h, printable, s } from "../dom";
import { count, duration, exact, exactNs, percent, plural } from "../format";
import type { Model } from "../model";
import { foldComponents, OTHERS } from "./fold";
import { type Layout, layOut, type PlacedEdge, type PlacedNode } from "./layout";
import type { Point } from "./ports";

export interface GraphView {
  element: HTMLElement;
  /** Marks the component that the drill-down shows. */
  select(component: string | undefined): void;
  /** Width at which its text has its intended size, in pixels. */
  naturalWidth(): number;
}

const SIZES = [8, 12, 20, 40];

export function graphView(model: Model, open: (component: string) => void, drawn: () => void): GraphView {
  const frame = h("div", { class: "graph-frame", id: "graph" });
  const note = h("p", { class: "graph-note" });
  const size = h(
    "select",
    { id: "graph-size", "aria-label": "Boxes shown" },
    ...SIZES.map((n) => h("option", { value: n, selected: n === 12 }, String(n))),
  );
  let boxes = new Map<string, SVGGElement>();
  let selected: string | undefined;
  let naturalWidth = 0;

  const mark = (): void => {
    for (const [id, box] of boxes) {
      box.classList.toggle("selected", id === selected);
      if (id === selected) box.setAttribute("aria-current", "true");
      else box.removeAttribute("aria-current");
    }
  };
  const draw = (): void => {
    const graph = foldComponents(model, Number(size.value));
    if (graph.nodes.length === 0) {
      frame.replaceChildren();
      note.textContent = "No component called another.";
      return;
    }
    let layout: Layout;
    try {
      layout = layOut(graph);
    } catch (error) {
      // The tables say the same; a layout that fails must not take them along.
      frame.replaceChildren();
      note.textContent = `The graph could not be laid out (${String(error)}). The table beside it lists the components.`;
      return;
    }
    const drawing = s("svg", {
      viewBox: [layout.x, layout.y, layout.width, layout.height].map((n) => n.toFixed(1)).join(" "),
      role: "group",
      "aria-label": `Component graph: ${layout.nodes.length} boxes, ${layout.edges.length} arrows`,
    });
    drawing.style.minWidth = `${Math.ceil(layout.width * 0.66)}px`;
    drawing.style.maxWidth = `${Math.ceil(layout.width * 1.15)}px`;
    boxes = new Map();
    const arrows = layout.edges.map((edge) => ({ edge, element: arrow(edge, layout.nodes, graph.timed) }));
    drawing.append(...arrows.map((each) => each.element), ...layout.edges.map(figure).filter((label) => label !== null));
    const emphasise = (id: string | null): void => {
      drawing.classList.toggle("emphasis", id !== null);
      const near = new Set<string>();
      for (const { edge, element } of arrows) {
        const on = id !== null && (edge.from === id || edge.to === id);
        element.classList.toggle("near", on);
        if (on) near.add(edge.from).add(edge.to);
      }
      for (const [name, box] of boxes) box.classList.toggle("near", name === id || near.has(name));
    };
    const heaviest = Math.max(...layout.nodes.map((node) => node.self), 1e-9);
    for (const node of layout.nodes) {
      const box = boxOf(node, heaviest);
      boxes.set(node.id, box);
      const choose = (): void => {
        if (node.id === OTHERS) growTo(node.folded.length + Number(size.value));
        else open(node.id);
      };
      box.addEventListener("click", choose);
      box.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        choose();
      });
      for (const name of ["pointerenter", "focus"]) box.addEventListener(name, () => emphasise(node.id));
      for (const name of ["pointerleave", "blur"]) box.addEventListener(name, () => emphasise(null));
      drawing.append(box);
    }
    frame.replaceChildren(drawing);
    naturalWidth = layout.width;
    const folded = layout.nodes.find((node) => node.id === OTHERS)?.folded.length ?? 0;
    const parts: string[] = [];
    if (folded > 0) parts.push(`${exact(folded)} components that take little are folded into one box.`);
    if (graph.hiddenEdges > 0) parts.push(`Not drawn: ${plural(graph.hiddenEdges, "arrow")} of little time.`);
    if (!graph.timed) parts.push("No times were taken: arrows go by calls.");
    note.textContent = parts.join(" ");
    mark();
  };
  const growTo = (n: number): void => {
    size.value = String(SIZES.find((step) => step >= n) ?? SIZES[SIZES.length - 1]);
    draw();
    drawn();
  };
  size.addEventListener("change", () => {
    draw();
    drawn();
  });
  draw();

  const entry = (swatch: string, text: string): HTMLElement =>
    h("span", { class: "entry" }, h("span", { class: `swatch ${swatch}`, "aria-hidden": "true" }), text);
  const legend = h(
    "p",
    { class: "legend" },
    entry("heat", "box: time in its own code"),
    entry("flow", "arrow: time flowing to the callee"),
    entry("flow-wait", "waiting"),
    entry("frame", "executable"),
  );
  return {
    element: h("div", { class: "graph" }, h("div", { class: "graph-bar" }, legend, h("label", { class: "select" }, "Boxes ", size)), frame, note),
    naturalWidth: () => naturalWidth,
    select(component) {
      selected = component;
      mark();
    },
  };
}

function boxOf(node: PlacedNode, heaviest: number): SVGGElement {
  const { width, height } = node;
  const others = node.id === OTHERS;
  const lines = [
    others ? `${node.label}: ${node.folded.map(printable).join(", ")}` : printable(node.label),
    `own code ${percent(node.self)}, ${exactNs(node.selfNs)}`,
    `waiting in calls it made ${percent(node.wait)}, ${exactNs(node.waitNs)}`,
    `calls in ${exact(node.callsIn)}, out ${exact(node.callsOut)}`,
    others ? "Click to show more boxes" : "Click for its APIs",
  ];
  const body = s("rect", { class: "body", x: 0, y: 0, width, height, rx: 7 });
  const heat = s("rect", { class: "heat", x: 0, y: 0, width, height, rx: 7 });
  heat.style.fillOpacity = String(0.05 + 0.6 * Math.sqrt(node.self / heaviest));
  const waitWidth = Math.min(1, node.wait) * (width - 12);
  const selfText = node.selfNs === null ? `${count(node.callsIn)} calls in` : `${percent(node.self)} · ${duration(node.selfNs)}`;
  return s(
    "g",
    {
      class: `box${others ? " others" : ""}${node.executable ? " executable" : ""}`,
      transform: `translate(${node.x - width / 2} ${node.y - height / 2})`,
      tabindex: 0,
      role: "button",
      "aria-label": lines.join(". "),
      "data-component": others ? "(others)" : node.id,
    },
    s("title", {}, lines.join("\n")),
    body,
    heat,
    s("text", { class: "name", x: width / 2, y: height / 2 - 4, "text-anchor": "middle" }, node.name),
    s("text", { class: "figure", x: width / 2, y: height / 2 + 14, "text-anchor": "middle" }, selfText),
    waitWidth >= 4 ? s("rect", { class: "wait", x: 6, y: height - 6, width: waitWidth, height: 3, rx: 1.5 }) : null,
  );
}

function arrow(edge: PlacedEdge, nodes: PlacedNode[], timed: boolean): SVGGElement {
  const label = (id: string): string => printable(nodes.find((node) => node.id === id)?.label ?? id);
  const head = 5 + edge.thickness * 0.8;
  const { line, tip } = curve(edge.points, head);
  const path = s("path", { class: "line", d: line });
  path.style.strokeWidth = `${edge.thickness}px`;
  const lines = [
    `${label(edge.from)} → ${label(edge.to)}`,
    timed ? `working ${percent(edge.share)} of the program's time` : `${percent(edge.share)} of all calls`,
    `${exact(edge.calls)} calls`,
    ...(edge.waitShare > 0 ? [`waiting ${percent(edge.waitShare)} of the program's time`] : []),
    ...(timed ? [`${exactNs(edge.totalNs)} from entry to return, summed over threads`] : []),
  ];
  return s(
    "g",
    { class: `edge${edge.waiting ? " waiting" : ""}` },
    s("title", {}, lines.join("\n")),
    path,
    s("path", { class: "tip", d: tip }),
  );
}

function figure(edge: PlacedEdge): SVGTextElement | null {
  if (edge.label === null) return null;
  return s("text", { class: `edge-figure${edge.waiting ? " waiting-figure" : ""}`, x: edge.label.x, y: edge.label.y + 4, "text-anchor": "middle" }, edge.label.text);
}

/** A smooth path through the points that stops short of the tip, and the tip's triangle. */
export function curve(points: Point[], head: number): { line: string; tip: string } {
  const last = points[points.length - 1] as Point;
  const before = points[points.length - 2] ?? last;
  // Level at every point, so that the path passes through each and enters the box straight.
  const side = last.x >= before.x ? 1 : -1;
  const end = { x: last.x - side * head, y: last.y };
  const path = [...points.slice(0, -1), end];
  const at = (x: number, y: number): string => `${x.toFixed(1)} ${y.toFixed(1)}`;
  let line = "";
  path.forEach((here, i) => {
    const from = path[i - 1];
    if (from === undefined) line = `M${at(here.x, here.y)}`;
    else {
      const middle = (from.x + here.x) / 2;
      line += ` C${at(middle, from.y)} ${at(middle, here.y)} ${at(here.x, here.y)}`;
    }
  });
  const half = head * 0.62;
  return { line, tip: `M${at(end.x, end.y - half)} L${at(last.x, last.y)} L${at(end.x, end.y + half)}Z` };
}
