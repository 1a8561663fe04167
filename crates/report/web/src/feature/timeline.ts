// When regions ran: nested lanes per thread on a canvas, zoomed and panned by buttons, wheel, drag and keys.

import { h, printable } from "../dom";
import { duration, exact, plural } from "../format";
import type { RegionRow } from "./rows";
import { firstAfter, type Lane, type LaneThread, laneThreads } from "./lanes";
import { type FeatureModel, placeOf, setName } from "./model";
import type { FeaturePalette } from "./palette";

const ROW = 18;
const GAP = 8;
const AXIS = 22;
/** Threads beyond these are not drawn: those with the fewest slices. */
const MOST_THREADS = 60;
const MOST_DEPTH = 16;
/** Shortest span that can be looked at, ns. */
const SHORTEST = 100;

interface Placed {
  lane: Lane;
  thread: LaneThread;
  top: number;
}

interface Colors {
  sets: Map<number, string[]>;
  text: string;
  muted: string;
  line: string;
  surface: string;
}

declare global {
  interface Window {
    /** For tests: the span in sight, ns, and the last frame's time, ms. */
    transectRegions?: () => { from: number; to: number; frame: number };
  }
}

export function featureTimeline(model: FeatureModel, palette: FeaturePalette): HTMLElement {
  const all = laneThreads(model.report.region_timeline);
  const kept = new Set([...all].sort((a, b) => b.slices - a.slices).slice(0, MOST_THREADS));
  const threads = all.filter((thread) => kept.has(thread));
  let start = Infinity;
  let end = -Infinity;
  for (const thread of threads) {
    start = Math.min(start, thread.start);
    end = Math.max(end, thread.end);
    for (const lane of thread.lanes) {
      start = Math.min(start, lane.start[0] ?? start);
      end = Math.max(end, lane.end.at(-1) ?? end);
    }
  }
  if (end <= start) end = start + 1;
  const placed: Placed[] = [];
  const labels = h("div", { class: "rt-labels" });
  let height = AXIS;
  for (const thread of threads) {
    const lanes = thread.lanes.slice(0, MOST_DEPTH);
    const label = h("div", { class: "rt-label", title: printable(`${thread.name} (${thread.tid}), ${plural(thread.slices, "stay")}`) }, h("span", { class: "tl-name", dir: "ltr" }, printable(thread.name)), h("small", {}, ` ${thread.tid}`));
    label.style.height = `${lanes.length * ROW + GAP}px`;
    labels.append(label);
    for (const lane of lanes) {
      placed.push({ lane, thread, top: height });
      height += ROW;
    }
    height += GAP;
  }
  labels.style.paddingTop = `${AXIS}px`;

  const canvas = h("canvas", { class: "rt-canvas" });
  const area = h("div", { class: "rt-area" }, canvas);
  const tip = h("div", { class: "tl-tip", hidden: true });
  const frame = h(
    "div",
    {
      class: "rt-frame",
      id: "region-timeline-frame",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "timeline",
      "aria-label": "Regions over time. Left and right pan, plus and minus zoom, Home shows everything.",
      "aria-describedby": "region-timeline-note",
    },
    h("div", { class: "rt-body" }, labels, area),
    tip,
  );
  const note = h("p", { class: "tl-note", id: "region-timeline-note", role: "status" });
  let from = start;
  let to = end;
  let colors: Colors | null = null;
  let requested = false;
  let lastFrame = 0;

  const show = (left: number, right: number): void => {
    const width = Math.min(end - start, Math.max(Math.min(SHORTEST, end - start), right - left));
    from = Math.min(Math.max(start, left), end - width);
    to = from + width;
    request();
  };
  const zoom = (factor: number, around = (from + to) / 2): void => {
    const share = (around - from) / (to - from);
    const width = (to - from) * factor;
    show(around - width * share, around - width * share + width);
  };
  const pan = (share: number): void => show(from + (to - from) * share, to + (to - from) * share);
  const request = (): void => {
    if (requested) return;
    requested = true;
    requestAnimationFrame(() => {
      requested = false;
      draw();
    });
  };

  const resolve = (): Colors => {
    const probe = h("span", { hidden: true });
    frame.append(probe);
    const css = (value: string): string => {
      probe.style.color = value;
      return getComputedStyle(probe).color;
    };
    const known = new Map<string, string>();
    const mixed = (color: string): string => {
      let css_ = known.get(color);
      if (css_ === undefined) known.set(color, (css_ = css(`color-mix(in srgb, var(${color}) 62%, var(--surface))`)));
      return css_;
    };
    const sets = new Map<number, string[]>();
    for (const [id, region] of model.regions) sets.set(id, palette.of(region.features).map(mixed));
    const result = { sets, text: css("var(--text)"), muted: css("var(--muted)"), line: css("var(--line)"), surface: css("var(--surface)") };
    probe.remove();
    return result;
  };

  const draw = (): void => {
    const began = performance.now();
    const width = area.clientWidth;
    if (width === 0) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const [columns, lines] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== columns || canvas.height !== lines) {
      canvas.width = columns;
      canvas.height = lines;
      canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext("2d");
    if (context === null) return;
    colors ??= resolve();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    context.textBaseline = "middle";
    axis(context, width, colors);
    for (const each of placed) lane(context, each, width, colors);
    lastFrame = performance.now() - began;
    note.textContent = `${duration(from - start)} – ${duration(to - start)} of ${duration(end - start)}.${threads.length < all.length ? ` ${exact(all.length - threads.length)} threads with the fewest stays are left out.` : ""}${model.report.region_timeline.left_out > 0 ? ` ${exact(model.report.region_timeline.left_out)} of the shortest visits are left out.` : ""}`;
  };

  const axis = (context: CanvasRenderingContext2D, width: number, of: Colors): void => {
    const step = niceStep((to - from) / Math.max(2, width / 110));
    context.fillStyle = of.muted;
    context.strokeStyle = of.line;
    context.lineWidth = 1;
    for (let at = Math.ceil((from - start) / step) * step; at <= to - start; at += step) {
      const x = Math.round(((at + start - from) / (to - from)) * width) + 0.5;
      context.beginPath();
      context.moveTo(x, AXIS - 6);
      context.lineTo(x, height);
      context.stroke();
      const text = duration(Math.round(at));
      if (x + context.measureText(text).width + 4 < width) context.fillText(text, x + 3, AXIS / 2 - 2);
    }
  };

  const fill = (context: CanvasRenderingContext2D, bands: string[], x: number, top: number, wide: number, tall: number): void => {
    const band = tall / bands.length;
    bands.forEach((color, at) => {
      context.fillStyle = color;
      context.fillRect(x, top + at * band, wide, band);
    });
  };

  const lane = (context: CanvasRenderingContext2D, { lane: of, top }: Placed, width: number, all_: Colors): void => {
    const scale = width / (to - from);
    const tall = ROW - 3;
    // What is narrower than a column is gathered: the column shows what held most of it, as strongly as it was held.
    let column = -1;
    let gathered = new Map<number, number>();
    const flush = (): void => {
      if (column < 0) return;
      let [most, region, sum] = [0, -1, 0];
      for (const [id, part] of gathered) {
        sum += part;
        if (part > most) [most, region] = [part, id];
      }
      context.globalAlpha = Math.min(1, Math.max(0.25, sum));
      fill(context, all_.sets.get(region) ?? [all_.muted], column, top, 1, tall);
      context.globalAlpha = 1;
      column = -1;
      gathered = new Map();
    };
    for (let at = firstAfter(of, from); at < of.start.length; at += 1) {
      const begins = of.start[at] as number;
      if (begins >= to) break;
      const left = (begins - from) * scale;
      const right = ((of.end[at] as number) - from) * scale;
      const region = of.region[at] as number;
      if (right - left < 1) {
        const pixel = Math.floor(left);
        if (pixel !== column) {
          flush();
          column = pixel;
        }
        gathered.set(region, (gathered.get(region) ?? 0) + (right - left));
        continue;
      }
      flush();
      const [x, edge] = [Math.max(-2, left), Math.min(width + 2, right)];
      fill(context, all_.sets.get(region) ?? [all_.muted], x, top, Math.max(1, edge - x - (edge - x > 3 ? 0.6 : 0)), tall);
      if (edge - x > 34) {
        const name = labelOf(region);
        const visible = Math.max(0, x);
        context.fillStyle = all_.text;
        context.save();
        context.beginPath();
        context.rect(visible, top, edge - visible - 3, tall);
        context.clip();
        context.fillText(name, visible + 4, top + tall / 2 + 0.5);
        context.restore();
      }
    }
    flush();
  };

  const names = new Map<number, string>();
  const labelOf = (id: number): string => {
    let name = names.get(id);
    if (name === undefined) {
      const region = model.regions.get(id);
      names.set(id, (name = region === undefined ? "?" : printable(setName(region.features))));
    }
    return name;
  };

  const timeAt = (clientX: number): number => {
    const bounds = canvas.getBoundingClientRect();
    return from + ((clientX - bounds.left) / Math.max(1, bounds.width)) * (to - from);
  };
  const sliceAt = (event: PointerEvent): { each: Placed; at: number; region: RegionRow | undefined } | null => {
    const y = event.clientY - canvas.getBoundingClientRect().top;
    const each = placed.find(({ top }) => y >= top && y < top + ROW);
    if (each === undefined) return null;
    const ns = timeAt(event.clientX);
    const at = firstAfter(each.lane, ns - (to - from) / Math.max(1, area.clientWidth));
    if (at >= each.lane.start.length || (each.lane.start[at] as number) > ns + (to - from) / Math.max(1, area.clientWidth)) return null;
    return { each, at, region: model.regions.get(each.lane.region[at] as number) };
  };
  const hover = (event: PointerEvent): void => {
    const hit = sliceAt(event);
    if (hit === null) {
      tip.hidden = true;
      return;
    }
    const { each, at, region } = hit;
    const begins = each.lane.start[at] as number;
    const lines = [
      region === undefined ? "?" : setName(region.features),
      region === undefined ? "" : `${region.function} ${placeOf(region)}`,
      `${duration((each.lane.end[at] as number) - begins)} from ${duration(begins - start)}`,
      `${each.thread.name} (${each.thread.tid})`,
    ].filter(Boolean);
    tip.replaceChildren(...lines.map((line, index) => h(index === 0 ? "b" : "span", {}, printable(line))));
    tip.hidden = false;
    const bounds = frame.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX - bounds.left + 14, bounds.width - tip.offsetWidth - 6))}px`;
    const below = event.clientY - bounds.top + 16;
    tip.style.top = `${below + tip.offsetHeight > bounds.height ? Math.max(0, below - tip.offsetHeight - 28) : below}px`;
  };
  let dragged: number | null = null;
  canvas.addEventListener("pointerdown", (event) => {
    dragged = event.clientX;
    canvas.setPointerCapture(event.pointerId);
    frame.focus({ preventScroll: true });
  });
  canvas.addEventListener("pointermove", (event) => {
    if (dragged !== null) {
      tip.hidden = true;
      pan((dragged - event.clientX) / Math.max(1, area.clientWidth));
      dragged = event.clientX;
    } else hover(event);
  });
  for (const name of ["pointerup", "pointercancel"] as const) {
    canvas.addEventListener(name, () => {
      dragged = null;
    });
  }
  canvas.addEventListener("pointerleave", () => {
    tip.hidden = true;
  });
  canvas.addEventListener("dblclick", (event) => zoom(0.25, timeAt(event.clientX)));
  canvas.addEventListener(
    "wheel",
    (event) => {
      // The page scrolls past the timeline unless someone is at work in it.
      const mine = event.ctrlKey || event.metaKey || frame.contains(document.activeElement);
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        pan((event.deltaX !== 0 ? event.deltaX : event.deltaY) / 1200);
      } else if (mine) {
        event.preventDefault();
        zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY)) / 300), timeAt(event.clientX));
      }
    },
    { passive: false },
  );
  frame.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions: Record<string, () => void> = {
      ArrowLeft: () => pan(event.shiftKey ? -0.5 : -0.1),
      ArrowRight: () => pan(event.shiftKey ? 0.5 : 0.1),
      "+": () => zoom(0.7),
      "=": () => zoom(0.7),
      "-": () => zoom(1 / 0.7),
      Home: () => show(start, end),
      "0": () => show(start, end),
    };
    const action = actions[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  });
  new ResizeObserver(request).observe(area);
  const repaint = (): void => {
    colors = null;
    request();
  };
  new MutationObserver(repaint).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  window.transectRegions = () => ({ from, to, frame: lastFrame });

  const button = (label: string, title: string, act: () => void): HTMLElement => {
    const element = h("button", { type: "button", class: "quiet", title }, label);
    element.addEventListener("click", act);
    return element;
  };
  const buttons = h("div", { class: "tl-buttons" }, button("+", "Zoom in (+)", () => zoom(0.5)), button("−", "Zoom out (−)", () => zoom(2)), button("All", "Show everything (Home)", () => show(start, end)));
  const shown = model.report.features.filter((row) => row.features.length === 1 && row.inclusive_ns > 0).slice(0, 10);
  const legend = h("p", { class: "legend" }, ...shown.map((row) => h("span", { class: "entry" }, palette.swatch(row.features), h("span", { dir: "ltr" }, printable(setName(row.features))))));
  return h("div", { class: "panel" }, h("div", { class: "tl-bar" }, legend, buttons), frame, note);
}

/** 1, 2 or 5 times a power of ten, not below `least`. */
function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return ([1, 2, 5, 10].find((step) => step * power >= least) ?? 10) * power;
}
