// The JSON object of `transect report --format json`, as far as the page reads it. Times are nanoseconds.

import type { FeatureApi, FeatureComponent, FeatureRow, FeatureSession, LostVariable, RegionRow, RegionTimeline, RegionTree } from "./feature/rows";
import { rowsOf } from "./latency/amount";

export interface Meta {
  schema?: number;
  command?: string[] | string;
  machine?: { hostname?: string; kernel?: string; cpu?: string; cpus?: number; memory_bytes?: number };
  clock?: { source?: string; ticks_per_ns?: number; timed_call_ns?: number; counted_call_ns?: number };
  collectors?: string[];
  timing?: { mode?: string; budget?: number; period?: number } | string;
  overhead_estimate?: number | null;
  overhead?: { agent_ns?: number; kernel_ns?: number; recorder_ns?: number; start_ns?: number; end_ns?: number; share?: number };
  wall_ns?: number;
  started_unix_ns?: number;
  exit_status?: number | null;
  latency?: LatencySession;
  criticality?: SchedSession;
  walk?: { metric?: string };
  feature?: FeatureSession;
}

/** Facts of a recording of scheduler events. */
export interface SchedSession {
  estimate?: boolean;
  per_process?: boolean;
  cpus?: number;
  sample_hz?: number;
  min_parallelism?: number;
  busy_ns?: number;
  idle_ns?: number;
  unattributed_ns?: number;
  drift?: number;
  slices?: number;
  critical_slices?: number;
}

/** Facts of a latency measurement. */
export interface LatencySession {
  metric?: string;
  sampling?: { mode?: string; sample_size?: number; share?: number };
  epoch_ns?: number;
  measured_ns?: number;
  probes_installed?: number;
  probes_active?: number;
  sites_refused?: number;
  toggles?: number;
  toggles_per_second?: number;
  samples?: number;
  samples_per_second?: number;
  toggling_share?: number;
  stops?: number;
  longest_stop_ns?: number;
  total_stop_ns?: number;
  abandoned?: number;
  untimed?: number;
  unread?: number;
}

export interface Finding {
  finding: string;
  kind?: string;
  /** 0 to 100, of all threads' time. */
  percent?: number;
  /** 0 to 100 of the wall time, at most; missing where that is not known. */
  saves_percent?: number | null;
  confidence?: string | null;
  evidence?: string;
  view?: string;
  next?: string;
}

export interface OtherRow {
  component: string;
  total_ns: number | null;
  attributed_ns?: number | null;
  calls: number;
}

export interface ComponentRow {
  component: string;
  path?: string;
  build_id?: string;
  self_ns: number | null;
  wait_ns: number | null;
  self_attributed_ns?: number | null;
  wait_attributed_ns?: number | null;
  calls_in: number;
  calls_out: number;
  others?: OtherRow[];
  executable?: boolean;
}

export type ApiClass = "compute" | "io" | "lock" | "wait" | "count-only";

export interface FlowRow {
  caller: string;
  callee: string;
  api: string;
  symbol?: string;
  version?: string;
  class: ApiClass;
  wait: boolean;
  calls: number;
  timed_calls?: number;
  abandoned_calls?: number;
  total_ns: number | null;
  total_ns_low?: number | null;
  total_ns_high?: number | null;
  self_ns: number | null;
  self_ns_low?: number | null;
  self_ns_high?: number | null;
  attributed_ns: number | null;
  criticality_ns?: number | null;
  p50_ns?: number | null;
  p99_ns?: number | null;
  max_ns?: number | null;
  bytes?: number | null;
  thread?: string | number;
  process?: string | number;
  tid?: number;
  feature?: string;
}

export interface ThreadRow {
  process: string | number;
  tid: number;
  name: string;
  group: string;
  start_routine?: string | null;
  wall_ns: number;
  /** This and the next are null where nothing tells when the thread waited. */
  busy_ns: number | null;
  wait_ns: number | null;
  /** Null where no calls were recorded. */
  calls: number | null;
  on_cpu_ns?: number | null;
  runnable_ns?: number | null;
  blocked_ns?: number | null;
  attributed_ns?: number | null;
  executable?: string;
}

export interface WaitRow {
  group: string;
  api: string;
  object: string;
  count: number;
  ns: number;
  caller: string;
}

export interface LockRow {
  object: string;
  path: string;
  acquisitions: number;
  contended: number;
  wait_ns: number;
  hold_ns: number | null;
  hold_ns_low?: number | null;
  hold_ns_high?: number | null;
}

export interface LatencyRow {
  function: string;
  component: string;
  calls_seen: number;
  samples: number;
  mean: number | null;
  p50: number | null;
  p90: number | null;
  p99: number | null;
  max: number | null;
  calls_estimated?: number | null;
  calls_low?: number | null;
  calls_high?: number | null;
  total: number | null;
  total_low?: number | null;
  total_high?: number | null;
  symbol?: string;
  file?: string;
  line?: number;
  address?: number;
  process?: number;
}

