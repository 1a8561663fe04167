import { h, printable } from "./dom";
import { section } from "./section";
import type { Finding } from "./report";

/** Where the page shows what a finding's view shows. */
const PLACES = new Map<string, [string, string]>(Object.entries({
  components: ["#components", "components"],
  apis: ["#flows", "flows"],
  callers: ["#flows", "flows"],
  flows: ["#flows", "flows"],
  threads: ["#threads", "threads"],
  waits: ["#waits", "waits"],
  locks: ["#locks", "locks"],
  loss: ["#loss", "losses"],
}));

export function findings(rows: Finding[]): HTMLElement {
  const items = rows.map((row) => {
    const place = PLACES.get((row.view ?? "").split(/[\s:]/)[0] ?? "");
    return h(
      "li",
      {},
      h("p", { class: "finding" }, printable(row.finding)),
      row.evidence ? h("p", { class: "evidence" }, printable(row.evidence)) : null,
      row.next || place
        ? h(
            "p",
            { class: "next" },
            row.next ? h("span", {}, "Next: ", printable(row.next)) : null,
            place ? h("a", { href: place[0] }, `Show ${place[1]}`) : null,
          )
        : null,
    );
  });
  return section(
    "findings",
    "What stands out",
    "Read from the figures below, the weightiest first.",
    rows.length > 0
      ? h("ol", { class: "findings" }, ...items)
      : h("p", { class: "empty" }, "Nothing unusual: no component, API, lock or thread group passes the thresholds."),
  );
}
