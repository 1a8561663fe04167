// Latency over time: x time, y duration (logarithmic), the number of samples is the colour.

import { h } from "../dom";
import { count, duration, exact, plural } from "../format";
import type { HeatMapFunction, LatencyHeatMap, LatencyRow } from "../report";
import type { Measure } from "./amount";
import { amountTicks, type LogAxis, logAxis, timeTicks } from "./axis";
import { histogram } from "./distribution";

const HEIGHT = 300;
const LEFT = 62;
const BOTTOM = 26;
const TOP = 8;
/** Width of the distribution at the right, with room for the percentiles' names. */
const SIDE = 120;
const NAMES = 34;
const GAP = 10;

interface Palette {
  text: string;
  muted: string;
  line: string;
  surface: string;
  accent: string;
  warn: string;
  low: [number, number, number];
  middle: [number, number, number];
  high: [number, number, number];
}

export interface Picture {
  element: HTMLElement;
  show(row: LatencyRow, picture: HeatMapFunction | undefined): void;
}

export function picture(heat: LatencyHeatMap, measure: Measure): Picture {
  const canvas = h("canvas", { id: "latency-canvas", role: "img" });
  const tip = h("div", { class: "latency-tip", hidden: true });
  const key = h("canvas", { class: "latency-key", width: 120, height: 10, "aria-hidden": "true" });
  const most = h("span", {});
  const legend = h("p", { class: "legend latency-legend" }, h("span", {}, "1 sample "), key, most);
  const frame = h("div", { class: "latency-frame" }, canvas, tip);
  const element = h("div", {}, legend, frame);
  let shown: { row: LatencyRow; picture: HeatMapFunction; axis: LogAxis; counts: Float64Array; most: number } | null = null;

  const slices = heat.starts_ns.length;
  const start = heat.starts_ns[0] ?? 0;
  const end = Math.max(heat.end_ns, start + 1);
  const sliceEnd = (slice: number): number => heat.starts_ns[slice] ?? end;

  const geometry = (): { width: number; right: number; x(ns: number): number; y(place: number): number } => {
    const width = Math.max(320, frame.clientWidth);
    const side = width > 640 ? SIDE + NAMES + GAP : NAMES;
    const right = width - side;
    return {
      width,
      right,
      x: (ns) => LEFT + ((ns - start) / (end - start)) * (right - LEFT),
      y: (place) => TOP + (1 - place) * (HEIGHT - TOP - BOTTOM),
    };
  };

  const draw = (): void => {
    if (shown === null) return;
    const { row, axis, counts, picture } = shown;
    const { width, right, x, y } = geometry();
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(HEIGHT * ratio);
    canvas.style.height = `${HEIGHT}px`;
    const context = canvas.getContext("2d");
    if (context === null) return;
    const colors = palette(element);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, HEIGHT);
    context.font = `11px ${getComputedStyle(document.body).fontFamily}`;

    // Edges on whole device pixels: neighbours must neither overlap nor leave a seam.
    const snap = (value: number): number => Math.round(value * ratio) / ratio;
    const rectangle = (x0: number, x1: number, y0: number, y1: number): void => {
      const [l, r, t, b] = [snap(x0), snap(x1), snap(y0), snap(y1)];
      context.fillRect(l, t, Math.max(1 / ratio, r - l), Math.max(1 / ratio, b - t));
    };
    context.strokeStyle = colors.line;
    context.fillStyle = colors.muted;
    context.lineWidth = 1;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const tick of amountTicks(axis, measure, 14)) {
      const at = snap(y(axis.at(tick.value)));
      context.globalAlpha = 0.7;
      context.fillStyle = colors.line;
      context.fillRect(LEFT, at, width - NAMES - LEFT, 1 / ratio);
      context.globalAlpha = 1;
      context.fillStyle = colors.muted;
      context.fillText(tick.label, LEFT - 8, Math.min(HEIGHT - BOTTOM - 4, Math.max(TOP + 4, at)));
    }
    context.textBaseline = "top";
    for (const tick of timeTicks(start, end, Math.max(2, Math.floor((right - LEFT) / 90)))) {
      const at = snap(x(tick.value));
      context.fillRect(at, HEIGHT - BOTTOM, 1 / ratio, 4);
      context.textAlign = at > right - 24 ? "right" : at < LEFT + 10 ? "left" : "center";
      context.fillText(tick.label, Math.min(at, right), HEIGHT - BOTTOM + 7);
    }

    const { cells, merge } = picture;
    for (let at = 0; at + 2 < cells.length; at += 3) {
      const slice = cells[at] as number;
      const [low, high] = heat.buckets[cells[at + 1] as number] ?? [0, 0];
      context.fillStyle = color(colors, strength(cells[at + 2] as number, shown.most));
      const top = y(axis.at(Math.max(high, low + 1)));
      rectangle(x(heat.starts_ns[slice] ?? start), x(sliceEnd(slice + merge)), top, y(axis.at(low)));
    }
    context.strokeStyle = colors.line;
    context.strokeRect(LEFT - 0.5, TOP - 0.5, right - LEFT + 1, HEIGHT - TOP - BOTTOM + 1);

    // The distribution over all time, on the same axis: samples per height, so that wide buckets do not look fuller.
    if (width > 640) {
      const density = (bucket: number): number => {
        const [low, high] = heat.buckets[bucket] ?? [0, 1];
        return (counts[bucket] ?? 0) / Math.max(1e-3, axis.at(Math.max(high, low + 1)) - axis.at(low));
      };
      const densest = counts.reduce((max, _, bucket) => Math.max(max, density(bucket)), 0);
      context.fillStyle = color(colors, 0.6);
      counts.forEach((samples, bucket) => {
        if (samples === 0) return;
        const [low, high] = heat.buckets[bucket] ?? [0, 1];
        const length = Math.max(1, (density(bucket) / densest) * SIDE);
        rectangle(right + GAP, right + GAP + length, y(axis.at(Math.max(high, low + 1))), y(axis.at(low)));
      });
    }
    const marks: [string, number | null][] = [["p50", row.p50], ["p90", row.p90], ["p99", row.p99]];
    context.textAlign = "left";
    context.textBaseline = "middle";
    let above = Number.POSITIVE_INFINITY;
    for (const [name, ns] of marks) {
      if (ns === null) continue;
      const at = y(axis.at(ns));
      context.strokeStyle = name === "p50" ? colors.accent : colors.warn;
      context.setLineDash(name === "p50" ? [] : [4, 3]);
      context.globalAlpha = 0.75;
      context.beginPath();
      context.moveTo(LEFT, at);
      context.lineTo(width - NAMES, at);
      context.stroke();
      context.globalAlpha = 1;
      context.fillStyle = context.strokeStyle;
      // Names of percentiles that lie together stand above each other.
      const place = Math.min(at, above - 12);
      above = place;
      context.fillText(name, width - NAMES + 4, place);
    }
    context.setLineDash([]);
    drawKey(key, colors);
  };

  const point = (event: PointerEvent): void => {
    if (shown === null) return;
    const { axis, picture } = shown;
    const bounds = canvas.getBoundingClientRect();
    const { right, width } = geometry();
    const left = event.clientX - bounds.left;
    const place = 1 - (event.clientY - bounds.top - TOP) / (HEIGHT - TOP - BOTTOM);
    const inside = left >= LEFT && left <= right && place >= 0 && place <= 1;
    tip.hidden = !inside;
    if (!inside) return;
    const time = start + ((left - LEFT) / (right - LEFT)) * (end - start);
    const found = cellAt(heat, picture, time, axis.of(place));
    const parts = [
      `${duration(found.from)} – ${duration(found.to)} after the start`,
      `${measure.short(found.low)} – ${measure.short(found.high)}`,
      plural(found.samples, "sample"),
    ];
    tip.replaceChildren(...parts.map((part) => h("span", {}, part)));
    tip.style.left = `${Math.min(left + 14, width - 190)}px`;
    tip.style.top = `${Math.max(0, event.clientY - bounds.top - 62)}px`;
  };
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerleave", () => {
    tip.hidden = true;
  });
  new ResizeObserver(draw).observe(frame);
  new MutationObserver(draw).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  return {
    element,
    show(row, picture) {
      tip.hidden = true;
      if (picture === undefined || picture.cells.length === 0 || slices === 0) {
        shown = null;
        element.hidden = true;
        return;
      }
      element.hidden = false;
      const counts = histogram(picture, heat.buckets.length);
      const used = heat.buckets.filter((_, bucket) => (counts[bucket] ?? 0) > 0);
      // A little air, so that the extremes do not lie on the frame.
      const axis = logAxis((used[0]?.[0] ?? 1) * 0.9, (used.at(-1)?.[1] ?? 1) * 1.1);
      let fullest = 1;
      for (let at = 2; at < picture.cells.length; at += 3) fullest = Math.max(fullest, picture.cells[at] as number);
      shown = { row, picture, axis, counts, most: fullest };
      most.textContent = ` ${count(fullest)} in ${duration(((end - start) / slices) * picture.merge)} of time and an eighth of the amount`;
      canvas.setAttribute(
        "aria-label",
        `Latency over time: ${exact(row.samples)} samples from ${measure.short(axis.low)} to ${measure.short(row.max)}, median ${measure.short(row.p50)}`,
      );
      draw();
    },
  };
}

