// A table that sorts by any column and builds only the rows in sight, so that 20,000 rows scroll like 20.

import { h } from "../dom";
import { type Column, order } from "./column";

const ROW_HEIGHT = 30;
/** Rows kept beyond each end of the sight, so that a fast scroll does not show a gap. */
const OVERSCAN = 10;
/** Rows come and go by so many at a time. */
const STEP = 4;
/** Tables up to this length are built whole and need no scroll box of their own. */
const WHOLE = 14;

interface PooledCell {
  cell: HTMLTableCellElement;
  text: Text;
  note: HTMLElement | null;
  bar: HTMLElement | null;
}

interface PooledRow {
  row: HTMLTableRowElement;
  cells: PooledCell[];
  /** What it was filled with, so that it is not filled with the same again. */
  shows: unknown;
  index: number;
}

export interface DataTableOptions<Row> {
  id: string;
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  sortBy: string;
  /** Shown instead of rows when there are none. */
  empty: string;
  /** Rows in sight before the table scrolls in its own box. */
  height?: number;
  /** Narrower than this the table scrolls sideways. */
  minWidth?: string;
  onOpen?(row: Row): void;
  openLabel?: string;
}

let serial = 0;

export class DataTable<Row> {
  readonly element: HTMLElement;
  private readonly options: DataTableOptions<Row>;
  private readonly table: HTMLTableElement;
  private readonly body: HTMLTableSectionElement;
  private readonly before: HTMLTableRowElement;
  private readonly after: HTMLTableRowElement;
  private readonly headers = new Map<string, HTMLTableCellElement>();
  private readonly prefix = `row-${(serial += 1)}-`;
  private pool: PooledRow[] = [];
  private rows: Row[];
  private sorted: Row[] = [];
  private shown: Row[] = [];
  private keep: (row: Row) => boolean = () => true;
  private column: Column<Row>;
  private descending: boolean;
  private first = 0;
  private active = -1;
  private painting = false;

