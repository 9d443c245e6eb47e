/**
 * The errors that verbs return, and their handling in programs. Own programs are bundled with this
 * file.
 */
import type { Errno, VerbError } from "./objects.ts";

export function verbError(errno: Errno, reason: string): VerbError {
  return { errno, reason };
}

/** An error of a verb that the program cannot handle: ends the program, not the host. */
export class ProgramError extends Error {
  /** The name, as of every `Error`. */
  override readonly name = "ProgramError";
}

/** The compiler's message for `must(regMr(…))`, whose steps are not done without `yield*`. */
type Done<T> = T extends Generator<unknown, unknown, never>
  ? "write yield* in front of the call: must(yield* regMr(…))"
  : unknown;

/**
 * True if a verb's result is an error.
 * @throws ProgramError for steps without `yield*`, as {@link must} does.
 */
export function failed<T>(answer: T | VerbError): answer is VerbError {
  if (typeof answer !== "object" || answer === null) return false;
  insistOnDone(answer, "failed");
  return "errno" in answer;
}

/**
 * The result of a verb, or a thrown {@link ProgramError}: for programs that give up at an error.
 * Only `yield*` does a call that returns steps: `must(yield* regMr(…))`.
 * @throws ProgramError with errno and reason of an error, and for steps without `yield*`.
 *
 * @example An error ends the program, or is looked at
 * ```ts
 * import { failed, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, must } from "rackmesh";
 * import type { ProgramContext, Steps } from "rackmesh";
 *
 * export default function* errors({ cpu, device }: ProgramContext): Steps<void> {
 *   const { allocPd, regMr } = device.verbs;
 *   const pd = allocPd(device), buffer = cpu.allocate(4096);
 *   const mr = must(yield* regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
 *   cpu.log(`lkey ${mr.lkey}`);
 *   const other = yield* regMr(pd, buffer, { access: IBV_ACCESS_REMOTE_WRITE });
 *   if (failed(other)) cpu.log(other.errno, other.reason);
 * }
 * ```
 */
export function must<T>(answer: T & Done<T>): Exclude<T, VerbError> {
  if (typeof answer !== "object" || answer === null) return answer as Exclude<T, VerbError>;
  insistOnDone(answer, "must");
  if (failed<unknown>(answer)) throw new ProgramError(`${answer.errno}: ${answer.reason}`);
  return answer as Exclude<T, VerbError>;
}

/** @throws ProgramError for steps of a call in place of their result. */
export function insistOnDone(value: object, name: string): void {
  if (Object.prototype.toString.call(value) !== "[object Generator]") return;
  throw new ProgramError(
    `EINVAL: ${name} was given a call that was not awaited: write yield* in front of the call`,
  );
}
