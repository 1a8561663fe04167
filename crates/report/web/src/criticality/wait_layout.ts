// Layered layout of the wait-for graph: who waits to the left of what is waited for.

import dagre from "@dagrejs/dagre";
import { printable } from "../dom";
import { duration } from "../format";
import { FigurePlaces } from "../graph/figures";
import { type Box, type Point, spreadPorts } from "../graph/ports";
import type { Criticality, WaitEdge, WaitNode } from "../report";

export interface PlacedWaitNode extends Box {
  node: WaitNode;
  id: number;
  name: string;
  /** Threads of the group that wait for each other. */
  loop: WaitEdge | null;
}

export interface PlacedWaitEdge {
  edge: WaitEdge;
  from: string;
  to: string;
  points: Point[];
  thickness: number;
  knot: boolean;
  label: (Point & { text: string }) | null;
}

export interface WaitLayout {
  nodes: PlacedWaitNode[];
  edges: PlacedWaitEdge[];
  /** Edges of little time that are not drawn. */
  hidden: number;
  box: [number, number, number, number];
}

const LONGEST_NAME = 30;

export function layOutWaits(graph: Criticality["graph"], most: number): WaitLayout {
  const ranked = graph.edges.filter((edge) => graph.nodes[edge.from] !== undefined && graph.nodes[edge.to] !== undefined && edge.ns > 0).sort((a, b) => b.ns - a.ns);
  const kept = ranked.slice(0, most);
  const used = new Set(kept.flatMap((edge) => [edge.from, edge.to]));
  const g = new dagre.graphlib.Graph({ directed: true });
  g.setGraph({ rankdir: "LR", nodesep: 26, edgesep: 16, ranksep: 84, marginx: 6, marginy: 6 });
  g.setDefaultEdgeLabel(() => ({}));
  const loops = new Map(kept.filter((edge) => edge.from === edge.to).map((edge) => [edge.from, edge]));
  const nodes = [...used].map((id) => {
    const node = graph.nodes[id] as WaitNode;
    const full = printable(node.name);
    const name = full.length <= LONGEST_NAME ? full : `${full.slice(0, 18)}…${full.slice(-11)}`;
    const lines = loops.has(id) ? 3 : 2;
    const box = { width: Math.max(178, name.length * 7.8 + 28), height: 22 + lines * 17 };
    g.setNode(String(id), { ...box });
    return { id, node, name, loop: loops.get(id) ?? null };
  });
  const between = kept.filter((edge) => edge.from !== edge.to);
  const heaviest = Math.max(1, ...between.map((edge) => edge.ns));
  const figure = (edge: WaitEdge): string => `${duration(edge.ns)}${edge.kinds[0] ? ` ${edge.kinds[0][0]}` : ""}`;
  for (const edge of between) {
    g.setEdge(String(edge.from), String(edge.to), { weight: 1 + Math.round((edge.ns / heaviest) * 8), width: figure(edge).length * 6.5, height: 16, labelpos: "c" });
  }
  dagre.layout(g);
  const placed = new Map(nodes.map((each) => [String(each.id), g.node(String(each.id)) as Box]));
  const inKnot = (edge: WaitEdge): boolean => graph.knots.some((knot) => knot.length > 1 && knot.includes(edge.from) && knot.includes(edge.to));
  // The ports need no more of an edge than its ends.
  const ends = between.map((edge) => ({ edge, from: String(edge.from), to: String(edge.to), share: 0, waitShare: 0, totalNs: 0, calls: 0 }));
  const routes = spreadPorts(ends, placed, (end) => (g.edge(end.from, end.to) as { points: Point[] }).points);
  const figures = new FigurePlaces();
  const edges = ends.map((end): PlacedWaitEdge => {
    const points = routes.get(end) as Point[];
    const text = figure(end.edge);
    const at = figures.place(points, text.length * 6.2);
    return { edge: end.edge, from: end.from, to: end.to, points, thickness: 1.4 + 9 * Math.sqrt(end.edge.ns / heaviest), knot: inKnot(end.edge), label: at === null ? null : { ...at, text } };
  });
  const boxes = nodes.map((each) => ({ ...each, ...(placed.get(String(each.id)) as Box) }));
  return { nodes: boxes, edges, hidden: ranked.length - kept.length, box: extent(boxes, edges) };
}

function extent(nodes: Box[], edges: PlacedWaitEdge[]): [number, number, number, number] {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  const include = (x: number, y: number, dx: number, dy: number): void => {
    left = Math.min(left, x - dx);
    right = Math.max(right, x + dx);
    top = Math.min(top, y - dy);
    bottom = Math.max(bottom, y + dy);
  };
  for (const node of nodes) include(node.x, node.y, node.width / 2, node.height / 2);
  for (const edge of edges) for (const point of edge.points) include(point.x, point.y, 0, edge.thickness / 2 + 4);
  return [left - 8, top - 8, right - left + 16, bottom - top + 16];
}
