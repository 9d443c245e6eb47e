/**
 * A request that the peer refuses: what its requester learns (status, vendor_err, words), what the responder's
 * card says for the report, and the ladder that has both. The wire carries the NAK's syndrome alone.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { FinalReply } from "../../fabric/rack/assembly/run_file.ts";
import { ladderOf, operationsOf, readTrace } from "../../fabric/trace/trace.ts";
import { ladderText } from "../../fabric/trace/trace_text.ts";
import { VENDOR_ERRORS } from "../../fabric/wire/host_bus/vendor_error.ts";
import { warningsOf } from "../../console/reports/summarise.ts";
import { connected } from "../support/two_programs.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_ON_DEMAND,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_SIGNALED,
} from "../../nodes/host/verbs/flags.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const QUEUES = { maxSendWr: 4, maxRecvWr: 4 };

/** Offers a region that may be read, and not written. */
const server: Program = function* ({ cpu, device }) {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  const mr = v.must(yield* v.regMr(pd, cpu.allocate(4096), { access }));
  const listener = v.must(v.listen(device, "readonly"));
  const event = yield* v.waitEvent(listener);
  if (event?.kind !== "request") throw new Error(`No request: ${event?.kind}`);
  const place = new DataView(new ArrayBuffer(16));
  place.setBigUint64(0, BigInt(mr.address));
  place.setUint32(8, mr.rkey);
  const qp = { pd, sendCq: cq, recvCq: cq, ...QUEUES };
  v.must(
    yield* v.accept(listener, event.request, { qp, privateData: new Uint8Array(place.buffer) }),
  );
  cpu.report("region", { at: mr.address.toString(16), rkey: mr.rkey.toString(16) });
};

