// What the timeline draws: states of each lane in bins, coarsened step by step, and exact slices where the page has them.

import type { PackedTimeline } from "../report";
import { inflate, Numbers } from "./packed";

/** A thread. */
export interface Lane {
  process: number;
  tid: number;
  name: string;
  group: string;
  start_ns: number;
  end_ns: number;
  criticality_ns: number;
}

/** States in bins of one width: shares of 255, and 1 + the number of the kind waited for longest. */
export interface Level {
  bins: number;
  run: Uint8Array;
  runnable: Uint8Array;
  blocked: Uint8Array;
  kind: Uint8Array;
}

/** Slices of a lane in order; the wait after each is a row of `waits` + 1, or 0. */
export interface Slices {
  start: Float64Array;
  end: Float64Array;
  runnable: Float64Array;
  wait: Uint32Array;
}

/** One or all threads of a group. */
export interface Row {
  lane: Lane | null;
  group: string;
  members: Row[];
  levels: Level[];
  slices: Slices | null;
}

/** Active threads in bins of one width. */
export interface Parallelism {
  bins: number;
  mean: Float32Array;
  least: Uint16Array;
  most: Uint16Array;
}

/** What is told about a single wait. */
export interface Wait {
  kind: number;
  object: string;
  stack: string[];
  holder: string;
  holderIn: string;
  waker: string;
  wakerIn: string;
}

interface Details {
  lanes: Lane[];
  strings: string[];
  stacks: number[][];
  waits: [number, number, number, number, number, number, number][];
}

export interface TimelineData {
  start: number;
  end: number;
  /** Width of the finest bins, ns. */
  bin: number;
  cpus: number;
  kinds: string[];
  groups: Row[];
  parallelism: Parallelism[];
  /** Ranges of time with every slice of every lane, ns. */
  exact: [number, number][];
  /** Starts and ends of all exact slices, for the degree of parallelism; `null` if threads were left out. */
  edges: { starts: Float64Array; ends: Float64Array } | null;
  wait(row: number): Wait | null;
  /** Number of its kind; -1 if it is not known. */
  kindOf(row: number): number;
  packed: PackedTimeline;
}

export async function unpackTimeline(packed: PackedTimeline): Promise<TimelineData> {
  const [cells, parallelism, exact, details] = await Promise.all([packed.cells, packed.parallelism, packed.exact, packed.details].map(inflate)) as [Uint8Array, Uint8Array, Uint8Array, Uint8Array];
  const { lanes, strings, stacks, waits } = JSON.parse(new TextDecoder().decode(details)) as Details;
  const { bins } = packed;
  const bin = (packed.end_ns - packed.start_ns) / bins;
  const numbers = new Numbers(exact);
  const rows = lanes.map((lane, index): Row => {
    const plane = (which: number): Uint8Array => cells.subarray((index * 3 + which) * bins, (index * 3 + which + 1) * bins);
    const [run, runnable, kind] = [plane(0), plane(1), plane(2)];
    const blocked = new Uint8Array(bins);
    for (let at = 0; at < bins; at += 1) {
      // A lane ends with its thread.
      const from = Math.max(lane.start_ns, packed.start_ns + at * bin);
      const alive = Math.min(lane.end_ns, packed.start_ns + (at + 1) * bin) - from;
      blocked[at] = Math.max(0, (alive / bin) * 255 - (run[at] as number) - (runnable[at] as number));
    }
    return { lane, group: lane.group, members: [], levels: coarsen({ bins, run, runnable, blocked, kind }), slices: readSlices(numbers, packed.start_ns) };
  });
  const groups: Row[] = [];
  for (const row of rows) {
    const last = groups.at(-1);
    if (last !== undefined && last.group === row.group) last.members.push(row);
    else groups.push({ lane: null, group: row.group, members: [row], levels: [], slices: null });
  }
  for (const group of groups) group.levels = coarsen(together(group.members, bins, packed.kinds.length));
  const kindOfWait = Int8Array.from(waits, (wait) => wait[0]);
  const text = (row: number): string => strings[row] ?? "";
  return {
    start: packed.start_ns,
    end: packed.end_ns,
    bin,
    cpus: packed.cpus,
    kinds: packed.kinds,
    groups,
    parallelism: coarsenParallelism(readParallelism(parallelism, bins)),
    exact: packed.exact_ranges.map(([from, to]) => [packed.start_ns + from * bin, packed.start_ns + to * bin]),
    edges: packed.threads_left_out > 0 ? null : edgesOf(rows),
    wait(row) {
      const wait = waits[row - 1];
      if (wait === undefined) return null;
      const [kind, object, stack, holder, holderIn, waker, wakerIn] = wait;
      return {
        kind,
        object: text(object),
        stack: (stacks[stack] ?? []).map(text),
        holder: text(holder),
        holderIn: text(holderIn),
        waker: text(waker),
        wakerIn: text(wakerIn),
      };
    },
    kindOf: (row) => kindOfWait[row - 1] ?? -1,
    packed,
  };
}

