// The JSON object of `transect report --format json`, as far as the page reads it. Times are nanoseconds.

export interface Meta {
  schema?: number;
  command?: string[] | string;
  machine?: { hostname?: string; kernel?: string; cpu?: string; cpus?: number; memory_bytes?: number };
  clock?: { source?: string; ticks_per_ns?: number; timed_call_ns?: number; counted_call_ns?: number };
  collectors?: string[];
  timing?: { mode?: string; budget?: number; period?: number } | string;
  overhead_estimate?: number | null;
  wall_ns?: number;
  started_unix_ns?: number;
  exit_status?: number | null;
}

export interface Finding {
  finding: string;
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
  busy_ns: number;
  wait_ns: number;
  calls: number;
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
}

export interface LossRow {
  what: string;
  where: string;
  count: number;
  reason: string;
}

export interface Report {
  meta: Meta;
  summary: Finding[];
  components: ComponentRow[];
  flows: FlowRow[];
  threads: ThreadRow[];
  waits: WaitRow[];
  locks: LockRow[];
  loss: LossRow[];
}

/** The report that the page carries. A missing key reads as an empty table. */
export function embeddedReport(): Report {
  const text = document.getElementById("report-data")?.textContent ?? "{}";
  const data = JSON.parse(text) as Partial<Report>;
  return {
    meta: data.meta ?? {},
    summary: data.summary ?? [],
    components: data.components ?? [],
    flows: data.flows ?? [],
    threads: data.threads ?? [],
    waits: data.waits ?? [],
    locks: data.locks ?? [],
    loss: data.loss ?? [],
  };
}
