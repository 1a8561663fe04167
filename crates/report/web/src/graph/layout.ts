// Layered layout: callers to the left of what they call.

import dagre from "@dagrejs/dagre";
import { printable } from "../dom";
import { percent } from "../format";
import { FigurePlaces } from "./figures";
import type { ComponentGraph, GraphEdge, GraphNode } from "./fold";
import { type Box, type Point, spreadPorts } from "./ports";

export interface PlacedNode extends GraphNode {
  x: number;
  y: number;
  width: number;
  height: number;
  name: string;
}

export interface PlacedEdge extends GraphEdge {
  points: Point[];
  /** True if its calls waited longer than they worked. */
  waiting: boolean;
  /** Where its figure stands, if it is worth one. */
  label: (Point & { text: string }) | null;
  thickness: number;
}

export interface Layout {
  x: number;
  y: number;
  nodes: PlacedNode[];
  edges: PlacedEdge[];
  width: number;
  height: number;
}

const LONGEST_NAME = 28;
/** Arrows below this share carry no figure. */
const LABELLED = 0.01;

/** Middle-truncates: a library's version at the end tells it from another. */
function shortened(name: string): string {
  return name.length <= LONGEST_NAME ? name : `${name.slice(0, LONGEST_NAME - 11)}…${name.slice(-10)}`;
}

function waitsMostly(edge: GraphEdge): boolean {
  return edge.waitShare > edge.share && edge.waitShare >= LABELLED;
}

function figureOf(edge: GraphEdge): string {
  if (waitsMostly(edge)) return `waits ${percent(edge.waitShare)}`;
  return edge.share >= LABELLED ? percent(edge.share) : "";
}

export function layOut(graph: ComponentGraph): Layout {
  const g = new dagre.graphlib.Graph({ directed: true });
  g.setGraph({ rankdir: "LR", nodesep: 18, edgesep: 10, ranksep: 46, marginx: 6, marginy: 6 });
  g.setDefaultEdgeLabel(() => ({}));
  // dagre keeps nodes in plain objects, where a component named `__proto__` would not stay.
  const keys = new Map(graph.nodes.map((node, index) => [node.id, `n${index}`]));
  const key = (id: string): string => keys.get(id) as string;
  const heaviest = Math.max(...graph.nodes.map((node) => node.self), 1e-9);
  for (const node of graph.nodes) {
    const name = shortened(printable(node.label));
    g.setNode(key(node.id), {
      // 7.4 px is a wide average for the 13 px bold face; the second line is up to 24 characters at 11 px.
      width: Math.max(132, name.length * 7.6 + 26),
      height: 46 + 34 * Math.sqrt(node.self / heaviest),
    });
  }
  const most = Math.max(...graph.edges.map((edge) => edge.share), 1e-9);
  for (const edge of graph.edges) {
    const text = figureOf(edge);
    g.setEdge(key(edge.from), key(edge.to), {
      weight: 1 + Math.round((edge.share / most) * 12),
      width: text.length * 6.5,
      height: text === "" ? 0 : 16,
      labelpos: "c",
    });
  }
  dagre.layout(g);
  const placed = new Map(graph.nodes.map((node) => [node.id, g.node(key(node.id)) as Box]));
  const routes = spreadPorts(graph.edges, placed, (edge) => (g.edge(key(edge.from), key(edge.to)) as { points: Point[] }).points);
  const figures = new FigurePlaces();
  const nodes = graph.nodes.map((node) => {
    const at = placed.get(node.id) as Box;
    return { ...node, name: shortened(printable(node.label)), x: at.x, y: at.y, width: at.width, height: at.height };
  });
  const edges = graph.edges.map((edge) => {
    const text = figureOf(edge);
    let points = routes.get(edge) as Point[];
    const [first, , last] = points;
    // Nothing stands between neighbouring layers: one curve.
    if (points.length === 3 && first !== undefined && last !== undefined) points = [first, last];
    const at = text === "" ? null : figures.place(points, text.length * 6.2);
    return {
      ...edge,
      points,
      waiting: waitsMostly(edge),
      label: at === null ? null : { ...at, text },
      thickness: waitsMostly(edge) ? 2 : 1.2 + 11 * Math.sqrt(edge.share / most),
    };
  });
  return { nodes, edges, ...extent(nodes, edges) };
}

/** The drawing's bounds; dagre's own leave out arrows that run below the last box. */
function extent(nodes: PlacedNode[], edges: PlacedEdge[]): { x: number; y: number; width: number; height: number } {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  const include = (x: number, y: number, dx: number, dy: number): void => {
    left = Math.min(left, x - dx);
    right = Math.max(right, x + dx);
    top = Math.min(top, y - dy);
    bottom = Math.max(bottom, y + dy);
  };
  for (const node of nodes) include(node.x, node.y, node.width / 2, node.height / 2);
  for (const edge of edges) for (const point of edge.points) include(point.x, point.y, 0, edge.thickness / 2);
  const margin = 6;
  return { x: left - margin, y: top - margin, width: right - left + 2 * margin, height: bottom - top + 2 * margin };
}
