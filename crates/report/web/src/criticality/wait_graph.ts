// Who waits for whom: a graph with its knots, and what is behind each arrow.

import { h, printable, s } from "../dom";
import { duration, exact, exactNs, percent, plural } from "../format";
import { curve } from "../graph/view";
import type { Criticality, CriticalWait, WaitEdge } from "../report";
import { layOutWaits, type PlacedWaitEdge, type PlacedWaitNode } from "./wait_layout";

const SIZES = [12, 24, 60];
/** Waits listed with their stacks. */
const LISTED = 8;

export function waitGraph(view: Criticality): HTMLElement | null {
  const { graph } = view;
  if (graph.edges.length === 0) return null;
  const elapsed = Math.max(1, view.elapsed_ns);
  const frame = h("div", { class: "graph-frame", id: "wait-graph" });
  const note = h("p", { class: "graph-note" });
  const panel = h("div", { class: "wait-panel", id: "wait-panel", "aria-live": "polite" });
  const size = h("select", { id: "wait-graph-size", "aria-label": "Arrows shown" }, ...SIZES.map((n) => h("option", { value: n }, String(n))));
  const groupOf = new Map(view.threads.map((thread) => [thread.name, thread.group]));

  const draw = (): void => {
    const layout = layOutWaits(graph, Number(size.value));
    const drawing = s("svg", {
      viewBox: layout.box.map((n) => n.toFixed(1)).join(" "),
      role: "group",
      "aria-label": `Wait-for graph: ${layout.nodes.length} boxes, ${layout.edges.length} arrows`,
    });
    drawing.style.minWidth = `${Math.ceil(layout.box[2] * 0.62)}px`;
    drawing.style.maxWidth = `${Math.ceil(layout.box[2] * 1.1)}px`;
    const marked: Element[] = [];
    const choose = (element: Element, parts: HTMLElement[]): void => {
      for (const each of marked) each.classList.toggle("selected", each === element);
      panel.replaceChildren(...parts);
    };
    const onChoose = (element: SVGElement, parts: () => HTMLElement[]): void => {
      marked.push(element);
      element.addEventListener("click", () => choose(element, parts()));
      element.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        choose(element, parts());
      });
    };
    const name = (id: number): string => printable(graph.nodes[id]?.name ?? "?");
    for (const edge of layout.edges) {
      const element = arrow(edge, `${name(edge.edge.from)} → ${name(edge.edge.to)}`, elapsed);
      onChoose(element, () => describeEdge(edge.edge));
      drawing.append(element);
    }
    for (const { label, knot } of layout.edges) {
      if (label !== null) drawing.append(s("text", { class: `edge-figure${knot ? " knot-figure" : ""}`, x: label.x, y: label.y + 4, "text-anchor": "middle" }, label.text));
    }
    for (const node of layout.nodes) {
      const element = boxOf(node, elapsed, graph.knots.some((knot) => knot.length > 1 && knot.includes(node.id)));
      onChoose(element, () => describeNode(node));
      drawing.append(element);
    }
    frame.replaceChildren(drawing);
    const parts = graph.knots.filter((knot) => knot.length > 1).map((knot) => `Knot: ${knot.map(name).join(" ⇄ ")} wait for each other.`);
    if (layout.hidden > 0) parts.push(`Not drawn: ${plural(layout.hidden, "arrow")} of less time.`);
    note.textContent = parts.join(" ");
    const first = layout.edges[0] ?? null;
    if (first !== null) panel.replaceChildren(...describeEdge(first.edge));
    else panel.replaceChildren(h("p", { class: "empty" }, "Click a box or an arrow."));
  };

  const describeEdge = (edge: WaitEdge): HTMLElement[] => {
    const from = graph.nodes[edge.from]?.name ?? "?";
    const to = graph.nodes[edge.to]?.name ?? "?";
    const kinds = new Set(edge.kinds.map(([kind]) => kind));
    const party = (wait: CriticalWait): string | undefined => {
      const who = wait.holder ?? wait.waker;
      return who === null ? undefined : (groupOf.get(who.thread) ?? who.thread);
    };
    // Rows say threads, the graph says groups; what is outside of the program has no thread.
    const waits = view.waits.filter((wait) => wait.group === from && kinds.has(wait.kind) && (party(wait) ?? to) === to);
    return [h("h3", {}, `${printable(from)} → ${printable(to)}`), h("p", { class: "path" }, `waited ${duration(edge.ns)} in ${plural(edge.count, "wait")}; ${duration(edge.cascaded_ns)} once chains of waits are followed to their end`), ...kindBars(edge.kinds), ...objects(edge.objects), ...waitList(waits)];
  };
  const describeNode = ({ node, id }: PlacedWaitNode): HTMLElement[] => {
    const kinds = new Map<string, number>();
    for (const edge of graph.edges) if (edge.from === id) for (const [kind, ns] of edge.kinds) kinds.set(kind, (kinds.get(kind) ?? 0) + ns);
    const facts = [`active ${duration(node.self_ns)}`, `waited ${duration(node.wait_ns)}`];
    if (node.blamed_ns !== undefined && node.blamed_ns > 0) facts.push(`others waited for it ${duration(node.blamed_ns)} while it did not wait itself`);
    return [
      h("h3", {}, printable(node.name)),
      h("p", { class: "path" }, [node.what, ...(node.threads ? [plural(node.threads, "thread")] : []), ...facts].join(" · ")),
      ...kindBars([...kinds].sort((a, b) => b[1] - a[1])),
      ...waitList(view.waits.filter((wait) => wait.group === node.name)),
    ];
  };
  size.addEventListener("change", draw);
  draw();
  const entry = (swatch: string, text: string): HTMLElement => h("span", { class: "entry" }, h("span", { class: `swatch ${swatch}`, "aria-hidden": "true" }), text);
  const legend = h("p", { class: "legend" }, entry("wait-edge", "arrow: waits for, as thick as long"), ...(graph.knots.some((knot) => knot.length > 1) ? [entry("knot-edge", "knot: wait for each other")] : []), entry("outside", "outside of the program"));
  return h(
    "div",
    { class: "panel" },
    h("div", { class: "graph-bar" }, legend, graph.edges.length > (SIZES[0] as number) ? h("label", { class: "select" }, "Arrows ", size) : null),
    h("div", { class: "wait-grid" }, h("div", {}, frame, note), panel),
  );
}

