// The run as a strip: threads on a CPU, runnable and blocked over time, on which a range is selected.

import { h, printable, s } from "../dom";
import { duration, exactNs, plural } from "../format";
import { parseDuration } from "./dimension";
import type { CutData } from "./data";
import type { CutResult } from "./sum";

/** Bins of time. */
export const BINS = 240;
const HEIGHT = 72;
const STATES = ["running", "runnable", "blocked"] as const;
const LABELS = { running: "on CPU", runnable: "runnable", blocked: "blocked" };

export interface Range {
  from: number | null;
  to: number | null;
}

export interface StripSpan {
  start: number;
  end: number;
  /** Width of a bin, ns. */
  step: number;
}

/** The time that a profile's parts cover, in bins. */
export function spanOf(data: CutData): StripSpan {
  const parts = data.lists.get("time");
  let [start, end] = [0, 1];
  for (let row = 0; row < (parts?.count ?? 0); row += 1) {
    start = Math.min(start, parts?.begin[row] ?? 0);
    end = Math.max(end, parts?.end[row] ?? 0);
  }
  return { start, end, step: Math.max(1, Math.ceil((end - start) / BINS)) };
}

/** A time of the run, as short as the width of a bin allows. */
export function instant(ns: number, step: number): string {
  const [scale, unit] = ns === 0 || Math.abs(ns) >= 1e9 ? [1e9, "s"] : Math.abs(ns) >= 1e6 ? [1e6, "ms"] : Math.abs(ns) >= 1e3 ? [1e3, "us"] : [1, "ns"];
  const digits = Math.min(9, Math.max(0, Math.ceil(Math.log10(scale / step))));
  return `${Number((ns / scale).toFixed(digits))}${unit}`;
}

export class CutStrip {
  readonly element: HTMLElement;
  private readonly frame = h("div", { class: "cut-strip-frame", id: "cut-strip" });
  private readonly shades = [h("div", { class: "cut-shade" }), h("div", { class: "cut-shade" })] as const;
  private readonly handles: [HTMLElement, HTMLElement];
  private readonly fields: [HTMLInputElement, HTMLInputElement];
  private readonly message = h("span", { class: "cut-message", role: "alert" });
  private readonly said = h("span", { class: "cut-selected", role: "status" });
  private readonly all = h("button", { type: "button", class: "quiet" }, "Whole run");
  private readonly most = h("span", { class: "cut-most" });
  private picture: SVGSVGElement | null = null;
  private filtered = false;
  private result: CutResult | null = null;
  private states: Record<string, number> = {};
  private range: Range = { from: null, to: null };

  /** `select` gets a new range; `soon`: another may follow at once. */
  constructor(private readonly span: StripSpan, private readonly select: (range: Range, soon: boolean) => void) {
    const handle = (which: 0 | 1): HTMLElement => {
      const element = h("div", { class: "cut-handle", role: "slider", tabindex: 0, "aria-label": which === 0 ? "Range from" : "Range to", "aria-valuemin": 0, "aria-valuemax": BINS, "aria-orientation": "horizontal", title: "Drag, or arrow keys; with Shift ten bins, Home and End the ends of the run" });
      element.addEventListener("keydown", (event) => this.key(event, which));
      return element;
    };
    this.handles = [handle(0), handle(1)];
    const field = (which: 0 | 1): HTMLInputElement => {
      const input = h("input", { type: "text", id: which === 0 ? "cut-from" : "cut-to", size: 8, spellcheck: "false", placeholder: which === 0 ? "start" : "end" });
      input.addEventListener("change", () => this.typed(which, input.value.trim()));
      return input;
    };
    this.fields = [field(0), field(1)];
    this.all.addEventListener("click", () => select({ from: null, to: null }, false));
    this.frame.addEventListener("pointerdown", (event) => this.drag(event));
    const entry = (state: (typeof STATES)[number]): HTMLElement => h("span", { class: "entry" }, swatch(state), LABELS[state]);
    this.element = h(
      "div",
      { class: "cut-strip" },
      h("div", { class: "cut-strip-bar" }, h("p", { class: "legend" }, "Threads", ...STATES.map(entry)), this.most),
      this.frame,
      h("div", { class: "cut-axis" }, h("span", {}, span.start === 0 ? "0 s" : duration(span.start)), h("span", {}, "time since the start of the recording"), h("span", {}, duration(span.end))),
      h("div", { class: "cut-range" }, h("label", {}, "From ", this.fields[0]), h("label", {}, "to ", this.fields[1]), this.all, this.said, this.message),
    );
    new ResizeObserver(() => this.draw()).observe(this.frame);
  }

