// Call paths merged into a tree, root first.

import type { CriticalPath } from "../report";

export interface CallNode {
  name: string;
  component: string;
  parent: CallNode | null;
  depth: number;
  children: CallNode[];
  /** Criticality of the paths through here, ns. */
  running: number;
  waiting: number;
  /** Of `running`, gained in loops that wait. */
  spin: number;
  /** Of paths that end here. */
  own: number;
  samples: number;
  /** Paths that end here. */
  paths: CriticalPath[];
}

/** Frames below `main` and below a thread's start routine: the same in every path. */
const ROOTS = new Set(["_start", "__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main", "clone", "clone3", "__clone", "__clone3", "start_thread", "thread_start"]);

export function total(node: CallNode): number {
  return node.running + node.waiting;
}

export function callTree(paths: CriticalPath[], weight: (path: CriticalPath) => number): CallNode {
  const root = nodeOf("all paths", "", null);
  const index = new Map<CallNode, Map<string, CallNode>>();
  const add = (node: CallNode, path: CriticalPath, ns: number): void => {
    if (path.state === "waiting") node.waiting += ns;
    else node.running += ns;
    node.spin += path.spin_ns ?? 0;
    node.samples += path.samples;
  };
  for (const path of paths) {
    const ns = weight(path);
    if (ns <= 0) continue;
    const from = Math.max(0, path.stack.findIndex((name) => !ROOTS.has(name)));
    let node = root;
    add(root, path, ns);
    const stack = path.stack.length === 0 ? ["(no stack)"] : path.stack.slice(from);
    stack.forEach((name, at) => {
      let children = index.get(node);
      if (children === undefined) index.set(node, (children = new Map()));
      let child = children.get(name);
      if (child === undefined) {
        child = nodeOf(name, path.components?.[from + at] ?? "", node);
        children.set(name, child);
        node.children.push(child);
      }
      node = child;
      add(node, path, ns);
    });
    node.own += ns;
    node.paths.push(path);
  }
  const sort = (node: CallNode): void => {
    node.children.sort((a, b) => total(b) - total(a));
    node.children.forEach(sort);
  };
  sort(root);
  return root;
}

function nodeOf(name: string, component: string, parent: CallNode | null): CallNode {
  return { name, component, parent, depth: parent === null ? 0 : parent.depth + 1, children: [], running: 0, waiting: 0, spin: 0, own: 0, samples: 0, paths: [] };
}

/** All paths that go through a node. */
export function pathsBelow(node: CallNode): CriticalPath[] {
  return [...node.paths, ...node.children.flatMap(pathsBelow)];
}
