// A logarithmic axis of durations.

import { duration } from "../format";
import type { Measure } from "./amount";

/** Durations below this are drawn as it: a logarithm has no place for 0. */
const LEAST_NS = 0.5;
/** An axis spans at least this factor, so that a function of one duration is not drawn as a wall. */
const LEAST_SPAN = 8;

export interface LogAxis {
  low: number;
  high: number;
  /** Place of a duration, 0 at the bottom to 1 at the top. */
  at(ns: number): number;
  /** The duration at a place. */
  of(place: number): number;
}

export function logAxis(lowNs: number, highNs: number): LogAxis {
  let low = Math.max(LEAST_NS, lowNs);
  let high = Math.max(low, highNs);
  if (high / low < LEAST_SPAN) {
    const spread = Math.sqrt(LEAST_SPAN / (high / low));
    low = Math.max(LEAST_NS, low / spread);
    high = low * LEAST_SPAN;
  }
  const bottom = Math.log(low);
  const height = Math.log(high) - bottom;
  return {
    low,
    high,
    at: (ns) => Math.min(1, Math.max(0, (Math.log(Math.max(LEAST_NS, ns)) - bottom) / height)),
    of: (place) => Math.exp(bottom + place * height),
  };
}

export interface Tick {
  value: number;
  label: string;
}

/** Round amounts on the axis: powers of ten, with 2 and 5 between where there is room. */
export function amountTicks(axis: LogAxis, measure: Measure, most: number): Tick[] {
  for (const steps of [[1, 2, 5], [1, 3], [1]]) {
    const ticks: Tick[] = [];
    for (let power = Math.floor(Math.log10(axis.low)); 10 ** power <= axis.high; power += 1) {
      for (const step of steps) {
        const value = step * 10 ** power;
        if (value >= axis.low && value <= axis.high && value >= 1) ticks.push({ value, label: short(measure.short(value)) });
      }
    }
    if (ticks.length <= most) return ticks;
  }
  return [];
}

/** Round times on an even axis. */
export function timeTicks(from: number, to: number, most: number): Tick[] {
  const rough = Math.max(1, (to - from) / Math.max(1, most));
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const ticks: Tick[] = [];
  for (let value = Math.ceil(from / step) * step; value <= to; value += step) {
    ticks.push({ value, label: value === 0 ? "0" : short(duration(value)) });
  }
  return ticks;
}

/** `1.00 ms` as `1 ms`. */
function short(text: string): string {
  return text.replace(/(\.\d*?)0+(?= )/, "$1").replace(/\.(?= )/, "");
}
