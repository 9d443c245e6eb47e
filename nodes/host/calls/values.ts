/**
 * Kinds of values that a program passes to a call: small checks, which report what was found and
 * what was expected. The tables of calls (`verb_calls.ts`, `core_calls.ts`) are built of them. zod
 * would cost more than a post does.
 */
import { isMapping } from "../../../fabric/base/mapping.ts";
import { isWhole } from "../../../fabric/base/whole_number.ts";
import { notAwaited } from "../cpu/forgotten_calls.ts";
import { type Limit, limitText } from "../verbs/limits.ts";
import { VALUES_THERE } from "./names_there.ts";

/** A mismatch: the place in the value (`[1].lkey`), what was found, what was expected. */
export interface Wrong {
  readonly at: string;
  readonly found: string;
  readonly expected: string;
}

/**
 * Returns undefined where the value is of the kind. Its values are exactly those of type T: the
 * compiler checks a table's kinds against the types of the verbs.
 */
export interface Kind<in out T> {
  (value: unknown): Wrong | undefined;
  /** For the compiler only. */
  readonly type?: (value: T) => T;
}

/** A kind of any type. */
// deno-lint-ignore no-explicit-any -- T stands on both sides of a function: none but this takes each of them
export type AnyKind = Kind<any>;

export interface Optional<in out T> {
  readonly optional: Kind<T>;
}

// deno-lint-ignore no-explicit-any -- as of AnyKind
export type AnyOptional = Optional<any>;

/** The type of the values of a kind. */
export type TypeOf<K> = K extends Optional<infer T> ? T : K extends Kind<infer T> ? T : never;

export function optional<T>(kind: Kind<T>): Optional<T> {
  return { optional: kind };
}

/** Values for which `holds`, described as `expected`. */
export function kind<T>(expected: string, holds: (value: unknown) => boolean): Kind<T> {
  return (value) => holds(value) ? undefined : { at: "", found: found(value), expected };
}

/** Whole numbers from `least` to `most`. @param name describes them: `a key`. */
export function whole(name: string, least: number, most: number): Kind<number> {
  return within({ name, least, most });
}

/** Numbers within a limit of `verbs/limits.ts`, described in the verb's words. */
export function within(limit: Limit): Kind<number> {
  return kind(limitText(limit), (value) => isWhole(value, limit));
}

/** One of a few texts or numbers. @param names the standard's names of some of them. */
export function oneOf<const T extends string | number>(values: readonly T[]): Kind<T> {
  const known = new Set<unknown>(values);
  const listed = values.map((value) => JSON.stringify(value)).join(", ");
  return (value) => {
    if (known.has(value)) return undefined;
    const there = typeof value === "string" && Object.hasOwn(VALUES_THERE, value)
      ? VALUES_THERE[value]
      : undefined;
    const expected = known.has(there)
      ? `${JSON.stringify(there)}, as it is here`
      : `one of ${listed}`;
    return { at: "", found: found(value), expected };
  };
}

export function only<const T extends string>(text: T): Kind<T> {
  return oneOf([text]);
}

/** At most this many flags are named. */
const FLAGS_MOST = 4;

/**
 * Flags, joined by `|`. @param constants all flags by name. @param name describes them: `send
 * flags`.
 */
export function flags<T extends number>(
  name: string,
  constants: Readonly<Record<string, number>>,
): Kind<T> {
  let known = 0;
  for (const bit of Object.values(constants)) known |= bit;
  const names = Object.keys(constants);
  const more = names.length > FLAGS_MOST ? " …" : "";
  const expected = `${name} combined by |: ${names.slice(0, FLAGS_MOST).join(", ")}${more}`;
  return (value) => {
    if (typeof value !== "number" || value >>> 0 !== value) {
      return { at: "", found: found(value), expected };
    }
    const unknown = (value & ~known) >>> 0;
    if (unknown === 0) return undefined;
    const which = `0x${value.toString(16)}, of which 0x${unknown.toString(16)} is none`;
    return { at: "", found: which, expected };
  };
}

