import type { ApiClass } from "./report";

/** The kinds of time, in the order in which the page lists them. */
export const API_CLASSES: { value: ApiClass; label: string; help: string }[] = [
  { value: "compute", label: "compute", help: "Ordinary code" },
  { value: "io", label: "I/O", help: "Input and output that may block: read, write, fsync, …" },
  { value: "lock", label: "lock", help: "Acquiring a mutex, rwlock or spin lock; counts as waiting" },
  { value: "wait", label: "wait", help: "Waiting for somebody: sleep, join, condition, poll, …" },
  { value: "count-only", label: "count only", help: "Counted, never timed: setjmp, vfork, exit, …" },
];

export function classLabel(value: ApiClass): string {
  return API_CLASSES.find((known) => known.value === value)?.label ?? String(value);
}

export function classTone(value: ApiClass): string {
  return `tone-${API_CLASSES.some((known) => known.value === value) ? value : "compute"}`;
}
