// Parts of threads' lives as the page carries them; see `PackedCut` in `crates/report/src/html/cut.rs`.

import type { PackedCut } from "../report";
import { inflate, Numbers } from "../timeline/packed";
import type { Dimension, Fact } from "./dimension";

interface Details {
  names: string[];
  host: number;
  run: number;
  threads: number[][];
  places: number[][];
  frames: [number, number, number][];
  waits: number[][];
  features: number[][];
}

/** One list of parts; the facts of each are rows of `CutData`. */
export interface Parts {
  count: number;
  thread: Uint32Array;
  state: Uint32Array;
  place: Uint32Array;
  wait: Uint32Array;
  features: Uint32Array;
  begin: Float64Array;
  end: Float64Array;
  weight: Float64Array;
  /** Weight of one of the samples that say so; 0 where it is exact. */
  perSample: Float64Array;
  /** Some of it spins: a wait of which only samples know. */
  spins: boolean;
}

/** A key is the row of a name (of a stack: of its innermost frame) plus one; 0 is the lack of a key. */
export interface CutData {
  names: string[];
  frames: [parent: number, name: number, kernel: number][];
  /** Keys of each fact, row by row. */
  facts: Record<Exclude<Fact, "time">, number[][]>;
  /** Parts by measure; with `+` after it, divided by active features. */
  lists: Map<string, Parts>;
  /** It is known when threads were active. */
  when: boolean;
}

/** Numbers of `names` for what a thread does. */
const STATES = ["running", "runnable", "blocked"];

export async function unpackCut(packed: PackedCut): Promise<CutData> {
  const [details, columns] = (await Promise.all([packed.details, packed.columns].map(inflate))) as [Uint8Array, Uint8Array];
  const { names, host, run, threads, places, frames, waits, features } = JSON.parse(new TextDecoder().decode(details)) as Details;
  const numbers = new Numbers(columns);
  const lists = new Map<string, Parts>();
  for (const { measure, by_feature, parts, spins } of packed.lists) {
    // A million parts take a while: whoever waits for the page goes first.
    await new Promise((next) => setTimeout(next));
    lists.set(by_feature ? `${measure}+` : measure, readParts(numbers, parts, spins));
  }
  const state = STATES.map((name) => [names.indexOf(name) + 1]);
  return { names, frames, lists, when: packed.when, facts: { run: [[host, run, 0]], thread: threads, place: places, wait: waits, features, state } };
}

function readParts(numbers: Numbers, count: number, spins: boolean): Parts {
  const rows = (): Uint32Array => {
    const column = new Uint32Array(count);
    for (let at = 0; at < count; at += 1) column[at] = numbers.next();
    return column;
  };
  const thread = new Uint32Array(count);
  let last = 0;
  for (let at = 0; at < count; at += 1) {
    last += signed(numbers.next());
    thread[at] = last;
  }
  const [state, place, wait, features] = [rows(), rows(), rows(), rows()];
  const [begin, end, weight] = [new Float64Array(count), new Float64Array(count), new Float64Array(count)];
  // Begins are told from ends, which follow in the next column.
  for (let at = 0; at < count; at += 1) begin[at] = signed(numbers.next());
  let ended = 0;
  for (let at = 0; at < count; at += 1) {
    begin[at] = ended + (begin[at] as number);
    ended = (begin[at] as number) + numbers.next();
    end[at] = ended;
  }
  for (let at = 0; at < count; at += 1) weight[at] = (end[at] as number) - (begin[at] as number) + signed(numbers.next());
  const perSample = new Float64Array(count);
  for (let at = 0; at < count; at += 1) perSample[at] = numbers.next() / 16;
  return { count, thread, state, place, wait, features, begin, end, weight, perSample, spins };
}

function signed(zigzag: number): number {
  return zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
}

/** Names of a row of a fact in a dimension: of a set of features its own and that of each, else at most one. */
export function namesOf(data: CutData, dimension: Dimension, row: number[]): string[] {
  const keys = dimension.fact === "features" ? row : [row[dimension.column] ?? 0];
  return keys.filter((key) => key > 0).map((key) => data.names[key - 1] ?? "");
}

/** Functions of the program on a stack, innermost first. */
export function functionsOf(data: CutData, innermost: number): string[] {
  return framesOf(data, innermost).filter(([, , kernel]) => kernel === 0).map(([, name]) => data.names[name - 1] ?? "").filter((name) => name !== "");
}

/** Frames of a stack, innermost first. */
export function framesOf(data: CutData, innermost: number): CutData["frames"] {
  const frames: CutData["frames"] = [];
  for (let key = innermost; key > 0; ) {
    const frame = data.frames[key - 1];
    if (frame === undefined) break;
    frames.push(frame);
    key = frame[0];
  }
  return frames;
}

/** What a key is called; `null` for the lack of one. */
export function textOf(data: CutData, dimension: Dimension, key: number): string | number | null {
  if (dimension.fact === "time") return key * dimension.step;
  if (key === 0) return null;
  if (dimension.word !== "stack") return data.names[key - 1] ?? null;
  const frame = ([, name, kernel]: CutData["frames"][number]): string => `${(data.names[name - 1] ?? "").replaceAll(";", ":")}${kernel === 1 ? "_[k]" : ""}`;
  return framesOf(data, key).map(frame).reverse().join(";");
}
