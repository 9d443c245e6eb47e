/**
 * The user's options, one row each: the readers of scenarios, command lines, orders and tests, the
 * page's forms and the READMEs' tables are derived from them. Without zod, too large for a page.
 */
import { formatExact, parseTime } from "../../base/time.ts";
import { isWhole, wholeText } from "../../base/whole_number.ts";
import { listOf, oneOf, type OptionNames } from "./problem.ts";
import { formatSize, parseSize } from "./units.ts";

/** Values of `size` are bytes, of `time` ps of virtual time, of `wall-time` ms. */
export type ValueKind =
  | {
    readonly type: "whole" | "size";
    readonly least: number;
    readonly most: number;
    readonly multipleOf?: number;
  }
  | { readonly type: "time" | "wall-time" }
  | { readonly type: "switch" }
  | { readonly type: "word"; readonly words: readonly string[] }
  | { readonly type: "host"; readonly words: readonly string[] };

export type OptionRow = ValueKind & {
  readonly what: string;
  /** Absent: another rule decides. */
  readonly normal?: number;
  /** On a page; by default its name. */
  readonly label?: string;
};

/** By the name in commands and tests; an order has {@link orderName}. */
export type OptionTable = Readonly<Record<string, OptionRow>>;

export type ValueOf<Kind extends ValueKind> = Kind extends
  { readonly type: "word"; readonly words: readonly (infer Word)[] } ? Word
  : Kind extends { readonly type: "host"; readonly words: readonly (infer Word)[] }
    ? Word | { readonly host: string }
  : Kind extends { readonly type: "switch" } ? boolean
  : number;

export type ValuesOf<Table extends OptionTable> = {
  readonly [Name in keyof Table]?: ValueOf<Table[Name]>;
};

export const NAME_LETTERS_MAX = 200;
const WALL_UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** Up to this many words are listed whole, without the nearest; a placeholder has room for them. */
export const WORDS_LISTED = 3;

