// Sets of features and the tree of region stacks, unpacked from columns.

import type { Report } from "../report";
import type { RegionRow, RegionTree } from "./rows";

/** What stands for the empty set. */
export const NO_FEATURE = "no feature";

/** One text per set: names may hold any character. */
export function setKey(features: string[]): string {
  return JSON.stringify(features);
}

/** `A, B`. */
export function setName(features: string[]): string {
  return features.length === 0 ? NO_FEATURE : features.join(", ");
}

/** A stack of regions, or of sets of features where regions that add none are left out. */
export interface RegionNode {
  /** Features of the last region; in a tree of features those that it added. */
  features: string[];
  /** The last region; in a tree of features any of those that it stands for. */
  region: RegionRow | null;
  /** Regions that it stands for. */
  regions: Set<number>;
  parent: RegionNode | null;
  depth: number;
  children: RegionNode[];
  exclusive: number;
  total: number;
  cpu: number;
  entries: number;
  samples: number;
}

function node(features: string[], region: RegionRow | null, parent: RegionNode | null): RegionNode {
  return { features, region, regions: new Set(), parent, depth: parent === null ? 0 : parent.depth + 1, children: [], exclusive: 0, total: 0, cpu: -1, entries: -1, samples: 0 };
}

export interface FeatureModel {
  report: Report;
  /** Time of all threads. */
  whole: number;
  regions: Map<number, RegionRow>;
}

export function featureModel(report: Report): FeatureModel {
  const whole = report.features.reduce((sum, row) => sum + row.exclusive_ns, 0);
  return { report, whole: Math.max(1, whole), regions: new Map(report.regions.map((row) => [row.id, row])) };
}

/** The tree of region stacks; `byFeature` joins stacks in which the same features were added in the same order. */
export function regionTree(model: FeatureModel, tree: RegionTree, byFeature: boolean): RegionNode {
  const root = node([], null, null);
  const nodes: RegionNode[] = [];
  const active: Set<string>[] = [];
  const known = new Map<RegionNode, Map<string, RegionNode>>();
  tree.parent.forEach((above, at) => {
    const parent = above < 0 ? null : (nodes[above] ?? root);
    const region = model.regions.get(tree.region[at] ?? -1) ?? null;
    let here: RegionNode;
    if (parent === null || region === null) {
      here = parent ?? root;
      active.push(new Set());
    } else {
      const around = active[above] ?? new Set<string>();
      const added = byFeature ? region.features.filter((name) => !around.has(name)) : region.features;
      active.push(byFeature ? new Set([...around, ...region.features]) : around);
      if (byFeature && added.length === 0) here = parent;
      else {
        const key = byFeature ? setKey(added) : String(region.id);
        let children = known.get(parent);
        if (children === undefined) known.set(parent, (children = new Map()));
        let child = children.get(key);
        if (child === undefined) {
          child = node(added, region, parent);
          children.set(key, child);
          parent.children.push(child);
        }
        here = child;
      }
    }
    if (region !== null) here.regions.add(region.id);
    here.exclusive += tree.exclusive_ns[at] ?? 0;
    here.samples += tree.samples[at] ?? 0;
    const cpu = tree.cpu_ns[at] ?? -1;
    const entries = tree.entries[at] ?? -1;
    if (cpu >= 0) here.cpu = Math.max(0, here.cpu) + cpu;
    // Of a region that adds nothing, entries are no entries of the features around it.
    if (entries >= 0 && (!byFeature || here !== parent)) here.entries = Math.max(0, here.entries) + entries;
    nodes.push(here);
  });
  const sum = (each: RegionNode): number => {
    each.total = each.exclusive + each.children.reduce((total, child) => total + sum(child), 0);
    return each.total;
  };
  sum(root);
  return root;
}

/** `packer.cc:210`. */
export function placeOf(region: RegionRow): string {
  const name = region.file.split("/").at(-1) ?? region.file;
  return name === "" ? "" : region.line > 0 ? `${name}:${region.line}` : name;
}
