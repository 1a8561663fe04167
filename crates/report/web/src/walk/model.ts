// The joined call tree of program and kernel, unpacked from columns.

import type { Walk, WalkChain, WalkFrame, WalkGroup, WalkTree } from "../report";

/** What counts: time on CPU, off it, both, or the walk's metric where that is not time. */
export type Weight = "on" | "off" | "both" | "metric";

export interface WalkNode {
  name: string;
  component: string;
  kernel: boolean;
  inlined: boolean;
  file: string;
  line: number;
  parent: WalkNode | null;
  depth: number;
  children: WalkNode[];
  /** Row in the profile's table of nodes; -1 for what stands above the roots of a group. */
  row: number;
  total: number;
  on: number;
  ready: number;
  blocked: number;
  samples: number;
}

export interface GroupTree {
  group: WalkGroup;
  root: WalkNode;
  chains: WalkChain[];
  /** Frames of chains, by row of their node. */
  frames: Map<number, WalkFrame>;
}

export function wall(node: WalkNode): number {
  return node.on + node.ready + node.blocked;
}

export function weightOf(node: WalkNode, weight: Weight): number {
  switch (weight) {
    case "on":
      return node.on;
    case "off":
      return node.ready + node.blocked;
    case "both":
      return wall(node);
    default:
      return node.total;
  }
}

export function groupName(group: WalkGroup): string {
  return `${group.thread_group} of ${group.executable} (${group.process})`;
}

/** Time of a group's threads, ns. */
export function lifetime(group: WalkGroup): number {
  return group.on_ns + group.runnable_ns + group.blocked_ns;
}

/** As many processes of a program are told apart. */
const TOLD_APART = 4;

/** Groups in the report's order; where a program has run many times, the process that lived longest stands for the others. */
export function byProgram(trees: GroupTree[]): { tree: GroupTree; others: GroupTree[] }[] {
  const programs = new Map<string, GroupTree[]>();
  for (const tree of trees) {
    const key = JSON.stringify([tree.group.executable, tree.group.thread_group]);
    const known = programs.get(key);
    if (known) known.push(tree);
    else programs.set(key, [tree]);
  }
  return [...programs.values()].flatMap((of) => {
    if (of.length <= TOLD_APART) return of.map((tree) => ({ tree, others: [] }));
    const tree = of.reduce((longest, each) => (lifetime(each.group) > lifetime(longest.group) ? each : longest));
    return [{ tree, others: of.filter((each) => each !== tree) }];
  });
}

/** One tree a group, in the report's order. */
export function groupTrees(walk: Walk, tree: WalkTree): GroupTree[] {
  const trees = walk.groups.map((group): GroupTree => {
    const chains = walk.chains.filter((chain) => chain.thread_group === group.thread_group && chain.process === group.process);
    const frames = new Map(chains.flatMap((chain) => chain.frames).map((frame) => [frame.node, frame]));
    return { group, chains, frames, root: emptyNode(`all of ${group.thread_group}`, null) };
  });
  const nodes: WalkNode[] = [];
  const text = (at: number | undefined): string => tree.texts[at ?? 0] ?? "";
  tree.node.forEach((row, at) => {
    const above = tree.parent[at] ?? -1;
    const parent = above >= 0 ? nodes[above] : trees[tree.group[at] ?? 0]?.root;
    const node = emptyNode(text(tree.function[at]), parent ?? null);
    node.component = text(tree.component[at]);
    node.kernel = tree.kind[at] === 1;
    node.inlined = tree.kind[at] === 2;
    node.file = text(tree.file[at]);
    node.line = tree.line[at] ?? 0;
    node.row = row;
    node.total = tree.total[at] ?? 0;
    node.on = tree.on_ns[at] ?? 0;
    node.ready = tree.runnable_ns[at] ?? 0;
    node.blocked = tree.blocked_ns[at] ?? 0;
    node.samples = tree.samples[at] ?? 0;
    parent?.children.push(node);
    nodes.push(node);
  });
  for (const node of nodes) node.children.sort((a, b) => b.total - a.total);
  for (const { root, group } of trees) {
    root.children.sort((a, b) => b.total - a.total);
    root.total = group.total;
    root.on = group.on_ns;
    root.ready = group.runnable_ns;
    root.blocked = group.blocked_ns;
    root.samples = root.children.reduce((sum, child) => sum + child.samples, 0);
  }
  return trees;
}

function emptyNode(name: string, parent: WalkNode | null): WalkNode {
  return { name, component: "", kernel: false, inlined: false, file: "", line: 0, parent, depth: parent === null ? 0 : parent.depth + 1, children: [], row: -1, total: 0, on: 0, ready: 0, blocked: 0, samples: 0 };
}

/** Where a node's code is: `[kernel]`, or its component. */
export function place(node: { kernel: boolean; component: string; inlined: boolean }): string {
  if (node.kernel) return "[kernel]";
  if (node.inlined) return node.component === "" ? "inlined" : `${node.component}, inlined`;
  return node.component;
}

export function sourceLine(file: string, line: number): string {
  const name = file.split("/").at(-1) ?? file;
  return name === "" ? "" : line > 0 ? `${name}:${line}` : name;
}
