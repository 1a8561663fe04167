// A share as a bar, divided by what the threads did.

import { h } from "../dom";
import { duration, percent } from "../format";

export interface Split {
  on: number;
  ready: number;
  blocked: number;
}

/** The bar is `share` (0–1) long; its parts are those of the time. */
export function splitBar(share: number, split: Split): HTMLElement {
  const whole = Math.max(1, split.on + split.ready + split.blocked);
  const part = (kind: string, ns: number): HTMLElement => {
    const element = h("span", { class: `walk-part ${kind}` });
    element.style.width = `${(ns / whole) * Math.min(1, Math.max(0, share)) * 100}%`;
    return element;
  };
  return h(
    "span",
    { class: "walk-bar", title: splitText(split) },
    part("on", split.on),
    part("ready", split.ready),
    part("blocked", split.blocked),
  );
}

/** `on CPU 2.9 s, runnable 0.4 s, blocked 6.6 s`. */
export function splitText(split: Split): string {
  return `on CPU ${duration(split.on)}, runnable ${duration(split.ready)}, blocked ${duration(split.blocked)}`;
}

export const METHODS = new Map([
  ["exact", ["timed", "Every call was timed"]],
  ["syscall-exact", ["system call", "From the exact times of system calls"]],
  ["sampled", ["sampled", "From samples and waits"]],
]);

/** `31.1 % ± 0.3`. */
export function shareText(frame: { share: number; share_low: number; share_high: number }): string {
  const half = Math.max(frame.share_high - frame.share, frame.share - frame.share_low) * 100;
  return half >= 0.05 ? `${percent(frame.share)} ± ${half.toFixed(1)}` : percent(frame.share);
}
