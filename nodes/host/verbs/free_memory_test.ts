/** Memory that is given back while what a card has written is still on its way there. */
import {
  deepStrictEqual as same,
  notStrictEqual as differ,
  strictEqual as equal,
} from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { SCM_BASE } from "../memory/address_map.ts";
import { HostRig, pattern } from "../testing/host_testing.ts";
import type { Cpu, Steps } from "../cpu/program.ts";

const BYTES = 8192;

describe("Cpu.free", () => {
  it("does not reuse memory until a device's writes to it have left the IIO", () => {
    const kinds = ["allocate", "allocateContiguous"] as const;
    // At a page's begin, in its midst, and from the page before on.
    for (
      const [kind, inPage] of kinds.flatMap((kind) =>
        [0, 1000, -32].map((at) => [kind, at] as const)
      )
    ) {
      const writes: { address: number; length: number }[] = [];
      const rig = new HostRig({}, {
        programs: {
          *frees(cpu: Cpu): Steps<void> {
            const first = cpu[kind](BYTES);
            writes.push({ address: first.pages[1]! + inPage, length: 64 });
            yield* cpu.sleep(1_000_000);
            cpu.free(first);
            const second = cpu[kind](BYTES);
            differ(second.address, first.address);
            yield* cpu.sleep(100_000_000);
            same(cpu.load(second.address, BYTES), new Uint8Array(BYTES));
            // By now it has come, and is cleared.
            const third = cpu[kind](BYTES);
            equal(third.address, first.address);
            same(cpu.load(third.address, BYTES), new Uint8Array(BYTES));
          },
        },
      });
      while (writes.length === 0) rig.next();
      // Much is ahead of it, which SCM takes slowly.
      const noSnoop = false;
      const at = rig.now + 990_000;
      rig.arrive(at, { kind: "memory-write", address: SCM_BASE, data: pattern(65_536), noSnoop });
      const [{ address, length } = { address: 0, length: 0 }] = writes;
      rig.arrive(at, { kind: "memory-write", address, data: pattern(length), noSnoop });
      rig.run();
      same(rig.reported("program-failed"), []);
      equal(rig.reported("program-ended").length, 1);
    }
  });
});
