/** UC and UD lose without a sign, as the standard has it: the first of each kind is a note of the run. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { named } from "../../console/reports/summarise.ts";
import { hostsByAddress } from "../../fabric/trace/trace.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_SIGNALED,
} from "../../nodes/host/verbs/flags.ts";
import type { SendRequest } from "../../nodes/host/verbs/objects.ts";
import { run } from "../support/two_programs.ts";

interface Lossy {
  readonly type: "uc" | "ud";
  readonly request: Pick<SendRequest, "opcode"> & Partial<SendRequest>;
  readonly bytes?: number;
  /** Length of b's receive; absent: none is posted. */
  readonly receive?: number;
  /** What b's region and queue pair permit. */
  readonly access?: number;
  readonly rkey?: number;
  readonly destQpn?: number;
}

/** a sends twice, and both succeed. @returns the notes of the cards. */
function notesOf(
  { type, request, bytes = 64, receive, access = 0, rkey, destQpn }: Lossy,
): string[] {
  const rack = run(
    function* (context, table) {
      const { cpu, device } = context, v = device.verbs;
      const pd = v.allocPd(device), cq = v.must(yield* v.createCq(device, { entries: 16 }));
      const mr = v.must(
        yield* v.regMr(pd, cpu.allocate(16_384), { access: IBV_ACCESS_LOCAL_WRITE }),
      );
      const qp = v.must(
        yield* v.createQp(pd, { type, sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 8 }),
      );
      const qpn = destQpn ?? (yield* table.get(context, "qpn"));
      const destAddress = cpu.addresses["b"]!;
      if (type === "ud") {
        v.must(yield* v.modifyQp(qp, { state: "init", qKey: 7 }));
        v.must(yield* v.modifyQp(qp, { state: "rtr" }));
      } else {
        v.must(yield* v.modifyQp(qp, { state: "init", accessFlags: 0 }));
        const path = { pathMtu: 1024, destAddress, destQpn: qpn, rqPsn: 0 } as const;
        v.must(yield* v.modifyQp(qp, { state: "rtr", ...path }));
      }
      v.must(yield* v.modifyQp(qp, { state: "rts", sqPsn: 0 }));
      const remote = {
        va: yield* table.get(context, "va"),
        rkey: rkey ?? (yield* table.get(context, "rkey")),
      };
      const ah = type === "ud" ? v.must(v.createAh(pd, { address: destAddress })) : undefined;
      for (let i = 0; i < 2; i++) {
        v.must(
          yield* v.postSend(qp, {
            ...request,
            sendFlags: IBV_SEND_SIGNALED,
            sges: [v.sge(mr, 0, bytes)],
            ...(type === "uc" && request.opcode !== "send" && { remote }),
            ...(ah && { ud: { ah, qpn, qKey: 7 } }),
          } as SendRequest),
        );
        const [done] = yield* v.waitCompletion(cq);
        assert.equal(done!.status, "SUCCESS");
      }
      yield* cpu.sleep(50 * PS_PER_US);
      table.put("done");
    },
    function* (context, table) {
      const { cpu, device } = context, v = device.verbs;
      const pd = v.allocPd(device), cq = v.must(yield* v.createCq(device, { entries: 16 }));
      const flags = IBV_ACCESS_LOCAL_WRITE | access;
      const mr = v.must(yield* v.regMr(pd, cpu.allocate(16_384), { access: flags }));
      const qp = v.must(
        yield* v.createQp(pd, { type, sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 8 }),
      );
      if (type === "ud") {
        v.must(yield* v.modifyQp(qp, { state: "init", qKey: 7 }));
        v.must(yield* v.modifyQp(qp, { state: "rtr" }));
      } else {
        v.must(yield* v.modifyQp(qp, { state: "init", accessFlags: access }));
        const path = {
          pathMtu: 1024,
          destAddress: cpu.addresses["a"]!,
          destQpn: 17,
          rqPsn: 0,
        } as const;
        v.must(yield* v.modifyQp(qp, { state: "rtr", ...path }));
      }
      if (receive !== undefined) v.must(yield* v.postRecv(qp, { sges: [v.sge(mr, 0, receive)] }));
      table.put("va", mr.address);
      table.put("rkey", mr.rkey);
      table.put("qpn", qp.qpn);
      yield* table.get(context, "done");
    },
  );
  const names = hostsByAddress(rack.plan);
  return rack.reports.filter(({ topic }) => topic === "warning").map(({ node, value }) =>
    `${node}: ${named(String(value["message"]), names)}`
  );
}

