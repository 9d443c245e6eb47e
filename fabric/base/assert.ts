/** The project's own invariant is broken: only the entry point catches it, and exits with 70. */
export class InvariantError extends Error {
  override readonly name = "InvariantError";
}

/** Evaluates `message` always: hot paths use `if (…) fail(…)`. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new InvariantError(message);
}

export function fail(message: string): never {
  throw new InvariantError(message);
}

/** For the arm of a switch that the types exclude. */
export function unreachable(value: never): never {
  throw new InvariantError(`Unreachable value: ${JSON.stringify(value)}`);
}
