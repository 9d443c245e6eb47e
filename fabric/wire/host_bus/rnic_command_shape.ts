/** Checks of values from another process, and the types of values that pass. */

export type Check<T> = (value: unknown) => value is T;
interface OptionalCheck<T> {
  readonly optional: Check<T>;
}
export type Shape = Readonly<Record<string, Check<unknown> | OptionalCheck<unknown>>>;
export type Rows = Readonly<Record<string, Shape>>;

export type Checked<C> = C extends Check<infer T> ? T : never;
export type ValueOf<S> =
  & { readonly [K in keyof S as S[K] extends Check<unknown> ? K : never]: Checked<S[K]> }
  & {
    readonly [K in keyof S as S[K] extends OptionalCheck<unknown> ? K : never]?: S[K] extends
      OptionalCheck<infer T> ? T : never;
  };

export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

export const count: Check<number> = isCount;
export const u8 = below(0x100), u24 = below(0x100_0000), u32 = below(0x1_0000_0000);

export function below(bound: number): Check<number> {
  return (value): value is number => isCount(value) && value < bound;
}

export function text(value: unknown): value is string {
  return typeof value === "string";
}

export function flag(value: unknown): value is boolean {
  return typeof value === "boolean";
}

export function oneOf<const T>(...values: readonly T[]): Check<T> {
  return (value): value is T => values.includes(value as T);
}

export function listOf<T>(check: Check<T>): Check<readonly T[]> {
  return (value): value is readonly T[] => Array.isArray(value) && value.every(check);
}

export function shaped<S extends Shape>(shape: S): Check<ValueOf<S>> {
  return (value): value is ValueOf<S> => conforms(value, shape);
}

export function isCounters(value: unknown): value is Readonly<Record<string, number>> {
  return isPlainObject(value) && Object.values(value).every((n) => Number.isFinite(n));
}

/** Without shared memory. */
export function isBytes(value: unknown): value is Uint8Array<ArrayBuffer> {
  return value instanceof Uint8Array && value.buffer instanceof ArrayBuffer;
}

/** A subclass's `slice` might not copy. */
export function isPlainBytes(value: unknown): value is Uint8Array<ArrayBuffer> {
  return isBytes(value) && Object.getPrototypeOf(value) === Uint8Array.prototype;
}

export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

interface RowTable {
  readonly rows: Rows;
  /** Fields that select the row; the first one is the key. */
  readonly names: readonly [string, ...string[]];
}

export function matchesRow(value: unknown, { rows, names }: RowTable): boolean {
  if (!isPlainObject(value)) return false;
  const name = value[names[0]];
  if (typeof name !== "string" || !Object.hasOwn(rows, name)) return false;
  return conforms(value, rows[name]!, names);
}

/** Every field passes its check, and there is no other one, except for `besides`. */
export function conforms(value: unknown, shape: Shape, besides: readonly string[] = []): boolean {
  if (!isPlainObject(value)) return false;
  for (const name of Object.keys(value)) {
    if (!Object.hasOwn(shape, name) && !besides.includes(name)) return false;
  }
  for (const [name, check] of Object.entries(shape)) {
    if (typeof check === "function") {
      if (!check(value[name])) return false;
    } else if (Object.hasOwn(value, name) && !check.optional(value[name])) {
      return false;
    }
  }
  return true;
}