  /** Sums by time and state; `filtered`: of a part of all. */
  setData(data: CutData, result: CutResult, filtered: boolean): void {
    this.filtered = filtered;
    this.states = Object.fromEntries(STATES.map((_, at) => [data.facts.state[at]?.[0] ?? 0, at]));
    this.result = result;
    this.draw();
  }

  setRange(range: Range): void {
    this.range = range;
    const { start, end, step } = this.span;
    const share = (ns: number): number => Math.min(1, Math.max(0, (ns - start) / (end - start)));
    const [from, to] = [share(range.from ?? start), share(range.to ?? end)];
    this.shades[0].style.width = `${from * 100}%`;
    this.shades[1].style.left = `${to * 100}%`;
    this.shades[1].style.width = `${(1 - to) * 100}%`;
    for (const [at, handle] of this.handles.entries()) {
      const ns = at === 0 ? (range.from ?? start) : (range.to ?? end);
      handle.style.left = `${(at === 0 ? from : to) * 100}%`;
      handle.setAttribute("aria-valuenow", String(this.bin(ns)));
      handle.setAttribute("aria-valuetext", instant(ns, step));
    }
    this.fields[0].value = range.from === null ? "" : instant(range.from, Math.min(step, 1e6));
    this.fields[1].value = range.to === null ? "" : instant(range.to, Math.min(step, 1e6));
    const selected = range.from !== null || range.to !== null;
    this.all.hidden = !selected;
    const length = (range.to ?? end) - (range.from ?? start);
    this.said.textContent = selected ? `${duration(length)} selected` : `whole run, ${duration(length)}; drag over the strip to select a part`;
    this.said.title = exactNs(length);
    this.message.textContent = "";
  }

  private bin(ns: number): number {
    return Math.min(BINS, Math.max(0, Math.round((ns - this.span.start) / this.span.step)));
  }

  /** Where a bin begins; its ends are those of the run, without a bound. */
  private edge(bin: number): number | null {
    const ns = this.span.start + bin * this.span.step;
    return bin <= 0 || ns >= this.span.end ? null : ns;
  }

  private between(one: number, other: number): Range {
    const [low, high] = [Math.min(one, other), Math.max(one, other)];
    return { from: this.edge(low), to: this.edge(Math.max(high, low + 1)) };
  }

