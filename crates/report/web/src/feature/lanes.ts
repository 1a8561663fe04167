// The slices of regions by lane, ready to be drawn: one lane per thread and depth.

import type { RegionTimeline } from "./rows";

export interface Lane {
  thread: number;
  depth: number;
  start: Float64Array;
  end: Float64Array;
  region: Uint32Array;
}

export interface LaneThread {
  name: string;
  tid: number;
  start: number;
  end: number;
  /** By depth. */
  lanes: Lane[];
  slices: number;
}

/** Threads in the report's order, each with its lanes; slices of a lane do not overlap and ascend. */
export function laneThreads(timeline: RegionTimeline): LaneThread[] {
  const threads = timeline.threads.map((thread): LaneThread => ({ name: thread.name, tid: thread.tid, start: thread.start_ns, end: thread.end_ns, lanes: [], slices: 0 }));
  const counts = threads.map((): number[] => []);
  timeline.region.forEach((_, at) => {
    const of = counts[timeline.thread[at] ?? 0];
    const depth = timeline.depth[at] ?? 0;
    if (of !== undefined) of[depth] = (of[depth] ?? 0) + 1;
  });
  threads.forEach((thread, at) => {
    const of = counts[at] ?? [];
    for (let depth = 0; depth < of.length; depth += 1) {
      const slices = of[depth] ?? 0;
      thread.slices += slices;
      thread.lanes.push({ thread: at, depth, start: new Float64Array(slices), end: new Float64Array(slices), region: new Uint32Array(slices) });
    }
  });
  const filled = threads.map((thread) => thread.lanes.map(() => 0));
  timeline.region.forEach((region, at) => {
    const thread = timeline.thread[at] ?? 0;
    const depth = timeline.depth[at] ?? 0;
    const lane = threads[thread]?.lanes[depth];
    const next = filled[thread]?.[depth];
    if (lane === undefined || next === undefined) return;
    const start = timeline.start_ns[at] ?? 0;
    lane.start[next] = start;
    lane.end[next] = start + (timeline.duration_ns[at] ?? 0);
    lane.region[next] = region;
    (filled[thread] as number[])[depth] = next + 1;
  });
  return threads;
}

/** First slice of the lane that ends after `ns`. */
export function firstAfter(lane: Lane, ns: number): number {
  let low = 0;
  let high = lane.end.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((lane.end[middle] as number) <= ns) low = middle + 1;
    else high = middle;
  }
  return low;
}
