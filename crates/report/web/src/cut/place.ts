// What is cut, as the address of the page holds it: `#/cut/by=function&measure=critical&where=wait+%3D+mutex&from=2000000000`.

import { dimensionOf, durationWord, measureOf } from "./dimension";
import { NONE } from "./filter";

export interface CutPlace {
  /** Words of dimensions, outermost first. */
  by: string[];
  measure: string;
  /** Filters that must all hold. */
  where: string[];
  /** ns since the recording's start; `null`: no bound. */
  from: number | null;
  to: number | null;
}

/** What is shown until somebody asks. */
export const FIRST: CutPlace = { by: ["thread-group", "state", "function"], measure: "time", where: [], from: null, to: null };

const PREFIX = "#/cut/";

export function cutHref(place: CutPlace): string {
  const words = new URLSearchParams({ by: place.by.join(","), measure: place.measure });
  for (const filter of place.where) words.append("where", filter);
  if (place.from !== null) words.set("from", String(place.from));
  if (place.to !== null) words.set("to", String(place.to));
  return `${PREFIX}${words.toString()}`;
}

/** `null` for the address of something else. What it does not say, or says wrongly, is as at first. */
export function cutPlaceOf(hash: string): CutPlace | null {
  if (!hash.startsWith(PREFIX)) return null;
  const words = new URLSearchParams(hash.slice(PREFIX.length));
  const instant = (name: string): number | null => (/^-?\d{1,16}$/.test(words.get(name) ?? "") ? Number(words.get(name)) : null);
  const by = words.get("by");
  const measure = words.get("measure") ?? FIRST.measure;
  const known = (by ?? "").split(",").flatMap((word) => dimensionOf(word)?.word ?? []);
  return {
    by: by === null ? FIRST.by : [...new Set(known)],
    measure: measureOf(measure) === null ? FIRST.measure : measure,
    where: words.getAll("where"),
    from: instant("from"),
    to: instant("to"),
  };
}

/** All filters as one, as `--where` takes it; `null` without any. */
export function wholeFilter(place: CutPlace): string | null {
  if (place.where.length === 0) return null;
  // One alone needs no brackets, nor does a single comparison.
  const bracketed = (filter: string): string => (place.where.length > 1 && /\bor\b/.test(filter) ? `(${filter})` : filter);
  return place.where.map(bracketed).join(" and ");
}

/** The same question to the command line. */
export function commandLineOf(place: CutPlace): string {
  const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
  const filter = wholeFilter(place);
  return [
    "transect report DIR",
    place.by.length === 0 ? "" : `--by ${place.by.join(",")}`,
    `--measure ${place.measure}`,
    filter === null ? "" : `--where ${quoted(filter)}`,
    place.from === null ? "" : `--from ${durationWord(place.from)}`,
    place.to === null ? "" : `--to ${durationWord(place.to)}`,
  ].filter(Boolean).join(" ");
}

/** A filter in words for somebody who reads it the first time. */
export function filterLabel(filter: string): string {
  const lacks = new RegExp(`^([a-z-]+) (=|!=) ${NONE}$`).exec(filter);
  return lacks === null ? filter : `${lacks[1]} ${lacks[2]} – (${lacks[2] === "=" ? "has none" : "has one"})`;
}
