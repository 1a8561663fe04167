// What a cut can be made by and what it sums up; words and meaning are those of `transect report --by … --measure …`.

/** Which fact of a part has the key of a dimension. */
export type Fact = "run" | "thread" | "place" | "wait" | "features" | "state" | "time";

export interface Dimension {
  /** As `--by` takes it. */
  word: string;
  /** What it tells apart. */
  help: string;
  fact: Fact;
  /** Column of the fact. */
  column: number;
  /** A step of time, ns. */
  step: number;
}

const of = (fact: Fact, column: number, word: string, help: string): Dimension => ({ word, help, fact, column, step: 0 });

/** Column of the innermost frame of a place. */
export const STACK = 7;

/** All that have no argument. */
export const DIMENSIONS: Dimension[] = [
  of("thread", 2, "thread-group", "Threads of one kind"),
  of("thread", 1, "thread", "The thread"),
  of("thread", 0, "process", "The process"),
  of("features", 0, "feature", "The set of active features"),
  of("place", 0, "component", "The component whose code runs"),
  of("place", 3, "function", "The innermost function of the program"),
  of("place", 4, "line", "Its source line"),
  of("place", 1, "api", "The innermost call between components"),
  of("place", 2, "caller", "The component that made that call"),
  of("place", 5, "kernel-function", "The innermost function of the kernel"),
  of("place", 6, "system-call", "The system call that the thread is in"),
  of("state", 0, "state", "Running, runnable or blocked"),
  of("wait", 0, "wait", "The kind of what is waited for"),
  of("wait", 1, "object", "What is waited for"),
  of("wait", 2, "holder", "The thread that held it"),
  of("wait", 3, "waker", "The thread that ended the wait"),
  of("place", STACK, "stack", "All functions of the stack, root first"),
  of("run", 0, "host", "The machine"),
  of("run", 1, "run", "The recording, by its start"),
  of("run", 2, "service", "No recording knows it yet"),
  of("run", 2, "version", "No recording knows it yet"),
];

const UNITS: Record<string, number> = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, m: 60e9, min: 60e9, h: 3600e9 };

/** Nanoseconds of `2s`, `100ms`, `1.5s`; `null` where it is no duration. */
export function parseDuration(text: string): number | null {
  const [, number, unit] = /^([\d.]+)(.*)$/.exec(text) ?? [];
  const scale = UNITS[unit?.trim() ?? ""];
  const ns = Number(number) * (scale ?? NaN);
  return Number.isFinite(ns) && ns < 9e18 ? Math.round(ns) : null;
}

/** A duration as `parseDuration` reads it, in its largest whole unit. */
export function durationWord(ns: number): string {
  const [scale, unit] = ([[1e9, "s"], [1e6, "ms"], [1e3, "us"]] as const).find(([scale]) => ns % scale === 0) ?? [1, "ns"];
  return `${ns / scale}${unit}`;
}

/** A dimension by its word, `time/100ms` among them; `null` for another word. */
export function dimensionOf(word: string): Dimension | null {
  if (word.startsWith("time/")) {
    const step = parseDuration(word.slice(5));
    return step === null || step <= 0 ? null : { ...of("time", 0, `time/${durationWord(step)}`, "Steps of time"), step };
  }
  return DIMENSIONS.find((dimension) => dimension.word === word) ?? null;
}

export interface Measure {
  word: string;
  /** What so much of it is. */
  noun: string;
  help: string;
  /** The list of parts that it is summed from. */
  list: "time" | "critical" | "samples";
  /** The only state of its parts. */
  state: number | null;
  unit: "ns" | "count";
}

export const MEASURES: Measure[] = [
  { word: "time", noun: "of threads' time", help: "Lifetime of threads: on a CPU, runnable and blocked", list: "time", state: null, unit: "ns" },
  { word: "on-cpu", noun: "on a CPU", help: "Time on a CPU", list: "time", state: 0, unit: "ns" },
  { word: "runnable", noun: "runnable", help: "Time without a CPU although there was something to do", list: "time", state: 1, unit: "ns" },
  { word: "blocked", noun: "blocked", help: "Time blocked", list: "time", state: 2, unit: "ns" },
  { word: "critical", noun: "of critical time", help: "Each instant divided among the threads active in it; while none is, it belongs to the wait that ends it", list: "critical", state: null, unit: "ns" },
  { word: "samples", noun: "samples", help: "Samples of the timer", list: "samples", state: null, unit: "count" },
];

export function measureOf(word: string): Measure | null {
  return MEASURES.find((measure) => measure.word === word) ?? null;
}
