// Rows of the features view, as the JSON object has them. Times are nanoseconds.

import type { ApiClass } from "../report";

/** Facts of a recording of features. */
export interface FeatureSession {
  methods?: string[];
  sample_hz?: number;
  implicit?: string;
  events?: number;
  dropped?: number;
  blocked?: number;
  sites?: number;
  samples?: number;
  untranslated?: number;
  event_ns?: number;
}

/** Time in which a set of features was active. */
export interface FeatureRow {
  features: string[];
  inclusive_ns: number;
  exclusive_ns: number;
  decided_ns: number;
  cpu_ns: number | null;
  entries: number | null;
  threads: number;
  samples: number;
  method: string;
  exclusive_ns_low?: number;
  exclusive_ns_high?: number;
  inclusive_ns_low?: number;
  inclusive_ns_high?: number;
}

/** One region of code. */
export interface RegionRow {
  id: number;
  features: string[];
  /** How the decision depends on each of them. */
  dependences: string[];
  /** What confirming runs say of each of them; null: there were none. */
  verdicts: (string | null)[];
  function: string;
  file: string;
  line: number;
  entries: number | null;
  inclusive_ns: number;
  exclusive_ns: number;
  cpu_ns: number | null;
  threads: number;
  samples: number;
  method: string;
  kind: string;
  end_line: number;
  component: string;
  number: number;
  parent: number | null;
  sites: number;
  irregular: string | null;
  exclusive_ns_low?: number;
  exclusive_ns_high?: number;
  inclusive_ns_low?: number;
  inclusive_ns_high?: number;
}

/** Region stacks of all threads joined, parents first; see `RegionTree` in `crates/analyze`. */
export interface RegionTree {
  parent: number[];
  region: number[];
  exclusive_ns: number[];
  cpu_ns: number[];
  entries: number[];
  samples: number[];
  left_out: number;
}

/** When regions ran, by thread, then start; see `RegionTimeline` in `crates/analyze`. */
export interface RegionTimeline {
  threads: { name: string; tid: number; start_ns: number; end_ns: number }[];
  thread: number[];
  depth: number[];
  region: number[];
  start_ns: number[];
  duration_ns: number[];
  left_out: number;
}

/** Calls of one API while exactly a set of features was active. */
export interface FeatureApi {
  features: string[];
  callee: string;
  api: string;
  class: ApiClass;
  calls: number;
  total_ns: number | null;
  self_ns: number | null;
}

/** Time in one component while exactly a set of features was active. */
export interface FeatureComponent {
  features: string[];
  component: string;
  self_ns: number;
  wait_ns: number;
  calls: number;
}

export interface LostVariable {
  feature: string;
  variable: string;
  reason: string;
}
