/**
 * Checks the calls of own programs by tables: the kind of each argument, and the answer to a
 * refused call. Shipped programs, which the compiler has checked, are not checked here.
 */
import type { CheckCall } from "../cpu/forgotten_calls.ts";
import { siteIn } from "../cpu/wait_site.ts";
import type { Refusal } from "../cm/connection.ts";
import { ProgramError, verbError } from "../verbs/errors.ts";
import type { PostError, VerbError } from "../verbs/objects.ts";
import type { AnyKind, AnyOptional, TypeOf } from "./values.ts";

/**
 * A function's way to answer an error: `steps` that return it; the `value` itself; the steps of a
 * `post`, which posts the requests before the wrong one; a connection that is `refused`. A function
 * that returns no error ends the program (`thrown`).
 */
export type Answer = "steps" | "value" | "post" | "refused" | "thrown";

/** A function's arguments, by their names and in their order. */
export interface CallRow<A extends Answer = Answer, out T = unknown> {
  readonly args: readonly (readonly [name: string, kind: AnyKind | AnyOptional])[];
  readonly answer: A;
  /** For the compiler only: the types of the arguments' values. */
  readonly types?: T;
}

/** The row that fits a function: its way to answer an error, and only arguments that it takes. */
export type RowOf<F> = F extends (...args: infer Args) => unknown
  ? CallRow<AnswerOf<F>, Args[number]>
  : never;

/** A function's way to answer an error, by its type. */
export type AnswerOf<F> = F extends (...args: never) => infer Returned
  ? [Returned] extends [Generator<unknown, infer Result, never>] ? StepsAnswerOf<Result>
  : [Extract<Returned, VerbError>] extends [never] ? "thrown"
  : "value"
  : never;

type StepsAnswerOf<Result> = [Extract<Result, PostError>] extends [never]
  ? [Extract<Result, VerbError>] extends [never]
    ? [Extract<Result, Refusal>] extends [never] ? "thrown" : "refused"
  : "steps"
  : "post";

/** A row of a table, in short form. */
export function row<
  const A extends Answer,
  Args extends Readonly<Record<string, AnyKind | AnyOptional>>,
>(answer: A, args: Args): CallRow<A, TypeOf<Args[keyof Args]>> {
  return { args: Object.entries(args), answer };
}

export function checksOf(
  table: Readonly<Record<string, CallRow>>,
): Readonly<Record<string, CheckCall>> {
  return Object.fromEntries(
    Object.entries(table).map(([name, each]) => [name, checkOf(name, each)]),
  );
}

function checkOf(name: string, { args: rows, answer }: CallRow): CheckCall {
  const kinds = rows.map(([argument, kind]) => {
    const isOptional = typeof kind !== "function";
    return { argument, isOptional, of: isOptional ? kind.optional : kind };
  });
  return (args) => {
    for (let i = 0; i < kinds.length; i++) {
      const { argument, isOptional, of } = kinds[i]!;
      const value = args[i];
      if (isOptional && value === undefined) continue;
      const wrong = of(value);
      if (wrong === undefined) continue;
      return (call) => {
        const { at, found, expected } = wrong;
        const { line } = siteIn(new Error().stack ?? "");
        const where = line === undefined ? "" : ` at ${line}`;
        const reason = `${name}${where}: ${argument}${at} is ${found}: expected ${expected}`;
        return answered(answer, { reason, args, call, at });
      };
    }
    return undefined;
  };
}

interface Refused {
  readonly reason: string;
  readonly args: readonly unknown[];
  readonly call: (...args: unknown[]) => unknown;
  readonly at: string;
}

function answered(answer: Answer, refused: Refused): unknown {
  const { reason } = refused;
  switch (answer) {
    case "steps":
      return steps(verbError("EINVAL", reason));
    case "value":
      return verbError("EINVAL", reason);
    case "post":
      return post(refused);
    case "refused":
      return steps({
        refused: "local",
        reason: `EINVAL: ${reason}`,
        privateData: new Uint8Array(0),
      });
    case "thrown":
      throw new ProgramError(`EINVAL: ${reason}`);
  }
}

// deno-lint-ignore require-yield -- the answer is known
function* steps<T>(answer: T): Generator<never, T> {
  return answer;
}

/**
 * `ibv_post_send`: the requests before the first wrong one are posted, and the wrong one is named.
 */
function* post({ reason, args, call, at }: Refused): Generator<unknown, unknown> {
  const [queue, requests] = args;
  const bad = Number(/^\[(\d+)\]/.exec(at)?.[1] ?? 0);
  if (bad > 0) {
    const earlier = yield* call(queue, (requests as unknown[]).slice(0, bad)) as Generator;
    if (earlier !== undefined) return earlier;
  }
  return { ...verbError("EINVAL", reason), bad };
}
