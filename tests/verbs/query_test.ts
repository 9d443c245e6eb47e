/**
 * What a program asks of its device, port and queues: each limit is the one that the calls keep to, at it and one
 * beyond.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
  IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
  IBV_DEVICE_ATOMIC_WRITE,
  IBV_DEVICE_FLUSH_PERSISTENT,
  IBV_DEVICE_MEM_WINDOW,
  IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES,
  IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS,
  IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG,
  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
  IBV_WC_EX_WITH_CVLAN,
  IBV_WC_EX_WITH_FLOW_TAG,
  IBV_WC_STANDARD_FLAGS,
} from "../../nodes/host/verbs/flags.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import type { Cq, Pd, VerbError } from "../../nodes/host/verbs/objects.ts";
import type {
  DeviceAttributes,
  VendorAttributes,
} from "../../nodes/host/verbs/query/query_device.ts";
import { alone } from "../support/alone.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import { bringUp, connected, rcOptions, run } from "../support/two_programs.ts";

function errnoOf(answer: unknown): string {
  return (answer as VerbError | undefined)?.errno ?? "ok";
}

type Limits = DeviceAttributes & VendorAttributes;

interface At {
  readonly device: ProgramContext["device"];
  readonly cpu: ProgramContext["cpu"];
  readonly pd: Pd;
  readonly cq: Cq;
}

/** A limit, and a call that takes a value up to it. */
interface Row {
  readonly limit: keyof Limits;
  readonly call: (at: At, value: number) => Steps<unknown>;
  /** Of the value beyond it; EINVAL by default. */
  readonly errno?: string;
}

const sizes = { maxSendWr: 1, maxRecvWr: 1 } as const;

/** Creates a queue pair, and destroys it where there is one. */
function* tryQp({ device, pd, cq }: At, options: object): Steps<unknown> {
  const v = device.verbs;
  const plan = { type: "rc", sendCq: cq, recvCq: cq, ...sizes, ...options } as const;
  const qp = yield* v.createQp(pd, plan);
  return v.failed(qp) ? qp : yield* v.destroyQp(qp);
}

/** As {@link tryQp}, brought as far as an attribute is set. */
function* tryAttribute({ device, pd, cq }: At, name: string, value: number): Steps<unknown> {
  const v = device.verbs;
  const qp = v.must(yield* v.createQp(pd, { type: "rc", sendCq: cq, recvCq: cq, ...sizes }));
  v.must(yield* v.modifyQp(qp, { state: "init", accessFlags: 0 }));
  const rtr = {
    state: "rtr",
    destAddress: device.state.address,
    pathMtu: 1024,
    destQpn: 1,
    rqPsn: 0,
    maxDestRdAtomic: 1,
    minRnrTimer: 1,
  } as const;
  const rts = {
    state: "rts",
    timeout: 8,
    retryCnt: 7,
    rnrRetry: 7,
    sqPsn: 7,
    maxRdAtomic: 1,
  } as const;
  let answer: unknown = yield* v.modifyQp(qp, { ...rtr, ...(name in rtr && { [name]: value }) });
  if (answer === undefined && name in rts) {
    answer = yield* v.modifyQp(qp, { ...rts, [name]: value });
  }
  v.must(yield* v.destroyQp(qp));
  return answer;
}

function* trySrq({ device, pd }: At, options: object): Steps<unknown> {
  const v = device.verbs;
  const srq = yield* v.createSrq(pd, { maxWr: 1, ...options });
  return v.failed(srq) ? srq : yield* v.destroySrq(srq);
}

function* tryCq({ device }: At, options: object): Steps<unknown> {
  const v = device.verbs;
  const cq = yield* v.createCq(device, { entries: 1, ...options });
  return v.failed(cq) ? cq : yield* v.destroyCq(cq);
}

/** Registers a region with so many data transfer objects. */
function* tryObjects({ device, cpu, pd }: At, count: number): Steps<unknown> {
  const v = device.verbs;
  const objects = Array.from({ length: count }, (_, i) => ({
    identity: BigInt(i),
    offset: i,
    length: 1,
  }));
  const mr = yield* v.regMr(pd, cpu.allocate(4096), { access: 0, objects });
  return v.failed(mr) ? mr : yield* v.deregMr(mr);
}

