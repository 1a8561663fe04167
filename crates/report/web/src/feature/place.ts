// What features call and where their time goes, row by row: to be searched and sorted.

import { h, printable } from "../dom";
import { count, duration, exact, exactNs, percent } from "../format";
import type { FeatureApi, FeatureComponent } from "./rows";
import type { Column } from "../table/column";
import { DataTable } from "../table/data_table";
import { type FeatureModel, setName } from "./model";

interface Placed {
  features: string[];
  calls: number;
}

function features<Row extends Placed>(): Column<Row> {
  return {
    key: "features",
    label: "Features",
    help: "Exactly these features were active",
    sort: (row) => setName(row.features).toLowerCase(),
    text: (row) => printable(setName(row.features)),
    tone: (row) => (row.features.length === 0 ? "quiet" : ""),
  };
}

function time<Row extends Placed>(key: string, label: string, help: string, whole: number, of: (row: Row) => number | null): Column<Row> {
  return {
    key,
    label,
    help,
    width: "130px",
    numeric: true,
    sort: of,
    text: (row) => duration(of(row)),
    title: (row) => `${exactNs(of(row))}, ${percent((of(row) ?? 0) / whole)} of all threads' time`,
    bar: (row) => (of(row) ?? 0) / whole,
    tone: () => "tone-compute",
  };
}

function calls<Row extends Placed>(): Column<Row> {
  return {
    key: "calls",
    label: "Calls",
    help: "Calls made then: exact",
    width: "100px",
    numeric: true,
    sort: (row) => row.calls,
    text: (row) => (row.calls > 0 ? count(row.calls) : ""),
    title: (row) => exact(row.calls),
  };
}

function searched<Row extends Placed>(id: string, placeholder: string, table: DataTable<Row>, words: (row: Row) => string): HTMLElement {
  const filter = h("input", { type: "search", id: `${id}-filter`, placeholder, "aria-label": placeholder, spellcheck: "false" });
  const shown = h("span", { class: "walk-found", role: "status" });
  const whole = table.length;
  const apply = (): void => {
    const wanted = filter.value.trim().toLowerCase();
    table.filter((row) => wanted === "" || words(row).toLowerCase().includes(wanted));
    shown.textContent = `${exact(table.length)} of ${exact(whole)}`;
  };
  filter.addEventListener("input", apply);
  apply();
  return h("div", { class: "panel" }, h("div", { class: "graph-bar feature-bar" }, filter, shown), table.element);
}

export function apiTable(model: FeatureModel): HTMLElement {
  const columns: Column<FeatureApi>[] = [
    {
      key: "api",
      label: "API",
      help: "Called function and its component",
      code: true,
      sort: (row) => row.api.toLowerCase(),
      text: (row) => printable(row.api),
      note: (row) => ` ${printable(row.callee)}`,
      title: (row) => printable(`${row.api}\n${row.callee}`),
    },
    features(),
    time("total_ns", "Time", "Entry to return, callees included", model.whole, (row) => row.total_ns),
    time("self_ns", "Self", "Less the calls that the API made into other components", model.whole, (row) => row.self_ns),
    calls(),
  ];
  const rows = model.report.feature_apis;
  const table = new DataTable<FeatureApi>({ id: "feature-api-table", label: "Calls by feature", columns, rows, sortBy: "total_ns", empty: "No call matches.", minWidth: "760px" });
  return searched("feature-api", "API, component or feature", table, (row) => `${row.api} ${row.callee} ${setName(row.features)}`);
}

export function componentTable(model: FeatureModel): HTMLElement {
  const columns: Column<FeatureComponent>[] = [
    {
      key: "component",
      label: "Component",
      help: "Where the time was spent",
      code: true,
      sort: (row) => row.component.toLowerCase(),
      text: (row) => printable(row.component),
      title: (row) => printable(row.component),
    },
    features(),
    time("self_ns", "Self", "Time in the component, less the APIs that it calls", model.whole, (row) => row.self_ns),
    time("wait_ns", "Of it waiting", "In APIs that wait", model.whole, (row) => row.wait_ns),
    calls(),
  ];
  const rows = model.report.feature_components;
  const table = new DataTable<FeatureComponent>({ id: "feature-component-table", label: "Components by feature", columns, rows, sortBy: "self_ns", empty: "No component matches.", minWidth: "680px" });
  return searched("feature-component", "Component or feature", table, (row) => `${row.component} ${setName(row.features)}`);
}
