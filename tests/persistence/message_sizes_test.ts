/** P-40: messages of 8 B to 1 MiB by every method, in both flows, over the whole rack. */
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { firstLoss, isIntact, isPutResult } from "../../console/checks/survival.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

/** The least, an odd one, a line, the medium's block, a packet and a byte more, and many packets. */
const SIZES = [8, 9, 64, 256, 4096, 4097, 65_536];
/** 256 packets, by one method in each flow: a SEND into receive buffers, and a WRITE that the card persists. */
const MOST = 2 ** 20;
const WITH_MOST: Readonly<Record<string, string>> = { off: "persist-opcode", on: "send-flush" };

const FILE = "data.bin";

function run(of: { method: string; ddio: string; size: number; faults?: string }) {
  const { method, ddio, size, faults = "[]" } = of;
  // The last message is shorter: by a byte, so that it ends anywhere.
  const file = Uint8Array.from({ length: 2 * size - 1 }, (_, i) => (i * 131 + (i >> 9)) % 250 + 1);
  const rack = new SimulatedRack(
    `
name: sizes
hosts: { a: {}, b: { ddio: ${ddio}, receive: scm, scm: { size: 32MiB } } }
programs: [{ on: a, run: put, to: b, file: ${FILE}, method: ${method}, size: ${size}, depth: 1 }]
faults: ${faults}
`,
    { inputs: { [FILE]: file } },
  ).run();
  const put: unknown = rack.reported("result")[0];
  assert.ok(isPutResult(put), JSON.stringify(rack.reports));
  const { scmOffset, length } = put.object;
  return { put, file, survived: rack.scm.get("b")!.subarray(scmOffset, scmOffset + length) };
}

describe("messages of 8 B to 1 MiB", () => {
  for (const method of METHODS) {
    for (const ddio of ["off", "on"]) {
      it(`P-40, P-41: ${method}, DDIO ${ddio}`, () => {
        const sizes = WITH_MOST[ddio] === method ? [...SIZES, MOST] : SIZES;
        for (const [i, size] of sizes.entries()) {
          const { put, file, survived } = run({ method, ddio, size });
          assert.equal(put.status, "done", `${size} B: ${put.error}`);
          assert.deepEqual([put.messages, put.unexpected], [2, 0]);
          assert.deepEqual(put.confirmed, put.promises ? [[0, file.length]] : []);
          if (put.promises) assert.ok(isIntact(file, survived), `${size} B`);
          // Every other size here, the rest in the other flow; in the middle of the second message.
          if (i % 2 === (ddio === "on" ? 1 : 0)) continue;
          const at = Math.round(put.startPs + (put.endPs - put.startPs) * 0.75);
          const cut = run({ method, ddio, size, faults: `[{ at: ${at}ps, kill: b }]` });
          const isInPlace = method !== "send-read";
          if (isInPlace) assert.equal(firstLoss(cut.put, file, cut.survived), undefined);
        }
      });
    }
  }
});
