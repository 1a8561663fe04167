// The timeline: parallelism above, lanes below, one axis of time; zoomed and panned by wheel, drag and keys.

import { h, printable } from "../dom";
import { duration, exact, percent, plural } from "../format";
import type { Row, TimelineData } from "./data";
import { LanePainter, type Window } from "./lanes";
import { describe, type Segment, segmentAt, titleOf } from "./segment";
import { FAMILIES, type Palette, paletteOf } from "./palette";
import { PARALLELISM_HEIGHT, ParallelismPainter } from "./parallelism";

const GROUP_HEIGHT = 24;
const LANE_HEIGHT = 19;
/** Lines between two lanes. */
const GAP = 3;
const MOST_HEIGHT = 520;
/** Groups that are open at first, if all threads fit on about one screen. */
const OPEN_ROWS = 26;
const STRIP_HEIGHT = 10;

interface Placed {
  row: Row;
  top: number;
  height: number;
  label: HTMLElement;
}

export class TimelineView {
  readonly element: HTMLElement;
  /** First instant shown. */
  from: number;
  /** Last instant shown. */
  to: number;
  private placed: Placed[] = [];
  private readonly opened = new Set<Row>();
  private selected: Row | null = null;
  private chosen: Segment | null = null;
  private palette: Palette | null = null;
  private requested = false;
  private pixels = new Uint32Array(0);
  private image: ImageData | null = null;
  private readonly painter: LanePainter;
  private readonly above: ParallelismPainter;
  private readonly parallelism = h("canvas", { class: "tl-parallelism", "aria-hidden": "true" });
  private readonly strip = h("canvas", { class: "tl-strip", title: "The whole recording: the frame is what is shown, the dark parts hold every single slice. Click to go there." });
  private readonly lanes = h("canvas", { class: "tl-lanes", id: "timeline-canvas", "aria-hidden": "true" });
  private readonly labels = h("div", { class: "tl-labels" });
  private readonly area = h("div", { class: "tl-area" }, this.lanes);
  private readonly body = h("div", { class: "tl-body" }, this.labels, this.area);
  private readonly tip = h("div", { class: "tl-tip", hidden: true });
  private readonly panel = h("div", { class: "tl-panel", id: "timeline-panel", "aria-live": "polite" });
  private readonly note = h("output", { class: "tl-note", id: "timeline-note" });
  private readonly scale = h("div", { class: "tl-scale" });
  private readonly frame: HTMLElement;
  /** Time that the last frame took to draw, ms; for tests. */
  lastFrame = 0;

  /** `cut` asks for the cut of a span of time; `null` where the page has none. */
  constructor(private readonly data: TimelineData, cut: ((from: number, to: number) => void) | null) {
    this.painter = new LanePainter(data);
    this.above = new ParallelismPainter(data);
    this.from = data.start;
    this.to = data.end;
    let rows = data.groups.length;
    for (const group of data.groups) {
      if (group.members.length < 2 || rows + group.members.length > OPEN_ROWS) continue;
      rows += group.members.length;
      this.opened.add(group);
    }
    this.frame = h(
      "div",
      {
        class: "tl-frame",
        id: "timeline-frame",
        tabindex: 0,
        role: "application",
        "aria-roledescription": "timeline",
        "aria-label": "Threads over time. Left and right pan, plus and minus zoom, Home shows everything, up and down choose a lane, comma and period go from slice to slice, Enter opens or closes a group.",
        "aria-describedby": "timeline-note",
      },
      h("div", { class: "tl-top" }, this.scale, h("div", { class: "tl-axis" }, this.parallelism, this.strip)),
      this.body,
      this.tip,
    );
    const button = (label: string, title: string, act: () => void): HTMLElement => {
      const element = h("button", { type: "button", class: "quiet", title }, label);
      element.addEventListener("click", act);
      return element;
    };
    const center = (): number => (this.from + this.to) / 2;
    const buttons = h(
      "div",
      { class: "tl-buttons" },
      button("+", "Zoom in (+)", () => this.zoom(0.5, center())),
      button("−", "Zoom out (−)", () => this.zoom(2, center())),
      button("All", "Show everything (Home)", () => this.show(data.start, data.end)),
      button("Least parallel", "Go to the time in which most CPUs stood idle, one after the other", () => this.nextLow()),
      cut === null ? null : button("Cut this span", "Sum up what is in sight by any dimensions", () => cut(Math.round(this.from), Math.round(this.to))),
    );
    this.element = h("div", { class: "timeline" }, h("div", { class: "tl-bar" }, legend(data), buttons), this.frame, this.note, this.panel);
    this.arrange();
    this.listen();
  }

