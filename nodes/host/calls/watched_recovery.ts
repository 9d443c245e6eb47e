/** Checks a recovery's calls as a program's, and fails it for a call that was not awaited. */
import { CallWatch } from "../cpu/forgotten_calls.ts";
import { stepsOf } from "../cpu/program.ts";
import type { Recover } from "../recovery/protocol.ts";
import { ProgramError } from "../verbs/errors.ts";
import { CORE_CHECKS } from "./core_calls.ts";

/** Stacks per function: a recovery runs on thousands of images, and is short. */
const STACKS = 4;

/** @throws ProgramError at its end for a flush or a store without `yield*`, which had no effect. */
export function watchedRecovery(recover: Recover): Recover {
  return function* (context) {
    const watch = new CallWatch(STACKS);
    const cpu = watch.watched(context.cpu, CORE_CHECKS);
    const recovered = yield* stepsOf(recover({ ...context, cpu }), "recover");
    const forgotten = watch.forgotten();
    if (forgotten !== undefined) throw new ProgramError(`EINVAL: ${forgotten}`);
    return recovered;
  };
}
