// Which part is cut: the language of `--where`, parsed and asked as `crates/analyze/src/cut/filter.rs` does.

import { printable } from "../dom";
import { type Dimension, dimensionOf, DIMENSIONS } from "./dimension";

export interface Term {
  /** `null`: any function of the stack. */
  dimension: Dimension | null;
  negated: boolean;
  /** Whether one name is asked for. */
  is(name: string): boolean;
  /** The lack of a name is asked for. */
  none: boolean;
}

export type Expression =
  | { kind: "term"; term: Term }
  | { kind: "not"; inner: Expression }
  | { kind: "and" | "or"; left: Expression; right: Expression };

/** The word for a key that there is not. */
export const NONE = "none";

/** Whether one of the names is what a term asks for. */
export function holds(term: Term, names: string[]): boolean {
  const found = names.length === 0 ? term.none : names.some(term.is);
  return found !== term.negated;
}

export function termsOf(expression: Expression): Term[] {
  if (expression.kind === "term") return [expression.term];
  return expression.kind === "not" ? termsOf(expression.inner) : [...termsOf(expression.left), ...termsOf(expression.right)];
}

/** A filter that cannot be read; `at` is where. */
export class FilterError extends Error {
  constructor(message: string, readonly at: number) {
    super(message);
  }
}

interface Token {
  at: number;
  kind: "word" | "quoted" | "sign";
  text: string;
}

const SIGN = /^(?:!=|!~|==|=|~|\(|\)|,)/;
const WORD = /^[^\s=!~(),"']+/;

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  for (let at = 0; at < text.length; ) {
    const rest = text.slice(at);
    const blank = /^\s+/.exec(rest)?.[0];
    const sign = SIGN.exec(rest)?.[0];
    const word = WORD.exec(rest)?.[0];
    if (blank !== undefined) {
      at += blank.length;
    } else if (sign !== undefined) {
      tokens.push({ at, kind: "sign", text: sign === "==" ? "=" : sign });
      at += sign.length;
    } else if (word !== undefined) {
      tokens.push({ at, kind: "word", text: word });
      at += word.length;
    } else if (rest.startsWith("'") || rest.startsWith('"')) {
      const end = rest.indexOf(rest.charAt(0), 1);
      if (end < 0) throw new FilterError("this quote is not closed", at);
      tokens.push({ at, kind: "quoted", text: rest.slice(1, end) });
      at += end + 1;
    } else {
      throw new FilterError("unexpected sign", at);
    }
  }
  return tokens;
}

/** Brackets and `not` nested deeper than this are refused. */
const DEEPEST = 100;

/** Throws a `FilterError`. */
export function parseFilter(text: string): Expression {
  const tokens = tokensOf(text);
  let next = 0;
  let depth = 0;
  const here = (): number => tokens[next]?.at ?? text.length;
  const fail = (message: string, at = here()): never => {
    throw new FilterError(message, at);
  };
  const takes = (kind: Token["kind"], word: string): boolean => {
    const is = tokens[next]?.kind === kind && tokens[next]?.text === word;
    if (is) next += 1;
    return is;
  };
  const either = (): Expression => {
    let left = both();
    while (takes("word", "or")) left = { kind: "or", left, right: both() };
    return left;
  };
  const both = (): Expression => {
    let left = single();
    while (takes("word", "and")) left = { kind: "and", left, right: single() };
    return left;
  };
  const single = (): Expression => {
    depth += 1;
    if (depth > DEEPEST) fail("nested too deeply");
    const parsed = ((): Expression => {
      if (takes("word", "not")) return { kind: "not", inner: single() };
      if (!takes("sign", "(")) return { kind: "term", term: term() };
      const inner = either();
      if (!takes("sign", ")")) fail("expected `)`");
      return inner;
    })();
    depth -= 1;
    return parsed;
  };
  const subject = (): Dimension | null => {
    const token = tokens[next];
    if (token?.kind !== "word") return fail("expected a dimension, `not` or `(`");
    if (token.text === "time" || token.text.startsWith("time/")) fail("a range of time is selected in the strip, or given by From and To");
    next += 1;
    if (token.text === "stack") return null;
    return dimensionOf(token.text) ?? fail(`\`${token.text}\` is no dimension; there are ${DIMENSIONS.map(({ word }) => word).join(", ")}`, token.at);
  };
  const value = (): string => {
    const token = tokens[next];
    if (token === undefined || token.kind === "sign") return fail("expected a value; one with signs or blanks stands in quotes");
    next += 1;
    return token.text;
  };
  const list = (): string[] => {
    if (!takes("sign", "(")) fail("expected `(` and values");
    const values = [value()];
    while (takes("sign", ",")) values.push(value());
    if (!takes("sign", ")")) fail("expected `,` or `)`");
    return values;
  };
  const oneOf = (dimension: Dimension | null, values: string[], negated: boolean): Term => {
    const set = new Set(values);
    return { dimension, negated, is: (name) => set.has(name) || set.has(printable(name)), none: set.has(NONE) };
  };
  const matching = (dimension: Dimension | null, negated: boolean): Term => {
    const at = here();
    const pattern = value();
    try {
      const expression = new RegExp(pattern, "u");
      return { dimension, negated, is: (name) => expression.test(name), none: false };
    } catch {
      return fail("no regular expression", at);
    }
  };
  const term = (): Term => {
    const dimension = subject();
    const not = takes("word", "not");
    if (takes("word", "in")) return oneOf(dimension, list(), not);
    if (not) return fail("expected `in` after `not`");
    if (takes("sign", "=")) return oneOf(dimension, [value()], false);
    if (takes("sign", "!=")) return oneOf(dimension, [value()], true);
    if (takes("sign", "~")) return matching(dimension, false);
    if (takes("sign", "!~")) return matching(dimension, true);
    return fail("expected `=`, `!=`, `~`, `!~` or `in`");
  };
  const expression = either();
  if (next < tokens.length) fail("expected `and` or `or`");
  return expression;
}

/** A name as a value of a filter. */
export function quoted(name: string): string {
  if (WORD.exec(name)?.[0] === name && !["and", "or", "not", "in", NONE].includes(name)) return name;
  return name.includes("'") ? `"${name}"` : `'${name}'`;
}

/** The filter of one key, or of everything else. */
export function termText(word: string, name: string | null, negated: boolean): string {
  if (name !== null && name.includes("'") && name.includes('"')) {
    // No quote can hold both: any character stands for them.
    const pattern = name.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&").replace(/['"]/g, ".");
    return `${word} ${negated ? "!~" : "~"} '^${pattern}$'`;
  }
  return `${word} ${negated ? "!=" : "="} ${name === null ? NONE : quoted(name)}`;
}