  /** Shows a span of time. */
  show(from: number, to: number): void {
    const { start, end } = this.data;
    const least = Math.min(end - start, 200);
    const width = Math.min(end - start, Math.max(least, to - from));
    this.from = Math.min(Math.max(start, from), end - width);
    this.to = this.from + width;
    this.request();
  }

  /** Zooms by a factor around an instant. */
  zoom(factor: number, around: number): void {
    const share = (around - this.from) / (this.to - this.from);
    const width = (this.to - this.from) * factor;
    const from = around - width * share;
    this.show(from, from + width);
  }

  private pan(share: number): void {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }

  private low: number[] | null = null;
  private lowAt = -1;

  /** The stretches of time with the least parallelism, worst first. */
  private nextLow(): void {
    const levels = this.data.parallelism;
    const level = levels[Math.max(0, levels.length - 3)] ?? levels[0];
    if (level === undefined) return;
    this.low ??= [...level.mean.keys()].sort((a, b) => (level.mean[a] as number) - (level.mean[b] as number)).slice(0, 20);
    this.lowAt = (this.lowAt + 1) % this.low.length;
    const width = (this.data.end - this.data.start) / level.bins;
    const from = this.data.start + (this.low[this.lowAt] as number) * width;
    this.show(from - width / 2, from + width * 1.5);
  }

  /** Places labels and lanes anew. */
  private arrange(): void {
    this.placed = [];
    let top = 0;
    const place = (row: Row, height: number, label: HTMLElement): void => {
      label.style.height = `${height}px`;
      label.classList.toggle("selected", row === this.selected);
      label.addEventListener("click", () => this.select(row));
      this.placed.push({ row, top, height, label });
      top += height;
    };
    for (const group of this.data.groups) {
      const many = group.members.length > 1;
      const open = this.opened.has(group);
      const name = h("span", { class: "tl-name", dir: "ltr" }, printable(group.group));
      const label = many
        ? h("button", { type: "button", class: "tl-label tl-group", "aria-expanded": String(open), tabindex: -1, title: `${printable(group.group)}: ${plural(group.members.length, "thread")}; click to ${open ? "close" : "open"}` }, h("span", { "aria-hidden": "true" }, open ? "▾" : "▸"), name, h("small", {}, String(group.members.length)))
        : h("div", { class: "tl-label tl-group", title: titleOf(group) }, h("span", { "aria-hidden": "true" }), name);
      if (many) label.addEventListener("click", () => this.toggle(group));
      place(group, GROUP_HEIGHT, label);
      if (!open) continue;
      for (const member of group.members) {
        const lane = member.lane;
        place(member, LANE_HEIGHT, h("div", { class: "tl-label", title: titleOf(member) }, h("span", { class: "tl-name", dir: "ltr" }, printable(lane?.name ?? "")), h("small", {}, String(lane?.tid ?? ""))));
      }
    }
    this.labels.replaceChildren(...this.placed.map((each) => each.label));
    this.area.style.height = `${top}px`;
    this.body.style.maxHeight = `${MOST_HEIGHT}px`;
    this.request();
  }

