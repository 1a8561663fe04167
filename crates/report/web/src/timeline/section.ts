// The section of the timeline: unpacked once the page stands, so that it does not hold up the tables.

import { cutHref, cutPlaceOf, FIRST } from "../cut/place";
import { h } from "../dom";
import type { Model } from "../model";
import { section } from "../section";
import { unpackTimeline } from "./data";
import { canInflate } from "./packed";
import { TimelineView } from "./view";

declare global {
  interface Window {
    /** For tests. */
    transectTimeline?: TimelineView;
  }
}

/** `null` for a report without slices. */
export function timelineSection(model: Model): HTMLElement | null {
  const packed = model.report.timeline;
  if (packed === null) return null;
  const place = h("div", { class: "tl-place", id: "timeline-place" }, h("p", { class: "empty" }, "Unpacking …"));
  const element = section(
    "timeline",
    "Timeline",
    "How many threads were active, and what each of them did. Click into it, then zoom with the wheel and pan by dragging; Ctrl and wheel zooms at once. Click a lane to see what it waited for, who held it and who woke it.",
    place,
  );
  const fail = (why: string): void => {
    place.replaceChildren(h("p", { class: "empty" }, `The timeline cannot be shown: ${why}. The tables hold the same facts.`));
  };
  if (!canInflate()) {
    fail("this browser cannot inflate data (DecompressionStream is missing)");
    return element;
  }
  unpackTimeline(packed).then(
    (data) => {
      const cut = (from: number, to: number): void => {
        location.hash = cutHref({ ...(cutPlaceOf(location.hash) ?? FIRST), from: from <= data.start ? null : from, to: to >= data.end ? null : to });
      };
      const view = new TimelineView(data, (model.report.cut?.left_out ?? "none") === "" ? cut : null);
      window.transectTimeline = view;
      place.replaceChildren(view.element);
      // A span of time can be linked to: `#/timeline/1200000-1300000`, ns after the start.
      const follow = (): void => {
        const span = /^#\/timeline\/(\d+)-(\d+)$/.exec(location.hash);
        if (span !== null) view.show(packed.start_ns + Number(span[1]), packed.start_ns + Number(span[2]));
      };
      follow();
      addEventListener("hashchange", follow);
    },
    (error: unknown) => fail(String(error)),
  );
  return element;
}
