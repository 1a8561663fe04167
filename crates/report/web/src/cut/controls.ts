// What is asked: measure, dimensions in their order, filters.

import { h, printable } from "../dom";
import { DIMENSIONS, dimensionOf, durationWord, MEASURES } from "./dimension";
import { FilterError, parseFilter } from "./filter";
import { type CutPlace, filterLabel } from "./place";

/** Steps of time that can be chosen, ns. */
const STEPS = [1, 2, 5].flatMap((digit) => [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11].map((scale) => digit * scale)).sort((a, b) => a - b);

export class CutControls {
  readonly element: HTMLElement;
  private readonly measures = h("select", { id: "cut-measure" });
  private readonly dimensions = h("span", { class: "chips", role: "list", "aria-label": "Dimensions, outermost first", id: "cut-by" });
  private readonly add = h("select", { id: "cut-add", "aria-label": "Add a dimension" });
  private readonly filters = h("span", { class: "chips", role: "list", "aria-label": "Filters", id: "cut-where" });
  private readonly input = h("input", { type: "text", id: "cut-filter", placeholder: "stack = main and wait != none", "aria-label": "Add a filter", spellcheck: "false" });
  private readonly message = h("p", { class: "cut-message", role: "alert" });
  private place: CutPlace | null = null;

  constructor(private readonly withFeatures: boolean, private readonly span: { start: number; end: number }, private readonly change: (changed: Partial<CutPlace>) => void) {
    for (const { word, help } of MEASURES) this.measures.append(h("option", { value: word, title: help }, word));
    this.measures.addEventListener("change", () => change({ measure: this.measures.value }));
    this.add.addEventListener("change", () => {
      if (this.place !== null && this.add.value !== "") change({ by: [...this.place.by, this.add.value] });
      this.add.focus();
    });
    const form = h("form", { class: "cut-form" }, this.input, h("button", { type: "submit", class: "quiet" }, "Add filter"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.read(this.input.value.trim());
    });
    this.element = h(
      "div",
      { class: "cut-controls" },
      h("div", { class: "cut-line" }, h("label", { for: "cut-measure" }, "Measure"), this.measures),
      h("div", { class: "cut-line" }, h("span", { class: "cut-word" }, "By"), this.dimensions, this.add),
      h("div", { class: "cut-line" }, h("span", { class: "cut-word" }, "Where"), this.filters, form),
      this.message,
    );
  }

  show(place: CutPlace): void {
    this.place = place;
    this.message.textContent = "";
    this.measures.value = place.measure;
    this.measures.title = MEASURES.find(({ word }) => word === place.measure)?.help ?? "";
    this.dimensions.replaceChildren(...place.by.map((word, at) => this.dimension(place, word, at)));
    const length = (place.to ?? this.span.end) - (place.from ?? this.span.start);
    const step = STEPS.find((step) => length / step <= 30) ?? (STEPS.at(-1) as number);
    const offered = DIMENSIONS.filter(({ word, fact }) => !place.by.includes(word) && !["service", "version"].includes(word) && (this.withFeatures || fact !== "features"));
    const options = offered.map(({ word, help }) => h("option", { value: word, title: help }, word));
    if (!place.by.some((word) => word.startsWith("time/"))) options.push(h("option", { value: `time/${durationWord(step)}` }, `time, steps of ${durationWord(step)}`));
    this.add.replaceChildren(h("option", { value: "" }, place.by.length === 0 ? "choose a dimension …" : "+ then by …"), ...options);
    this.filters.replaceChildren(...(place.where.length === 0 ? [h("span", { class: "cut-nothing" }, "everything – click a name below to see only it")] : place.where.map((filter, at) => this.filter(place, filter, at))));
  }

  /** Says what is wrong with the question. */
  fail(message: string): void {
    this.message.textContent = message;
  }

  private read(text: string): void {
    if (text === "" || this.place === null) return;
    try {
      parseFilter(text);
    } catch (error) {
      if (!(error instanceof FilterError)) throw error;
      const where = text.slice(error.at);
      this.fail(`${error.message}${where === "" ? ", at the end" : `, at “${printable(where)}”`}`);
      return;
    }
    this.input.value = "";
    if (!this.place.where.includes(text)) this.change({ where: [...this.place.where, text] });
  }

  private dimension(place: CutPlace, word: string, at: number): HTMLElement {
    const chip = h("span", { class: "chip cut-chip", role: "listitem", title: dimensionOf(word)?.help ?? "" });
    const button = (text: string, label: string, by: string[]): HTMLElement => {
      const element = h("button", { type: "button", "aria-label": label, title: label }, text);
      element.addEventListener("click", () => {
        this.change({ by });
        (this.dimensions.children[Math.min(by.length - 1, Math.max(0, at - 1))]?.querySelector("button") ?? this.add).focus();
      });
      return element;
    };
    const before = place.by[at - 1];
    if (before !== undefined) {
      const moved = [...place.by];
      moved.splice(at - 1, 2, word, before);
      chip.append(button("◂", `Move ${word} before ${before}`, moved));
    }
    chip.append(h("span", {}, word), button("×", `Remove ${word}`, place.by.filter((each) => each !== word)));
    return chip;
  }

  private filter(place: CutPlace, filter: string, at: number): HTMLElement {
    const remove = h("button", { type: "button", class: "cut-remove", "aria-label": `Remove filter ${printable(filter)}`, title: "Remove" }, "×");
    remove.addEventListener("click", () => {
      this.change({ where: place.where.filter((_, each) => each !== at) });
      (this.filters.querySelectorAll<HTMLElement>(".cut-remove")[Math.max(0, at - 1)] ?? this.input).focus();
    });
    const edit = h("button", { type: "button", class: "cut-edit code", dir: "ltr", title: "Edit" }, printable(filterLabel(filter)));
    edit.addEventListener("click", () => {
      this.change({ where: place.where.filter((_, each) => each !== at) });
      this.input.value = filter;
      this.input.focus();
    });
    return h("span", { class: "chip cut-chip cut-filter-chip", role: "listitem" }, at === 0 ? null : h("span", { class: "cut-and" }, "and "), edit, remove);
  }
}