  private toggle(group: Row): void {
    if (!this.opened.delete(group)) this.opened.add(group);
    this.arrange();
  }

  private select(row: Row): void {
    this.selected = row;
    for (const each of this.placed) each.label.classList.toggle("selected", each.row === row);
    const place = this.placed.find((each) => each.row === row);
    if (place === undefined) return;
    if (place.top < this.body.scrollTop) this.body.scrollTop = place.top;
    const bottom = place.top + place.height - this.body.clientHeight;
    if (bottom > this.body.scrollTop) this.body.scrollTop = bottom;
    this.request();
  }

  private choose(moment: Segment): void {
    this.chosen = moment;
    this.panel.replaceChildren(...describe(this.data, moment));
    this.select(moment.row);
  }

  /** The slice or wait after or before the chosen one. */
  private step(by: 1 | -1): void {
    const row = this.selected ?? this.placed[0]?.row;
    if (row === undefined) return;
    const pixel = (this.to - this.from) / Math.max(1, this.lanes.width);
    const before = this.chosen?.row === row && this.chosen.to > this.from && this.chosen.from < this.to ? this.chosen : null;
    const time = before === null ? (this.from + this.to) / 2 : by > 0 ? before.to : before.from - 1;
    const moment = segmentAt(this.data, row, Math.min(this.data.end - 1, Math.max(this.data.start, time)), pixel);
    if (moment.from < this.from || moment.to > this.to) this.show((moment.from + moment.to - this.to + this.from) / 2, (moment.from + moment.to + this.to - this.from) / 2);
    this.choose(moment);
  }