interface Cell {
  from: number;
  to: number;
  low: number;
  high: number;
  samples: number;
}

/** The cell at a time and a duration; without samples it is as large as its neighbours. */
function cellAt(heat: LatencyHeatMap, picture: HeatMapFunction, time: number, ns: number): Cell {
  const next = heat.starts_ns.findIndex((start) => start > time);
  const last = Math.max(0, (next < 0 ? heat.starts_ns.length : next) - 1);
  const slice = last - (last % picture.merge);
  const from = heat.starts_ns[slice] ?? 0;
  const to = heat.starts_ns[slice + picture.merge] ?? heat.end_ns;
  for (let at = 0; at + 2 < picture.cells.length; at += 3) {
    if (picture.cells[at] !== slice) continue;
    const [low, high] = heat.buckets[picture.cells[at + 1] as number] ?? [0, 0];
    if (ns >= low && ns < Math.max(high, low + 1)) return { from, to, low, high, samples: picture.cells[at + 2] as number };
  }
  const [low, high] = heat.buckets.find(([low, high]) => ns >= low && ns < Math.max(high, low + 1)) ?? [ns, ns];
  return { from, to, low, high, samples: 0 };
}

/** Logarithmic: one sample shows, and a thousand are told from a hundred. */
function strength(samples: number, most: number): number {
  return most <= 1 ? 0.75 : 0.12 + 0.88 * (Math.log(samples) / Math.log(most));
}

