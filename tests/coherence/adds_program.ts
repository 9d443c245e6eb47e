/** A program of tests: adds to two words of the shared region `s`, in two lines, and goes on after a fence or a loss. */
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";

const ADDS = 60;

export default function* addAll({ cpu }: ProgramContext): Steps<void> {
  let done = 0, told = 0;
  for (let i = 0; i < ADDS; i++) {
    yield* cpu.sleep(1e6);
    try {
      const region = yield* cpu.region("s");
      yield* region.fetchAdd(64 * (i % 2), 1n);
      done++;
    } catch (error) {
      if (!(error instanceof Error) || !/^Region(Lost|Fenced)$/.test(error.name)) throw error;
      told++;
      yield* cpu.sleep(5e6);
    }
  }
  cpu.report("adds", { done, told });
}
