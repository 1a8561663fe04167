// Where an arrow's figure stands: on its curve, clear of the others.

import type { Point } from "./ports";

/** Places along the curve, the best first. */
const PLACES = [0.5, 0.36, 0.64, 0.25, 0.75];
const HEIGHT = 14;

/** The point of the curve between two points that is level at both, as the arrows are drawn. */
export function onCurve(from: Point, to: Point, t: number): Point {
  const x = 1.5 * t * (1 - t) + t * t * t;
  const y = t * t * (3 - 2 * t);
  return { x: from.x + (to.x - from.x) * x, y: from.y + (to.y - from.y) * y };
}

/** Chooses places one after the other; a figure that finds all places taken gets the best one nevertheless. */
export class FigurePlaces {
  private readonly taken: { at: Point; width: number }[] = [];

  /** `points` of an arrow; its figure stands on the widest of its level-to-level curves. */
  place(points: Point[], width: number): Point | null {
    let best = 0;
    const gap = (i: number): number => Math.abs((points[i + 1]?.x ?? 0) - (points[i]?.x ?? 0));
    for (let i = 1; i + 1 < points.length; i += 1) if (gap(i) > gap(best)) best = i;
    const from = points[best];
    const to = points[best + 1];
    if (from === undefined || to === undefined) return null;
    const candidates = PLACES.map((t) => onCurve(from, to, t));
    const free = candidates.find((at) =>
      this.taken.every((other) => Math.abs(at.y - other.at.y) >= HEIGHT || Math.abs(at.x - other.at.x) >= (width + other.width) / 2 + 3),
    );
    const at = free ?? (candidates[0] as Point);
    this.taken.push({ at, width });
    return at;
  }
}