function color(colors: Palette, at: number): string {
  const [from, to, along] = at < 0.5 ? [colors.low, colors.middle, at * 2] : [colors.middle, colors.high, at * 2 - 1];
  const mix = from.map((part, index) => Math.round(part + ((to[index] ?? 0) - part) * along));
  return `rgb(${mix.join(" ")})`;
}

function drawKey(key: HTMLCanvasElement, colors: Palette): void {
  const context = key.getContext("2d");
  if (context === null) return;
  for (let x = 0; x < key.width; x += 1) {
    context.fillStyle = color(colors, 0.12 + (0.88 * x) / key.width);
    context.fillRect(x, 0, 1, key.height);
  }
}

/** The theme's colours as the browser resolves them. */
function palette(element: HTMLElement): Palette {
  const probe = h("span", { hidden: true });
  element.append(probe);
  const resolved = (name: string): string => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const parts = (name: string): [number, number, number] => {
    const [r, g, b] = resolved(name).match(/[\d.]+/g)?.map(Number) ?? [];
    return [r ?? 0, g ?? 0, b ?? 0];
  };
  const colors = {
    text: resolved("text"),
    muted: resolved("muted"),
    line: resolved("line"),
    surface: resolved("surface"),
    accent: resolved("accent"),
    warn: resolved("warn"),
    low: parts("heat-low"),
    middle: parts("heat"),
    high: parts("heat-high"),
  };
  probe.remove();
  return colors;
}