export function listOf<T>(each: Kind<T>, name: string): Kind<readonly T[]> {
  return (value) => {
    if (!Array.isArray(value)) {
      return { at: "", found: found(value), expected: `a list of ${name}` };
    }
    for (let i = 0; i < value.length; i++) {
      const wrong = each(value[i]);
      if (wrong !== undefined) return { ...wrong, at: `[${i}]${wrong.at}` };
    }
    return undefined;
  };
}

/** A kind for each field of T, of its type. The compiler demands all of them. */
export type FieldsOf<T> = {
  readonly [K in keyof T]-?: undefined extends T[K] ? Optional<Exclude<T[K], undefined>>
    : Kind<T[K]>;
};

/**
 * Plain objects with these fields, and no others, so that a misspelt field is refused.
 * @param name describes the object: `a send request`.
 */
export function shape<T extends object>(name: string, fields: FieldsOf<T>): Kind<T> {
  const known = new Map(
    Object.entries<AnyKind | AnyOptional>(fields).map(([field, of]) => {
      const isRequired = typeof of === "function";
      return [field, { field, isRequired, of: isRequired ? of : of.optional }];
    }),
  );
  const required = [...known.values()].filter(({ isRequired }) => isRequired);
  /**
   * The fields of the last object, in its order: objects from one place in a program have the same
   * order.
   */
  const last: (typeof required[number])[] = [];
  return (value) => {
    if (!isMapping(value)) return { at: "", found: found(value), expected: name };
    let at = 0, given = 0;
    // deno-lint-ignore rackmesh/no-for-in -- twice as fast as a list of keys; what is inherited is read by the call, too
    for (const field in value) {
      const its = value[field];
      if (its === undefined) continue;
      let row = last[at];
      if (row === undefined || row.field !== field) {
        row = known.get(field);
        if (row === undefined) return unknown(value, field);
        last[at] = row;
      }
      at++;
      if (row.isRequired) given++;
      const wrong = row.of(its);
      if (wrong !== undefined) return { ...wrong, at: `.${field}${wrong.at}` };
    }
    if (at === 0 && !isPlain(value)) return { at: "", found: found(value), expected: name };
    return given === required.length ? undefined : missing(value);
  };

  function unknown(value: object, field: string): Wrong {
    const call = notAwaited(value);
    if (call !== undefined) return { at: "", found: call, expected: name };
    const expected = [...known.keys()].join(", ");
    return { at: `.${field}`, found: `no field of ${name}`, expected };
  }

  /** Fields that an object does not enumerate may exist all the same. */
  function missing(value: object): Wrong | undefined {
    const call = notAwaited(value);
    if (call !== undefined) return { at: "", found: call, expected: name };
    for (const { field, of } of required) {
      const wrong = of(Reflect.get(value, field));
      if (wrong !== undefined) return { ...wrong, at: `.${field}${wrong.at}` };
    }
    return undefined;
  }
}

