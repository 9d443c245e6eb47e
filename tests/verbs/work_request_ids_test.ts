/** wr_id has 64 bits: a program posts numbers or bigints, and gets back what it has posted. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { plainly } from "../../console/reports/json.ts";
import type { WrId } from "../../nodes/host/verbs/objects.ts";
import { bringUp, connected, rcOptions } from "../support/two_programs.ts";

const IDS: readonly WrId[] = [0, 5, 5n, Number.MAX_SAFE_INTEGER, 2n ** 53n + 1n, 2n ** 64n - 1n];

describe("wr_id", () => {
  it("is what was posted, of sends, receives and shared receives: numbers, and bigints of 64 bits", () => {
    const taken: Record<string, WrId[]> = { sent: [], received: [], shared: [] };
    const rack = connected(function* (context, { qp, mr, connect }, table) {
      const { device: { verbs: v } } = context;
      const shared = yield* connect("shared");
      yield* table.get(context, "posted");
      for (const each of [qp, shared]) {
        const to: WrId[] = [];
        const sges = [v.sge(mr, 0, 8)];
        const requests = IDS.map((wrId) => ({ opcode: "send", wrId, sges } as const));
        v.must(yield* v.postSend(each, requests));
        while (to.length < IDS.length) {
          for (const { wrId, status } of yield* v.waitCompletion<WrId>(each.sendCq)) {
            assert.equal(status, "SUCCESS");
            to.push(wrId);
          }
        }
        taken["sent"] = to;
      }
      context.cpu.report("result", { ids: taken["sent"] });
      table.put("done");
    }, function* (context, { qp, pd, mr }, table) {
      const { device: { verbs: v } } = context;
      const srq = v.must(yield* v.createSrq(pd, { maxWr: 8 }));
      const cq = v.must(yield* v.createCq(context.device, { entries: 16 }));
      const other = v.must(yield* v.createQp(pd, rcOptions(cq, { srq })));
      yield* bringUp(context, table, { qp: other, side: "right", name: "shared" });
      const requests = IDS.map((wrId) => ({ wrId, sges: [v.sge(mr, 64, 8)] }));
      v.must(yield* v.postRecv(qp, requests));
      v.must(yield* v.postSrqRecv(srq, requests));
      table.put("posted");
      for (const [each, to] of [[qp, "received"], [other, "shared"]] as const) {
        while (taken[to]!.length < IDS.length) {
          for (const { wrId } of yield* v.pollCq<WrId>(each.recvCq, 16)) taken[to]!.push(wrId);
        }
      }
      yield* table.get(context, "done");
    });
    assert.deepEqual(taken, { sent: IDS, received: IDS, shared: IDS });
    const value = rack.reports.find(({ topic }) => topic === "result")?.value;
    const ids = [0, 5, 5, Number.MAX_SAFE_INTEGER, "9007199254740993", "18446744073709551615"];
    assert.deepEqual(JSON.parse(JSON.stringify(value, plainly)), { ids });
  });
});
