// How a function's samples are distributed: sums over its picture, and a line of blocks for the table.

import type { HeatMapFunction, LatencyHeatMap } from "../report";

const BLOCKS = "▁▂▃▄▅▆▇█";
/** Blocks of a line, at most. */
const WIDEST = 18;

/** Samples per bucket, over all time. */
export function histogram(picture: HeatMapFunction | undefined, buckets: number): Float64Array {
  const counts = new Float64Array(buckets);
  const cells = picture?.cells ?? [];
  for (let at = 0; at + 2 < cells.length; at += 3) {
    const bucket = cells[at + 1] as number;
    if (bucket < buckets) counts[bucket] = (counts[bucket] ?? 0) + (cells[at + 2] as number);
  }
  return counts;
}

/**
 * Lines of blocks on one scale of whole decades up to `longest`, so that rows can be compared; what takes longer stands
 * in the last column.
 */
export function blockLines(heat: LatencyHeatMap, longest: number): { scale: [number, number]; line(counts: Float64Array): string } {
  const lows = heat.buckets.map(([low]) => Math.max(1, low));
  const first = Math.floor(Math.log10(lows[0] ?? 1));
  const last = Math.min(lows.at(-1) ?? 1, Math.max(longest, lows[0] ?? 1));
  const decades = Math.floor(Math.log10(last)) - first + 1;
  const fineness = Math.min(4, Math.max(1, Math.floor(WIDEST / decades)));
  const columns = decades * fineness;
  const column = lows.map((low) => Math.min(columns - 1, Math.floor((Math.log10(low) - first) * fineness + 1e-9)));
  return {
    scale: [10 ** first, 10 ** (first + decades)],
    line(counts) {
      const heights = new Float64Array(columns);
      counts.forEach((count, bucket) => {
        const at = column[bucket] ?? 0;
        heights[at] = (heights[at] ?? 0) + count;
      });
      const most = heights.reduce((max, height) => Math.max(max, height), 0);
      if (most === 0) return "";
      // Figure spaces are as wide as the blocks of a fixed-width face.
      return Array.from(heights, (height) => (height === 0 ? "\u2007" : BLOCKS[Math.round((height / most) * 7)])).join("").trimEnd();
    },
  };
}
