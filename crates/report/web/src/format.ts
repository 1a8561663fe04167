// Numbers for people; the exact value goes into a title attribute beside each.

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

function significant(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 || value === 0 ? 0 : size >= 9.995 ? 1 : 2);
}

/** A time in nanoseconds with three significant digits: `1.23 s`. */
export function duration(ns: number | null | undefined): string {
  if (ns === null || ns === undefined) return "–";
  const size = Math.abs(ns);
  if (size >= 600e9) return `${significant(ns / 60e9)} min`;
  if (size >= 0.9995e9) return `${significant(ns / 1e9)} s`;
  if (size >= 0.9995e6) return `${significant(ns / 1e6)} ms`;
  if (size >= 0.9995e3) return `${significant(ns / 1e3)} µs`;
  return `${size > 0 && size < 9.995 ? significant(ns) : Math.round(ns)} ns`;
}

/** A count with three significant digits above 9,999: `20.0 M`. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value >= 0.9995e9) return `${significant(value / 1e9)} G`;
  if (value >= 0.9995e6) return `${significant(value / 1e6)} M`;
  if (value >= 9999.5) return `${significant(value / 1e3)} k`;
  return grouped.format(value);
}

/** A size in bytes with binary units. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let scaled = value;
  while (scaled >= 1023.5 && unit < units.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? grouped.format(scaled) : significant(scaled)} ${units[unit]}`;
}

/** A share 0–1 as percent; what is too small to show is said to be so. */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  if (share === 0) return "0 %";
  if (share < 0.0005) return "< 0.1 %";
  return `${(share * 100).toFixed(share >= 0.9995 ? 0 : 1)} %`;
}

/** The exact value in nanoseconds. */
export function exactNs(ns: number | null | undefined): string {
  return ns === null || ns === undefined ? "not timed" : `${grouped.format(ns)} ns`;
}

/** The exact count. */
export function exact(value: number | null | undefined): string {
  return value === null || value === undefined ? "unknown" : grouped.format(value);
}

/** Half the width of an interval relative to its estimate: `± 3 %`, at most `± > 100 %`; empty where the value is exact. */
export function plusMinus(value: number | null, low?: number | null, high?: number | null): string {
  if (value === null || low === null || low === undefined || high === null || high === undefined) return "";
  if (value <= 0 || high <= low) return "";
  const share = (high - low) / 2 / value;
  // Wider than that, the number says nothing; the interval is in the title.
  if (share > 1) return "± > 100 %";
  return share < 0.001 ? "± < 0.1 %" : `± ${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

/** The interval in exact numbers, for a title. */
export function interval(value: number | null, low?: number | null, high?: number | null): string {
  if (plusMinus(value, low, high) === "") return exactNs(value);
  return `${exactNs(value)}, estimated from timed calls; 95 % interval ${exact(low)} to ${exact(high)} ns`;
}

/** `1 thread`, `2 threads`. */
export function plural(n: number, noun: string): string {
  return `${exact(n)} ${noun}${n === 1 ? "" : "s"}`;
}
