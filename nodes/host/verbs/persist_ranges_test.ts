import { deepEqual, throws } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { encodePersistRanges } from "../../../fabric/wire/host_bus/persist_ranges.ts";
import type { Steps } from "../cpu/program.ts";
import { flushRanges, persistRanges } from "./persist_ranges.ts";

const RECV = 0x7000;

/** Memory with two ranges at {@link RECV}. */
const cpu = {
  load(address: number, length: number): Uint8Array<ArrayBuffer> {
    const memory = new Uint8Array(256);
    memory.set(
      encodePersistRanges([{ va: 4096n, length: 128n }, { va: 2n ** 40n, length: 64n }]),
    );
    return memory.subarray(address - RECV, address - RECV + length);
  },
};

describe("persistRanges", () => {
  const completion = { opcode: "recv-persistence", va: 9000, byteLen: 100, immData: 2 } as const;

  it("P-26, P-31: earlier plain WRITEs as the RECV's memory has them, then the message's own", () => {
    deepEqual(persistRanges(cpu, completion, RECV), [
      { va: 4096, length: 128 },
      { va: 2 ** 40, length: 64 },
      { va: 9000, length: 100 },
    ]);
    deepEqual(persistRanges(cpu, { ...completion, immData: 1 }, RECV).length, 2);
  });

  it("looks at the RECV's memory only where the completion says so", () => {
    const blind = { load: () => throwing() };
    deepEqual(persistRanges(blind, { ...completion, immData: 0 }, RECV), [
      { va: 9000, length: 100 },
    ]);
  });

  it("P-31: an empty persistent WRITE has no range of its own", () => {
    const empty = { ...completion, va: 0, byteLen: 0 };
    deepEqual(persistRanges(cpu, { ...empty, immData: 1 }, RECV), [{ va: 4096, length: 128 }]);
    deepEqual(persistRanges(cpu, { ...empty, immData: 0 }, RECV), []);
  });

  it("refuses what is no such completion, whose immediate means something else", () => {
    throws(() => persistRanges(cpu, { ...completion, opcode: "recv-immediate" }, RECV));
  });
});

describe("flushRanges", () => {
  const calls: string[] = [];
  const recorder = {
    clwb: (va: number, length: number) => void calls.push(`clwb ${va} ${length}`),
    // deno-lint-ignore require-yield -- done at once
    *flush(va: number, length: number): Steps<void> {
      calls.push(`flush ${va} ${length}`);
    },
  };
  const flushed = (ranges: readonly { va: number; length: number }[]) => {
    calls.length = 0;
    deepEqual(flushRanges(recorder, ranges).next({ kind: "done" }).done, true);
    return calls;
  };

  it("P-31: brings every range into memory, and waits for all with the last one's fence", () => {
    const ranges = [1, 2, 3].map((each) => ({ va: 4096 * each, length: 64 * each }));
    deepEqual(flushed(ranges), ["clwb 4096 64", "clwb 8192 128", "flush 12288 192"]);
  });

  it("fences nothing where there is nothing", () => {
    deepEqual(flushed([]), []);
  });
});

function throwing(): never {
  throw new Error("Nothing is there");
}
