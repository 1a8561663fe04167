// What the search found: one card a chain, the chosen one in full.

import { h, printable } from "../dom";
import { duration, exact, percent, plural } from "../format";
import type { Walk, WalkChain, WalkFrame } from "../report";
import { unbroken } from "../summary";
import { METHODS, shareText, splitBar, splitText } from "./bar";
import { byProgram, groupName, type GroupTree, lifetime, sourceLine } from "./model";

export interface ChainList {
  element: HTMLElement;
  /** The chosen chain. */
  chosen(): WalkChain | undefined;
}

export function chainList(walk: Walk, trees: GroupTree[], choose: (tree: GroupTree, chain: WalkChain) => void): ChainList {
  const cards: { chain: WalkChain; tree: GroupTree; button: HTMLButtonElement }[] = [];
  const list = h("div", { class: "chain-list", role: "listbox", "aria-label": "Chains" });
  const detail = h("div", { class: "chain-detail", id: "chain-detail", "aria-live": "polite" });
  let chosen: WalkChain | undefined;
  const select = (at: number, grab: boolean): void => {
    const card = cards[at];
    if (card === undefined) return;
    chosen = card.chain;
    for (const each of cards) {
      each.button.setAttribute("aria-selected", String(each === card));
      each.button.tabIndex = each === card ? 0 : -1;
    }
    if (grab) card.button.focus();
    detail.replaceChildren(...describe(walk, card.chain, card.tree.group.remark ?? ""));
    choose(card.tree, card.chain);
  };
  const heading = (name: string, facts: string): HTMLElement =>
    h("p", { class: "chain-group", role: "presentation" }, h("b", { dir: "ltr" }, printable(name)), ` ${facts}`);
  for (const { tree, others } of byProgram(trees.filter((tree) => tree.chains.length > 0))) {
    if (others.length > 0) {
      const all = [tree, ...others];
      const threads = all.reduce((sum, each) => sum + each.group.threads, 0);
      const facts = `${exact(all.length)} processes, ${plural(threads, "thread")}, ${duration(all.reduce((sum, each) => sum + lifetime(each.group), 0))}; the one that lived longest:`;
      list.append(heading(`${tree.group.thread_group} of ${tree.group.executable}`, facts));
    } else {
      list.append(heading(groupName(tree.group), `${plural(tree.group.threads, "thread")}, ${duration(lifetime(tree.group))}`));
    }
    for (const chain of tree.chains) {
      const at = cards.length;
      const button = h(
        "button",
        { type: "button", class: `chain-card ${chain.ends}`, role: "option", "aria-selected": "false", tabindex: -1 },
        h("span", { class: "chain-share" }, chain.frames.length === 0 ? "–" : percent(chain.share)),
        h("span", { class: "chain-name", dir: "ltr" }, printable(shortPath(chain))),
        h("small", {}, ENDS.get(chain.ends) ?? ""),
      );
      button.addEventListener("click", () => select(at, false));
      cards.push({ chain, tree, button });
      list.append(button);
    }
    if (others.length > 0) list.append(h("p", { class: "chain-group", role: "presentation" }, `${exact(others.length)} more by process: --view walk`));
  }
  list.addEventListener("keydown", (event) => {
    const at = cards.findIndex((card) => card.chain === chosen);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: cards.length - 1 }[event.key];
    if (to === undefined || cards[to] === undefined) return;
    event.preventDefault();
    select(to, true);
  });
  select(0, false);
  return { element: h("div", { class: "chain-grid" }, list, detail), chosen: () => chosen };
}

const ENDS = new Map([
  ["function", "holds the time itself"],
  ["waiting", "waits"],
  ["spread", "its callees share the time"],
  ["nothing-above-threshold", "no function above the threshold"],
]);

/** The way into the kernel and the last function; of the program alone, the last function. */
function shortPath(chain: WalkChain): string {
  const last = chain.frames.at(-1);
  if (last === undefined) return "no function above the threshold";
  const entry = chain.frames.find((frame) => frame.space === "kernel");
  return entry === undefined || entry.function === last.function ? last.function : `${entry.function} → ${last.function}`;
}

function describe(walk: Walk, chain: WalkChain, remark: string): (HTMLElement | string)[] {
  const rows = chain.frames.map((frame, depth) => row(frame, depth, depth === chain.frames.length - 1));
  const disputed = chain.frames.filter((frame) => frame.disputed !== null && frame.disputed !== undefined);
  return [
    h("p", { class: "conclusion" }, printable(chain.conclusion ?? "")),
    ...(chain.next ? [h("p", { class: "next" }, h("span", {}, "Next: ", ...unbroken(chain.next)))] : []),
    ...(remark === "" ? [] : [h("p", { class: "estimate", role: "note" }, h("b", {}, "Busy machine. "), ...unbroken(remark))]),
    ...(rows.length === 0
      ? []
      : [
          h(
            "div",
            { class: "chain-scroll" },
            h(
              "table",
              { class: "chain", "aria-label": "The chain, from its root down" },
              h(
                "thead",
                {},
                h("tr", {}, h("th", { scope: "col" }, "Function"), h("th", { scope: "col" }, "Where"), h("th", { scope: "col", class: "numeric" }, "Share"), h("th", { scope: "col", class: "walk-bar-cell" }, walk.metric === "wall" ? "Time" : "Threads' time"), h("th", { scope: "col" }, "Measured")),
              ),
              h("tbody", {}, ...rows),
            ),
          ),
        ]),
    ...disputed.map((frame) =>
      h("p", { class: "estimate", role: "note" }, h("b", {}, "Disputed. "), `${printable(frame.function)}: samples say ${percent(frame.disputed ?? 0)} where timing says ${percent(frame.share)}, and did so twice; the truth may lie between.`),
    ),
  ];
}

function row(frame: WalkFrame, depth: number, last: boolean): HTMLElement {
  const kernel = frame.space === "kernel";
  const split = { on: frame.on_ns, ready: frame.runnable_ns, blocked: frame.blocked_ns };
  const [method, why] = METHODS.get(frame.method) ?? [frame.method, ""];
  const name = h("span", { class: "walk-name", dir: "ltr" }, printable(frame.function));
  name.style.paddingLeft = `${Math.min(depth, 14) * 0.75}em`;
  const component = kernel ? "[kernel]" : [frame.component ?? "", frame.inlined ? "inlined" : ""].filter(Boolean).join(", ");
  const line = sourceLine(frame.file, frame.line);
  const woken = frame.woken_by ? `\nmostly woken by ${printable(frame.woken_by)}` : "";
  return h(
    "tr",
    { class: `${kernel ? "in-kernel" : "in-program"}${last ? " chain-end" : ""}`, title: `${printable(frame.function)}\n${frame.file === "" ? "" : `${printable(frame.file)}:${frame.line}\n`}${splitText(split)}${woken}` },
    h("td", {}, name),
    h("td", { class: "walk-place", title: `${printable(component)} ${printable(line)}`.trim() }, h("span", { dir: "ltr" }, printable(component)), line === "" ? null : h("small", { dir: "ltr" }, ` ${printable(line)}`)),
    h("td", { class: "numeric" }, shareText(frame)),
    h("td", { class: "walk-bar-cell" }, splitBar(frame.share, split)),
    h("td", { class: "walk-method", title: why ?? "" }, method ?? ""),
  );
}
