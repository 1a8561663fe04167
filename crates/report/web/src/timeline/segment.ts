// What a lane shows at one instant, in words.

import { h, printable } from "../dom";
import { duration, exactNs, percent } from "../format";
import type { Level, Row, Slices, TimelineData, Wait } from "./data";
import { firstAbove, levelFor } from "./data";

/** A stretch of a lane: a slice, a wait, or a bin. */
export interface Segment {
  row: Row;
  from: number;
  to: number;
  state: "running" | "runnable" | "blocked" | "bin" | "none";
  wait: Wait | null;
  /** Lines for the tooltip. */
  lines: string[];
  /** Row of the slice; -1 for bins. */
  slice: number;
}

/** The stretch at `time`; `pixel` is how much time a pixel shows. */
export function segmentAt(data: TimelineData, row: Row, time: number, pixel: number): Segment {
  const lane = row.lane ?? (row.members.length === 1 ? (row.members[0]?.lane ?? null) : null);
  const slices = row.slices ?? (row.members.length === 1 ? (row.members[0]?.slices ?? null) : null);
  const exact = pixel < data.bin && data.exact.some(([from, to]) => time >= from && time < to);
  if (lane !== null && (time < lane.start_ns || time > lane.end_ns)) {
    return { row, from: time, to: time, state: "none", wait: null, slice: -1, lines: [titleOf(row), time < lane.start_ns ? "not started yet" : "ended"] };
  }
  if (lane !== null && slices !== null && exact) return single(data, row, slices, time, lane.start_ns, lane.end_ns);
  return binned(data, row, time, pixel);
}

/** A slice, or the wait after it. */
export function single(data: TimelineData, row: Row, slices: Slices, time: number, laneStart: number, laneEnd: number): Segment {
  const next = firstAbove(slices.start, time);
  const at = next - 1;
  const name = titleOf(row);
  const end = slices.end[at] ?? laneStart;
  if (at >= 0 && time < end) {
    const start = slices.start[at] as number;
    const runnable = slices.runnable[at] as number;
    const lines = [name, `active ${duration(end - start)}`];
    if (runnable > 0) lines.push(`of it runnable, without a CPU ${duration(runnable)}`);
    lines.push(`${duration(start - data.start)} after the start`);
    return { row, from: start, to: end, state: time < start + runnable ? "runnable" : "running", wait: null, slice: at, lines };
  }
  const to = slices.start[next] ?? laneEnd;
  const wait = at >= 0 ? data.wait(slices.wait[at] as number) : null;
  const kind = wait === null ? "" : (data.kinds[wait.kind] ?? "");
  const lines = [name, `waited ${duration(to - end)}${kind === "" ? ", for what is not known" : ` for ${kind}`}${wait?.object ? ` ${printable(wait.object)}` : ""}`];
  if (wait?.holder) lines.push(`held by ${who(wait.holder, wait.holderIn)}`);
  if (wait?.waker) lines.push(`woken by ${who(wait.waker, wait.wakerIn)}`);
  const inside = wait?.stack.at(-1);
  if (inside !== undefined) lines.push(`in ${printable(wait?.stack.slice(-3).reverse().join(" ← ") ?? inside)}`);
  lines.push(`${duration(end - data.start)} after the start`);
  return { row, from: end, to, state: "blocked", wait, slice: at, lines };
}

function binned(data: TimelineData, row: Row, time: number, pixel: number): Segment {
  const level = levelFor<Level>(row.levels, data.bin, pixel);
  const width = (data.end - data.start) / level.bins;
  const at = Math.min(level.bins - 1, Math.max(0, Math.floor((time - data.start) / width)));
  const from = data.start + at * width;
  const share = (plane: Uint8Array): number => (plane[at] as number) / 255;
  const kind = data.kinds[(level.kind[at] as number) - 1];
  const lines = [titleOf(row), `running ${percent(share(level.run))}`];
  if (level.runnable[at] !== 0) lines.push(`runnable, without a CPU ${percent(share(level.runnable))}`);
  if (level.blocked[at] !== 0) lines.push(`waiting ${percent(share(level.blocked))}${kind === undefined ? "" : `, mostly for ${kind}`}`);
  lines.push(`${duration(from - data.start)} – ${duration(from + width - data.start)} together`);
  return { row, from, to: from + width, state: "bin", wait: null, slice: -1, lines };
}

export function titleOf(row: Row): string {
  const { lane } = row;
  if (lane !== null) return `${printable(lane.name)}  tid ${lane.tid}`;
  const n = row.members.length;
  return n === 1 ? `${printable(row.group)}  tid ${row.members[0]?.lane?.tid ?? ""}` : `${printable(row.group)}, mean of ${n} threads`;
}

function who(thread: string, function_: string): string {
  return function_ === "" ? printable(thread) : `${printable(thread)} in ${printable(function_)}`;
}

/** The panel below the timeline. */
export function describe(data: TimelineData, moment: Segment): HTMLElement[] {
  const [title, ...lines] = moment.lines;
  const parts: HTMLElement[] = [h("h3", {}, title ?? ""), h("p", {}, lines.join(" · "))];
  if (moment.state === "bin") {
    parts.push(h("p", { class: "empty" }, data.bin > 0 && moment.row.members.length > 1 ? "Open the group to see single threads." : "Several slices together: zoom in to see them one by one, where the page has them."));
  } else if (moment.state !== "none") {
    parts.push(h("p", { class: "empty", title: exactNs(moment.to - moment.from) }, `from ${exactNs(moment.from - data.start)} to ${exactNs(moment.to - data.start)}`));
  }
  const stack = moment.wait?.stack ?? [];
  if (stack.length > 0) {
    parts.push(h("ol", { class: "tl-stack", "aria-label": "Stack, innermost first" }, ...[...stack].reverse().map((name) => h("li", {}, h("code", { dir: "ltr" }, printable(name))))));
  }
  return parts;
}
