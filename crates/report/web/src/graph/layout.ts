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

export function layOut(graph: ComponentGraph): Layout {
  const g = new dagre.graphlib.Graph({ directed: true });
  g.setGraph({ rankdir: "LR", nodesep: 18, edgesep: 10, ranksep: 46, marginx: 6, marginy: 6 });
  g.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes) {
    const name = shortened(printable(node.label));
    g.setNode(node.id, {
      // 7.4 px is a wide average for the 13 px bold face; the second line is up to 24 characters at 11 px.
      width: Math.max(132, name.length * 7.6 + 26),
      height: 50 + 46 * Math.sqrt(Math.min(1, node.self)),
    });
  }
  for (const edge of graph.edges) {
    const labelled = edge.share >= LABELLED;
    g.setEdge(edge.from, edge.to, {
      weight: 1 + Math.round(edge.share * 20),
      width: labelled ? 44 : 0,
      height: labelled ? 16 : 0,
      labelpos: "c",
    });
  }
  dagre.layout(g);
  const size = g.graph() as { width?: number; height?: number };
  return {
    nodes: graph.nodes.map((node) => {
      const at = g.node(node.id) as { x: number; y: number; width: number; height: number };
      return { ...node, name: shortened(printable(node.label)), x: at.x, y: at.y, width: at.width, height: at.height };
    }),
    edges: graph.edges.map((edge) => {
      const at = g.edge(edge.from, edge.to) as { points: Point[]; x?: number; y?: number };
      const labelled = edge.share >= LABELLED && at.x !== undefined && at.y !== undefined;
      return {
        ...edge,
        points: at.points,
        label: labelled ? { x: at.x as number, y: at.y as number, text: percent(edge.share) } : null,
        thickness: 1.2 + 12 * Math.sqrt(Math.min(1, edge.share)),
      };
    }),
    width: size.width ?? 0,
    height: size.height ?? 0,
  };
}
