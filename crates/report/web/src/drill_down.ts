// From the components to one component's APIs to one API's callers.

import { classLabel, classTone } from "./api_class";
import { h, printable } from "./dom";
import { count, duration, exact, exactNs, percent, plural } from "./format";
import { addKnown, type Api, type Model, selfAttributed, shareOf, waitAttributed } from "./model";
import { flowColumns } from "./flows";
import type { ComponentRow, FlowRow } from "./report";
import { hrefOf, type Place } from "./route";
import type { Column } from "./table/column";
import { DataTable } from "./table/data_table";

interface Callee {
  component: string;
  attributed: number | null;
  total: number | null;
  waiting: number;
  calls: number;
}

export interface DrillDown {
  element: HTMLElement;
  show(place: Place): void;
}

export function drillDown(model: Model, showFlows: (filter: { caller?: string; callee?: string; text?: string }) => void): DrillDown {
  const crumbs = h("nav", { class: "crumbs", "aria-label": "Drill-down", title: "Esc goes one step up" });
  const content = h("div", { class: "drill-content" });
  const go = (place: Place): void => {
    location.hash = hrefOf(place);
  };

  const overview = (): Node[] => [componentTable(model, (row) => go({ component: row.component })).element];

  const component = (name: string): Node[] => {
    const row = model.components.get(name);
    if (row === undefined) return [missing(`No component is named ${printable(name)}.`)];
    const apis = model.apis.get(name) ?? [];
    const callees = calleesOf(model, name);
    const parts: Node[] = [
      facts([
        ["Own code", percent(shareOf(model, selfAttributed(row))), duration(row.self_ns), exactNs(row.self_ns)],
        ["Waiting", percent(shareOf(model, waitAttributed(row))), duration(row.wait_ns), `${exactNs(row.wait_ns)} in blocking calls that it made`],
        ["Calls in", count(row.calls_in), "", exact(row.calls_in)],
        ["Calls out", count(row.calls_out), "", exact(row.calls_out)],
      ]),
    ];
    if (row.path) {
      parts.push(h("p", { class: "path", title: row.build_id ? `build-id ${row.build_id}` : "no build-id" }, h("code", { dir: "ltr" }, printable(row.path))));
    }
    parts.push(
      subsection(`Its APIs that others call`, apis.length > 0 ? apiTable(model, apis, (api) => go({ component: name, api: api.api })).element : missing("No other component calls it through linkage.")),
      subsection(`Where its own calls go`, callees.length > 0 ? calleeTable(model, name, callees, (callee) => showFlows({ caller: name, callee: callee.component })).element : missing("It calls no other component through linkage.")),
    );
    return parts;
  };

  const api = (name: string, apiName: string): Node[] => {
    const found = (model.apis.get(name) ?? []).find((each) => each.api === apiName);
    if (found === undefined) return [missing(`${printable(name)} has no called API ${printable(apiName)}.`)];
    const share = shareOf(model, found.attributed);
    return [
      facts([
        ["Share", percent(share), duration(found.total), `${exactNs(found.total)} in total, ${exactNs(found.attributed)} attributed`],
        ["Own time", duration(found.self), "", exactNs(found.self)],
        ["Calls", count(found.calls), `${percent(found.calls > 0 ? found.timed / found.calls : 0)} timed`, `${exact(found.calls)} calls, ${exact(found.timed)} timed`],
        ["Per call", duration(found.total === null || found.calls === 0 ? null : found.total / found.calls), classLabel(found.class), "Total divided by calls; kind of time"],
      ]),
      subsection(
        `${plural(found.callers.length, "caller")} of this API`,
        callerTable(model, found, (row) => go({ component: row.caller })).element,
      ),
      link("Show in the flow table", () => showFlows({ callee: name, text: apiName })),
    ];
  };

  const element = h("div", { class: "drill", id: "drill" }, crumbs, content);
  let shown: Place = {};
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || shown.component === undefined) return;
    event.preventDefault();
    go(shown.api === undefined ? {} : { component: shown.component });
  });
  return {
    element,
    show(place) {
      shown = place;
      const focused = element.contains(document.activeElement);
      const steps: Node[] = [step("All components", {}, place.component === undefined)];
      if (place.component !== undefined) {
        steps.push(step(printable(place.component), { component: place.component }, place.api === undefined));
        if (place.api !== undefined) steps.push(step(printable(place.api), place, true));
      }
      crumbs.replaceChildren(h("ol", {}, ...steps));
      if (place.component === undefined) content.replaceChildren(...overview());
      else if (place.api === undefined) content.replaceChildren(...component(place.component));
      else content.replaceChildren(...api(place.component, place.api));
      // What had the focus is gone; whoever came by keyboard goes on from the new table.
      if (focused) content.querySelector<HTMLElement>(".table-scroll")?.focus({ preventScroll: true });
    },
  };
}

function step(label: string, place: Place, current: boolean): HTMLElement {
  const content = current
    ? h("span", { "aria-current": "page", title: label, dir: "ltr" }, label)
    : h("a", { href: hrefOf(place), title: label, dir: "ltr" }, label);
  return h("li", {}, content);
}

function facts(items: [string, string, string, string][]): HTMLElement {
  return h(
    "dl",
    { class: "drill-facts" },
    ...items.map(([name, value, beside, title]) => h("div", { title }, h("dt", {}, name), h("dd", {}, value, beside ? h("small", {}, ` ${beside}`) : null))),
  );
}

function subsection(title: string, content: Node): HTMLElement {
  return h("div", { class: "drill-part" }, h("h3", {}, title), content);
}

