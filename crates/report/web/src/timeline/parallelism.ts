// The degree of parallelism above the lanes: mean, and between least and most where several values share a pixel.

import { duration } from "../format";
import { timeTicks } from "../latency/axis";
import { firstAbove, levelFor, type Parallelism, type TimelineData } from "./data";
import type { Window } from "./lanes";
import type { Palette } from "./palette";

export const PARALLELISM_HEIGHT = 112;
const TOP = 8;
const BOTTOM = 22;

/** Active threads at each pixel. */
interface Curve {
  mean: Float32Array;
  least: Float32Array;
  most: Float32Array;
}

export class ParallelismPainter {
  private readonly top: number;

  constructor(private readonly data: TimelineData) {
    const finest = data.parallelism[0] as Parallelism;
    this.top = Math.max(1, finest.most.reduce((max, n) => Math.max(max, n), 0));
  }

  paint(context: CanvasRenderingContext2D, window: Window, mask: Uint8Array, ratio: number, palette: Palette, font: string): void {
    const { width } = window;
    const bottom = (PARALLELISM_HEIGHT - BOTTOM) * ratio;
    const height = bottom - TOP * ratio;
    const scale = Math.max(this.top, this.data.cpus <= 2 * this.top ? this.data.cpus : 0);
    const y = (n: number): number => bottom - (n / scale) * height;
    const curve = this.curve(window, mask);
    context.clearRect(0, 0, width, PARALLELISM_HEIGHT * ratio);
    for (let x = 0; x < width; x += 1) {
      const [mean, least, most] = [curve.mean[x] as number, curve.least[x] as number, curve.most[x] as number];
      if (Number.isNaN(mean)) continue;
      const color = mean >= this.data.cpus - 0.05 ? palette.high : palette.low;
      if (most > mean) {
        context.globalAlpha = 0.3;
        context.fillStyle = color;
        context.fillRect(x, y(most), 1, y(Math.max(mean, least)) - y(most));
      }
      context.globalAlpha = 1;
      context.fillStyle = color;
      const tip = y(mean);
      context.fillRect(x, tip, 1, bottom - tip);
      if (mean < 0.02) {
        context.fillStyle = palette.none;
        context.fillRect(x, bottom - 3 * ratio, 1, 3 * ratio);
      }
    }
    this.axes(context, window, ratio, palette, font, y, bottom);
  }

  private axes(context: CanvasRenderingContext2D, window: Window, ratio: number, palette: Palette, font: string, y: (n: number) => number, bottom: number): void {
    const { width, from, to } = window;
    context.fillStyle = palette.line;
    context.fillRect(0, bottom, width, Math.max(1, Math.round(ratio)));
    const line = Math.round(y(this.data.cpus));
    if (line >= TOP * ratio - 1) {
      context.strokeStyle = palette.text;
      context.lineWidth = ratio;
      context.setLineDash([5 * ratio, 4 * ratio]);
      context.globalAlpha = 0.55;
      context.beginPath();
      context.moveTo(0, line + 0.5);
      context.lineTo(width, line + 0.5);
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 1;
    }
    context.font = font;
    context.textBaseline = "top";
    context.fillStyle = palette.muted;
    // Zoomed in, ticks are told from the left edge, whose own time stands there.
    const zoomed = to - from < (this.data.end - this.data.start) / 200;
    const origin = zoomed ? from : this.data.start;
    for (const tick of timeTicks(from - origin, to - origin, Math.max(2, Math.floor(width / ratio / 110)))) {
      const x = ((tick.value + origin - from) / (to - from)) * width;
      context.textAlign = x > width - 40 * ratio ? "right" : x < 20 * ratio ? "left" : "center";
      const label = !zoomed ? tick.label : tick.value === 0 ? duration(from - this.data.start) : `+${tick.label}`;
      context.fillRect(Math.round(x), bottom, Math.max(1, Math.round(ratio)), 4 * ratio);
      context.fillText(label, Math.min(width, Math.max(0, x)), bottom + 6 * ratio);
    }
  }

  private curve(window: Window, mask: Uint8Array): Curve {
    const { width, from, to } = window;
    const pixel = (to - from) / width;
    const curve = { mean: new Float32Array(width), least: new Float32Array(width), most: new Float32Array(width) };
    const level = levelFor(this.data.parallelism, this.data.bin, pixel);
    const perBin = (this.data.end - this.data.start) / level.bins;
    for (let x = 0; x < width; x += 1) {
      const at = Math.floor((from + (x + 0.5) * pixel - this.data.start) / perBin);
      curve.mean[x] = level.mean[at] ?? Number.NaN;
      curve.least[x] = level.least[at] ?? 0;
      curve.most[x] = level.most[at] ?? 0;
    }
    if (this.data.edges !== null && mask.includes(1)) this.exact(this.data.edges, window, mask, curve);
    return curve;
  }

  /** Sweeps starts and ends of slices over the pixels where they are all known. */
  private exact(edges: { starts: Float64Array; ends: Float64Array }, window: Window, mask: Uint8Array, curve: Curve): void {
    const { starts, ends } = edges;
    const { width, from, to } = window;
    const pixel = (to - from) / width;
    let s = firstAbove(starts, from);
    let e = firstAbove(ends, from);
    let now = from;
    for (let x = 0; x < width; x += 1) {
      const end = from + (x + 1) * pixel;
      let [sum, least, most] = [0, Number.POSITIVE_INFINITY, 0];
      for (;;) {
        const next = Math.min(starts[s] ?? Number.POSITIVE_INFINITY, ends[e] ?? Number.POSITIVE_INFINITY, end);
        const n = s - e;
        if (next > now) {
          sum += n * (next - now);
          least = Math.min(least, n);
          most = Math.max(most, n);
        }
        now = Math.max(now, next);
        if (next >= end) break;
        if ((ends[e] ?? Number.POSITIVE_INFINITY) <= next) e += 1;
        else s += 1;
      }
      if (mask[x] === 0) continue;
      curve.mean[x] = sum / pixel;
      curve.least[x] = Number.isFinite(least) ? least : 0;
      curve.most[x] = most;
    }
  }
}