/** Samples of one function over time; see `LatencyHeatMap`. */
export interface HeatMapFunction {
  /** So many slices are one cell wide. */
  merge: number;
  /** Slice, bucket, count; and so on. */
  cells: number[];
}

/** Pictures of latency over time, one per row of `latency`. */
export interface LatencyHeatMap {
  starts_ns: number[];
  end_ns: number;
  /** Bounds of durations, shortest first. */
  buckets: [number, number][];
  functions: HeatMapFunction[];
}

export type WaitKind = string;

export interface CriticalThread {
  process: number;
  tid: number;
  name: string;
  group: string;
  criticality_ns: number;
  corrected_ns?: number;
  running_ns: number;
  runnable_ns: number;
  blocked_ns: number;
}

export interface CriticalGroup {
  group: string;
  threads: number;
  criticality_ns: number;
  corrected_ns?: number;
  running_ns: number;
  runnable_ns: number;
  blocked_ns: number;
  max_criticality_ns: number;
}

export interface CriticalLine {
  function: string;
  file: string;
  line: number;
  samples: number;
  criticality_ns: number;
  origin: "sample" | "stack-top";
}

export interface CriticalPath {
  stack: string[];
  components?: string[];
  complete?: boolean;
  state: "running" | "waiting";
  criticality_ns: number;
  corrected_ns?: number;
  spin_ns?: number;
  samples: number;
  lines: CriticalLine[];
  kind?: WaitKind | null;
  object?: string;
  group?: string;
  place?: string;
}

export interface OtherThread {
  tid: number;
  thread: string;
  function: string;
  stack?: string[];
}

export interface CriticalWait {
  kind: WaitKind;
  object: string;
  group: string;
  holder: OtherThread | null;
  waker: OtherThread | null;
  meanwhile?: OtherThread | null;
  count: number;
  ns: number;
  idle_ns: number;
  critical_ns: number;
  stack: string[];
}

export interface WaitNode {
  name: string;
  what: string;
  threads?: number;
  wait_ns: number;
  self_ns: number;
  blamed_ns?: number;
  knot: number | null;
}

export interface WaitEdge {
  from: number;
  to: number;
  ns: number;
  cascaded_ns: number;
  critical_ns?: number;
  count: number;
  kinds: [WaitKind, number][];
  objects: string[];
}

export interface WhatIf {
  path: string;
  scope?: "own" | "inclusive" | "wait";
  kind?: WaitKind | null;
  object?: string;
  stack?: string[];
  /** `"inf"` for no time at all. */
  speedup: number | "inf";
  saving?: number;
  saving_low: number;
  saving_high: number;
  saving_ns?: number;
  saving_low_ns: number;
  saving_high_ns: number;
}

/** Which code runs while the others wait; see `CriticalityView`. */
export interface Criticality {
  estimate: boolean;
  per_process: boolean;
  cpus: number;
  elapsed_ns: number;
  busy_ns: number;
  idle_ns: number;
  unattributed_ns: number;
  spin_ns: number;
  parallelism_mean: number | null;
  drift: number;
  slices: number;
  critical_slices: number;
  threads: CriticalThread[];
  groups: CriticalGroup[];
  paths: CriticalPath[];
  parallelism: { n: number; ns: number }[];
  waits: CriticalWait[];
  graph: { nodes: WaitNode[]; edges: WaitEdge[]; knots: number[][] };
  contention: { of_run: number; much: boolean };
  what_if: WhatIf[];
}

/** Parts of threads' lives, packed; see `PackedCut` in `crates/report/src/html/cut.rs`. */
export interface PackedCut {
  /** Why there are none; empty if there are. */
  left_out: string;
  lists: { measure: string; by_feature: boolean; parts: number; spins: boolean }[];
  when: boolean;
  details: string;
  columns: string;
}

/** Threads over time, packed; see `Timeline` in `crates/report/src/timeline`. */
export interface PackedTimeline {
  start_ns: number;
  end_ns: number;
  bins: number;
  cpus: number;
  kinds: WaitKind[];
  slices: number;
  exact_slices: number;
  exact_ranges: [number, number][];
  threads_left_out: number;
  cells: string;
  parallelism: string;
  exact: string;
  details: string;
}

export type WalkMetric = "wall" | "cpu" | "page-faults" | "cycles" | "cache-misses";

/** One frame of a chain. */
export interface WalkFrame {
  function: string;
  component: string | null;
  space: "user" | "kernel";
  inlined: boolean;
  share: number;
  share_low: number;
  share_high: number;
  method: string;
  on_ns: number;
  runnable_ns: number;
  blocked_ns: number;
  file: string;
  line: number;
  disputed?: number | null;
  woken_by?: string;
  node: number;
}

export interface WalkChain {
  thread_group: string;
  process: number;
  share: number;
  ends: string;
  waiting_for: string;
  woken_by: string;
  frames: WalkFrame[];
  conclusion?: string;
  next?: string;
}

export interface WalkGroup {
  thread_group: string;
  process: number;
  executable: string;
  threads: number;
  total: number;
  on_ns: number;
  runnable_ns: number;
  blocked_ns: number;
  remark?: string;
}