const client: Program = function* ({ cpu, device }) {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const buffer = cpu.allocate(4096);
  const mr = v.must(yield* v.regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
  const qp = { pd, sendCq: cq, recvCq: cq, ...QUEUES };
  const connection = yield* v.connect(device, { to: "b", service: "readonly", qp });
  if (v.refused(connection)) throw new Error(connection.reason);
  const { buffer: bytes, byteOffset } = connection.privateData;
  const place = new DataView(bytes, byteOffset);
  const remote = { va: Number(place.getBigUint64(0)), rkey: place.getUint32(8) };
  const sges = [v.sge(mr, 0, 64)], sendFlags = IBV_SEND_SIGNALED;
  v.must(
    yield* v.postSend(connection.qp, [
      { opcode: "write", wrId: 1, sendFlags, sges, remote },
      { opcode: "read", wrId: 2, sendFlags, sges, remote },
    ]),
  );
  for (let left = 2; left > 0;) {
    for (const { wrId, status, vendorErr, reason = "" } of yield* v.waitCompletion(cq)) {
      cpu.report("completed", { wrId, status, vendorErr, reason });
      left--;
    }
  }
};

describe("a WRITE to a region without remote write", () => {
  const rack = new SimulatedRack(
    `
name: refused
hosts: { a: {}, b: {} }
programs: [{ on: b, run: ./server.ts }, { on: a, run: ./client.ts, at: 200us }]
`,
    { programs: { "./server.ts": server, "./client.ts": client }, trace: true },
  ).run();
  assert.deepEqual(rack.reported("program-failed"), []);
  const [region] = rack.reported("region");

  it("completes with the status, and a vendor_err and words that say what the NAK says", () => {
    const [write, read] = rack.reported("completed");
    const { code, text } = VENDOR_ERRORS["nak-remote-access"];
    const place = `at VA 0x${region!["at"]}, rkey 0x${region!["rkey"]}`;
    assert.deepEqual(write, {
      wrId: 1,
      status: "REM_ACCESS_ERR",
      vendorErr: code,
      reason: `b refused a write of 64 B ${place}: ${text}`,
    });
    assert.deepEqual([read!["wrId"], read!["status"], read!["vendorErr"]], [
      2,
      "WR_FLUSH_ERR",
      VENDOR_ERRORS.flushed.code,
    ]);
    assert.match(
      String(read!["reason"]),
      /^read of 64 B at VA 0x[0-9a-f]+, rkey .*: an earlier fail/,
    );
  });

  it("is a note of the run, in which the responder's card says what was missing", () => {
    const reports = rack.reports.map(({ node, topic, value, time }) => ({
      node,
      topic,
      value,
      time,
    }));
    const finals = [{ reports }] as unknown as FinalReply[];
    const notes = warningsOf([{ one: { label: "one", plan: rack.plan }, outcome: { finals } }]);
    const note = notes.find(({ text }) => text.startsWith("NAK"))!;
    assert.equal(note.node, "b-rnic");
    const { at, rkey } = region as { at: string; rkey: string };
    assert.match(note.text, /^NAK remote access error to a, queue pair \d+ to \d+, PSN \d+: /);
    assert.ok(
      note.text.endsWith(
        `RC RDMA WRITE ONLY of 64 B at VA 0x${at}, rkey 0x${rkey}: the region has no remote write; ` +
          `the region is 4 KiB at 0x${at}, with local write, remote read`,
      ),
      note.text,
    );
  });

  it("is a ladder with the NAK, its reason, and the error CQE", () => {
    const lines = rack.traces.map(({ time, node, step }) => ({ time, node, ...step }));
    const trace = readTrace(lines, rack.plan);
    const operation = operationsOf(trace).find((each) => each.node === "a")!;
    const ladder = ladderOf(trace, operation);
    const told = ladder.rows.filter(({ step }) => step === "nak" || step === "error-cqe");
    assert.deepEqual(told.map(({ node, step, to }) => [node, step, to]), [
      ["b-rnic", "nak", "a-rnic"],
      ["a-rnic", "error-cqe", "a"],
    ]);
    assert.match(
      told[0]!.text,
      /^NAK remote access error, PSN \d+: .*: the region has no remote write/,
    );
    assert.match(told[1]!.text, /^CQE of write at \d+: REM_ACCESS_ERR, vendor_err 0x88: NAK 0x62/);
    assert.ok(ladderText(ladder).includes("REM_ACCESS_ERR"));
  });
});

describe("A failed completion of a shipped program", () => {
  for (
    const program of [
      "put, bytes: 1MiB, name: x",
      "append, records: 2000",
      "put, bytes: 1MiB, method: send-flush",
    ]
  ) {
    it(`is its status with the reason in words: ${program}`, () => {
      const rack = new SimulatedRack(`
name: reasons
hosts: { a: {}, b: { scm: { size: 2MiB } } }
programs: [{ on: a, to: b, run: ${
        program.includes("method") ? program : `${program}, method: persist-opcode`
      } }]
faults: [{ at: 250us, kill: b }]
`).run();
      const [result] = rack.reported("result", "a");
      assert.match(
        String(result?.error),
        /^RETRY_EXC_ERR: (write-persistence|send) of \d+ B.*: no acknowledgement of it came within retry_cnt/,
      );
    });
  }
});

describe("a WRITE by the own region's key in place of the peer's", () => {
  it("is refused, though both hosts have made the same", () => {
    const ends: Program = function* ({ cpu, device, options }) {
      const v = device.verbs;
      const pd = v.allocPd(device), cq = v.must(yield* v.createCq(device, { entries: 16 }));
      const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
      const mr = v.must(yield* v.regMr(pd, cpu.allocate(4096), { access }));
      const qp = { pd, sendCq: cq, recvCq: cq, ...QUEUES };
      cpu.report("made", { at: mr.address });
      if (options.to === undefined) {
        const listener = v.must(v.listen(device, "alike"));
        const event = yield* v.waitEvent(listener);
        if (event?.kind !== "request") throw new Error(`No request: ${event?.kind}`);
        v.must(yield* v.accept(listener, event.request, { qp }));
        return void (yield* v.waitEvent(listener));
      }
      const connection = yield* v.connect(device, { to: "b", service: "alike", qp });
      if (v.refused(connection)) throw new Error(connection.reason);
      const remote = { va: mr.address, rkey: mr.rkey };
      const sges = [v.sge(mr, 0, 64)], sendFlags = IBV_SEND_SIGNALED;
      v.must(yield* v.postSend(connection.qp, { opcode: "write", sendFlags, sges, remote }));
      const [completion] = yield* v.waitCompletion(cq);
      cpu.report("completed", { status: completion!.status });
    };
    const rack = new SimulatedRack(
      `
name: alike
hosts: { a: {}, b: {} }
programs: [{ on: b, run: ./ends.ts }, { on: a, run: ./ends.ts, to: b, at: 200us }]
`,
      { programs: { "./ends.ts": ends } },
    ).run();
    assert.deepEqual(rack.reported("program-failed"), []);
    const [a, b] = rack.reported("made");
    assert.equal(a!["at"], b!["at"], "the hosts have made the same");
    assert.deepEqual(rack.reported("completed"), [{ status: "REM_ACCESS_ERR" }]);
  });
});

describe("the reason of a completion", () => {
  /** What a's request is told, to a region of b that is on demand, with rnr_retry 0 and no receives there. */
  function reasonOf(opcode: "write" | "read" | "send" | "atomic-write", paging = ""): string {
    const rack = connected(
      function* (context, { qp, mr }, table) {
        const { cpu, device } = context, v = device.verbs;
        const remote = {
          va: yield* table.get(context, "va"),
          rkey: yield* table.get(context, "rkey"),
        };
        const sges = [v.sge(mr, 0, 8)], sendFlags = IBV_SEND_SIGNALED;
        v.must(
          yield* v.postSend(qp, { opcode, sendFlags, sges, ...(opcode !== "send" && { remote }) }),
        );
        const [done] = yield* v.waitCompletion(qp.sendCq);
        cpu.report("reason", done!.reason ?? done!.status);
        table.put("done");
      },
      function* (context, { pd }, table) {
        const { cpu, device } = context, v = device.verbs;
        const mr = v.must(
          yield* v.regMr(pd, cpu.allocate(4096), {
            access: IBV_ACCESS_LOCAL_WRITE |
              (paging === "" ? 0 : IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_WRITE),
          }),
        );
        table.put("va", mr.address);
        table.put("rkey", mr.rkey);
        yield* table.get(context, "done");
      },
      paging === "" ? {} : { pin: false, fault: paging },
      { rnrRetry: 0 },
    );
    return String(rack.reported("reason")[0]);
  }

  it("names a page that was not there, where the operation takes no receive, and both where it takes one", () => {
    assert.match(
      reasonOf("write", "rnr"),
      /^write of 8 B .*: RNR NAKs .*: a page of the peer's memory was not there$/,
    );
    const either = /: the peer had no receive posted, or a page of its memory was not there$/;
    assert.match(reasonOf("send"), either);
  });

  it("has the article that goes with the operation", () => {
    assert.match(reasonOf("atomic-write"), /^b refused an atomic-write of 8 B/);
  });
});