  private listen(): void {
    const { area, frame } = this;
    const timeAt = (clientX: number): number => {
      const bounds = this.lanes.getBoundingClientRect();
      return this.from + ((clientX - bounds.left) / Math.max(1, bounds.width)) * (this.to - this.from);
    };
    const rowAt = (clientY: number): Row | undefined => {
      const y = clientY - area.getBoundingClientRect().top;
      return this.placed.find((each) => y >= each.top && y < each.top + each.height)?.row;
    };
    const pixel = (): number => (this.to - this.from) / Math.max(1, this.lanes.width);
    const wheel = (event: WheelEvent): void => {
      // The page scrolls past the timeline unless someone is at work in it.
      const mine = event.ctrlKey || event.metaKey || frame.contains(document.activeElement);
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        this.pan((event.deltaX !== 0 ? event.deltaX : event.deltaY) / 1200);
      } else if (mine) {
        event.preventDefault();
        this.zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY)) / 300), timeAt(event.clientX));
      }
    };
    const targets: HTMLElement[] = [area, this.parallelism];
    for (const target of targets) target.addEventListener("wheel", wheel, { passive: false });

    // One pointer pans, two zoom.
    const pointers = new Map<number, number>();
    let moved = 0;
    const down = (event: PointerEvent): void => {
      if (event.button !== 0) return;
      pointers.set(event.pointerId, event.clientX);
      moved = 0;
      (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
      frame.focus({ preventScroll: true });
    };
    const move = (event: PointerEvent): void => {
      const last = pointers.get(event.pointerId);
      if (last === undefined) return hover(event);
      const bounds = this.lanes.getBoundingClientRect();
      if (pointers.size === 2) {
        const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, x]) => x);
        const [was, is] = [Math.abs(last - (other ?? 0)), Math.abs(event.clientX - (other ?? 0))];
        if (is > 4 && was > 4) this.zoom(was / is, timeAt(other ?? 0));
      } else {
        this.pan((last - event.clientX) / Math.max(1, bounds.width));
      }
      moved += Math.abs(event.clientX - last);
      pointers.set(event.pointerId, event.clientX);
      this.tip.hidden = true;
    };
    const up = (event: PointerEvent): void => {
      const click = pointers.delete(event.pointerId) && moved < 4;
      const row = rowAt(event.clientY);
      if (click && row !== undefined && event.currentTarget === area) this.choose(segmentAt(this.data, row, timeAt(event.clientX), pixel()));
    };
    const hover = (event: PointerEvent): void => {
      const row = event.currentTarget === area ? rowAt(event.clientY) : undefined;
      if (row === undefined) {
        this.tip.hidden = true;
        return;
      }
      const moment = segmentAt(this.data, row, timeAt(event.clientX), pixel());
      this.tip.replaceChildren(...moment.lines.map((line, index) => h(index === 0 ? "b" : "span", {}, line)));
      this.tip.hidden = false;
      const bounds = frame.getBoundingClientRect();
      const left = event.clientX - bounds.left;
      this.tip.style.left = `${Math.max(4, Math.min(left + 14, bounds.width - this.tip.offsetWidth - 6))}px`;
      const below = event.clientY - bounds.top + 16;
      this.tip.style.top = `${below + this.tip.offsetHeight > bounds.height ? Math.max(0, below - this.tip.offsetHeight - 28) : below}px`;
    };
    for (const target of targets) {
      target.addEventListener("pointerdown", down);
      target.addEventListener("pointermove", move);
      target.addEventListener("pointerup", up);
      target.addEventListener("pointercancel", up);
      target.addEventListener("pointerleave", () => {
        this.tip.hidden = true;
      });
      target.addEventListener("dblclick", (event) => this.zoom(0.25, timeAt(event.clientX)));
    }
    const jump = (event: PointerEvent): void => {
      if ((event.buttons & 1) === 0) return;
      const bounds = this.strip.getBoundingClientRect();
      const at = this.data.start + ((event.clientX - bounds.left) / bounds.width) * (this.data.end - this.data.start);
      const half = (this.to - this.from) / 2;
      this.show(at - half, at + half);
    };
    this.strip.addEventListener("pointerdown", (event) => {
      this.strip.setPointerCapture(event.pointerId);
      jump(event);
    });
    this.strip.addEventListener("pointermove", jump);
    frame.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("scroll", () => this.request(), { passive: true });
    new ResizeObserver(() => this.request()).observe(frame);
    const repaint = (): void => {
      this.palette = null;
      this.request();
    };
    new MutationObserver(repaint).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const center = this.chosen !== null && this.chosen.to > this.from && this.chosen.from < this.to ? (Math.max(this.from, this.chosen.from) + Math.min(this.to, this.chosen.to)) / 2 : (this.from + this.to) / 2;
    const at = this.placed.findIndex((each) => each.row === this.selected);
    const row = (index: number): void => {
      const next = this.placed[Math.max(0, Math.min(this.placed.length - 1, index))]?.row;
      if (next !== undefined) this.select(next);
    };
    const actions: Record<string, () => void> = {
      ArrowLeft: () => this.pan(event.shiftKey ? -0.5 : -0.1),
      ArrowRight: () => this.pan(event.shiftKey ? 0.5 : 0.1),
      ArrowUp: () => row(at < 0 ? 0 : at - 1),
      ArrowDown: () => row(at + 1),
      "+": () => this.zoom(0.7, center),
      "=": () => this.zoom(0.7, center),
      "-": () => this.zoom(1 / 0.7, center),
      Home: () => this.show(this.data.start, this.data.end),
      "0": () => this.show(this.data.start, this.data.end),
      ",": () => this.step(-1),
      ".": () => this.step(1),
      Enter: () => {
        const group = this.data.groups.find((each) => each === this.selected && each.members.length > 1);
        if (group !== undefined) this.toggle(group);
        else this.step(1);
      },
      Escape: () => {
        this.tip.hidden = true;
      },
    };
    const action = actions[event.key];
    // A focused label button handles its own Enter.
    if (action === undefined || (event.key === "Enter" && event.target instanceof HTMLButtonElement)) return;
    event.preventDefault();
    action();
  }

  private request(): void {
    if (this.requested) return;
    this.requested = true;
    requestAnimationFrame(() => {
      this.requested = false;
      this.draw();
    });
  }

  /** Draws what is in sight. */
  draw(): void {
    const began = performance.now();
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const columns = this.area.clientWidth;
    const sight = Math.min(this.body.clientHeight, this.area.clientHeight);
    if (columns === 0 || sight === 0) return;
    this.palette ??= paletteOf(this.element, this.data.kinds);
    const { palette } = this;
    const width = Math.round(columns * ratio);
    const height = Math.round(sight * ratio);
    if (this.lanes.width !== width || this.lanes.height !== height || this.image === null) {
      this.lanes.width = width;
      this.lanes.height = height;
      this.lanes.style.height = `${sight}px`;
      this.image = new ImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    const view: Window = { from: this.from, to: this.to, width };
    const mask = this.painter.exactPixels(view);
    this.pixels.fill(0);
    const scroll = this.body.scrollTop;
    const context = this.lanes.getContext("2d", { alpha: true });
    if (context === null) return;
    for (const { row, top, height: tall } of this.placed) {
      const first = Math.round((top - scroll + GAP / 2) * ratio);
      const lines = Math.round((tall - GAP) * ratio);
      if (first + lines <= 0 || first >= height) continue;
      // Lanes that are cut by the edge are drawn whole, into a buffer of their own height.
      if (first < 0 || first + lines > height) this.paintCut(row, view, mask, first, lines, height);
      else this.painter.paint(row, view, mask, this.pixels, first, lines, palette);
    }
    context.putImageData(this.image, 0, 0);
    this.overlay(context, ratio, width, height, scroll, palette);
    this.drawAbove(view, mask, ratio, palette);
    this.lastFrame = performance.now() - began;
    this.tell(mask);
  }

  private cut = new Uint32Array(0);

  private paintCut(row: Row, view: Window, mask: Uint8Array, first: number, lines: number, height: number): void {
    const { width } = view;
    if (this.cut.length < width * lines) this.cut = new Uint32Array(width * lines);
    this.cut.fill(0);
    this.painter.paint(row, view, mask, this.cut, 0, lines, this.palette as Palette);
    for (let line = 0; line < lines; line += 1) {
      const y = first + line;
      if (y >= 0 && y < height) this.pixels.set(this.cut.subarray(line * width, (line + 1) * width), y * width);
    }
  }

  /** The chosen stretch and the chosen lane. */
  private overlay(context: CanvasRenderingContext2D, ratio: number, width: number, height: number, scroll: number, palette: Palette): void {
    const place = this.placed.find((each) => each.row === this.selected);
    if (place === undefined) return;
    const top = (place.top - scroll) * ratio;
    context.strokeStyle = palette.accent;
    context.lineWidth = ratio;
    context.globalAlpha = 0.5;
    context.strokeRect(0.5, Math.round(top) + 0.5, width - 1, Math.round(place.height * ratio) - 1);
    context.globalAlpha = 1;
    const { chosen } = this;
    if (chosen === null || chosen.row !== this.selected || chosen.to < this.from || chosen.from > this.to) return;
    const x = (ns: number): number => ((ns - this.from) / (this.to - this.from)) * width;
    const left = Math.max(-2, x(chosen.from));
    const right = Math.min(width + 2, Math.max(left + 3 * ratio, x(chosen.to)));
    context.lineWidth = 2 * ratio;
    context.strokeStyle = palette.text;
    context.strokeRect(left, top + ratio, right - left, (place.height - 2) * ratio);
    void height;
  }

  private drawAbove(view: Window, mask: Uint8Array, ratio: number, palette: Palette): void {
    const size = (canvas: HTMLCanvasElement, height: number): CanvasRenderingContext2D | null => {
      const lines = Math.round(height * ratio);
      if (canvas.width !== view.width || canvas.height !== lines) {
        canvas.width = view.width;
        canvas.height = lines;
        canvas.style.height = `${height}px`;
        canvas.style.width = `${view.width / ratio}px`;
      }
      return canvas.getContext("2d");
    };
    const above = size(this.parallelism, PARALLELISM_HEIGHT);
    if (above !== null) this.above.paint(above, view, mask, ratio, palette, `${11 * ratio}px ${getComputedStyle(document.body).fontFamily}`);
    const strip = size(this.strip, STRIP_HEIGHT);
    if (strip === null) return;
    const { start, end } = this.data;
    const x = (ns: number): number => ((ns - start) / (end - start)) * view.width;
    strip.clearRect(0, 0, view.width, STRIP_HEIGHT * ratio);
    strip.fillStyle = palette.line;
    strip.fillRect(0, 3 * ratio, view.width, 4 * ratio);
    strip.fillStyle = palette.muted;
    for (const [from, to] of this.data.exact) strip.fillRect(x(from), 3 * ratio, Math.max(1, x(to) - x(from)), 4 * ratio);
    strip.strokeStyle = palette.accent;
    strip.lineWidth = 2 * ratio;
    const left = Math.min(view.width - 6 * ratio, x(this.from));
    strip.strokeRect(left + ratio, ratio, Math.max(4 * ratio, x(this.to) - x(this.from) - 2 * ratio), (STRIP_HEIGHT - 2) * ratio);
  }

  /** Says what is shown, and how finely. */
  private tell(mask: Uint8Array): void {
    const { data } = this;
    const pixel = (this.to - this.from) / mask.length;
    let known = 0;
    for (const each of mask) known += each;
    const shown = `${duration(this.from - data.start)} – ${duration(this.to - data.start)}`;
    const bins = pixel < data.bin;
    const binWidth = bins ? data.bin : data.bin * 2 ** Math.floor(Math.log2(pixel / data.bin));
    const how = !bins
      ? `each column adds up ${duration(Math.max(pixel, binWidth))}`
      : known === mask.length
        ? "every slice is shown"
        : known > 0
          ? `every slice is shown in ${percent(known / mask.length)} of the width, the rest is added up in bins of ${duration(data.bin)}`
          : `added up in bins of ${duration(data.bin)}: the page does not hold single slices here (dark parts of the strip do)`;
    const text = `${shown}: ${how}.`;
    if (this.note.textContent !== text) this.note.textContent = text;
    this.scale.replaceChildren(h("b", {}, "Active threads"), h("small", {}, `dashed line: ${plural(data.cpus, "CPU")}`));
  }
}