/** Objects of several shapes, distinguished by a field. */
export function tagged<Field extends string, T extends { readonly [F in Field]: string }>(
  field: Field,
  kinds: { readonly [Tag in T[Field]]: Kind<Extract<T, { readonly [F in Field]: Tag }>> },
): Kind<T> {
  const byTag: Readonly<Record<string, AnyKind>> = kinds;
  const known = oneOf(Object.keys(kinds));
  return (value) => {
    const tag: unknown = Object(value)[field];
    const wrong = known(tag);
    return wrong === undefined ? byTag[tag as string]!(value) : { ...wrong, at: `.${field}` };
  };
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Objects that a call has made, recognised by their fields. */
export function made<T>(
  name: string,
  call: string,
  has: readonly [keyof T & string, (keyof T & string)?, (keyof T & string)?],
): Kind<T> {
  const [one, two = one, three = two] = has;
  return kind(
    `${name}, as ${call} returns it`,
    (value) =>
      typeof value === "object" && value !== null && one in value && two in value && three in value,
  );
}

/**
 * An object that a call has made, where the value has the field `has`; else a value of the other
 * kind.
 */
export function madeOr<T, U>(object: Kind<T>, has: keyof T & string, other: Kind<U>): Kind<T | U> {
  return (value) =>
    typeof value === "object" && value !== null && has in value ? object(value) : other(value);
}

const isText = (value: unknown): value is string => typeof value === "string";
export const text = kind<string>("a text", isText);
export const name = kind<string>(
  "a name, a text that is not empty",
  (value) => isText(value) && value !== "",
);
export const flag = kind<boolean>("true or false", (value) => typeof value === "boolean");
/** Its arguments and result are checked when it is called. */
export const callback: AnyKind = kind("a function", (value) => typeof value === "function");
export const bytes = kind<Uint8Array>(
  "bytes, a Uint8Array",
  (value) => value instanceof Uint8Array,
);
/** Bytes that go to the card as they are. */
export const ownBytes = kind<Uint8Array<ArrayBuffer>>(
  "bytes, a Uint8Array of its own memory",
  (value) => value instanceof Uint8Array && value.buffer instanceof ArrayBuffer,
);
export const u8 = whole("8 bits", 0, 0xff);
export const u16 = whole("16 bits", 0, 0xffff);
export const u24 = whole("24 bits", 0, 0xff_ffff);
export const u32 = whole("32 bits", 0, 0xffff_ffff);
export const key = whole("a key", 0, 0xffff_ffff);
/** A length of bytes, perhaps 0. */
export const length = whole("a length in bytes", 0, Number.MAX_SAFE_INTEGER);
export const size = whole("a length in bytes", 1, Number.MAX_SAFE_INTEGER);
export const offset = whole("an offset in bytes", 0, Number.MAX_SAFE_INTEGER);
export const address = whole("an address", 0, Number.MAX_SAFE_INTEGER);
export const count = whole("a number of them", 0, Number.MAX_SAFE_INTEGER);
export const atLeastOne = whole("a number of them", 1, Number.MAX_SAFE_INTEGER);
export const ipv4 = whole("an IPv4 address", 0, 0xffff_ffff);
/** 64 bits, signed or not: their sum is the same. */
export const u64 = kind<bigint>(
  "a bigint of 64 bits, as 1n",
  (value) => typeof value === "bigint" && value >= -(1n << 63n) && value < 1n << 64n,
);
const isFinite = (value: unknown): boolean => Number.isFinite(value) && (value as number) >= 0;
/** A duration in ps, rounded up. */
export const duration = kind<number>("picoseconds, a number of 0 or more", isFinite);
/** The time at which a wait ends. */
export const deadline = kind<number>(
  "a time in picoseconds (cpu.now + …) or NEVER",
  (value) => isFinite(value) || value === Number.POSITIVE_INFINITY,
);

const TEXT_MOST = 40;
const FIELDS_MOST = 6;

/** A short description of a value. */
export function found(value: unknown): string {
  switch (typeof value) {
    case "undefined":
      return "not given";
    case "string":
      return JSON.stringify(value.length > TEXT_MOST ? `${value.slice(0, TEXT_MOST)}…` : value);
    case "bigint":
      return `${value}n, a bigint`;
    case "function":
      return "a function";
    case "object":
      return value === null ? "null" : objectFound(value);
    default:
      return String(value);
  }
}

function objectFound(value: object): string {
  const call = notAwaited(value);
  if (call !== undefined) return call;
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (ArrayBuffer.isView(value)) return `${value.byteLength} B of ${value.constructor.name}`;
  if ("errno" in value && "reason" in value) return `the error ${value.errno} (${value.reason})`;
  if ("refused" in value && "reason" in value) return `a refusal (${value.reason})`;
  const fields = Object.keys(value);
  if (fields.length === 0) return "an object without fields";
  const more = fields.length > FIELDS_MOST ? ", …" : "";
  return `an object with ${fields.slice(0, FIELDS_MOST).join(", ")}${more}`;
}
