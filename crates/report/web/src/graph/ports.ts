// Where arrows leave and enter boxes.

import type { GraphEdge } from "./fold";

export interface Point {
  x: number;
  y: number;
}

export interface Box extends Point {
  width: number;
  height: number;
}

/** Distance of an arrow from a box' corner. */
const CORNER = 9;

/**
 * Moves the ends of arrows to those sides of their boxes that face each other, spread so that they neither start in
 * one point nor cross on the way.
 */
export function spreadPorts(edges: GraphEdge[], boxes: Map<string, Box>, pointsOf: (edge: GraphEdge) => Point[]): Map<GraphEdge, Point[]> {
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