/** Reads `90s`, `2.5h`: whole ms, at least one, or undefined. */
function parseWallTime(text: string): number | undefined {
  const [, number, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? [];
  const ms = Math.round(Number(number) * (WALL_UNITS[unit ?? ""] ?? NaN));
  return isWhole(ms, { least: 1, most: Number.MAX_SAFE_INTEGER }) ? ms : undefined;
}

/** Of a scenario or a test: `4096` or `"4KiB"`, `"40us"`. Undefined if invalid. */
export function readValue<Kind extends ValueKind>(
  kind: Kind,
  value: unknown,
): ValueOf<Kind> | undefined {
  return valueOf(kind, value) as ValueOf<Kind> | undefined;
}

function valueOf(kind: ValueKind, value: unknown): unknown {
  switch (kind.type) {
    case "whole":
    case "size": {
      const number = kind.type === "size" ? parseSize(value) : value;
      return isWhole(number, kind) && number % (kind.multipleOf ?? 1) === 0 ? number : undefined;
    }
    case "time":
      return typeof value === "string" ? parseTime(value) : undefined;
    case "wall-time":
      return typeof value === "string" ? parseWallTime(value) : undefined;
    case "word":
      return kind.words.find((word) => word === value);
    case "host":
      if (typeof value !== "string" || value === "" || value.length > NAME_LETTERS_MAX) return;
      return kind.words.find((word) => word === value) ?? { host: value };
    case "switch":
      return typeof value === "boolean" ? value : undefined;
  }
}

/** Of a command line or a form. Undefined if invalid. */
export function readTyped<Kind extends ValueKind>(
  kind: Kind,
  text: string,
): ValueOf<Kind> | undefined {
  if (kind.type !== "whole") return readValue(kind, text);
  return readValue(kind, /^-?\d+$/.test(text) ? Number(text) : NaN);
}

/** In place of an invalid value; for a word, the nearest one, if any. */
export function expectedOf(kind: ValueKind, found?: unknown): string {
  switch (kind.type) {
    case "whole":
      return kind.multipleOf === undefined
        ? wholeText(kind)
        : `a multiple of ${kind.multipleOf} from ${kind.least} to ${kind.most}`;
    case "size":
      return sizeText(kind);
    case "time":
      return "a time such as 40us or 2.5ms";
    case "wall-time":
      return "a time > 0 such as 90s, 10m or 2h";
    case "word":
      return kind.words.length <= WORDS_LISTED
        ? listOf(kind.words)
        : oneOf(kind.words, typeof found === "string" ? found : undefined);
    case "host":
      return `${kind.words.join(", ")}, or a host's name`;
    case "switch":
      return "true or false";
  }
}

function sizeText(
  { least, most, multipleOf = 1 }: {
    readonly least: number;
    readonly most: number;
    readonly multipleOf?: number;
  },
): string {
  const steps = multipleOf === 1 ? "" : ` in steps of ${formatSize(multipleOf)}`;
  const like = most < 64 * 2 ** 20 ? "4KiB" : "64MiB";
  return `a size from ${formatSize(least)} to ${formatSize(most)}${steps}, like ${like}`;
}

export function helpOf(row: OptionRow): string {
  const limits = limitsText(row);
  const normal = row.normal === undefined ? "" : `${normalText(row)} unless given`;
  const more = [limits, normal].filter((text) => text !== "").join("; ");
  return more === "" ? row.what : `${row.what} (${more})`;
}

function limitsText(kind: ValueKind): string {
  if (kind.type === "word") return kind.words.join(", ");
  if (kind.type === "size") return `${formatSize(kind.least)} to ${formatSize(kind.most)}`;
  if (kind.type !== "whole" || kind.most === Number.MAX_SAFE_INTEGER) return "";
  return `${kind.least} to ${kind.most}`;
}

/** As typed. */
export function normalText({ type, normal = NaN }: OptionRow): string {
  if (type === "time") return formatExact(normal);
  if (type !== "wall-time") return String(normal);
  const [unit, ms] = Object.entries(WALL_UNITS).findLast(([, ms]) => normal % ms === 0)!;
  return `${normal / ms}${unit}`;
}

export function valuesIn<Table extends OptionTable>(
  table: Table,
  given: { readonly [Name in keyof Table]?: ValueOf<Table[Name]> | undefined },
): ValuesOf<Table> {
  const known = Object.keys(table).flatMap((name) =>
    given[name] === undefined ? [] : [[name, given[name]]]
  );
  return Object.fromEntries(known) as ValuesOf<Table>;
}

type Renamed<Name extends string, Row> = Row extends { readonly type: "time" } ? `${Name}Ps`
  : Row extends { readonly type: "wall-time" } ? `${Name}Ms`
  : Name;

export type OrderOf<Table extends OptionTable> = {
  readonly [Name in keyof Table & string as Renamed<Name, Table[Name]>]?: ValueOf<Table[Name]>;
};

/** An option's name in an order: JSON has no units, so the name has them. */
export function orderName(name: string, { type }: { readonly type: string }): string {
  return type === "time" ? `${name}Ps` : type === "wall-time" ? `${name}Ms` : name;
}

/** In refusals of an order. `pack`, which no table has, is its `packing`. */
export const ORDER_NAMES: OptionNames = (option, kind = { type: "word" }) =>
  option === "pack" ? "packing" : orderName(option, kind);

/** In refusals of a test, whose `set` names words of a scenario as `--vary` does. */
export const TEST_NAMES: OptionNames = (option) => option === "vary" ? "set" : option;

/** The options of a table that an order gives. */
export function fromOrder<Table extends OptionTable>(
  table: Table,
  order: { readonly [Name in keyof OrderOf<Table>]?: OrderOf<Table>[Name] | undefined },
): ValuesOf<Table> {
  const given = order as Readonly<Record<string, unknown>>;
  const values = Object.entries(table).map(([name, row]) => [name, given[orderName(name, row)]]);
  return valuesIn(table, Object.fromEntries(values));
}
