import { h, printable } from "./dom";
import type { Model } from "./model";
import type { Finding } from "./report";
import { latencyRow } from "./latency/section";
import { hrefOf } from "./route";
import { section } from "./section";

/** Where the page shows what a finding's view shows. */
const PLACES = new Map<string, [string, string]>(Object.entries({
  components: ["#components", "components"],
  apis: ["#flows", "flows"],
  callers: ["#flows", "flows"],
  flows: ["#flows", "flows"],
  threads: ["#threads", "threads"],
  waits: ["#waits", "waits"],
  locks: ["#locks", "locks"],
  latency: ["#latency", "latency"],
  criticality: ["#critical-paths", "critical paths"],
  walk: ["#walk", "the chain"],
  loss: ["#loss", "losses"],
}));

/** Command-line options must not break after their hyphens. */
export function unbroken(text: string): (Node | string)[] {
  return printable(text)
    .split(/(--[\w-]{1,30})/)
    .map((part) => (part.startsWith("--") ? h("span", { class: "option" }, part) : part));
}

/** The place in the drill-down that a finding's advice names on the command line, if the report has it. */
function drillPlace(model: Model, row: Finding): [string, string] | undefined {
  const option = (name: string): string | undefined => {
    const match = new RegExp(`--${name} (?:'([^']*)'|"([^"]*)"|(\\S+))`).exec(row.next ?? "");
    return match?.[1] ?? match?.[2] ?? match?.[3];
  };
  const component = option("component");
  if (row.view === "latency" && component !== undefined) {
    const found = latencyRow(model.report.latency, { component, function: option("api") ?? "" });
    const { address } = found ?? {};
    return found && [hrefOf({ latency: { component, function: found.function, ...(address === undefined ? {} : { address }) } }), found.function];
  }
  if (component === undefined || !model.components.has(component)) return undefined;
  const api = option("api");
  if (api !== undefined && model.apis.get(component)?.some((known) => known.api === api)) {
    return [hrefOf({ component, api }), api];
  }
  return [hrefOf({ component }), component];
}

/** What a finding takes, as the terminal has it: in brackets where it is not known what its repair would save. */
function weight(row: Finding): string {
  const part = (percents: number): string => `${percents.toFixed(1)} %`;
  if (row.kind === "nothing" || row.percent === undefined) return "";
  if (row.saves_percent === undefined || row.saves_percent === null) return `(${part(row.percent)})`;
  return row.confidence === "few-samples" ? `~${row.saves_percent.toFixed(0)} %` : part(row.saves_percent);
}

export function findings(model: Model): HTMLElement {
  const rows = model.report.summary;
  const items = rows.map((row) => {
    const place = drillPlace(model, row) ?? PLACES.get((row.view ?? "").split(/[\s:]/)[0] ?? "");
    return h(
      "li",
      {},
      weight(row) ? h("p", { class: "weight" }, weight(row)) : null,
      h("p", { class: "finding" }, printable(row.finding)),
      row.evidence ? h("p", { class: "evidence" }, printable(row.evidence)) : null,
      row.next || place
        ? h(
            "p",
            { class: "next" },
            row.next ? h("span", {}, "Next: ", ...unbroken(row.next)) : null,
            place ? h("a", { href: place[0] }, `Show ${printable(place[1])}`) : null,
          )
        : null,
    );
  });
  return section(
    "findings",
    "Findings",
    "By what fixing each could save of the wall time at most, the weightiest first.",
    rows.length > 0
      ? h("ol", { class: "findings" }, ...items)
      : h("p", { class: "empty" }, "Nothing unusual: no component, API, lock or thread group passes the thresholds."),
  );
}