function legend(data: TimelineData): HTMLElement {
  const entry = (swatch: string, text: string): HTMLElement => h("span", { class: "entry" }, h("span", { class: `swatch ${swatch}`, "aria-hidden": "true" }), text);
  const used = new Set<number>();
  for (const group of data.groups) for (const kind of group.levels[0]?.kind ?? []) used.add(kind);
  const families = FAMILIES.filter((family) => [...used].some((kind) => family.kinds.includes(kind === 0 ? "-" : (data.kinds[kind - 1] ?? ""))));
  const { packed } = data;
  const facts = [`${exact(packed.slices)} slices`];
  if (packed.exact_slices < packed.slices) facts.push(`${exact(packed.exact_slices)} of them kept one by one, where most CPUs stood idle`);
  if (packed.threads_left_out > 0) facts.push(`${exact(packed.threads_left_out)} least critical threads left out`);
  return h(
    "p",
    { class: "legend" },
    entry("running", "running"),
    entry("runnable", "runnable, no CPU"),
    ...families.map((family) => {
      const element = entry("blocked", family.name);
      (element.firstElementChild as HTMLElement).style.setProperty("--kind", `var(${family.color})`);
      return element;
    }),
    h("span", { class: "tl-facts" }, `${facts.join(", ")}.`),
  );
}
