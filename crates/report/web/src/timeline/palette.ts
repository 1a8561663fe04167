// Colours of states and waits. Kinds are drawn by family: twenty colours cannot be told apart.

import { h } from "../dom";

export interface Family {
  name: string;
  kinds: string[];
  /** Custom property with its colour. */
  color: string;
}

export const FAMILIES: Family[] = [
  { name: "lock", kinds: ["mutex", "rwlock", "futex", "spin", "kernel-lock"], color: "--lock" },
  { name: "condition, barrier, join", kinds: ["condition", "barrier", "semaphore", "join", "child"], color: "--wait" },
  { name: "file", kinds: ["file-read", "file-write", "file-sync"], color: "--io" },
  { name: "socket, pipe, poll", kinds: ["socket", "pipe", "poll"], color: "--net" },
  { name: "page fault", kinds: ["page-fault"], color: "--memory" },
  { name: "sleep, signal, other", kinds: ["sleep", "signal", "other", "run-queue", ""], color: "--idle" },
];

export function familyOf(kind: string): Family {
  return FAMILIES.find((family) => family.kinds.includes(kind)) ?? (FAMILIES.at(-1) as Family);
}

/** Colours as the browser resolves them, for the canvas. */
export interface Palette {
  run: number;
  runnable: number;
  /** By 1 + number of the kind; 0 is unknown. */
  blocked: number[];
  text: string;
  muted: string;
  line: string;
  surface: string;
  accent: string;
  low: string;
  high: string;
  none: string;
  /** As CSS colours, for legends. */
}

export function paletteOf(element: HTMLElement, kinds: string[]): Palette {
  const probe = h("span", { hidden: true });
  element.append(probe);
  const css = (name: string): string => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const packed = (name: string, strength = 1): number => {
    const [r, g, b] = parts(css(name));
    const [sr, sg, sb] = parts(css("--surface"));
    const mix = (color: number, surface: number): number => Math.round(surface + (color - surface) * strength);
    // Little endian: alpha, blue, green, red.
    return ((255 << 24) | (mix(b, sb) << 16) | (mix(g, sg) << 8) | mix(r, sr)) >>> 0;
  };
  const palette = {
    run: packed("--compute"),
    runnable: packed("--runnable"),
    blocked: ["", ...kinds].map((kind) => packed(familyOf(kind).color, 0.42)),
    text: css("--text"),
    muted: css("--muted"),
    line: css("--line"),
    surface: css("--surface"),
    accent: css("--accent"),
    low: css("--wait"),
    high: css("--compute"),
    none: css("--lock"),
  };
  probe.remove();
  return palette;
}

function parts(color: string): [number, number, number] {
  const [r, g, b] = color.match(/[\d.]+/g)?.map(Number) ?? [];
  return [r ?? 0, g ?? 0, b ?? 0];
}