const ROWS: readonly Row[] = [
  { limit: "maxSge", call: (at, value) => tryQp(at, { maxSendSge: value }) },
  { limit: "maxSge", call: (at, value) => tryQp(at, { maxRecvSge: value }) },
  { limit: "maxQpWr", call: (at, value) => tryQp(at, { maxRecvWr: value }) },
  {
    limit: "maxQpWr",
    call: (at, value) => tryQp(at, { maxSendWr: value, inline: { by: "size", bytes: 0 } }),
  },
  {
    limit: "maxInlineData",
    call: (at, value) => tryQp(at, { inline: { by: "size", bytes: value } }),
  },
  { limit: "maxRegionObjects", call: tryObjects },
  { limit: "maxWeight", call: (at, value) => tryQp(at, { weight: value }) },
  { limit: "maxObjects", call: (at, value) => tryQp(at, { maxObjects: value }) },
  { limit: "maxQpRdAtom", call: (at, value) => tryAttribute(at, "maxDestRdAtomic", value) },
  { limit: "maxQpInitRdAtom", call: (at, value) => tryAttribute(at, "maxRdAtomic", value) },
  { limit: "maxSrqWr", call: (at, value) => trySrq(at, { maxWr: value }) },
  { limit: "maxSrqSge", call: (at, value) => trySrq(at, { maxSge: value }) },
  { limit: "maxCqe", call: (at, value) => tryCq(at, { entries: value }) },
  { limit: "numCompVectors", call: (at, value) => tryCq(at, { compVector: value - 1 }) },
];

/** Runs a program with all limits of its device; says whether it came to its end. */
function withLimits(
  host: object,
  body: (context: ProgramContext, limits: Limits) => Steps<void>,
): void {
  let ended = false;
  alone(function* (context) {
    const { device, cpu } = context;
    // The host's services have their queues by then.
    yield* cpu.sleep(1e9);
    const { origAttr, vendor } = device.verbs.must(yield* device.verbs.queryDeviceEx(device));
    assert.deepEqual(device.verbs.must(yield* device.verbs.queryDevice(device)), origAttr);
    yield* body(context, { ...origAttr, ...vendor });
    ended = true;
  }, host);
  assert.ok(ended);
}

