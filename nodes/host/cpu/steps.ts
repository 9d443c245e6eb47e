/** What a user's file gives us to run, looked at once before it is run. */
import type { Steps } from "./program.ts";

/**
 * The steps that a user's function answered.
 * @param name what the function is, for the message.
 * @throws TypeError where it was no generator function: a plain one, or `async`.
 */
export function stepsOf<T>(answered: Steps<T>, name: string): Steps<T> {
  const { next, [Symbol.iterator]: iterator } = Object(answered) as Partial<Steps<T>>;
  if (typeof next === "function" && typeof iterator === "function") return answered;
  throw new TypeError(
    `${name} must be a generator function, and none that is async: function* (context) { … }`,
  );
}
