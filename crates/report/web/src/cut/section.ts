// The section of the cut: one sum by any dimensions, with filters, over any range of time.

import { h, printable } from "../dom";
import { count, duration, exact, exactNs, percent } from "../format";
import type { Model } from "../model";
import { section } from "../section";
import { canInflate } from "../timeline/packed";
import { CutControls } from "./controls";
import { type CutData, unpackCut } from "./data";
import { type Dimension, dimensionOf, type Measure, measureOf } from "./dimension";
import { type Expression, FilterError, parseFilter, termText } from "./filter";
import { CutFlame } from "./flame";
import { commandLineOf, cutHref, type CutPlace, cutPlaceOf, FIRST, wholeFilter } from "./place";
import { CutRows } from "./rows";
import { summed } from "./run";
import { CutStrip, spanOf } from "./strip";
import { CutError, type CutQuery } from "./sum";

/** How long a range that keys move has to rest before it is summed up and gets an address, ms. */
const REST = 200;

/** `null` for a report without samples and waits. */
export function cutSection(model: Model): HTMLElement | null {
  const packed = model.report.cut;
  if (packed === null) return null;
  const place = h("div", { class: "panel cut", id: "cut-place" }, h("p", { class: "empty" }, "Unpacking …"));
  const element = section(
    "cut",
    "Cut",
    "One sum by any dimensions: choose what is summed up (Measure), by what (By), and of which part of the run (Where, and a range of time). Click a name to see only it, ≠ to leave it out.",
    place,
  );
  const fail = (why: string): void => {
    place.replaceChildren(h("p", { class: "empty" }, `The cut is not in this page: ${printable(why)}. `, h("code", {}, "transect report DIR --by thread-group,state,function"), " prints it."));
  };
  if (packed.left_out !== "") {
    fail(packed.left_out);
  } else if (!canInflate()) {
    fail("this browser cannot inflate data (DecompressionStream is missing)");
  } else {
    unpackCut(packed).then(
      (data) => {
        const view = new CutSection(data);
        place.replaceChildren(...view.parts);
        view.follow(true);
        addEventListener("hashchange", () => view.follow(false));
      },
      (error: unknown) => fail(String(error)),
    );
  }
  return element;
}

class CutSection {
  readonly parts: HTMLElement[];
  private readonly controls: CutControls;
  private readonly strip: CutStrip;
  private readonly rows: CutRows;
  private readonly flame: CutFlame;
  private readonly summary = h("p", { class: "cut-summary", role: "status", id: "cut-summary" });
  private readonly command = h("code", { class: "cut-command", dir: "ltr", id: "cut-command" });
  private readonly span;
  private place: CutPlace = FIRST;
  private stripped = "";
  private turn = 0;
  private rest = 0;

  constructor(private readonly data: CutData) {
    this.span = spanOf(data);
    this.controls = new CutControls(data.lists.has("time+"), this.span, (changed) => this.go(changed));
    this.strip = new CutStrip(this.span, (range, soon) => this.go(range, soon));
    this.rows = new CutRows({
      filter: (dimension, name, negated) => this.narrow(termText(dimension.word, name, negated)),
      range: (from, to) => this.go({ from, to }),
    });
    this.flame = new CutFlame({ filter: (name, negated) => this.narrow(termText("stack", name, negated)) });
    this.parts = [
      this.strip.element,
      this.controls.element,
      this.summary,
      this.rows.element,
      this.flame.element,
      h("p", { class: "cut-note" }, "The same on the command line: ", this.command, " Calls and bytes are cut there, too (", h("code", {}, "--measure calls"), ")."),
    ];
  }

  /** Shows what the address says; of an address of something else, nothing changes. */
  follow(first: boolean): void {
    const asked = cutPlaceOf(location.hash) ?? (first || location.hash === "" ? FIRST : null);
    if (asked === null || (!first && cutHref(asked) === cutHref(this.place))) return;
    this.show(asked);
    const scrolls = new URLSearchParams(location.search).get("scroll") !== "no";
    const section = document.getElementById("cut");
    if (section === null || !scrolls || cutPlaceOf(location.hash) === null) return;
    const { top, bottom } = section.getBoundingClientRect();
    if (first || bottom < 0 || top > innerHeight) section.scrollIntoView();
  }

  private narrow(filter: string): void {
    if (!this.place.where.includes(filter)) this.go({ where: [...this.place.where, filter] });
  }

  /** Asks something else, at an address of its own. */
  private go(changed: Partial<CutPlace>, soon = false): void {
    const place = { ...this.place, ...changed };
    clearTimeout(this.rest);
    if (!soon) {
      this.show(place);
      location.hash = cutHref(place);
      return;
    }
    this.place = place;
    this.rest = setTimeout(() => {
      this.show(place);
      history.replaceState(null, "", cutHref(place));
    }, REST);
  }

  private show(place: CutPlace): void {
    this.place = place;
    this.turn += 1;
    this.controls.show(place);
    this.strip.setRange(place);
    this.command.textContent = printable(commandLineOf(place));
    void this.sum(place, this.turn);
  }

  private async sum(place: CutPlace, turn: number): Promise<void> {
    const { data } = this;
    const wanted = (): boolean => turn === this.turn;
    try {
      const by = place.by.flatMap((word) => dimensionOf(word) ?? []);
      const measure = measureOf(place.measure) as Measure;
      const text = wholeFilter(place);
      const filter = text === null ? null : parseFilter(text);
      const query: CutQuery = { by, measure, filter, from: place.from, to: place.to };
      const result = await summed(data, query, wanted);
      if (result === null) return;
      const amount = measure.unit === "ns" ? duration : count;
      this.rows.show({ data, by, measure, result, amount });
      this.say(place, measure, result.total, result.whole, result.rows.length);
      await this.fill(text, filter, wanted);
      const stacks = await summed(data, { ...query, by: [dimensionOf("stack") as Dimension] }, wanted);
      if (stacks !== null) this.flame.show(data, stacks, amount);
    } catch (error) {
      if (!(error instanceof CutError || error instanceof FilterError)) throw error;
      if (!wanted()) return;
      this.controls.fail(error.message);
      this.rows.clear();
      this.summary.replaceChildren();
      this.flame.element.hidden = true;
    }
  }

  /** The strip shows the whole run, of what meets the filter. */
  private async fill(text: string | null, filter: Expression | null, wanted: () => boolean): Promise<void> {
    const drawn = text ?? "everything";
    if (drawn === this.stripped) return;
    const time = { ...(dimensionOf("time/1ns") as Dimension), step: this.span.step };
    const query: CutQuery = { by: [time, dimensionOf("state") as Dimension], measure: measureOf("time") as Measure, filter, from: null, to: null };
    const result = await summed(this.data, query, wanted);
    if (result === null) return;
    this.stripped = drawn;
    this.strip.setData(this.data, result, filter !== null);
  }

  private say(place: CutPlace, measure: Measure, total: number, whole: number, rows: number): void {
    const amount = measure.unit === "ns" ? duration : count;
    const part = total === whole ? "" : `, ${percent(total / Math.max(1, whole))} of all ${amount(whole)}`;
    this.summary.replaceChildren(h("b", {}, amount(total)), ` ${measure.noun}${part}${place.by.length === 0 ? "" : ` · ${exact(rows)} row${rows === 1 ? "" : "s"}`}`);
    this.summary.title = measure.unit === "ns" ? exactNs(total) : exact(total);
  }
}
