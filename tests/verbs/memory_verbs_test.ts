/** The driver's regions and windows against the real RNIC: programs of two hosts use them. */
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_SIGNALED,
} from "../../nodes/host/verbs/flags.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { ACCESS } from "../../fabric/wire/host_bus/rnic_command.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { connected, statuses } from "../support/two_programs.ts";
import type { Mr, Qp } from "../../nodes/host/verbs/objects.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";

/** A WRITE of eight bytes by this key. */
function* write(
  context: ProgramContext,
  by: { readonly qp: Qp; readonly mr: Mr },
  to: { readonly va: number; readonly rkey: number },
): Steps<string[]> {
  const { postSend, sge, must } = context.device.verbs;
  must(
    yield* postSend(by.qp, {
      opcode: "write",
      sendFlags: IBV_SEND_SIGNALED,
      sges: [sge(by.mr, 0, 8)],
      remote: to,
    }),
  );
  return yield* statuses(context, by.qp);
}

describe("memory windows by verbs", () => {
  it("§7 #42 #43: bindMw binds type 1 anew and to nothing, a post binds type 2, LOCAL_INV ends it", () => {
    connected(
      function* (context, { qp, mr, connect }, table) {
        const va = yield* table.get(context, "va");
        const rkeys = ["one", "two"].map((name) => table.get(context, name));
        for (const rkey of rkeys) {
          const to = { va, rkey: yield* rkey };
          assert.deepEqual(yield* write(context, { qp, mr }, to), ["SUCCESS"]);
        }
        table.put("written");
        yield* table.get(context, "unbound");
        for (const name of ["one", "two"]) {
          const other = yield* connect(name);
          const to = { va, rkey: yield* table.get(context, name) };
          assert.deepEqual(yield* write(context, { qp: other, mr }, to), ["REM_ACCESS_ERR"]);
        }
      },
      function* (context, { qp, pd, mr, connect }, table) {
        const { allocMw, bindMw, incRkey, deallocMw, postSend, must } = context.device.verbs;
        const access = IBV_ACCESS_REMOTE_WRITE;
        const one = must(yield* allocMw(pd, 1));
        const two = must(yield* allocMw(pd, 2));
        const old = one.rkey;
        must(
          yield* bindMw(qp, one, {
            mr,
            offset: 4096,
            length: 64,
            access,
            sendFlags: IBV_SEND_SIGNALED,
          }),
        );
        assert.notEqual(one.rkey, old);
        assert.equal((yield* bindMw(qp, two, { mr, access }))?.errno, "EINVAL");
        const bind = { mw: two, rkey: incRkey(two.rkey), mr, offset: 4096, length: 64, access };
        const sendFlags = IBV_SEND_SIGNALED;
        must(yield* postSend(qp, { opcode: "bind-mw", bind, sendFlags: 0 }));
        assert.deepEqual(yield* statuses(context, qp), ["SUCCESS"]);
        table.put("va", mr.address + 4096);
        table.put("one", one.rkey);
        table.put("two", two.rkey);
        yield* table.get(context, "written");
        must(yield* bindMw(qp, one, { mr, length: 0, access, sendFlags: 0 }));
        must(
          yield* postSend(qp, {
            opcode: "local-invalidate",
            sendFlags,
            immediate: two.rkey,
            wrId: 5,
          }),
        );
        const [last] = yield* context.device.verbs.waitCompletion(qp.sendCq);
        assert.deepEqual([last!.status, last!.opcode, last!.wrId], [
          "SUCCESS",
          "local-invalidate",
          5,
        ]);
        table.put("unbound");
        for (const name of ["one", "two"]) yield* connect(name);
        must(yield* deallocMw(one));
        assert.equal((yield* deallocMw(one))?.errno, "EINVAL");
        must(yield* deallocMw(two));
      },
      {},
      { sqSigAll: false },
    );
  });
});

describe("regions by verbs", () => {
  it("§7 #33 #34 #87: re-registration keeps the key; an imported region has the same keys", () => {
    connected(function* (context, { qp, mr, connect }, table) {
      const { openContext, importPd, importMr, must } = context.device.verbs;
      const second = openContext(context.device);
      const pd = must(importPd(second, mr.pd.handle));
      const imported = must(importMr(pd, mr.lkey));
      assert.deepEqual([imported.lkey, imported.rkey], [mr.lkey, mr.rkey]);
      const to = { va: yield* table.get(context, "va"), rkey: yield* table.get(context, "rkey") };
      assert.deepEqual(yield* write(context, { qp, mr: imported }, to), ["SUCCESS"]);
      table.put("written");
      yield* table.get(context, "changed");
      assert.deepEqual(yield* write(context, { qp, mr }, to), ["REM_ACCESS_ERR"]);
      yield* connect("again");
    }, function* (context, { mr, connect }, table) {
      const { reregMr, allocPd, deallocPd, deregMr, must } = context.device.verbs;
      table.put("va", mr.address);
      table.put("rkey", mr.rkey);
      yield* table.get(context, "written");
      const { rkey, pd } = mr;
      const other = allocPd(context.device);
      assert.equal((yield* reregMr(mr, { access: IBV_ACCESS_REMOTE_WRITE }))?.errno, "EINVAL");
      must(yield* reregMr(mr, { pd: other, access: IBV_ACCESS_LOCAL_WRITE }));
      assert.deepEqual([mr.rkey, mr.pd, mr.access], [rkey, other, ACCESS.localWrite]);
      assert.equal(deallocPd(other)?.errno, "EBUSY");
      assert.notEqual(pd.uses.count, 0);
      table.put("changed");
      yield* connect("again");
      must(yield* deregMr(mr));
      assert.equal(deallocPd(other), undefined);
    });
  });
});
