// A colour for each feature; sets are drawn in the colours of their features.

import { h } from "../dom";
import type { FeatureRow } from "./rows";

const COLORS = ["--compute", "--wait", "--io", "--memory", "--net", "--good", "--lock", "--idle"];

export class FeaturePalette {
  private readonly colors = new Map<string, string>();

  /** Features in the order of the time in which they were active, so that the largest differ most. */
  constructor(rows: FeatureRow[]) {
    for (const row of rows) {
      if (row.features.length === 1) this.add(row.features[0] as string);
    }
    for (const row of rows) row.features.forEach((name) => this.add(name));
  }

  private add(name: string): void {
    if (!this.colors.has(name)) this.colors.set(name, COLORS[this.colors.size % COLORS.length] as string);
  }

  /** Custom properties with the colours of a set's features. */
  of(features: string[]): string[] {
    return features.length === 0 ? ["--raised"] : features.map((name) => this.colors.get(name) ?? "--idle");
  }

  /** A CSS background: bands, one a feature. */
  background(features: string[], strength = 62): string {
    if (features.length === 0) return "var(--raised)";
    const mixed = this.of(features).map((color) => `color-mix(in srgb, var(${color}) ${strength}%, var(--surface))`);
    if (mixed.length === 1) return mixed[0] as string;
    const stops = mixed.map((color, at) => `${color} ${(at / mixed.length) * 100}% ${((at + 1) / mixed.length) * 100}%`);
    return `linear-gradient(to bottom, ${stops.join(", ")})`;
  }

  /** A small mark of the set's colours. */
  swatch(features: string[]): HTMLElement {
    const mark = h("span", { class: "swatch feature-swatch", "aria-hidden": "true" });
    mark.style.background = this.background(features, 80);
    return mark;
  }
}