function missing(text: string): HTMLElement {
  return h("p", { class: "empty" }, text);
}

function link(text: string, action: () => void): HTMLElement {
  const button = h("button", { type: "button", class: "quiet" }, text);
  button.addEventListener("click", action);
  return button;
}

function calleesOf(model: Model, name: string): Callee[] {
  const callees = new Map<string, Callee>();
  for (const edge of model.edges) {
    if (edge.caller !== name) continue;
    callees.set(edge.callee, {
      component: edge.callee,
      attributed: edge.timed ? edge.attributed : null,
      total: edge.timed ? edge.total : null,
      waiting: edge.waiting,
      calls: edge.calls,
    });
  }
  return [...callees.values()];
}

function shareColumn<Row>(model: Model, rows: Row[], label: string, help: string, value: (row: Row) => number | null, tone: (row: Row) => string): Column<Row> {
  const most = rows.reduce((max, row) => Math.max(max, value(row) ?? 0), 1);
  return {
    key: "share",
    label,
    help,
    width: "92px",
    numeric: true,
    sort: value,
    text: (row) => percent(shareOf(model, value(row))),
    title: (row) => `${exactNs(value(row))} attributed`,
    bar: (row) => (value(row) ?? 0) / most,
    tone,
  };
}

function nsColumn<Row>(key: string, label: string, help: string, value: (row: Row) => number | null): Column<Row> {
  return { key, label, help, width: "80px", numeric: true, sort: value, text: (row) => duration(value(row)), title: (row) => exactNs(value(row)) };
}

function callsColumn<Row>(key: string, label: string, value: (row: Row) => number): Column<Row> {
  return { key, label, help: "Calls entered; exact", width: "80px", numeric: true, sort: value, text: (row) => count(value(row)), title: (row) => exact(value(row)) };
}

function componentTable(model: Model, onOpen: (row: ComponentRow) => void): DataTable<ComponentRow> {
  const rows = [...model.components.values()];
  const timed = rows.some((row) => row.self_ns !== null);
  return new DataTable<ComponentRow>({
    id: "component-table",
    label: "Components",
    rows,
    sortBy: timed ? "share" : "calls_in",
    empty: "No components.",
    height: 14,
    onOpen,
    columns: [
      {
        key: "component",
        label: "Component",
        help: "The executable and its libraries",
        sort: (row) => row.component.toLowerCase(),
        text: (row) => printable(row.component),
        title: (row) => printable(row.path ?? row.component),
      },
      shareColumn(model, rows, "Self", "Share of the program's time in its own code", selfAttributed, () => "tone-compute"),
      nsColumn("self_ns", "Self time", "Time in its own code, summed over threads", (row) => row.self_ns),
      nsColumn("wait_ns", "Waiting", "Time waiting in blocking calls that it made, summed over threads", (row) => row.wait_ns),
      callsColumn("calls_in", "Calls in", (row) => row.calls_in),
    ],
  });
}

function apiTable(model: Model, rows: Api[], onOpen: (row: Api) => void): DataTable<Api> {
  return new DataTable<Api>({
    id: "api-table",
    label: "APIs",
    rows,
    sortBy: rows.some((row) => row.attributed !== null) ? "share" : "calls",
    empty: "No APIs.",
    height: 10,
    onOpen,
    columns: [
      { key: "api", label: "API", help: "Function that others call", code: true, sort: (row) => row.api.toLowerCase(), text: (row) => printable(row.api) },
      shareColumn(model, rows, "Share", "Share of the program's time, from entry to return", (row) => row.attributed, (row) => classTone(row.class)),
      nsColumn("total_ns", "Total", "Wall time from entry to return, over all threads and callers", (row) => row.total),
      callsColumn("calls", "Calls", (row) => row.calls),
    ],
  });
}

function calleeTable(model: Model, name: string, rows: Callee[], onOpen: (row: Callee) => void): DataTable<Callee> {
  return new DataTable<Callee>({
    id: "callee-table",
    label: `Components called by ${printable(name)}`,
    rows,
    sortBy: rows.some((row) => row.attributed !== null) ? "share" : "calls",
    empty: "No calls.",
    height: 8,
    onOpen,
    columns: [
      { key: "component", label: "Component", help: "Component called; click for the flows", sort: (row) => row.component.toLowerCase(), text: (row) => printable(row.component) },
      shareColumn(model, rows, "Share", "Share of the program's time, waiting included", (row) => row.attributed, (row) => (row.waiting > (row.attributed ?? 0) / 2 ? "tone-wait" : "tone-compute")),
      nsColumn("total_ns", "Total", "Wall time from entry to return, over all threads", (row) => row.total),
      callsColumn("calls", "Calls", (row) => row.calls),
    ],
  });
}

function callerTable(model: Model, api: Api, onOpen: (row: FlowRow) => void): DataTable<FlowRow> {
  const wanted = ["process", "thread", "feature", "caller", "calls", "attributed_ns", "total_ns", "mean_ns"];
  return new DataTable<FlowRow>({
    id: "caller-table",
    label: `Callers of ${printable(api.api)}`,
    rows: api.callers,
    sortBy: addKnown(null, api.attributed) === null ? "calls" : "attributed_ns",
    empty: "No callers.",
    height: 14,
    onOpen,
    columns: flowColumns(model, api.callers)
      .filter((column) => wanted.includes(column.key))
      .map((column) => (column.key === "caller" ? { ...column, width: "" } : column)),
  });
}
