// The cut without a page, for tests that hold it to the command line's.

import { type CutData, textOf, unpackCut } from "./data";
import { type Dimension, dimensionOf, type Measure, measureOf } from "./dimension";
import { parseFilter } from "./filter";
import { type CutQuery, Sum } from "./sum";

/** A query in the words of the command line. */
export interface Asked {
  by: string[];
  measure: string;
  where: string | null;
  from: number | null;
  to: number | null;
}

export interface Answer {
  rows: { keys: (string | number | null)[]; value: number; low: number; high: number }[];
  total: number;
  whole: number;
}

export { unpackCut };

export function answer(data: CutData, asked: Asked): Answer {
  const by = asked.by.map((word) => dimensionOf(word) as Dimension);
  const query: CutQuery = { by, measure: measureOf(asked.measure) as Measure, filter: asked.where === null ? null : parseFilter(asked.where), from: asked.from, to: asked.to };
  const sum = new Sum(data, query);
  while (!sum.run(10_000)) continue;
  const { rows, total, whole, interval } = sum.result();
  const texts = rows.map((row) => {
    const [low, high] = interval([row], by.length);
    return { keys: row.keys.map((key, at) => textOf(data, by[at] as Dimension, key)), value: row.value, low, high };
  });
  return { rows: texts, total, whole };
}
