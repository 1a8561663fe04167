// Where the time of the whole run went, in one line: each component's own code, and waiting.

import { h, printable } from "./dom";
import { duration, percent } from "./format";
import { type Model, selfAttributed, shareOf, waitAttributed } from "./model";
import { hrefOf } from "./route";

/** Segments narrower than this are gathered into one. */
const LEAST = 0.01;
/** Segments narrower than this have no room for a name. */
const LABELLED = 0.05;

/** `null` where no times were taken. */
export function timeStrip(model: Model): HTMLElement | null {
  const rows = [...model.components.values()]
    .map((row) => ({ row, share: shareOf(model, selfAttributed(row)) ?? 0 }))
    .sort((a, b) => b.share - a.share);
  const waiting = rows.reduce((sum, { row }) => sum + (shareOf(model, waitAttributed(row)) ?? 0), 0);
  const waited = rows.reduce((sum, { row }) => sum + (row.wait_ns ?? 0), 0);
  const working = rows.reduce((sum, { share }) => sum + share, 0);
  // Callbacks count for the API and as flows of their own, so the parts may pass the whole a little.
  const scale = Math.max(working + waiting, 1e-9);
  if (working + waiting <= 0) return null;

  const strip = h("div", { class: "strip", id: "time-strip", role: "list", "aria-label": "Time of all threads, by component" });
  const add = (element: HTMLElement, share: number, text: string, title: string): void => {
    element.setAttribute("role", "listitem");
    element.title = title;
    element.style.width = `${(share / scale) * 100}%`;
    if (share / scale >= LABELLED) element.append(h("b", { dir: "ltr" }, text));
    else element.setAttribute("aria-label", text);
    strip.append(element);
  };
  let gathered = 0;
  rows.forEach(({ row, share }, rank) => {
    if (share / scale < LEAST) {
      gathered += share;
      return;
    }
    const name = printable(row.component);
    const segment = h("a", { href: hrefOf({ component: row.component }) });
    segment.style.background = `color-mix(in srgb, var(--heat) ${Math.max(14, 62 - rank * 9)}%, var(--surface))`;
    add(segment, share, `${name} ${percent(share)}`, `${name}: ${percent(share)} in its own code, ${duration(row.self_ns)} summed over threads`);
  });
  if (gathered > 0) add(h("span", { class: "rest" }), gathered, `others ${percent(gathered)}`, `All other components: ${percent(gathered)}`);
  if (waiting > 0) {
    add(h("a", { href: "#waits", class: "waiting" }), waiting, `waiting ${percent(waiting)}`, `Waiting: ${percent(waiting)}, ${duration(waited)} summed over threads`);
  }
  const caption = "All threads' time, each instant divided among the threads active in it: this is what percentages refer to. Times in seconds are raw sums over threads.";
  return h("div", {}, h("p", { class: "legend" }, caption), strip);
}
