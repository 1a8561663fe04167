// Layered layout: callers to the left of what they call.

import dagre from "@dagrejs/dagre";
import { printable } from "../dom";
import { percent } from "../format";
import type { ComponentGraph, GraphEdge, GraphNode } from "./fold";

export interface PlacedNode extends GraphNode {
  x: number;
  y: number;
  width: number;
  height: number;
  name: string;
}

export interface Point {
  x: number;
  y: number;
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
  const size = g.graph() as { width?: number; height?: number };
  return {
    nodes: graph.nodes.map((node) => {
      const at = g.node(key(node.id)) as { x: number; y: number; width: number; height: number };
      return { ...node, name: shortened(printable(node.label)), x: at.x, y: at.y, width: at.width, height: at.height };
    }),
    edges: graph.edges.map((edge) => {
      const at = g.edge(key(edge.from), key(edge.to)) as { x?: number; y?: number };
      const text = figureOf(edge);
      let points = routes.get(edge) as Point[];
      let label = at.x !== undefined && at.y !== undefined ? { x: at.x, y: at.y } : null;
      const [first, , last] = points;
      if (points.length === 3 && first !== undefined && last !== undefined) {
        // Nothing stands between neighbouring layers: one curve, its figure in the middle.
        points = [first, last];
        label = { x: (first.x + last.x) / 2, y: (first.y + last.y) / 2 };
      }
      return {
        ...edge,
        points,
        waiting: waitsMostly(edge),
        label: text !== "" && label !== null ? { ...label, text } : null,
        thickness: waitsMostly(edge) ? 2 : 1.2 + 11 * Math.sqrt(edge.share / most),
      };
    }),
    width: size.width ?? 0,
    height: size.height ?? 0,
  };
}

interface Box extends Point {
  width: number;
  height: number;
}

/** Distance of an arrow from a box' corner. */
const CORNER = 9;

/**
 * Moves the ends of arrows to those sides of their boxes that face each other, spread so that they neither start in
 * one point nor cross on the way.
 */
function spreadPorts(edges: GraphEdge[], boxes: Map<string, Box>, pointsOf: (edge: GraphEdge) => Point[]): Map<GraphEdge, Point[]> {
  const routes = new Map(edges.map((edge) => [edge, pointsOf(edge).map((point) => ({ ...point }))]));
  const sides = new Map<string, { left: End[]; right: End[] }>([...boxes.keys()].map((id) => [id, { left: [], right: [] }]));
  for (const [edge, points] of routes) {
    const forward = (boxes.get(edge.from)?.x ?? 0) <= (boxes.get(edge.to)?.x ?? 0);
    const last = points.length - 1;
    sides.get(edge.from)?.[forward ? "right" : "left"].push({ end: points[0] as Point, next: points[1] as Point });
    sides.get(edge.to)?.[forward ? "left" : "right"].push({ end: points[last] as Point, next: points[last - 1] as Point });
  }
  for (const [id, { left, right }] of sides) {
    const box = boxes.get(id) as Box;
    spread(box, box.x - box.width / 2, left);
    spread(box, box.x + box.width / 2, right);
  }
  return routes;
}

interface End {
  end: Point;
  next: Point;
}

function spread(box: Box, x: number, ends: End[]): void {
  // The neighbour's height decides before any end moves.
  ends.sort((a, b) => a.next.y - b.next.y);
  ends.forEach(({ end }, rank) => {
    end.x = x;
    end.y = box.y + ((rank + 1) / (ends.length + 1) - 0.5) * (box.height - CORNER);
  });
}
