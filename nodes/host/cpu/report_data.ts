/** Checks the values that programs report: data that the bus and JSON can represent. */

/** Maximum nesting: deeper data is probably cyclic. */
const DEPTH_MAX = 64;

/**
 * The first part of a value that is not plain data, with its path: `a Map at .found[2]`. Undefined
 * for plain data: numbers, bigints, strings, booleans, bytes, arrays and object literals.
 */
export function notPlain(value: unknown, path = "", depth = 0): string | undefined {
  if (typeof value === "function" || typeof value === "symbol") {
    return at(path, `a ${typeof value}`);
  }
  if (typeof value === "bigint") {
    return value === BigInt.asIntN(64, value) || value === BigInt.asUintN(64, value)
      ? undefined
      : at(path, "a bigint of more than 64 bits");
  }
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return undefined;
  if (depth === DEPTH_MAX) return at("", "an object in an object more than 64 times");
  if (Array.isArray(value)) {
    return firstOf(value.entries(), (i) => `${path}[${i}]`, depth);
  }
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype) {
    return at(path, `a ${prototype.constructor?.name ?? "class"}`);
  }
  return firstOf(Object.entries(value), (key) => `${path}.${key}`, depth);
}

function firstOf<K>(
  entries: Iterable<readonly [K, unknown]>,
  pathOf: (key: K) => string,
  depth: number,
): string | undefined {
  for (const [key, each] of entries) {
    // A fast path without a path string: most elements are numbers or strings.
    if (typeof each === "number" || typeof each === "string") continue;
    const found = notPlain(each, pathOf(key), depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

function at(path: string, found: string): string {
  return path === "" ? found : `${found} at ${path}`;
}
