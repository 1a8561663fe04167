// Sums over the report's rows that several parts of the page need.

import type { ApiClass, ComponentRow, FlowRow, Report } from "./report";

/** One component calling into another, over all APIs. */
export interface Edge {
  caller: string;
  callee: string;
  attributed: number;
  total: number;
  calls: number;
  /** Attributed time of the APIs that wait. */
  waiting: number;
  /** False if none of its calls was timed. */
  timed: boolean;
}

/** One API of a component, over all callers. */
export interface Api {
  component: string;
  api: string;
  class: ApiClass;
  wait: boolean;
  calls: number;
  timed: number;
  total: number | null;
  self: number | null;
  attributed: number | null;
  callers: FlowRow[];
}

export interface Model {
  report: Report;
  /** What percentages refer to: the lifetime of all threads, each instant divided by the number of active threads. */
  whole: number;
  /** Raw lifetime of all threads. */
  lifetime: number;
  components: Map<string, ComponentRow>;
  edges: Edge[];
  apis: Map<string, Api[]>;
}

/** Adds two times of which either may be unknown. */
export function addKnown(a: number | null, b: number | null | undefined): number | null {
  if (b === null || b === undefined) return a;
  return (a ?? 0) + b;
}

/** A component's self time as percentages use it: attributed where the report has it. */
export function selfAttributed(row: ComponentRow): number | null {
  return row.self_attributed_ns ?? row.self_ns;
}

/** The same for its waiting. */
export function waitAttributed(row: ComponentRow): number | null {
  return row.wait_attributed_ns ?? row.wait_ns;
}

/** A time as a share of the whole; unknown if the time is. */
export function shareOf(model: Model, ns: number | null): number | null {
  return ns === null || model.whole <= 0 ? null : ns / model.whole;
}

export function modelOf(report: Report): Model {
  const components = new Map(report.components.map((row) => [row.component, row]));
  const edges = new Map<string, Edge>();
  const apis = new Map<string, Map<string, Api>>();
  for (const flow of report.flows) {
    for (const name of [flow.caller, flow.callee]) {
      if (!components.has(name)) {
        components.set(name, { component: name, self_ns: null, wait_ns: null, calls_in: 0, calls_out: 0 });
      }
    }
    const key = `${flow.caller}\0${flow.callee}`;
    let edge = edges.get(key);
    if (edge === undefined) {
      edge = { caller: flow.caller, callee: flow.callee, attributed: 0, total: 0, calls: 0, waiting: 0, timed: false };
      edges.set(key, edge);
    }
    edge.attributed += flow.attributed_ns ?? 0;
    edge.total += flow.total_ns ?? 0;
    edge.calls += flow.calls;
    edge.timed ||= flow.total_ns !== null;
    if (flow.wait) edge.waiting += flow.attributed_ns ?? 0;

    let ofComponent = apis.get(flow.callee);
    if (ofComponent === undefined) apis.set(flow.callee, (ofComponent = new Map()));
    let api = ofComponent.get(flow.api);
    if (api === undefined) {
      api = {
        component: flow.callee,
        api: flow.api,
        class: flow.class,
        wait: flow.wait,
        calls: 0,
        timed: 0,
        total: null,
        self: null,
        attributed: null,
        callers: [],
      };
      ofComponent.set(flow.api, api);
    }
    api.calls += flow.calls;
    api.timed += flow.timed_calls ?? 0;
    api.total = addKnown(api.total, flow.total_ns);
    api.self = addKnown(api.self, flow.self_ns);
    api.attributed = addKnown(api.attributed, flow.attributed_ns);
    api.callers.push(flow);
  }
  const withCalls = report.threads.filter((thread) => thread.calls !== null);
  const lifetime = withCalls.reduce((sum, thread) => sum + thread.wall_ns, 0) || (report.meta.wall_ns ?? 0);
  const attributed = withCalls.reduce((sum, thread) => sum + (thread.attributed_ns ?? 0), 0);
  return {
    report,
    whole: attributed > 0 ? attributed : lifetime,
    lifetime,
    components,
    edges: [...edges.values()],
    apis: new Map([...apis].map(([name, byApi]) => [name, [...byApi.values()]])),
  };
}