function readSlices(numbers: Numbers, origin: number): Slices {
  const count = numbers.next();
  const slices = { start: new Float64Array(count), end: new Float64Array(count), runnable: new Float64Array(count), wait: new Uint32Array(count) };
  let at = origin;
  for (let i = 0; i < count; i += 1) {
    at += numbers.next();
    slices.start[i] = at;
    at += numbers.next();
    slices.end[i] = at;
    slices.runnable[i] = numbers.next();
    slices.wait[i] = numbers.next();
  }
  return slices;
}

function edgesOf(rows: Row[]): { starts: Float64Array; ends: Float64Array } {
  const all = (pick: (slices: Slices) => Float64Array): Float64Array => {
    const parts = rows.map((row) => pick(row.slices as Slices));
    const joined = new Float64Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      joined.set(part, at);
      at += part.length;
    }
    return joined.sort();
  };
  return { starts: all((slices) => slices.start), ends: all((slices) => slices.end) };
}

/** The mean of several lanes, and what most of them wait for. */
function together(rows: Row[], bins: number, kinds: number): Level {
  const only = rows[0]?.levels[0];
  if (rows.length === 1 && only !== undefined) return only;
  const level: Level = { bins, run: new Uint8Array(bins), runnable: new Uint8Array(bins), blocked: new Uint8Array(bins), kind: new Uint8Array(bins) };
  const weights = new Float64Array(kinds + 1);
  const finest = rows.map((row) => row.levels[0] as Level);
  for (let at = 0; at < bins; at += 1) {
    weights.fill(0);
    let [run, runnable, blocked] = [0, 0, 0];
    for (const row of finest) {
      run += row.run[at] as number;
      runnable += row.runnable[at] as number;
      blocked += row.blocked[at] as number;
      const kind = row.kind[at] as number;
      weights[kind] = (weights[kind] as number) + (row.blocked[at] as number);
    }
    level.run[at] = run / rows.length;
    level.runnable[at] = runnable / rows.length;
    level.blocked[at] = blocked / rows.length;
    let kind = 0;
    for (let k = 1; k <= kinds; k += 1) if ((weights[k] as number) > (weights[kind] as number) || (kind === 0 && (weights[k] as number) > 0)) kind = k;
    level.kind[at] = kind;
  }
  return level;
}

/** Bins of twice the width, again and again. */
function coarsen(finest: Level): Level[] {
  const levels = [finest];
  for (let fine = finest; fine.bins > 64; ) {
    const bins = fine.bins / 2;
    const level: Level = { bins, run: new Uint8Array(bins), runnable: new Uint8Array(bins), blocked: new Uint8Array(bins), kind: new Uint8Array(bins) };
    for (let at = 0; at < bins; at += 1) {
      const [a, b] = [at * 2, at * 2 + 1];
      level.run[at] = ((fine.run[a] as number) + (fine.run[b] as number) + 1) >> 1;
      level.runnable[at] = ((fine.runnable[a] as number) + (fine.runnable[b] as number) + 1) >> 1;
      const [left, right] = [fine.blocked[a] as number, fine.blocked[b] as number];
      level.blocked[at] = (left + right + 1) >> 1;
      level.kind[at] = (left >= right ? fine.kind[a] || fine.kind[b] : fine.kind[b] || fine.kind[a]) as number;
    }
    levels.push(level);
    fine = level;
  }
  return levels;
}

function readParallelism(bytes: Uint8Array, bins: number): Parallelism {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const plane = (which: number): Uint16Array => Uint16Array.from({ length: bins }, (_, at) => view.getUint16((which * bins + at) * 2, true));
  return { bins, mean: Float32Array.from(plane(0), (mean) => mean / 16), least: plane(1), most: plane(2) };
}

function coarsenParallelism(finest: Parallelism): Parallelism[] {
  const levels = [finest];
  for (let fine = finest; fine.bins > 64; ) {
    const bins = fine.bins / 2;
    const level: Parallelism = { bins, mean: new Float32Array(bins), least: new Uint16Array(bins), most: new Uint16Array(bins) };
    for (let at = 0; at < bins; at += 1) {
      const [a, b] = [at * 2, at * 2 + 1];
      level.mean[at] = ((fine.mean[a] as number) + (fine.mean[b] as number)) / 2;
      level.least[at] = Math.min(fine.least[a] as number, fine.least[b] as number);
      level.most[at] = Math.max(fine.most[a] as number, fine.most[b] as number);
    }
    levels.push(level);
    fine = level;
  }
  return levels;
}

/** The level whose bins are at most as wide as a pixel, else the finest. */
export function levelFor<T>(levels: T[], bin: number, pixel: number): T {
  const wanted = Math.floor(Math.log2(Math.max(1, pixel / bin)));
  return levels[Math.min(levels.length - 1, wanted)] as T;
}

/** Index of the first element above `value`; the array ascends. */
export function firstAbove(sorted: Float64Array, value: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) > value) high = middle;
    else low = middle + 1;
  }
  return low;
}
