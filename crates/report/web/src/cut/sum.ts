// The sum: parts by their keys, those that meet the filter, within a range of time; row for row that of `cut` in
// `crates/analyze/src/cut/sum.rs`, to the nanosecond.

import { type CutData, functionsOf, namesOf, type Parts, textOf } from "./data";
import { type Dimension, type Fact, type Measure, STACK } from "./dimension";
import { type Expression, holds, type Term, termsOf } from "./filter";
import { Intervals } from "./interval";

export interface CutQuery {
  by: Dimension[];
  measure: Measure;
  filter: Expression | null;
  /** ns since the recording's start; `from` is in the range, `to` is not. */
  from: number | null;
  to: number | null;
}

export interface CutRow {
  /** One number a dimension; `textOf` names it. */
  keys: number[];
  value: number;
  /** Its number, by which intervals know it. */
  group: number;
}

export interface CutResult {
  rows: CutRow[];
  total: number;
  /** The same without filter and range. */
  whole: number;
  /** 95 % interval of some rows together that have the first so many keys in common. */
  interval(rows: CutRow[], keys: number): [low: number, high: number];
}

/** A cut that the page cannot answer. */
export class CutError extends Error {}

/** States of a thread. */
const STATES = 3;
const MOST_ROWS = 1_000_000;
const MOST_STEPS = 100_000;

/** Facts known exactly of every thread, so that sums by them have no sampling error. */
const MARGINS: Fact[] = ["run", "thread", "state", "time"];

/** How much of a part lies before an instant; differences add up exactly. */
function before(time: number, begin: number, end: number, weight: number): number {
  if (time <= begin) return 0;
  if (time >= end) return weight;
  const [part, whole] = [time - begin, end - begin];
  if (weight === whole) return part;
  const product = weight * part;
  if (product <= Number.MAX_SAFE_INTEGER) return (product - (product % whole)) / whole;
  return Number((BigInt(weight) * BigInt(part)) / BigInt(whole));
}

type Test = ((row: number) => boolean) | boolean;

/** Sums up step by step, so that a page can breathe in between. */
export class Sum {
  private readonly parts: Parts;
  private readonly test: Test;
  private readonly keys: { column: ArrayLike<number> | null; key: ArrayLike<number> }[];
  /** Of each dimension: group of the one before and key, to the group. */
  private readonly levels: Map<number, number>[];
  private readonly parents: number[][];
  private readonly own: number[][];
  private readonly values: number[] = [];
  /** `null` where all is exact. */
  private readonly intervals: Intervals | null;
  private readonly span: number;
  private readonly step: number;
  private readonly firstStep: number;
  private at = 0;
  private whole = 0;

  constructor(private readonly data: CutData, private readonly query: CutQuery) {
    const { by, measure, filter } = query;
    const terms = filter === null ? [] : termsOf(filter);
    const asked = [...by, ...terms.map((term) => term.dimension)];
    const list = asked.some((dimension) => dimension?.fact === "features") ? `${measure.list}+` : measure.list;
    const parts = data.lists.get(list);
    if (parts === undefined) throw new CutError("The profile does not know when features were active.");
    if (query.from !== null && query.to !== null && query.from >= query.to) throw new CutError("The range of time is empty.");
    this.parts = parts;
    this.test = filter === null ? true : this.testOf(filter);
    this.keys = by.map((dimension) => {
      if (dimension.fact === "time") return { column: null, key: [] };
      const key = data.facts[dimension.fact].map((row) => row[dimension.column] ?? 0);
      return { column: this.column(dimension.fact), key };
    });
    this.intervals = this.isExact(by.length) ? null : new Intervals(data.facts.thread.length * STATES);
    this.levels = by.map(() => new Map());
    this.parents = by.map(() => []);
    this.own = by.map(() => []);
    this.step = by.find((dimension) => dimension.step > 0)?.step ?? 0;
    let [first, last] = [0, 0];
    if (this.step > 0) {
      for (let row = 0; row < parts.count; row += 1) {
        first = Math.min(first, parts.begin[row] as number);
        last = Math.max(last, parts.end[row] as number);
      }
      const steps = (Math.min(last, query.to ?? last) - Math.max(first, query.from ?? first)) / this.step;
      if (steps > MOST_STEPS) throw new CutError(`${Math.round(steps).toLocaleString("en-US")} steps of time are more than ${MOST_STEPS.toLocaleString("en-US")}: use a longer step, or a shorter range.`);
      this.firstStep = Math.floor(first / this.step);
    } else {
      this.firstStep = 0;
    }
    const steps = this.step > 0 ? Math.floor(last / this.step) - this.firstStep + 1 : 0;
    this.span = Math.max(data.names.length, data.frames.length, steps) + 1;
  }

  /** Sums up to so many parts; `true` at the end. */
  run(most = Infinity): boolean {
    const { parts, test } = this;
    const { state } = this.query.measure;
    const [from, to] = [this.query.from ?? -Infinity, this.query.to ?? Infinity];
    const until = Math.min(parts.count, this.at + most);
    for (let row = this.at; row < until; row += 1) {
      if (state !== null && parts.state[row] !== state) continue;
      const weight = parts.weight[row] as number;
      this.whole += weight;
      const perSample = parts.perSample[row] as number;
      if (perSample > 0) this.intervals?.addAll(this.stratum(row), weight, perSample);
      if (test === false || (test !== true && !test(row))) continue;
      const [begin, end] = [parts.begin[row] as number, parts.end[row] as number];
      if (begin === end) {
        if (from <= begin && begin < to) this.add(row, this.step > 0 ? Math.floor(begin / this.step) : 0, weight);
        continue;
      }
      const [first, last] = [Math.max(begin, from), Math.min(end, to)];
      if (first >= last) continue;
      if (this.step === 0) {
        this.add(row, 0, before(last, begin, end, weight) - before(first, begin, end, weight));
        continue;
      }
      let done = before(first, begin, end, weight);
      for (let step = Math.floor(first / this.step); step * this.step < last; step += 1) {
        const now = before(Math.min((step + 1) * this.step, last), begin, end, weight);
        this.add(row, step, now - done);
        done = now;
      }
    }
    this.at = until;
    return until === parts.count;
  }

