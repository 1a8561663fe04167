import { h } from "./dom";

/** A titled part of the page with one sentence on how to read it. */
export function section(id: string, title: string, lead: string, ...content: (Node | string | null)[]): HTMLElement {
  return h(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title` }, title),
    h("p", { class: "lead" }, lead),
    ...content,
  );
}
