/**
 * "We are wrong": a broken invariant of our own. On in production, never caught and repaired: the
 * entry point prints it and exits with 70.
 */
export class InvariantError extends Error {
  override readonly name = "InvariantError";
}

/**
 * Throws {@link InvariantError} unless `condition` holds. `message` says what was expected. It is put
 * together at every call: where one is made for each event, `if (…) fail(…)` takes its place.
 */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new InvariantError(message);
}

/** The same, for a condition that has been found broken. */
export function fail(message: string): never {
  throw new InvariantError(message);
}

/** For the arm of a switch that the types rule out. */
export function unreachable(value: never): never {
  throw new InvariantError(`Unreachable value: ${JSON.stringify(value)}`);
}