  constructor(options: DataTableOptions<Row>) {
    this.options = options;
    this.rows = options.rows;
    this.column = options.columns.find((column) => column.key === options.sortBy) ?? (options.columns[0] as Column<Row>);
    this.descending = this.column.numeric === true;
    this.before = spacer(options.columns.length);
    this.after = spacer(options.columns.length);
    this.body = h("tbody");
    const header = h("tr", { "aria-rowindex": 1 });
    for (const column of options.columns) header.append(this.headerCell(column));
    this.table = h(
      "table",
      { role: "grid", "aria-label": options.label },
      h("colgroup", {}, ...options.columns.map(() => h("col"))),
      h("thead", {}, header),
      this.body,
    );
    options.columns.forEach((column, index) => {
      const col = this.table.querySelectorAll("col")[index];
      if (col && column.width) col.style.width = column.width;
    });
    if (options.minWidth) this.table.style.minWidth = options.minWidth;
    this.element = h("div", { class: "table-scroll", id: options.id, tabindex: 0 }, this.table);
    this.element.addEventListener("scroll", () => this.request(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => this.click(event));
    new ResizeObserver(() => this.request()).observe(this.element);
    this.sort();
  }

  /** Rows that passed the filter. */
  get length(): number {
    return this.shown.length;
  }

  setRows(rows: Row[]): void {
    this.rows = rows;
    this.active = -1;
    this.sort();
  }

  /** Shows only the rows that `keep` accepts; in the same order. */
  filter(keep: (row: Row) => boolean): void {
    this.keep = keep;
    this.active = -1;
    this.refilter();
    this.element.scrollTop = 0;
    this.paint();
  }

  private headerCell(column: Column<Row>): HTMLTableCellElement {
    const button = h("button", { type: "button", title: column.help }, column.label, h("span", { class: "arrow", "aria-hidden": "true" }));
    button.addEventListener("click", () => {
      this.descending = this.column === column ? !this.descending : column.numeric === true;
      this.column = column;
      this.sort();
    });
    const cell = h("th", { scope: "col", class: column.numeric ? "numeric" : "", "data-column": column.key }, button);
    this.headers.set(column.key, cell);
    return cell;
  }

  private sort(): void {
    this.sorted = order(this.rows, this.column, this.descending);
    for (const [key, cell] of this.headers) {
      const direction = key !== this.column.key ? "none" : this.descending ? "descending" : "ascending";
      cell.setAttribute("aria-sort", direction);
    }
    this.active = -1;
    this.refilter();
    this.element.scrollTop = 0;
    this.paint();
  }

  private refilter(): void {
    this.shown = this.sorted.filter(this.keep);
    this.table.setAttribute("aria-rowcount", String(this.shown.length + 1));
    const rows = Math.min(this.shown.length, this.options.height ?? WHOLE);
    // Header, rows, and room for a sideways scroll bar.
    const height = `${(rows + 1) * ROW_HEIGHT + 24}px`;
    if (this.element.style.maxHeight !== height) this.element.style.maxHeight = height;
  }

  private request(): void {
    if (this.painting) return;
    this.painting = true;
    requestAnimationFrame(() => {
      this.painting = false;
      this.paint();
    });
  }

  private paint(): void {
    if (this.shown.length === 0) {
      const cell = h("td", { class: "empty", colspan: this.options.columns.length }, this.options.empty);
      this.body.replaceChildren(h("tr", {}, cell));
      this.pool = [];
      return;
    }
    const height = this.element.clientHeight || (this.options.height ?? WHOLE) * ROW_HEIGHT;
    const wanted = Math.min(this.shown.length, Math.ceil(height / ROW_HEIGHT) + 2 * OVERSCAN);
    const last = Math.max(0, this.shown.length - wanted);
    const sight = Math.floor(this.element.scrollTop / ROW_HEIGHT) - OVERSCAN;
    const first = Math.min(last, Math.max(0, sight - (sight % STEP)));
    if (this.pool.length !== wanted || this.before.parentElement === null) {
      while (this.pool.length < wanted) this.pool.push(this.pooledRow());
      this.pool.length = wanted;
      this.body.replaceChildren(this.before, ...this.pool.map((pooled) => pooled.row), this.after);
    } else {
      this.rotate(first - this.first);
    }
    this.first = first;
    setHeight(this.before, first * ROW_HEIGHT);
    setHeight(this.after, (this.shown.length - first - wanted) * ROW_HEIGHT);
    this.pool.forEach((pooled, offset) => this.fillRow(pooled, first + offset));
    if (this.active >= 0) this.element.setAttribute("aria-activedescendant", this.prefix + this.active);
    else this.element.removeAttribute("aria-activedescendant");
  }

  /** Moves the rows that left one end of the sight to the other end; those that stay in sight keep their content. */
  private rotate(by: number): void {
    if (Math.abs(by) >= this.pool.length) return;
    if (by > 0) {
      const moved = this.pool.splice(0, by);
      this.after.before(...moved.map((pooled) => pooled.row));
      this.pool.push(...moved);
    } else if (by < 0) {
      const moved = this.pool.splice(by);
      this.before.after(...moved.map((pooled) => pooled.row));
      this.pool.unshift(...moved);
    }
  }

  private pooledRow(): PooledRow {
    const row = h("tr", { role: "row", class: this.options.onOpen ? "openable" : "" });
    const cells = this.options.columns.map((column): PooledCell => {
      const text = document.createTextNode("");
      const cell = h("td", { role: "gridcell" });
      const bar = column.bar ? h("span", { class: "bar", "aria-hidden": "true" }) : null;
      const label = h("span", { class: "text", dir: "ltr" }, text);
      const note = column.note ? h("small") : null;
      if (bar) cell.append(bar);
      cell.append(label);
      if (note) cell.append(note);
      row.append(cell);
      return { cell, text, note, bar };
    });
    return { row, cells, shows: null, index: -1 };
  }

  private fillRow(pooled: PooledRow, index: number): void {
    const row = this.shown[index] as Row;
    pooled.row.classList.toggle("active", index === this.active);
    if (pooled.index !== index) {
      pooled.index = index;
      pooled.row.id = this.prefix + index;
      pooled.row.setAttribute("aria-rowindex", String(index + 2));
      pooled.row.dataset.index = String(index);
      pooled.row.classList.toggle("odd", index % 2 === 1);
    }
    if (pooled.shows === row) return;
    pooled.shows = row;
    this.options.columns.forEach((column, at) => {
      const cell = pooled.cells[at] as PooledCell;
      cell.text.data = column.text(row);
      cell.cell.title = column.title ? column.title(row) : cell.text.data;
      if (cell.note && column.note) cell.note.textContent = column.note(row);
      if (cell.bar && column.bar) {
        const length = Math.max(0, Math.min(1, column.bar(row)));
        cell.bar.hidden = length === 0;
        cell.bar.style.width = `${length * 100}%`;
      }
      const tone = column.tone ? column.tone(row) : "";
      const wanted = `${column.numeric ? "numeric " : ""}${column.code ? "code " : ""}${tone}`;
      if (cell.cell.className !== wanted) cell.cell.className = wanted;
    });
  }

  private click(event: MouseEvent): void {
    const row = (event.target as Element).closest("tr");
    const index = row?.dataset.index;
    // A selection is someone copying a name, not opening a row.
    if (index === undefined || !this.options.onOpen || getSelection()?.type === "Range") return;
    this.active = Number(index);
    this.options.onOpen(this.shown[this.active] as Row);
    this.paint();
  }

  private key(event: KeyboardEvent): void {
    if (event.target !== this.element || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW_HEIGHT) - 2);
    const end = this.shown.length - 1;
    const moves: Record<string, number> = {
      ArrowDown: this.active + 1,
      ArrowUp: this.active - 1,
      PageDown: this.active + page,
      PageUp: this.active - page,
      Home: 0,
      End: end,
    };
    const target = moves[event.key];
    if (target !== undefined && end >= 0) {
      event.preventDefault();
      this.active = Math.max(0, Math.min(end, target));
      this.reveal();
      this.paint();
    } else if (event.key === "Enter" && this.active >= 0 && this.options.onOpen) {
      event.preventDefault();
      this.options.onOpen(this.shown[this.active] as Row);
    }
  }

  private reveal(): void {
    const top = this.active * ROW_HEIGHT;
    const view = this.element.clientHeight - ROW_HEIGHT * 2;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top > this.element.scrollTop + view) this.element.scrollTop = top - view;
  }
}

function spacer(columns: number): HTMLTableRowElement {
  return h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: columns }));
}

function setHeight(row: HTMLTableRowElement, height: number): void {
  row.style.display = height > 0 ? "" : "none";
  (row.firstElementChild as HTMLElement).style.height = `${height}px`;
}