describe("queryDevice", () => {
  it("has the limit of each size that a call refuses: it is taken, one more is not", () => {
    withLimits({ dram: "512MiB" }, function* ({ cpu, device }, limits) {
      const v = device.verbs;
      const pd = v.allocPd(device);
      const cq = v.must(yield* v.createCq(device, { entries: 8 }));
      for (const { limit, call, errno = "EINVAL" } of ROWS) {
        const at = { device, cpu, pd, cq };
        const most = Number(limits[limit]);
        assert.equal(errnoOf(yield* call(at, most)), "ok", `${limit} ${most}`);
        assert.equal(errnoOf(yield* call(at, most + 1)), errno, `${limit} ${most + 1}`);
      }
    });
  });

  it("has the number of each object: so many can be made, and not one more", () => {
    const queues = 24;
    withLimits({ queues }, function* ({ device }, limits) {
      const v = device.verbs;
      assert.equal(limits.maxQueues, queues);
      const pd = v.allocPd(device);
      const cqs: Cq[] = [];
      for (;;) {
        const cq = yield* v.createCq(device, { entries: 1 });
        if (v.failed(cq)) {
          assert.equal(cq.errno, "ENOMEM");
          break;
        }
        cqs.push(cq);
      }
      assert.equal(cqs.length, limits.freeQueues);
      assert.ok(cqs.length <= limits.maxCq);
      for (const cq of cqs.splice(1)) v.must(yield* v.destroyCq(cq));
      const [cq] = cqs;
      const srq = v.must(yield* v.createSrq(pd, { maxWr: 4 }));
      const plan = { type: "rc", sendCq: cq!, recvCq: cq!, ...sizes, srq } as const;
      const qps = [];
      for (;;) {
        const qp = yield* v.createQp(pd, plan);
        if (v.failed(qp)) {
          assert.equal(qp.errno, "ENOMEM");
          break;
        }
        qps.push(qp);
      }
      assert.equal(qps.length, limits.freeQueues - 2);
      assert.ok(qps.length <= limits.maxQp);
      for (const qp of qps) v.must(yield* v.destroyQp(qp));
      v.must(yield* v.destroySrq(srq));
      v.must(yield* v.destroyCq(cq!));
      const srqs = [];
      for (let srq = yield* v.createSrq(pd, { maxWr: 1 }); !v.failed(srq);) {
        srqs.push(srq);
        srq = yield* v.createSrq(pd, { maxWr: 1 });
      }
      assert.equal(srqs.length, limits.freeQueues);
      assert.ok(srqs.length <= limits.maxSrq);
    });
  });

  it("has the number of multicast groups, and of queue pairs of one", () => {
    withLimits({ queues: 600 }, function* ({ device }, limits) {
      const v = device.verbs;
      const pd = v.allocPd(device);
      const cq = v.must(yield* v.createCq(device, { entries: 8 }));
      const plan = { type: "ud", sendCq: cq, recvCq: cq, ...sizes } as const;
      const first = v.must(yield* v.createQp(pd, plan));
      const group = (i: number) => 0xe100_0000 + i;
      for (let i = 0; i < limits.maxMcastGrp; i++) v.must(yield* v.attachMcast(first, group(i)));
      assert.equal(errnoOf(yield* v.attachMcast(first, group(limits.maxMcastGrp))), "ENOMEM");
      for (let i = 1; i < limits.maxMcastQpAttach; i++) {
        v.must(yield* v.attachMcast(v.must(yield* v.createQp(pd, plan)), group(0)));
      }
      const last = v.must(yield* v.createQp(pd, plan));
      assert.equal(errnoOf(yield* v.attachMcast(last, group(0))), "ENOMEM");
      assert.equal(errnoOf(yield* v.attachMcast(last, group(1))), "ok");
    });
  });

  it("has the number of keys that are free, which regions and windows share", () => {
    withLimits({}, function* ({ cpu, device }, limits) {
      const v = device.verbs;
      const pd = v.allocPd(device);
      const free = function* () {
        const { vendor } = v.must(yield* v.queryDeviceEx(device));
        return vendor.freeKeys;
      };
      const first = yield* free();
      assert.ok(first <= limits.maxMr && first <= limits.maxMw && first > 60_000);
      const mr = v.must(yield* v.regMr(pd, cpu.allocate(64), { access: 0 }));
      const mw = v.must(yield* v.allocMw(pd, 2));
      assert.equal(yield* free(), first - 2);
      v.must(yield* v.deregMr(mr));
      v.must(yield* v.deallocMw(mw));
      assert.equal(yield* free(), first);
    });
  });

  it("says what the card can, and has one port and one clock of 1 GHz", () => {
    let ended = false;
    alone(function* ({ cpu, device }) {
      const v = device.verbs;
      const { origAttr, ...more } = v.must(yield* v.queryDeviceEx(device));
      assert.ok((origAttr.deviceCapFlags & IBV_DEVICE_MEM_WINDOW) !== 0);
      for (const bit of [IBV_DEVICE_FLUSH_PERSISTENT, IBV_DEVICE_ATOMIC_WRITE]) {
        assert.ok((more.deviceCapFlagsEx & bit) !== 0n);
      }
      assert.equal(origAttr.nodeGuid, BigInt(device.state.mac));
      assert.deepEqual([origAttr.physPortCnt, origAttr.maxPkeys], [1, 1]);
      assert.equal(more.hcaCoreClock, 1_000_000);
      const first = v.must(yield* v.queryRtValuesEx(device)).rawClock;
      const before = cpu.now;
      yield* cpu.sleep(5_000_000);
      const second = v.must(yield* v.queryRtValuesEx(device)).rawClock;
      const tickPs = 1e9 / more.hcaCoreClock;
      assert.ok(Math.abs((second - first) * tickPs - (cpu.now - before)) <= tickPs * 2);
      assert.deepEqual(v.getDeviceList(device).map(({ name }) => name), ["rackmesh0"]);
      ended = true;
    });
    assert.ok(ended);
  });

  it("has no device while the card has no power", () => {
    const lists: number[] = [];
    const rack = new SimulatedRack(
      `
name: no-card
hosts: { a: {} }
programs: [{ on: a, program: ./p.ts }]
faults: [{ at: 400us, kill: a-rnic }]
`,
      {
        programs: {
          "./p.ts": function* ({ cpu, device }) {
            lists.push(device.verbs.getDeviceList(device).length);
            while (cpu.card !== undefined) yield* cpu.sleep(1e8);
            lists.push(device.verbs.getDeviceList(device).length);
            cpu.report("asked", { errno: errnoOf(yield* device.verbs.queryDevice(device)) });
          },
        },
      },
    ).run(1e11);
    assert.deepEqual(lists, [1, 0]);
    assert.deepEqual(rack.reported("asked", "a"), [{ errno: "EINVAL" }]);
  });
});