const WRITE = { opcode: "write" } as const, SEND = { opcode: "send" } as const;

const CASES: readonly (readonly [what: string, lossy: Lossy, note: RegExp])[] = [
  [
    "a UC SEND without a receive",
    { type: "uc", request: SEND },
    /^b-rnic: a message \(UC SEND ONLY\) of a to queue pair \d+ is dropped without an answer: no receive is posted$/,
  ],
  [
    "a UC SEND that is too long",
    { type: "uc", request: SEND, receive: 32 },
    /: UC SEND ONLY with 64 B: the message is longer than the 32 B of the receive$/,
  ],
  ["a UC WRITE with a wrong rkey", {
    type: "uc",
    request: WRITE,
    access: IBV_ACCESS_REMOTE_WRITE,
    rkey: 0x999,
  }, /: UC RDMA WRITE ONLY of 64 B at VA .*, rkey 0x999: the rkey is the key of no region/],
  [
    "a UC WRITE that the queue pair does not permit",
    { type: "uc", request: WRITE },
    /: UC RDMA WRITE ONLY .*: queue pair \d+ does not permit remote write/,
  ],
  ["a UC WRITE with immediate without a receive", {
    type: "uc",
    request: { opcode: "write-immediate", immediate: 1 },
    access: IBV_ACCESS_REMOTE_WRITE,
  }, /\(UC RDMA WRITE ONLY IMM\) .*: no receive is posted$/],
  [
    "a UC SEND of several packets without a receive, of which the first one says why",
    { type: "uc", request: SEND, bytes: 4000 },
    /^b-rnic: a message \(UC SEND FIRST\) of a to queue pair \d+ is dropped without an answer: no receive is posted$/,
  ],
  [
    "a UC WRITE of several packets with a wrong rkey",
    { type: "uc", request: WRITE, bytes: 4000, access: IBV_ACCESS_REMOTE_WRITE, rkey: 0x999 },
    /: UC RDMA WRITE FIRST .*the rkey is the key of no region/,
  ],
  [
    "a UC message to a queue pair that is not there",
    { type: "uc", request: SEND, destQpn: 999 },
    /to queue pair 999 is dropped without an answer: there is no such queue pair$/,
  ],
  [
    "a datagram without a receive",
    { type: "ud", request: SEND },
    /^b-rnic: a datagram of a to queue pair \d+ is dropped .*: no receive is posted$/,
  ],
  [
    "a datagram that is longer than the MTU",
    { type: "ud", request: SEND, bytes: 8192, receive: 16_000 },
    /^a-rnic: queue pair \d+: a datagram of 8192 B is longer than the path MTU of 4096 B: it is not sent, and succeeds$/,
  ],
  [
    "a datagram to a queue pair that is not there",
    { type: "ud", request: SEND, destQpn: 999 },
    /^b-rnic: a datagram of a to queue pair 999 is dropped without an answer: there is no such queue pair$/,
  ],
];

describe("a loss of UC or UD", () => {
  for (const [what, lossy, note] of CASES) {
    it(`is a note of the run, once for each kind: ${what}`, () => {
      const [first, ...more] = notesOf(lossy);
      assert.match(first ?? "", note);
      assert.deepEqual(more, []);
    });
  }

  it("is none where nothing is lost", () => {
    assert.deepEqual(notesOf({ type: "uc", request: WRITE, access: IBV_ACCESS_REMOTE_WRITE }), []);
  });
});
