// Features as a flame graph: nested features, or nested regions.

import { h, printable } from "../dom";
import { type FlameGraph, flameGraph } from "../flame_graph";
import { count, duration, exactNs, percent } from "../format";
import { type FeatureModel, placeOf, type RegionNode, regionTree, setName } from "./model";
import type { FeaturePalette } from "./palette";

export function featureFlame(model: FeatureModel, palette: FeaturePalette): HTMLElement {
  const panel = h("div", { class: "flame-panel", id: "feature-panel", "aria-live": "polite" });
  const { region_tree: columns } = model.report;
  const trees = { features: regionTree(model, columns, true), regions: regionTree(model, columns, false) };
  let mode: keyof typeof trees = "features";
  const name = (node: RegionNode): string => (node.parent === null ? "all threads" : mode === "regions" && node.region !== null ? `${node.region.function} ${placeOf(node.region)}` : setName(node.features));
  const active = (node: RegionNode): string[] => {
    const names = new Set<string>();
    for (let each: RegionNode | null = node; each !== null; each = each.parent) each.features.forEach((feature) => names.add(feature));
    return [...names];
  };
  const graph: FlameGraph<RegionNode> = flameGraph<RegionNode>({
    id: "feature-flame-graph",
    label: "Nested features by time. Arrows go to what is around, inside and beside; Enter makes a feature the whole width.",
    value: (node) => node.total,
    classes: () => "feature-box",
    background: (node) => palette.background(node.features),
    small: (node) => ` ${mode === "regions" && node.parent !== null ? `{${printable(setName(node.features))}} ` : ""}${duration(node.total)}`,
    lines: (node) => [name(node), mode === "regions" && node.parent !== null ? `features: ${setName(node.features)}` : "", `${percent(node.total / model.whole)}, ${duration(node.total)}`],
    shade: name,
    show: (node) => panel.replaceChildren(...describe(node)),
  });
  const describe = (node: RegionNode): HTMLElement[] => {
    const fact = (label: string, value: string, title: string): HTMLElement => h("div", { title }, h("dt", {}, label), h("dd", {}, value));
    const places = [...node.regions].flatMap((id) => model.regions.get(id) ?? []).slice(0, 6);
    return [
      h("h3", {}, palette.swatch(node.features), h("span", { dir: "ltr" }, printable(name(node)))),
      h("p", { class: "path" }, node.parent === null ? "All regions, and code outside of them." : `Active: ${printable(setName(active(node)))}.`),
      h(
        "dl",
        { class: "drill-facts" },
        fact("Share", percent(node.total / model.whole), "Of all threads' time"),
        fact("Time", duration(node.total), exactNs(node.total)),
        fact("Alone", duration(node.exclusive), "Without what is nested inside"),
        ...(node.cpu >= 0 ? [fact("Of it on CPU", duration(node.cpu), exactNs(node.cpu))] : []),
        ...(node.entries >= 0 ? [fact("Entries", count(node.entries), "Times entered")] : []),
        ...(node.samples > 0 ? [fact("Samples", count(node.samples), "Stack samples")] : []),
      ),
      ...(places.length === 0
        ? []
        : [
            h(
              "ul",
              { class: "feature-places" },
              ...places.map((region) => h("li", {}, h("code", { dir: "ltr" }, printable(region.function)), h("small", {}, ` ${printable(placeOf(region))} ${region.kind}`))),
            ),
          ]),
      ...(node.regions.size > places.length ? [h("p", { class: "path" }, `… and ${count(node.regions.size - places.length)} more regions.`)] : []),
    ];
  };
  const choice = h("fieldset", { class: "walk-weight" }, h("legend", {}, "A box is"));
  for (const [value, text] of [["features", "a feature"], ["regions", "a region of code"]] as const) {
    const input = h("input", { type: "radio", name: "feature-mode", value, checked: value === mode });
    input.addEventListener("change", () => {
      mode = value;
      graph.setRoot(trees[mode]);
    });
    choice.append(h("label", {}, input, text));
  }
  graph.setRoot(trees[mode]);
  return h("div", { class: "panel" }, h("div", { class: "graph-bar feature-bar" }, choice), h("div", { class: "flame-grid" }, graph.element, panel));
}