describe("queryPort, queryGid and queryPkey", () => {
  it("tell of the one port, with its rate, MTU, GID and partition", () => {
    let ended = false;
    alone(function* ({ device }) {
      const v = device.verbs;
      const port = v.must(yield* v.queryPort(device, 1));
      assert.equal(port.state, "active");
      assert.equal(port.maxMtu, device.state.mtu);
      assert.equal(port.bitsPerSecond, 100e9);
      // Four lanes of 25 Gb/s.
      assert.deepEqual([port.activeWidth, port.activeSpeed], [2, 32]);
      assert.equal(port.maxMsgSz, 2 ** 31);
      const entry = v.must(yield* v.queryGidEx(device, 1, 0));
      assert.deepEqual([entry.gidType, entry.address], ["roce-v2", device.state.address]);
      const { address } = device.state;
      const last = [24, 16, 8, 0].map((shift) => (address >>> shift) & 0xff);
      assert.deepEqual([...entry.gid], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, ...last]);
      assert.deepEqual(v.must(yield* v.queryGidTable(device)), [entry]);
      assert.deepEqual(yield* v.queryGid(device, 1, 0), entry.gid);
      assert.equal(v.queryPkey(device, 1, 0), 0xffff);
      const refusals = [
        yield* v.queryPort(device, 0),
        yield* v.queryPort(device, 2),
        yield* v.queryGid(device, 1, port.gidTblLen),
        yield* v.queryGidEx(device, 2, 0),
        yield* v.queryGidEx(device, 1, -1),
        v.queryPkey(device, 1, port.pkeyTblLen),
        v.queryPkey(device, 2, 0),
        v.queryPkey(device, 1, 0.5),
      ];
      assert.deepEqual(refusals.map(errnoOf), Array(refusals.length).fill("EINVAL"));
      ended = true;
    });
    assert.ok(ended);
  });

  it("tell of RoCEv1, and of a switch that has no power", () => {
    const seen: unknown[] = [];
    new SimulatedRack(
      `
name: ports
fabric: { rate: 40Gbps }
hosts: { a: { roce: v1 }, b: { roce: v1 } }
programs: [{ on: a, program: ./p.ts }]
faults: [{ at: 300us, kill: tor }]
`,
      {
        programs: {
          "./p.ts": function* ({ cpu, device: d }) {
            const v = d.verbs;
            const { activeWidth, activeSpeed } = v.must(yield* v.queryPort(d, 1));
            seen.push([activeWidth, activeSpeed], v.must(yield* v.queryGidEx(d, 1, 0)).gidType);
            yield* cpu.sleep(1e9);
            seen.push(v.must(yield* v.queryPort(d, 1)).state);
          },
        },
      },
    ).run(1e11);
    assert.deepEqual(seen, [[2, 4], "roce-v1", "down"]);
  });
});

describe("queryQpDataInOrder", () => {
  for (const host of [{ ddio: "on" }, { ddio: "off" }, { attach: "coherent" }]) {
    it(`says that a reader may wait for the last byte, and it may: ${JSON.stringify(host)}`, () => {
      const bytes = 8000;
      let reads = 0;
      connected(function* (context, { qp, mr }, table) {
        const v = context.device.verbs;
        const to = { va: yield* table.get(context, "va"), rkey: yield* table.get(context, "rkey") };
        for (let round = 1; round <= 3; round++) {
          context.cpu.store(mr.address, new Uint8Array(bytes).fill(round));
          const sges = [v.sge(mr, 0, bytes)];
          v.must(yield* v.postSend(qp, { opcode: "write", sges, remote: to }));
          yield* v.waitCompletion(qp.sendCq);
          yield* table.get(context, `read ${round}`);
        }
      }, function* (context, { qp, mr }, table) {
        const { cpu, device } = context;
        const v = device.verbs;
        for (const op of ["write", "send", "read"] as const) {
          assert.equal(v.queryQpDataInOrder(qp, op), 1);
        }
        const caps = v.queryQpDataInOrder(qp, "write", IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS);
        assert.equal(
          caps,
          IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG | IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES,
        );
        assert.equal(errnoOf(v.queryQpDataInOrder(qp, "write", 2)), "EINVAL");
        table.put("va", mr.address);
        table.put("rkey", mr.rkey);
        for (let round = 1; round <= 3; round++) {
          const last = mr.address + bytes - 1;
          while (cpu.load(last, 1)[0] !== round) {
            // Before the last byte is there, what is there is a beginning.
            const now = cpu.load(mr.address, bytes);
            const end = now.findIndex((byte) => byte !== round);
            assert.ok(now.subarray(Math.max(0, end)).every((byte) => byte !== round));
            reads++;
            yield* cpu.sleep(20_000);
          }
          assert.deepEqual(cpu.load(mr.address, bytes), new Uint8Array(bytes).fill(round));
          table.put(`read ${round}`);
        }
      }, host);
      assert.ok(reads > 10);
    });
  }
});