function boxOf(placed: PlacedWaitNode, elapsed: number, knotted: boolean): SVGGElement {
  const { node, width, height, loop } = placed;
  const outside = node.what !== "group" && node.what !== "thread";
  const lines = [printable(node.name), `active ${exactNs(node.self_ns)}`, `waited ${exactNs(node.wait_ns)}`, knotted ? "part of a knot" : "", loop === null ? "" : `its threads wait for each other ${exactNs(loop.ns)}`];
  const figure = outside ? node.what : `active ${duration(node.self_ns)} · waits ${duration(node.wait_ns)}`;
  const middle = width / 2;
  const heat = s("rect", { class: "heat", x: 0, y: 0, width, height, rx: 7 });
  heat.style.fillOpacity = String(outside ? 0 : Math.min(0.6, 0.05 + 0.5 * Math.sqrt(node.self_ns / elapsed)));
  return s(
    "g",
    {
      class: `box wait-box${outside ? " outside" : ""}${knotted ? " knot" : ""}`,
      transform: `translate(${placed.x - width / 2} ${placed.y - height / 2})`,
      tabindex: 0,
      role: "button",
      "aria-label": lines.filter(Boolean).join(". "),
    },
    s("title", {}, lines.filter(Boolean).join("\n")),
    s("rect", { class: "body", x: 0, y: 0, width, height, rx: 7 }),
    heat,
    s("text", { class: "name", x: middle, y: 22, "text-anchor": "middle" }, placed.name),
    s("text", { class: "figure", x: middle, y: 39, "text-anchor": "middle" }, figure),
    loop === null ? null : s("text", { class: "figure loop", x: middle, y: 56, "text-anchor": "middle" }, `↻ ${duration(loop.ns)} ${loop.kinds[0]?.[0] ?? ""}`),
  );
}

function arrow(placed: PlacedWaitEdge, title: string, elapsed: number): SVGGElement {
  const { edge, thickness } = placed;
  const { line, tip } = curve(placed.points, 6 + thickness * 0.8);
  const path = s("path", { class: "line", d: line });
  path.style.strokeWidth = `${thickness}px`;
  const lines = [title, `${exactNs(edge.ns)}, ${percent(edge.ns / elapsed)} of the elapsed time, summed over threads`, plural(edge.count, "wait"), ...edge.kinds.slice(0, 5).map(([kind, ns]) => `${kind} ${duration(ns)}`)];
  return s(
    "g",
    { class: `edge wait-edge${placed.knot ? " knot" : ""}`, tabindex: 0, role: "button", "aria-label": lines.join(". ") },
    s("title", {}, lines.join("\n")),
    // A wider target than a thin line.
    s("path", { class: "target", d: line }),
    path,
    s("path", { class: "tip", d: tip }),
  );
}

function kindBars(kinds: [string, number][]): HTMLElement[] {
  const most = Math.max(1, ...kinds.map(([, ns]) => ns));
  return kinds.slice(0, 6).map(([kind, ns]) => {
    const part = h("span", { class: "line-bar wait", "aria-hidden": "true" });
    part.style.width = `${(ns / most) * 100}%`;
    return h("div", { class: "kind-row", title: exactNs(ns) }, h("span", {}, kind), h("span", { class: "kind-bar" }, part), h("span", { class: "numeric" }, duration(ns)));
  });
}

function objects(list: string[]): HTMLElement[] {
  return list.length === 0 ? [] : [h("p", { class: "path" }, "For ", ...list.slice(0, 5).flatMap((object, at) => [at > 0 ? ", " : "", h("code", { dir: "ltr" }, printable(object))]))];
}

function waitList(waits: CriticalWait[]): HTMLElement[] {
  return waits.slice(0, LISTED).map((wait) => {
    const who = (party: CriticalWait["holder"], word: string): string => (party === null || party === undefined ? "" : `${word} ${printable(party.thread)}${party.function === "" ? "" : ` in ${printable(party.function)}`}`);
    const facts = [duration(wait.ns), plural(wait.count, "wait"), who(wait.holder, "held by"), who(wait.waker, "woken by")].filter(Boolean).join(" · ");
    return h(
      "details",
      { class: "wait-details" },
      h("summary", {}, h("b", {}, wait.kind), " ", h("code", { dir: "ltr" }, printable(wait.object)), h("small", {}, ` ${facts}`)),
      wait.stack.length === 0 ? h("p", { class: "empty" }, "No stack was taken.") : h("ol", { class: "tl-stack", title: `${exact(wait.count)} waits` }, ...[...wait.stack].reverse().map((name) => h("li", {}, h("code", { dir: "ltr" }, printable(name))))),
    );
  });
}
