// What calls are measured in: times or counts, and how amounts of it are written.

import { count, duration, exact, exactNs } from "../format";
import type { LatencyRow, LatencySession } from "../report";

export interface Measure {
  /** Heading of the sum of all calls. */
  total: string;
  /** What a call is said to have: `Longest`, `Most`. */
  largest: string;
  /** One sentence: what the table shows. */
  about: string;
  /** An amount with three digits. */
  short(value: number | null | undefined): string;
  /** The amount to the last digit. */
  exact(value: number | null | undefined): string;
}

const COUNTS: Record<string, [string, string]> = {
  "page-faults": ["Faults", "How many page faults the calling thread has"],
  cycles: ["Cycles", "How many CPU cycles the calling thread uses"],
  "cache-misses": ["Misses", "How many cache misses the calling thread has"],
};

/** How a recording's calls were measured; older ones say nothing and have wall time. */
export function measureOf(session: LatencySession | undefined): Measure {
  const counts = COUNTS[session?.metric ?? "wall"];
  const calls = "from entry to return, of a sample of the calls. Click a row to see its calls over time.";
  if (counts !== undefined) {
    // A mean below a hundred has a fraction.
    const short = (value: number | null | undefined): string =>
      typeof value === "number" && !Number.isInteger(value) && value < 100 ? value.toFixed(2) : count(value);
    return { total: counts[0], largest: "Most", about: `${counts[1]} ${calls}`, short, exact };
  }
  const cpu = session?.metric === "cpu";
  const about = cpu ? "How much CPU time the calling thread uses" : "How long functions take";
  return { total: cpu ? "CPU time" : "Time", largest: "Longest", about: `${about} ${calls}`, short: duration, exact: exactNs };
}

/** The sum of all calls: an estimate, or the bound that is known of it. */
export function totalOf(row: LatencyRow): number | null {
  return row.total ?? row.total_high ?? row.total_low ?? null;
}

/** The same in words: `~` where it may be half or twice as large. */
export function totalText(row: LatencyRow, amount: (value: number | null) => string): string {
  const high = row.total_high ?? null;
  if (row.total !== null) return (high !== null && high - row.total > row.total / 2 ? "~" : "") + amount(row.total);
  if (high !== null) return `≤ ${amount(high)}`;
  return (totalOf(row) === null ? "" : "≥ ") + amount(totalOf(row));
}

const KEYS = ["mean", "p50", "p90", "p99", "max", "total", "total_low", "total_high"] as const;

/** Rows as the page has them: keys of times lose their unit, those of counts have none. */
export function rowsOf(rows: readonly object[]): LatencyRow[] {
  return rows.map((row) => {
    const all = { ...row } as Record<string, unknown>;
    for (const key of KEYS) all[key] = all[key] ?? all[`${key}_ns`] ?? null;
    return all as unknown as LatencyRow;
  });
}
