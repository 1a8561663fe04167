// Time per feature: tables, flame graph, nested regions over time, and what features call.

import { h, printable } from "../dom";
import { count, duration, exact, plural } from "../format";
import type { Report } from "../report";
import type { FeatureSession } from "./rows";
import { section } from "../section";
import { featureFlame } from "./flame";
import { matrix } from "./matrix";
import { featureModel, setName } from "./model";
import { FeaturePalette } from "./palette";
import { apiTable, componentTable } from "./place";
import { featureTable, regionTable } from "./table";
import { featureTimeline } from "./timeline";

const METHODS = new Map([
  ["trace", "compiled-in events"],
  ["probe", "sites switched on in the program"],
  ["usdt", "uprobes"],
  ["sample", "stack samples"],
]);
/** Notes of one kind. */
const MOST_NOTES = 12;

export function featureSections(report: Report): HTMLElement[] {
  const { feature: session } = report.meta;
  if (session === undefined) return [];
  const model = featureModel(report);
  const palette = new FeaturePalette(report.features);
  const regions = regionTable(model);
  const features = featureTable(model, (row) => {
    regions.show(row.features);
    document.getElementById("regions")?.scrollIntoView({ block: "start" });
  });
  return [
    section(
      "features",
      "Features",
      `Which options of the program cost its threads' ${duration(model.whole)}, waiting included, alone and together. A row is a set of features; choose one to see its regions.`,
      facts(session),
      h("div", { class: "panel" }, features),
      ...notes(report),
    ),
    ...(report.region_tree.parent.length < 2
      ? []
      : [section("feature-flame", "Features nested", "The width is time. A box is a feature, inside of those that were active already. Click a box to make it the whole width, Escape to go back.", featureFlame(model, palette))]),
    ...(report.region_timeline.region.length === 0
      ? []
      : [section("feature-timeline", "Features over time", "When each thread was in which regions; nested regions stand below those around them. Click into it, then zoom with the wheel and pan by dragging; Ctrl and wheel zooms at once.", featureTimeline(model, palette))]),
    section("regions", "Regions of code", "Code that runs because of a decision that depends on features.", regions.element),
    ...(report.feature_apis.length === 0
      ? []
      : [
          section(
            "feature-apis",
            "What features call",
            "Time of calls into other components, by the features that were active, entry to return.",
            matrix("feature-api-matrix", "API", report.feature_apis.map((row) => ({ features: row.features, name: row.api, note: row.callee, ns: row.total_ns ?? 0, calls: row.calls })), palette),
            apiTable(model),
          ),
        ]),
    ...(report.feature_components.length === 0
      ? []
      : [
          section(
            "feature-components",
            "Where features spend their time",
            "Time in each component itself, less the APIs that it calls.",
            matrix("feature-component-matrix", "Component", report.feature_components.map((row) => ({ features: row.features, name: row.component, note: "", ns: row.self_ns, calls: row.calls })), palette),
            componentTable(model),
          ),
        ]),
  ];
}

function facts(session: FeatureSession): HTMLElement {
  const { sites = 0, events = 0, event_ns = 0, sample_hz = 0, samples = 0, untranslated = 0, dropped = 0, blocked = 0 } = session;
  const words = [
    (session.methods ?? []).map((word) => METHODS.get(word) ?? word).join(" and "),
    sites > 0 ? `${plural(sites, "site")} on` : "",
    events > 0 ? `${plural(events, "event")} of about ${duration(event_ns)} each` : "",
    sample_hz > 0 ? `${plural(samples, "sample")} at ${exact(sample_hz)} Hz` : "",
    untranslated > 0 ? `${plural(untranslated, "sample")} of unknown region` : "",
    dropped > 0 ? `${plural(dropped, "event")} dropped` : "",
    blocked > 0 ? `threads waited ${plural(blocked, "time")} for the recorder` : "",
    `implicit flow: ${session.implicit ?? "constant"}`,
  ];
  return h("p", { class: "walk-facts" }, words.filter(Boolean).join(" · "));
}

/** What of the model has no time, and why. */
function notes(report: Report): HTMLElement[] {
  const irregular = report.regions.filter((row) => row.irregular !== null && !row.irregular.startsWith("hot loop"));
  const lines = [
    ...report.feature_lost.slice(0, MOST_NOTES).map((lost) => `Variable ${lost.variable} of ${lost.feature} was not found: ${lost.reason}.`),
    ...(report.features_without_regions.length === 0 ? [] : [`No code depends on ${report.features_without_regions.slice(0, MOST_NOTES).join(", ")}${report.features_without_regions.length > MOST_NOTES ? ", …" : ""}.`]),
    ...irregular.slice(0, MOST_NOTES).map((row) => `${row.function} of ${setName(row.features)} could not be marked: ${row.irregular ?? ""}.`),
  ];
  if (lines.length === 0) return [];
  const left = Math.max(0, report.feature_lost.length - MOST_NOTES) + Math.max(0, irregular.length - MOST_NOTES);
  const list = h("ul", { class: "feature-notes" }, ...lines.map((line) => h("li", { dir: "ltr" }, printable(line))), left > 0 ? h("li", {}, `… and ${count(left)} more.`) : null);
  return [h("details", { class: "panel feature-gaps", open: lines.length <= 4 }, h("summary", {}, "Not measured"), list)];
}
