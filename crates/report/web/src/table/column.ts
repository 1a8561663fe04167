/** How one column of a table shows, explains and sorts a row. */
export interface Column<Row> {
  key: string;
  label: string;
  /** What the column means, shown on its header. */
  help: string;
  /** CSS width; the columns without one share the rest. */
  width?: string;
  numeric?: boolean;
  /** Names of APIs and objects are set in the fixed-width face. */
  code?: boolean;
  /** What to sort by; unknown values (`null`) stay at the end in both directions. */
  sort(row: Row): number | string | null;
  text(row: Row): string;
  /** The exact value. */
  title?(row: Row): string;
  /** A smaller remark after the text. */
  note?(row: Row): string;
  /** A bar 0–1 behind the text. */
  bar?(row: Row): number;
  /** A class for the cell, such as the kind of time. */
  tone?(row: Row): string;
}

/** Row order by one column: unknown values last, ties in the order of the report. */
export function order<Row>(rows: Row[], column: Column<Row>, descending: boolean): Row[] {
  const keys = rows.map((row) => column.sort(row));
  const sign = descending ? -1 : 1;
  const indices = rows.map((_, index) => index);
  indices.sort((a, b) => {
    const x = keys[a] ?? null;
    const y = keys[b] ?? null;
    if (x === y) return a - b;
    if (x === null) return 1;
    if (y === null) return -1;
    return x < y ? -sign : x > y ? sign : a - b;
  });
  return indices.map((index) => rows[index] as Row);
}
