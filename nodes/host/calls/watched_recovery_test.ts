// deno-lint-ignore-file require-yield -- no time passes in these recoveries
import { equal, throws } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Steps } from "../cpu/program.ts";
import type { RecoveryContext } from "../recovery/protocol.ts";
import { watchedRecovery } from "./watched_recovery.ts";

/** A core that counts what is done. */
function core() {
  return {
    host: "b",
    now: 0,
    scm: { address: 4096, length: 4096, pages: [0], pageBytes: 4096 },
    load: (_: number, length: number) => new Uint8Array(length),
    store(): void {
      this.now++;
    },
    *flush(): Steps<void> {
      this.now++;
    },
    *ntStore(): Steps<void> {},
    charge(): void {},
    *settle(): Steps<void> {},
    *sleep(): Steps<void> {},
  };
}

function run(recover: (context: RecoveryContext) => Steps<unknown>): unknown {
  const cpu = core();
  return watchedRecovery(recover)({ cpu, host: "b", options: {} }).next().value;
}

describe("watchedRecovery", () => {
  it("returns what the recovery does, which sees its core as it is at each moment", () => {
    const times = run(function* ({ cpu }) {
      const before = cpu.now;
      cpu.store(4096, new Uint8Array(8));
      yield* cpu.flush(4096, 8);
      return [before, cpu.now].join();
    });
    equal(times, "0,2");
  });

  it("fails with EINVAL for a wrong value, and for a flush that was not awaited", () => {
    const forgets = () =>
      run(function* ({ cpu }) {
        cpu.flush(4096, 8);
        return 1;
      });
    throws(forgets, {
      name: "ProgramError",
      message: /^EINVAL: the call of flush .*was not awaited: write yield\* in front of it$/,
    });
    const wrong = () =>
      run(function* ({ cpu }) {
        return cpu.load(4096, -8);
      });
    throws(wrong, { message: /^EINVAL: load.*: length is -8: expected a length in bytes/ });
  });
});
