// Lanes on a canvas: of each pixel's time, from below, how much a thread ran, was runnable and waited.

import type { Level, Row, TimelineData } from "./data";
import { firstAbove, levelFor } from "./data";
import type { Palette } from "./palette";

/** A span of time across a width. */
export interface Window {
  from: number;
  to: number;
  /** Device pixels. */
  width: number;
}

/** Shares 0–1 of each pixel, reused from frame to frame. */
class Coverage {
  run = new Float32Array(0);
  runnable = new Float32Array(0);
  blocked = new Float32Array(0);
  /** Number of the kind + 1, and how much of the pixel it covers. */
  kind = new Uint8Array(0);
  private most = new Float32Array(0);

  reset(width: number): void {
    if (this.run.length !== width) {
      this.run = new Float32Array(width);
      this.runnable = new Float32Array(width);
      this.blocked = new Float32Array(width);
      this.kind = new Uint8Array(width);
      this.most = new Float32Array(width);
      return;
    }
    for (const plane of [this.run, this.runnable, this.blocked, this.most]) plane.fill(0);
    this.kind.fill(0);
  }

  /** Adds `from..to`, in pixels, to a plane where `mask` is set. */
  add(plane: Float32Array, from: number, to: number, mask: Uint8Array, kind: number): void {
    const first = Math.max(0, Math.floor(from));
    const last = Math.min(plane.length - 1, Math.ceil(to) - 1);
    for (let x = first; x <= last; x += 1) {
      if (mask[x] === 0) continue;
      const part = Math.min(to, x + 1) - Math.max(from, x);
      plane[x] = (plane[x] as number) + part;
      if (kind >= 0 && part > (this.most[x] as number)) {
        this.most[x] = part;
        this.kind[x] = kind;
      }
    }
  }
}

export class LanePainter {
  private readonly coverage = new Coverage();
  private mask = new Uint8Array(0);

  constructor(private readonly data: TimelineData) {}

  /** Pixels that are drawn from exact slices: 1 where they are known. */
  exactPixels(window: Window): Uint8Array {
    const { width, from, to } = window;
    if (this.mask.length !== width) this.mask = new Uint8Array(width);
    this.mask.fill(0);
    const scale = width / (to - from);
    // Zoomed out, bins are finer than pixels and cheaper than slices.
    if (1 / scale >= this.data.bin) return this.mask;
    for (const [start, end] of this.data.exact) {
      const first = Math.max(0, Math.ceil((start - from) * scale - 0.5));
      const last = Math.min(width, Math.floor((end - from) * scale + 0.5));
      if (last > first) this.mask.fill(1, first, last);
    }
    return this.mask;
  }

  /** Draws a lane into `pixels`, from line `top` on, `height` lines. */
  paint(row: Row, window: Window, mask: Uint8Array, pixels: Uint32Array, top: number, height: number, palette: Palette): void {
    const { width } = window;
    const { coverage } = this;
    coverage.reset(width);
    this.fromBins(row, window, mask);
    // A group of one thread has that thread's slices.
    const slices = row.slices ?? (row.members.length === 1 ? row.members[0]?.slices : null);
    if (slices !== null && slices !== undefined) this.fromSlices({ ...row, slices, lane: row.lane ?? row.members[0]?.lane ?? null }, window, mask);
    else if (row.members.length > 1) this.fromMembers(row, window, mask);
    for (let x = 0; x < width; x += 1) {
      const run = (coverage.run[x] as number) * height;
      const runnable = run + (coverage.runnable[x] as number) * height;
      const blocked = runnable + (coverage.blocked[x] as number) * height;
      if (blocked < 0.02) continue;
      const wait = palette.blocked[coverage.kind[x] as number] as number;
      // Shares round to whole lines, but what was there keeps at least one line.
      const runs = coverage.run[x] as number > 0.004 ? Math.max(1, Math.round(run)) : 0;
      const ready = Math.max(runs, Math.round(runnable));
      const waits = Math.max(ready, Math.min(height, Math.round(blocked)));
      let at = (top + height - 1) * width + x;
      for (let y = 0; y < waits; y += 1) {
        pixels[at] = y < runs ? palette.run : y < ready ? palette.runnable : wait;
        at -= width;
      }
    }
  }

  private fromBins(row: Row, window: Window, mask: Uint8Array): void {
    const { coverage, data } = this;
    const pixel = (window.to - window.from) / window.width;
    const level = levelFor<Level>(row.levels, data.bin, pixel);
    const perBin = (data.end - data.start) / level.bins;
    for (let x = 0; x < window.width; x += 1) {
      if (mask[x] === 1) continue;
      const at = Math.floor((window.from + (x + 0.5) * pixel - data.start) / perBin);
      if (at < 0 || at >= level.bins) continue;
      coverage.run[x] = (level.run[at] as number) / 255;
      coverage.runnable[x] = (level.runnable[at] as number) / 255;
      coverage.blocked[x] = (level.blocked[at] as number) / 255;
      coverage.kind[x] = level.kind[at] as number;
    }
  }

  private fromSlices(row: Row, window: Window, mask: Uint8Array): void {
    const { slices, lane } = row;
    if (slices === null || lane === null || !mask.includes(1)) return;
    const { coverage, data } = this;
    const scale = window.width / (window.to - window.from);
    const x = (ns: number): number => (ns - window.from) * scale;
    let at = firstAbove(slices.end, window.from);
    const wait = (index: number, from: number, to: number): void => {
      const kind = index < 0 ? -1 : data.kindOf(slices.wait[index] as number);
      coverage.add(coverage.blocked, x(Math.max(from, lane.start_ns)), x(Math.min(to, lane.end_ns)), mask, kind + 1);
    };
    // The wait that reaches into the window.
    wait(at - 1, slices.end[at - 1] ?? lane.start_ns, slices.start[at] ?? lane.end_ns);
    for (; at < slices.start.length && (slices.start[at] as number) < window.to; at += 1) {
      const [start, end] = [slices.start[at] as number, slices.end[at] as number];
      const ready = start + (slices.runnable[at] as number);
      if (ready > start) coverage.add(coverage.runnable, x(start), x(ready), mask, -1);
      coverage.add(coverage.run, x(ready), x(end), mask, -1);
      wait(at, end, slices.start[at + 1] ?? lane.end_ns);
    }
  }

  /** The mean of the members' slices. */
  private fromMembers(row: Row, window: Window, mask: Uint8Array): void {
    for (const member of row.members) this.fromSlices(member, window, mask);
    const { coverage } = this;
    for (let x = 0; x < window.width; x += 1) {
      if (mask[x] === 0) continue;
      coverage.run[x] = (coverage.run[x] as number) / row.members.length;
      coverage.runnable[x] = (coverage.runnable[x] as number) / row.members.length;
      coverage.blocked[x] = (coverage.blocked[x] as number) / row.members.length;
    }
  }
}
