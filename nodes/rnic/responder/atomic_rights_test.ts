import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { fetchAdd, refused, sge } from "../testing/atomic_testing.ts";
import {
  EVERY_ACCESS,
  go,
  type Pair,
  pair,
  PAIR_BYTES,
  post,
  setWord,
  statuses,
} from "../testing/pair_testing.ts";

describe("rights of atomics", () => {
  it("§7 #35: a queue pair without REMOTE_ATOMIC refuses with 0x61", () => {
    const p = pair({}, { attributes: { accessFlags: EVERY_ACCESS & ~ACCESS.remoteAtomic } });
    refused(p, "REM_INV_REQ_ERR", () => fetchAdd(p, 0, 1n));
  });

  it("§7 #36: a region without REMOTE_ATOMIC refuses with 0x62", () => {
    const p = pair({}, {}, EVERY_ACCESS & ~ACCESS.remoteAtomic);
    refused(p, "REM_ACCESS_ERR", () => fetchAdd(p, 0, 1n));
  });

  const work = {
    "fetch-add": { length: 8, atomic: { swapAdd: 1n, compare: 0n } },
    // What it compares with is what is there, so it would swap.
    "compare-swap": { length: 8, atomic: { swapAdd: 1n, compare: 0xeeee_eeee_eeee_eeeen } },
    "atomic-write": { inline: new Uint8Array(8) },
  } as const;
  for (const opcode of ["fetch-add", "compare-swap", "atomic-write"] as const) {
    it(`§7 #37, #75: ${opcode} to an address that is no multiple of 8 is refused with 0x61`, () => {
      for (let at = 1; at < 8; at++) {
        refused(pair(), "REM_INV_REQ_ERR", (p) => post(p, opcode, { ...work[opcode], at }));
      }
    });

    it(`${opcode}: that the key does not grant it is told before that it is misaligned (§3.4)`, () => {
      const misaligned = (p: Pair, change: { va?: number; key?: number }) => {
        const remote = {
          va: BigInt(p.to.va + (change.va ?? 4)),
          rkey: p.to.key + (change.key ?? 0),
        };
        post(p, opcode, { ...work[opcode], remote });
      };
      refused(pair(), "REM_ACCESS_ERR", (p) => misaligned(p, { key: 1 }));
      refused(pair(), "REM_ACCESS_ERR", (p) => misaligned(p, { va: PAIR_BYTES - 4 }));
      refused(pair({}, {}, ACCESS.localWrite), "REM_ACCESS_ERR", (p) => misaligned(p, {}));
    });
  }

  it("§7 #38: a bad local key fails here, nothing goes out", () => {
    const p = pair();
    const sges = [{ ...sge(p, 0), lkey: p.from.key + 1 }];
    refused(p, "LOC_PROT_ERR", () => fetchAdd(p, 0, 1n, { sges }));
    assert.equal(p.rig.frames.length, 0);
  });

  it("§7 #39: a key with another variant is refused with 0x62", () => {
    const p = pair();
    const remote = { va: BigInt(p.to.va), rkey: p.to.key + 1 };
    refused(p, "REM_ACCESS_ERR", () => fetchAdd(p, 0, 1n, { remote }));
  });

  it("the last word of a region is in it, the one behind is not", () => {
    const p = pair();
    setWord(p, PAIR_BYTES - 8, 1n);
    fetchAdd(p, PAIR_BYTES - 8, 1n);
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    const q = pair();
    refused(q, "REM_ACCESS_ERR", () => {
      const remote = { va: BigInt(q.to.va + PAIR_BYTES), rkey: q.to.key };
      fetchAdd(q, 0, 1n, { remote });
    });
  });

  it("a WQE with room for other than 8 B is none: LOC_QP_OP_ERR", () => {
    const p = pair();
    refused(p, "LOC_QP_OP_ERR", () => fetchAdd(p, 0, 1n, { sges: [{ ...sge(p, 0), length: 4 }] }));
  });
});