export interface WalkStep {
  time_ns: number;
  thread_group: string;
  parent: string;
  function: string;
  space: "user" | "kernel";
  share: number;
  method: string;
  followed: boolean;
  note: string;
}

export interface WalkSystemCall {
  thread_group: string;
  process: number;
  name: string;
  calls: number;
  wall_ns: number;
  on_ns: number;
  runnable_ns: number;
  blocked_ns: number;
}

/** Chains from main down to where the time is; see `WalkView`. */
export interface Walk {
  metric: WalkMetric;
  threshold: number;
  kernel_timing: string;
  user_timing: string | null;
  critical: boolean;
  found_after_ns: number | null;
  system_calls_until_ns?: number | null;
  start_ns: number;
  probes_live: number;
  probes_inserted: number;
  longest_stop_ns: number;
  chains: WalkChain[];
  groups: WalkGroup[];
  steps: WalkStep[];
  system_calls: WalkSystemCall[];
}

/** The joined call tree in columns, parents first; see `WalkTree` in `crates/analyze`. */
export interface WalkTree {
  texts: string[];
  group: number[];
  parent: number[];
  node: number[];
  function: number[];
  component: number[];
  file: number[];
  line: number[];
  kind: number[];
  total: number[];
  on_ns: number[];
  runnable_ns: number[];
  blocked_ns: number[];
  samples: number[];
  left_out: number;
}

const NO_TREE: WalkTree = { texts: [""], group: [], parent: [], node: [], function: [], component: [], file: [], line: [], kind: [], total: [], on_ns: [], runnable_ns: [], blocked_ns: [], samples: [], left_out: 0 };

const NO_REGIONS: RegionTree = { parent: [], region: [], exclusive_ns: [], cpu_ns: [], entries: [], samples: [], left_out: 0 };
const NO_STAYS: RegionTimeline = { threads: [], thread: [], depth: [], region: [], start_ns: [], duration_ns: [], left_out: 0 };

export interface LossRow {
  what: string;
  where: string;
  count: number;
  reason: string;
}

export interface Report {
  meta: Meta;
  /** From the start to the end of what was recorded, as the terminal's header says it, ns. */
  wall_ns?: number;
  summary: Finding[];
  components: ComponentRow[];
  flows: FlowRow[];
  threads: ThreadRow[];
  waits: WaitRow[];
  locks: LockRow[];
  latency: LatencyRow[];
  latency_heat_map: LatencyHeatMap;
  criticality: Criticality | null;
  /** Critical paths that the page leaves out: the least critical. */
  paths_left_out: number;
  /** The same of rows of the scheduler's waits. */
  waits_left_out: number;
  timeline: PackedTimeline | null;
  cut: PackedCut | null;
  walk: Walk | null;
  walk_tree: WalkTree;
  features: FeatureRow[];
  regions: RegionRow[];
  region_tree: RegionTree;
  region_timeline: RegionTimeline;
  feature_apis: FeatureApi[];
  feature_components: FeatureComponent[];
  feature_lost: LostVariable[];
  features_without_regions: string[];
  loss: LossRow[];
}

/** The report that the page carries. A missing key reads as an empty table. */
export function embeddedReport(): Report {
  const text = document.getElementById("report-data")?.textContent ?? "{}";
  const data = JSON.parse(text) as Partial<Report>;
  return {
    meta: data.meta ?? {},
    ...(data.wall_ns === undefined ? {} : { wall_ns: data.wall_ns }),
    summary: data.summary ?? [],
    components: data.components ?? [],
    flows: data.flows ?? [],
    threads: data.threads ?? [],
    waits: data.waits ?? [],
    locks: data.locks ?? [],
    latency: rowsOf(data.latency ?? []),
    latency_heat_map: data.latency_heat_map ?? { starts_ns: [], end_ns: 0, buckets: [], functions: [] },
    criticality: data.criticality ?? null,
    paths_left_out: data.paths_left_out ?? 0,
    waits_left_out: data.waits_left_out ?? 0,
    timeline: data.timeline ?? null,
    cut: data.cut ?? null,
    walk: data.walk ?? null,
    walk_tree: data.walk_tree ?? NO_TREE,
    features: data.features ?? [],
    regions: data.regions ?? [],
    region_tree: data.region_tree ?? NO_REGIONS,
    region_timeline: data.region_timeline ?? NO_STAYS,
    feature_apis: data.feature_apis ?? [],
    feature_components: data.feature_components ?? [],
    feature_lost: data.feature_lost ?? [],
    features_without_regions: data.features_without_regions ?? [],
    loss: data.loss ?? [],
  };
}

/** True if calls between components were recorded. */
export function hasFlows(report: Report): boolean {
  const alone = report.meta.latency === undefined && report.meta.criticality === undefined && report.meta.walk === undefined && report.meta.feature === undefined;
  return alone || (report.meta.collectors ?? ["flow"]).includes("flow");
}