  /** All rows, largest first. */
  result(): CutResult {
    const { by } = this.query;
    const rows = this.values.map((value, group): CutRow => {
      const keys = new Array<number>(by.length);
      for (let [level, at] = [by.length - 1, group]; level >= 0; level -= 1) {
        keys[level] = this.own[level]?.[at] as number;
        at = this.parents[level]?.[at] as number;
      }
      return { keys, value, group };
    });
    rows.sort((a, b) => b.value - a.value || this.compare(a, b));
    const interval = (rows: CutRow[], keys: number): [number, number] => {
      const value = rows.reduce((sum, row) => sum + row.value, 0);
      if (this.intervals === null || this.isExact(keys)) return [value, value];
      return this.intervals.of(rows.map((row) => row.group), value, this.hasNoStacks(keys));
    };
    return { rows, total: this.values.reduce((sum, value) => sum + value, 0), whole: this.whole, interval };
  }

  /** The thread and state whose samples a part is one of. */
  private stratum(row: number): number {
    return (this.parts.thread[row] as number) * STATES + (this.parts.state[row] as number);
  }

  /** Nothing that only samples know is asked: by the first so many dimensions, and by the filter. */
  private hasNoStacks(keys: number): boolean {
    const { by, filter, measure } = this.query;
    // Each wait is known by itself; who only spins is known by samples.
    const waits = !this.parts.spins || (measure.state !== null && measure.state !== 0);
    const asked = [...by.slice(0, keys), ...(filter === null ? [] : termsOf(filter)).map((term) => term.dimension)];
    return asked.every((dimension) => dimension !== null && (MARGINS.includes(dimension.fact) || (waits && dimension.fact === "wait")));
  }

  private isExact(keys: number): boolean {
    const { by, from, to } = this.query;
    const overTime = from !== null || to !== null || by.some((dimension) => dimension.fact === "time");
    return this.hasNoStacks(keys) && (this.data.when || !overTime);
  }

  private compare(a: CutRow, b: CutRow): number {
    for (const [level, dimension] of this.query.by.entries()) {
      const [x, y] = [textOf(this.data, dimension, a.keys[level] as number), textOf(this.data, dimension, b.keys[level] as number)];
      if (x === y) continue;
      if (x === null) return -1;
      if (y === null) return 1;
      return x < y ? -1 : 1;
    }
    return 0;
  }

  private add(row: number, step: number, weight: number): void {
    if (weight === 0) return;
    let group = 0;
    for (let level = 0; level < this.keys.length; level += 1) {
      const { column, key } = this.keys[level] as Sum["keys"][number];
      const number = column === null ? step - this.firstStep : (key[column[row] as number] as number);
      const groups = this.levels[level] as Map<number, number>;
      const name = group * this.span + number;
      let next = groups.get(name);
      if (next === undefined) {
        next = groups.size;
        if (next >= MOST_ROWS) throw new CutError(`The cut has more than ${MOST_ROWS.toLocaleString("en-US")} rows: use fewer dimensions, filters or a shorter range.`);
        groups.set(name, next);
        this.parents[level]?.push(group);
        this.own[level]?.push(column === null ? step : number);
      }
      group = next;
    }
    this.values[group] = (this.values[group] ?? 0) + weight;
    const perSample = this.parts.perSample[row] as number;
    if (perSample > 0) this.intervals?.add(group, this.stratum(row), weight, perSample);
  }

  private column(fact: Exclude<Fact, "time">): ArrayLike<number> {
    if (fact === "run") return new Uint8Array(this.parts.count);
    return this.parts[fact];
  }

  private testOf(expression: Expression): Test {
    switch (expression.kind) {
      case "term":
        return this.termTest(expression.term);
      case "not": {
        const inner = this.testOf(expression.inner);
        return typeof inner === "boolean" ? !inner : (row) => !inner(row);
      }
      default: {
        const [left, right] = [this.testOf(expression.left), this.testOf(expression.right)];
        const absorbing = expression.kind === "or";
        if (left === absorbing || right === absorbing) return absorbing;
        if (typeof left === "boolean") return right;
        if (typeof right === "boolean") return left;
        return absorbing ? (row) => left(row) || right(row) : (row) => left(row) && right(row);
      }
    }
  }

  /** Asked once of each row of its fact. */
  private termTest(term: Term): Test {
    const { dimension } = term;
    const fact = dimension === null ? "place" : dimension.fact;
    if (fact === "time") return false;
    const names = (row: number[]): string[] => (dimension === null ? functionsOf(this.data, row[STACK] ?? 0) : namesOf(this.data, dimension, row));
    const answers = Uint8Array.from(this.data.facts[fact], (row) => (holds(term, names(row)) ? 1 : 0));
    if (fact === "run") return answers[0] === 1;
    const column = this.parts[fact];
    return (row) => answers[column[row] as number] === 1;
  }
}