  private key(event: KeyboardEvent, which: 0 | 1): void {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
    const [from, to] = [this.bin(this.range.from ?? this.span.start), this.bin(this.range.to ?? this.span.end)];
    const now = which === 0 ? from : to;
    const ends = { Home: which === 0 ? 0 : from + 1, End: which === 0 ? to - 1 : BINS }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || (by === undefined && ends === undefined)) return;
    event.preventDefault();
    const bin = ends ?? now + (by ?? 0) * (event.shiftKey ? 10 : 1);
    const range = which === 0 ? { from: this.edge(Math.min(bin, to - 1)), to: this.range.to } : { from: this.range.from, to: this.edge(Math.max(bin, from + 1)) };
    this.setRange(range);
    this.select(range, true);
  }

  private typed(which: 0 | 1, text: string): void {
    const ns = text === "" ? null : parseDuration(text);
    if (text !== "" && ns === null) {
      this.message.textContent = `“${printable(text)}” is no time: 2s, 1.5s, 250ms, 10us`;
      return;
    }
    const range = which === 0 ? { from: ns, to: this.range.to } : { from: this.range.from, to: ns };
    if (range.from !== null && range.to !== null && range.from >= range.to) {
      this.message.textContent = "the range would be empty";
      return;
    }
    this.select(range, false);
  }

  private drag(event: PointerEvent): void {
    if (event.button !== 0) return;
    const handle = this.handles.findIndex((each) => each === event.target);
    const at = (x: number): number => {
      const box = this.frame.getBoundingClientRect();
      return Math.min(BINS, Math.max(0, ((x - box.left) / box.width) * ((this.span.end - this.span.start) / this.span.step)));
    };
    // A handle moves its end, anything else begins a new range.
    const other = handle === 0 ? this.bin(this.range.to ?? this.span.end) : this.bin(this.range.from ?? this.span.start);
    const began = at(event.clientX);
    const before = this.range;
    let moved = false;
    const ranged = (x: number): Range => (handle >= 0 ? this.between(other, Math.round(at(x))) : this.between(Math.floor(Math.min(began, at(x))), Math.ceil(Math.max(began, at(x)))));
    const move = (now: PointerEvent): void => {
      moved ||= Math.abs(now.clientX - event.clientX) > 3;
      if (moved) this.setRange(ranged(now.clientX));
    };
    const end = (now: PointerEvent): void => {
      this.frame.removeEventListener("pointermove", move);
      this.frame.removeEventListener("pointerup", end);
      this.frame.removeEventListener("pointercancel", cancel);
      if (moved) this.select(ranged(now.clientX), false);
    };
    const cancel = (now: PointerEvent): void => {
      moved = false;
      end(now);
      this.setRange(before);
    };
    if (handle < 0) event.preventDefault();
    this.frame.setPointerCapture(event.pointerId);
    this.frame.addEventListener("pointermove", move);
    this.frame.addEventListener("pointerup", end);
    this.frame.addEventListener("pointercancel", cancel);
  }

  private draw(): void {
    const width = this.frame.clientWidth;
    if (this.result === null || width === 0) return;
    const { start, end, step } = this.span;
    const first = Math.floor(start / step);
    const bins = Math.floor((end - 1) / step) - first + 1;
    const planes = STATES.map(() => new Float64Array(bins));
    for (const { keys, value } of this.result.rows) {
      const plane = planes[this.states[keys[1] as number] ?? 2];
      const bin = (keys[0] as number) - first;
      if (plane !== undefined && bin >= 0 && bin < bins) plane[bin] = value / step;
    }
    const sums = Float64Array.from({ length: bins }, (_, bin) => planes.reduce((sum, plane) => sum + (plane[bin] as number), 0));
    const most = sums.reduce((most, sum) => Math.max(most, sum), 0);
    this.most.textContent = most === 0 ? "nothing" : `up to ${plural(Math.max(1, Math.round(most)), "thread")}${this.filtered ? ", what meets the filters" : ""}`;
    const x = (bin: number): number => Math.max(0, Math.min(width, (((first + bin) * step - start) / (end - start)) * width));
    const below = new Float64Array(bins);
    const paths = planes.map((plane, state) => {
      const y = (sum: number): string => (HEIGHT - (most === 0 ? 0 : sum / most) * (HEIGHT - 2)).toFixed(1);
      let [upper, lower] = ["", ""];
      for (let bin = 0; bin < bins; bin += 1) {
        const [left, right] = [x(bin).toFixed(1), x(bin + 1).toFixed(1)];
        lower = ` ${right} ${y(below[bin] as number)} ${left} ${y(below[bin] as number)}${lower}`;
        below[bin] = (below[bin] as number) + (plane[bin] as number);
        upper += ` ${left} ${y(below[bin] as number)} ${right} ${y(below[bin] as number)}`;
      }
      return s("path", { class: `cut-${STATES[state]}`, d: `M${upper} L${lower} Z` });
    });
    const label = `Threads over time: ${STATES.map((state, at) => `${LABELS[state]} ${duration((planes[at] as Float64Array).reduce((sum, value) => sum + value * step, 0))}`).join(", ")}`;
    this.picture = s("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label }, patterns("cut"), ...paths);
    this.frame.replaceChildren(this.picture, ...this.shades, ...this.handles);
    this.setRange(this.range);
  }
}

/** Hatching, so that states differ by more than their colour. */
function patterns(id: string): SVGDefsElement {
  return s(
    "defs",
    {},
    s("pattern", { id: `${id}-hatch`, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { class: "cut-hatch-ground", width: 5, height: 5 }), s("rect", { class: "cut-hatch-line", width: 2, height: 5 })),
    s("pattern", { id: `${id}-dots`, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, s("rect", { class: "cut-dot-ground", width: 6, height: 6 }), s("circle", { class: "cut-dot", cx: 3, cy: 3, r: 1 })),
  );
}

function swatch(state: string): SVGSVGElement {
  return s("svg", { class: "cut-swatch", width: 16, height: 12, "aria-hidden": "true" }, patterns(`cut-${state}`), s("rect", { class: `cut-${state}`, width: 16, height: 12 }));
}
