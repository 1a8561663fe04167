// Runs sums in slices, so that the page answers keys and clicks meanwhile.

import type { CutData } from "./data";
import { type CutQuery, type CutResult, Sum } from "./sum";

/** Parts between two looks at the clock. */
const PARTS = 20_000;
/** Longest time without a turn for the page, ms. */
const SLICE = 12;

/** The result, or `null` if it is not wanted any more. */
export async function summed(data: CutData, query: CutQuery, wanted: () => boolean): Promise<CutResult | null> {
  const sum = new Sum(data, query);
  let began = performance.now();
  while (!sum.run(PARTS)) {
    if (performance.now() - began < SLICE) continue;
    await new Promise((next) => setTimeout(next));
    if (!wanted()) return null;
    began = performance.now();
  }
  return wanted() ? sum.result() : null;
}
