/**
 * Operations that a program notes: what `recover` answers of their object must be a state that some order of
 * them leaves, with all that had ended. No check says so.
 */
import { deepStrictEqual as same, match, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { OperationRecord } from "../../fabric/audit.ts";
import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS, type ExploreOptions } from "../../console/explore/types.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { OwnProgram } from "../../nodes/host/own_programs.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import type { RecoveryContext } from "../../nodes/host/recovery/protocol.ts";
import { ownRack } from "./explored_rack.ts";

const COUNT = 4096, FIRST = 8192;
const VALUES = [5, 6, 7];

function wordOf(value: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.of(value, 0, 0, 0, 0, 0, 0, 0);
}

type Append = (cpu: ProgramContext["cpu"], index: number, value: number) => Steps<void>;

/** A log of words on host b; a count says how many there are. */
function log(append: Append, of: { readonly name?: string } = {}): OwnProgram {
  return {
    *program({ cpu }: ProgramContext): Steps<void> {
      for (const [index, value] of VALUES.entries()) {
        cpu.note({
          ...{ kind: "operation", id: index, on: "b", object: "log", type: "log" },
          ...{ call: "append", value },
        } as OperationRecord);
        yield* append(cpu, index, value);
        yield* cpu.sleep(1_000);
        cpu.note({ kind: "operation-end", id: index });
      }
    },
    // deno-lint-ignore require-yield -- it only looks
    *recover({ cpu }: RecoveryContext): Steps<unknown> {
      const { address } = cpu.scm;
      const count = cpu.load(address + COUNT, 8)[0]!;
      const found = Array.from(
        { length: count },
        (_, i) => cpu.load(address + FIRST + 64 * i, 8)[0],
      );
      return { objects: { [of.name ?? "log"]: found } };
    },
  };
}

const inOrder: Append = function* (cpu, index, value) {
  const { address } = cpu.scm;
  yield* cpu.ntStore(address + FIRST + 64 * index, wordOf(value));
  yield* cpu.settle();
  yield* cpu.flush(address + FIRST + 64 * index, 8);
  cpu.store(address + COUNT, wordOf(index + 1));
  yield* cpu.flush(address + COUNT, 8);
};

const withoutFlush: Append = function* (cpu, index, value) {
  const { address } = cpu.scm;
  cpu.store(address + FIRST + 64 * index, wordOf(value));
  cpu.store(address + COUNT, wordOf(index + 1));
  yield* cpu.flush(address + COUNT, 8);
  yield* cpu.flush(address + FIRST + 64 * index, 8);
};

/** The record is there, and what says so is still in the cache when the operation ends. */
const uncounted: Append = function* (cpu, index, value) {
  const { address } = cpu.scm;
  cpu.store(address + FIRST + 64 * index, wordOf(value));
  yield* cpu.flush(address + FIRST + 64 * index, 8);
  cpu.store(address + COUNT, wordOf(index + 1));
};

/** Where caches are durable the store is there at once, in the instant in which the operation begins. */
// deno-lint-ignore require-yield -- it takes no time
const atOnce: Append = function* (cpu, index, value) {
  const { address } = cpu.scm;
  cpu.store(address + FIRST + 64 * index, wordOf(value));
  cpu.store(address + COUNT, wordOf(index + 1));
};

function explored(own: OwnProgram, more: Partial<ExploreOptions> = {}) {
  return explore(ownRack(own), { ...EXPLORE_DEFAULTS, cut: { host: "b" }, ...more });
}

describe("rack explore: operations that a program notes", () => {
  it("is safe where each is there when it has ended, and there or not while it is under way", async () => {
    const { verdict, judgedBy, exhaustive, counterexample } = await explored(log(inOrder));
    equal(verdict, "safe", counterexample?.found);
    equal(exhaustive, true);
    same(judgedBy, ["operations"]);
  });

  it("is safe where power fails in the middle of the instant in which one begins and has its effect", async () => {
    const rack = ownRack(log(atOnce), ", domain: eadr");
    const { verdict, counterexample } = await explore(rack, {
      ...EXPLORE_DEFAULTS,
      cut: { host: "b" },
    });
    equal(verdict, "safe", counterexample?.found);
  });

  it("finds a state that no order leaves", async () => {
    const { verdict, counterexample } = await explored(log(withoutFlush));
    equal(verdict, "unsafe");
    equal(counterexample!.checker, "operations");
    match(
      counterexample!.found,
      /b recovers log as \[0\]: no order of its 0 ended operations, with or without what was under way \(append\(5\)\)/,
    );
    equal(counterexample!.isReplayable, true);
  });

  it("finds an operation that had ended, and is not there", async () => {
    const { verdict, counterexample } = await explored(log(uncounted));
    equal(verdict, "unsafe");
    match(counterexample!.found, /b recovers log as \[\]: no order of its 1 ended operations, /);
  });

  it("is partial where so many operations are under way that no order of them is found in bounds", async () => {
    const added: OwnProgram = {
      *program({ cpu }: ProgramContext): Steps<void> {
        for (let id = 0; id < 20; id++) {
          cpu.note({
            ...{ kind: "operation", id, on: "b", object: "log", type: "counter" },
            ...{ call: "add", value: 2 ** id },
          } as OperationRecord);
        }
        yield* cpu.sleep(1_000);
      },
      // deno-lint-ignore require-yield -- it only answers
      *recover(): Steps<unknown> {
        return { objects: { log: -1 } };
      },
    };
    const { verdict, why } = await explored(added);
    equal(verdict, "partial");
    match(
      why!,
      /log as -1: whether its 0 ended operations and 20 operations under way leave that is not known/,
    );
  });

  it("refuses a recovery that does not answer for the object", async () => {
    const { verdict, counterexample } = await explored(log(inOrder, { name: "journal" }));
    equal(verdict, "unsafe");
    match(
      counterexample!.found,
      /answers no state of log, .* expected \{ objects: \{ log: … \} \}/,
    );
  });

  it("is judged by robustness, too, with --robust", async () => {
    const { judgedBy, verdict } = await explored(log(inOrder), { robust: true });
    same(judgedBy, ["operations", "robustness"]);
    equal(verdict, "safe");
  });
});
