/** A payload is inline when it is asked for, and a send is signaled when it is asked for: on a rack, with a real card. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_SEND_INLINE,
  IBV_SEND_SIGNALED,
} from "../../nodes/host/verbs/flags.ts";
import type { Mr, Pd } from "../../nodes/host/verbs/objects.ts";
import type { Sge } from "../../fabric/wire/host_bus/wqe.ts";
import { type Body, connected } from "../support/two_programs.ts";

const access = IBV_ACCESS_LOCAL_WRITE;

interface Own {
  readonly context: ProgramContext;
  readonly pd: Pd;
  readonly mr: Mr;
}

/** An element whose key does not grant its bytes, by what is wrong with it. */
const FAULTS: Readonly<Record<string, (own: Own) => Steps<Sge>>> = {
  // deno-lint-ignore require-yield -- others register
  *"a key that was never given"({ context, mr }) {
    return { ...context.device.verbs.sge(mr, 0, 64), lkey: 0x7f_ff00 };
  },
  *"a region of another protection domain"({ context: { cpu, device } }) {
    const v = device.verbs;
    const other = v.must(yield* v.regMr(v.allocPd(device), cpu.allocate(4096), { access }));
    return v.sge(other, 0, 64);
  },
  *"a region that is deregistered"({ context: { cpu, device }, pd }) {
    const v = device.verbs;
    const mr = v.must(yield* v.regMr(pd, cpu.allocate(4096), { access }));
    const element = v.sge(mr, 0, 64);
    v.must(yield* v.deregMr(mr));
    return element;
  },
  // deno-lint-ignore require-yield -- others register
  *"bytes behind the region"({ context, mr }) {
    return { ...context.device.verbs.sge(mr, mr.length - 32), length: 64 };
  },
};

/** The peer: its memory, and its end of each connection. */
function peerWith(names: readonly string[]): Body {
  return function* (context, { mr, connect }, table) {
    table.put("va", mr.address);
    table.put("rkey", mr.rkey);
    for (const name of names) yield* connect(name);
    yield* table.get(context, "done");
  };
}

describe("IBV_SEND_INLINE", () => {
  const names = Object.keys(FAULTS);

  it("is what makes a small payload inline: without it the card looks at the lkey, with it not", () => {
    const found: Record<string, string[]> = {};
    connected(function* (context, { pd, mr, connect }, table) {
      const { cpu, device: { verbs: v } } = context;
      const remote = {
        va: yield* table.get(context, "va"),
        rkey: yield* table.get(context, "rkey"),
      };
      for (const [name, fault] of Object.entries(FAULTS)) {
        const qp = yield* connect(name);
        const sges = [yield* fault({ context, pd, mr })];
        // What is inline is read by the program, where the memory is.
        const inline = [{ ...sges[0]!, address: mr.address }];
        const given: string[] = [];
        for (
          const [elements, sendFlags] of [[inline, IBV_SEND_INLINE], [sges, 0]] as const
        ) {
          v.must(yield* v.postSend(qp, { opcode: "write", sendFlags, sges: elements, remote }));
          given.push(...(yield* v.waitCompletion(qp.sendCq)).map(({ status }) => status));
        }
        found[name] = given;
      }
      yield* cpu.sleep(1e6);
      table.put("done");
    }, peerWith(names));
    const expected = names.map((name) => [name, ["SUCCESS", "LOC_PROT_ERR"]]);
    assert.deepEqual(found, Object.fromEntries(expected));
  });

  it("a region with addresses of its own sends 220 B and 221 B alike", () => {
    const found: string[] = [];
    connected(function* (context, { pd, qp }, table) {
      const { cpu, device: { verbs: v } } = context;
      const remote = {
        va: yield* table.get(context, "va"),
        rkey: yield* table.get(context, "rkey"),
      };
      const iova = 0x1000;
      const mr = v.must(yield* v.regMr(pd, cpu.allocate(4096), { access, iova }));
      for (const length of [8, 220, 221]) {
        const sges = [{ address: iova, length, lkey: mr.lkey }];
        v.must(yield* v.postSend(qp, { opcode: "write", sges, remote }));
        for (const { status } of yield* v.waitCompletion(qp.sendCq)) found.push(status);
      }
      table.put("done");
    }, peerWith([]));
    assert.deepEqual(found, ["SUCCESS", "SUCCESS", "SUCCESS"]);
  });

  it("takes the bytes when it is posted: the buffer may be used again at once", () => {
    const seen: number[] = [];
    connected(function* (context, { qp, mr }, table) {
      const { cpu, device: { verbs: v } } = context;
      const remote = {
        va: yield* table.get(context, "va"),
        rkey: yield* table.get(context, "rkey"),
      };
      for (let i = 1; i <= 3; i++) {
        cpu.store(mr.address, Uint8Array.of(i));
        const to = { ...remote, va: remote.va + i };
        const sges = [v.sge(mr, 0, 1)];
        v.must(
          yield* v.postSend(qp, { opcode: "write", sendFlags: IBV_SEND_INLINE, sges, remote: to }),
        );
      }
      cpu.store(mr.address, Uint8Array.of(99));
      for (let left = 3; left > 0;) left -= (yield* v.waitCompletion(qp.sendCq)).length;
      table.put("done");
    }, function* (context, { mr }, table) {
      table.put("va", mr.address);
      table.put("rkey", mr.rkey);
      yield* table.get(context, "done");
      seen.push(...context.cpu.load(mr.address + 1, 3));
    });
    assert.deepEqual(seen, [1, 2, 3]);
  });
});

describe("IBV_SEND_SIGNALED", () => {
  it("is what makes a success complete; a failure always does", () => {
    const found: unknown[] = [];
    connected(
      function* (context, { qp, mr }, table) {
        const { cpu, device: { verbs: v } } = context;
        const remote = {
          va: yield* table.get(context, "va"),
          rkey: yield* table.get(context, "rkey"),
        };
        const write = { opcode: "write", sges: [v.sge(mr, 0, 8)], remote } as const;
        v.must(yield* v.postSend(qp, { ...write, wrId: 1 }));
        yield* cpu.sleep(1e9);
        found.push((yield* v.pollCq(qp.sendCq, 4)).length);
        v.must(yield* v.postSend(qp, { ...write, wrId: 2, sendFlags: IBV_SEND_SIGNALED }));
        v.must(yield* v.postSend(qp, { ...write, wrId: 3, remote: { ...remote, rkey: 5 } }));
        while (found.length < 3) {
          for (const { wrId, status } of yield* v.waitCompletion(qp.sendCq)) {
            found.push([
              wrId,
              status,
            ]);
          }
        }
        table.put("done");
      },
      peerWith([]),
      {},
      { sqSigAll: false },
    );
    assert.deepEqual(found, [0, [2, "SUCCESS"], [3, "REM_ACCESS_ERR"]]);
  });
});