describe("createCq with wcFlags", () => {
  it("has completions with the card's time, by either clock, that rise and that a query brackets", () => {
    run(function* (context, table) {
      const { device } = context;
      const v = device.verbs;
      const pd = v.allocPd(device);
      const wcFlags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
      const flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
      const cq = v.must(yield* v.createCq(device, { entries: 16, wcFlags, flags }));
      const plain = v.must(yield* v.createCq(device, { entries: 16 }));
      const plan = {
        type: "rc",
        sendCq: cq,
        recvCq: plain,
        maxSendWr: 8,
        maxRecvWr: 8,
        sqSigAll: true,
      } as const;
      const qp = v.must(yield* v.createQp(pd, plan));
      yield* bringUp(context, table, { qp, side: "left", name: "qp" });
      v.must(yield* v.postRecv(qp, { sges: [] }));
      table.put("posted");
      const clock = function* () {
        return v.must(yield* v.queryRtValuesEx(device)).rawClock;
      };
      const times = [yield* clock()];
      for (let i = 0; i < 4; i++) {
        v.must(yield* v.postSend(qp, { opcode: "send", sges: [] }));
        yield* context.cpu.sleep(10_000_000);
        if (i === 2) v.must(yield* v.resizeCq(cq, 100));
        assert.equal(v.startPoll(cq), undefined);
        const ts = v.must(v.wcReadCompletionTs(cq));
        assert.equal(v.must(v.wcReadCompletionWallclockNs(cq)), ts);
        assert.equal(v.must(v.wcRead(cq)).timestamp, ts);
        times.push(ts);
        yield* v.endPoll(cq);
        assert.equal(errnoOf(v.wcReadCompletionTs(cq)), "EINVAL");
      }
      times.push(yield* clock());
      for (let i = 1; i < times.length; i++) assert.ok(times[i]! > times[i - 1]!, `${times}`);
      // A queue that was made without it has no field for it.
      yield* table.get(context, "sent");
      while (v.startPoll(plain) !== undefined) yield* context.cpu.sleep(1_000_000);
      assert.equal(v.must(v.wcRead(plain)).timestamp, undefined);
      assert.equal(errnoOf(v.wcReadCompletionTs(plain)), "EINVAL");
      yield* v.endPoll(plain);
    }, function* (context, table) {
      const { device } = context;
      const v = device.verbs;
      const pd = v.allocPd(device);
      const cq = v.must(yield* v.createCq(device, { entries: 16 }));
      const qp = v.must(yield* v.createQp(pd, rcOptions(cq)));
      v.must(yield* v.modifyQp(qp, { state: "init", accessFlags: 0 }));
      v.must(yield* v.modifyQp(qp, { state: "reset" }));
      yield* bringUp(context, table, { qp, side: "right", name: "qp" });
      for (let i = 0; i < 4; i++) v.must(yield* v.postRecv(qp, { sges: [] }));
      yield* table.get(context, "posted");
      v.must(yield* v.postSend(qp, { opcode: "send", sges: [] }));
      table.put("sent");
      yield* context.cpu.sleep(100_000_000);
    });
  });

  it("is refused fields and flags that this card does not have", () => {
    let ended = false;
    alone(function* ({ device }) {
      const v = device.verbs;
      const entries = 8;
      const refused: [object, string][] = [
        [{ wcFlags: IBV_WC_EX_WITH_CVLAN }, "EOPNOTSUPP"],
        [{ wcFlags: IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_STANDARD_FLAGS }, "EOPNOTSUPP"],
        [{ wcFlags: 1 << 20 }, "EINVAL"],
        [{ wcFlags: -1 }, "EINVAL"],
        [{ wcFlags: 1.5 }, "EINVAL"],
        [{ flags: IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN }, "EOPNOTSUPP"],
      ];
      for (const [options, errno] of refused) {
        assert.equal(errnoOf(yield* v.createCq(device, { entries, ...options })), errno);
      }
      ended = true;
    });
    assert.ok(ended);
  });
});
