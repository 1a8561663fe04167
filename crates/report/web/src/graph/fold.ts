// Which components and arrows the graph shows: a program has dozens of libraries, of which a few take the time.

import { type Edge, type Model, selfAttributed, waitAttributed } from "../model";

export interface GraphNode {
  id: string;
  label: string;
  /** Share of the whole in its own code, 0–1. */
  self: number;
  /** Share of the whole waiting in calls that it made. */
  wait: number;
  selfNs: number | null;
  waitNs: number | null;
  callsIn: number;
  callsOut: number;
  executable: boolean;
  /** Names of the components that this box stands for, if it stands for several. */
  folded: string[];
}

export interface GraphEdge {
  from: string;
  to: string;
  /** Share of the whole that calls worked, or of all calls where no times were taken. Waiting is apart: it costs no
   * CPU, and one sleeping pool of threads would make every other arrow a hair. */
  share: number;
  /** Share of the whole that calls waited. */
  waitShare: number;
  totalNs: number;
  calls: number;
}

export interface ComponentGraph {
  nodes: GraphNode[];
  edges: GraphEdge[];
  /** Arrows left out because they carry almost nothing. */
  hiddenEdges: number;
  /** False where only counts were taken: arrows then go by calls. */
  timed: boolean;
}

/** Identity of the box that stands for all folded components; no file is named so. */
export const OTHERS = "\0others";

const MOST_EDGES = 36;
const ALWAYS_DRAWN = 14;
const LEAST_SHARE = 0.001;
const LEAST_WAIT = 0.01;

export function foldComponents(model: Model, most: number): ComponentGraph {
  const timed = model.edges.some((edge) => edge.attributed > 0);
  const allCalls = model.edges.reduce((sum, edge) => sum + edge.calls, 0) || 1;
  const whole = model.whole || 1;
  const shareOfEdge = (edge: Edge): number => (timed ? (edge.attributed - edge.waiting) / whole : edge.calls / allCalls);

  const weights = new Map<string, number>();
  const raise = (name: string, weight: number): void => {
    weights.set(name, Math.max(weights.get(name) ?? 0, weight));
  };
  for (const [name, row] of model.components) {
    raise(name, ((selfAttributed(row) ?? 0) + (waitAttributed(row) ?? 0)) / whole);
  }
  for (const edge of model.edges) raise(edge.callee, shareOfEdge(edge));
  for (const edge of model.edges) raise(edge.caller, shareOfEdge(edge) / 2);
  // The executable that calls most is where a reader starts, however little it does itself.
  const [main] = [...model.components.values()].filter((row) => row.executable).sort((a, b) => b.calls_out - a.calls_out);
  if (main) raise(main.component, Number.MAX_VALUE);
  // Components that took part in no flow and no time would be boxes without arrows.
  const linked = new Set(model.edges.flatMap((edge) => [edge.caller, edge.callee]));
  const ranked = [...weights].filter(([name, weight]) => linked.has(name) || weight > 0).sort((a, b) => b[1] - a[1]);
  const foldable = ranked.length > most + 1;
  const kept = new Set((foldable ? ranked.slice(0, most) : ranked).map(([name]) => name));
  const folded = ranked.map(([name]) => name).filter((name) => !kept.has(name));

  const nodes: GraphNode[] = [...kept].map((name) => node(model, name, name, [name], whole, []));
  if (folded.length > 0) nodes.push(node(model, OTHERS, `${folded.length} others`, folded, whole, folded));

  const boxOf = (name: string): string => (kept.has(name) ? name : OTHERS);
  const merged = new Map<string, GraphEdge>();
  for (const edge of model.edges) {
    const from = boxOf(edge.caller);
    const to = boxOf(edge.callee);
    if (from === to) continue;
    const key = `${from}\u0001${to}`;
    const known = merged.get(key) ?? { from, to, share: 0, waitShare: 0, totalNs: 0, calls: 0 };
    known.share += shareOfEdge(edge);
    known.waitShare += timed ? edge.waiting / whole : 0;
    known.totalNs += edge.total;
    known.calls += edge.calls;
    merged.set(key, known);
  }
  const edges = [...merged.values()].sort((a, b) => b.share - a.share || b.waitShare - a.waitShare);
  // Each box keeps its heaviest incoming arrow, so that none looks unreachable.
  const reached = new Set<string>();
  const shown = edges.filter((edge, rank) => {
    const first = !reached.has(edge.to);
    reached.add(edge.to);
    return first || rank < ALWAYS_DRAWN || (rank < MOST_EDGES && edge.share >= LEAST_SHARE) || edge.waitShare >= LEAST_WAIT;
  });
  return { nodes, edges: shown, hiddenEdges: edges.length - shown.length, timed };
}

function node(model: Model, id: string, label: string, names: string[], whole: number, folded: string[]): GraphNode {
  const result: GraphNode = {
    id,
    label,
    self: 0,
    wait: 0,
    selfNs: null,
    waitNs: null,
    callsIn: 0,
    callsOut: 0,
    executable: false,
    folded,
  };
  for (const name of names) {
    const row = model.components.get(name);
    if (row === undefined) continue;
    result.self += (selfAttributed(row) ?? 0) / whole;
    result.wait += (waitAttributed(row) ?? 0) / whole;
    if (row.self_ns !== null) result.selfNs = (result.selfNs ?? 0) + row.self_ns;
    if (row.wait_ns !== null) result.waitNs = (result.waitNs ?? 0) + row.wait_ns;
    result.callsIn += row.calls_in;
    result.callsOut += row.calls_out;
    result.executable ||= row.executable === true && folded.length === 0;
  }
  return result;
}
