import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_FLUSH_GLOBAL,
  IBV_FLUSH_PERSISTENT,
  IBV_SEND_INLINE,
  IBV_SEND_SIGNALED,
  type SendFlags,
} from "./flags.ts";
import {
  deepStrictEqual as same,
  match,
  ok,
  strictEqual as equal,
  throws,
} from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import {
  decodeDoorbell,
  DOORBELL_OFFSET,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import { decodeSpace3 } from "../../../fabric/wire/host_bus/default_store_testing.ts";
import { BLUE_FLAME } from "../../../fabric/rack/plan/plan.ts";
import { placeOfRegister } from "../../../fabric/wire/host_bus/blue_flame.ts";
import { decodeRecvWqe, decodeSendWqe, WQE_UNIT_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";
import { VENDOR_ERRORS } from "../../../fabric/wire/host_bus/vendor_error.ts";
import { createAh } from "./address_handle.ts";
import { pollCq } from "./completion_queue.ts";
import { createCq } from "./create_cq.ts";
import { must } from "./device.ts";
import { allocNullMr, allocPd, regMr } from "./memory_region.ts";
import { postRecv, postSend, sge } from "./post.ts";
import { createQp, type QpOptions } from "./queue_pair.ts";
import { bootDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";
import type { Cq, Device, DeviceOptions, Mr, Pd, Qp, SendRequest } from "./objects.ts";

let rig: VerbsRig, device: Device, pd: Pd, cq: Cq, mr: Mr, qp: Qp;

function open(options: DeviceOptions = {}, changes: Partial<QpOptions> = {}): void {
  rig = new VerbsRig();
  device = rig.run(bootDevice(rig, rig.plan, options));
  pd = allocPd(device);
  cq = must(rig.run(createCq(device, { entries: 64 })));
  mr = must(rig.run(regMr(pd, rig.allocate(4096), { access: IBV_ACCESS_LOCAL_WRITE })));
  const plan: QpOptions = {
    type: "rc",
    sendCq: cq,
    recvCq: cq,
    maxSendWr: 6,
    maxRecvWr: 3,
    maxInlineData: 220,
    sqSigAll: true,
  };
  qp = must(rig.run(createQp(pd, { ...plan, ...changes })));
  qp.life.state = "rts";
  rig.registers.length = 0;
}

function write(wrId: number, changes: Partial<SendRequest> = {}): SendRequest {
  const sges = [sge(mr, 0, 1000)];
  return { opcode: "write", wrId, sges, remote: { va: 0x6000_0000_0000, rkey: 5 }, ...changes };
}

function wqeAt(position: number) {
  const address = qp.sq.address + position * WQE_UNIT_BYTES;
  return decodeSendWqe(rig.load(address, Math.min(5, qp.sq.depth - position) * WQE_UNIT_BYTES));
}

function pointerOf(queue: number): { pointer: number; stamp: number } {
  return decodeSpace3(rig.load(device.state.space3 + queue * 16, 16));
}

beforeEach(() => open());

describe("createQp", () => {
  it("Q-11: asks for the queue pair's weight, the program's where it has none of its own", () => {
    const weightOf = (changes: Partial<QpOptions>, program?: number) => {
      const rings = { maxSendWr: 1, maxRecvWr: 1, sqSigAll: true };
      const options: QpOptions = { type: "rc", sendCq: cq, recvCq: cq, ...rings, ...changes };
      const as = program === undefined ? device : { ...device, weight: program };
      const made = rig.run(createQp(allocPd(as), options));
      return "errno" in made ? made.errno : rig.sent("create-qp").at(-1)!.weight;
    };
    same([weightOf({}), weightOf({ weight: 3 }), weightOf({}, 7)], [undefined, 3, 7]);
    equal(weightOf({ weight: 255 }, 7), 255);
    const hintsOf = (hints: QpOptions["hints"]) => {
      weightOf({ ...(hints !== undefined && { hints }) });
      return rig.sent("create-qp").at(-1)!.hints;
    };
    same([undefined, "on", "off", "carrier"].map((word) => hintsOf(word as QpOptions["hints"])), [
      undefined,
      "on",
      "off",
      "carrier",
    ], "H-09");
    const privilegeOf = (as: Device, hints?: QpOptions["hints"]) => {
      const rings = { maxSendWr: 1, maxRecvWr: 1, sqSigAll: true, sendCq: cq, recvCq: cq };
      rig.run(createQp(allocPd(as), { type: "ud", ...rings, ...(hints && { hints }) }));
      return rig.sent("create-qp").at(-1)!.privileged;
    };
    const root: Device = { ...device, privileged: true };
    same([privilegeOf(device, "group"), privilegeOf(root), privilegeOf(root, "group")], [
      undefined,
      undefined,
      true,
    ], "H-08: only where a trusted group asks for it");
    for (const weight of [0, 256, 1.5, NaN]) equal(weightOf({ weight }), "EINVAL", `${weight}`);
  });
});

describe("postSend", () => {
  it("Q-05 (in part): writes the WQE and the write pointer to memory, and rings once for a batch", () => {
    equal(rig.run(postSend(qp, [write(1), write(2)])), undefined);
    const wqe = wqeAt(1)!;
    same([wqe.opcode, wqe.index, wqe.qpn, wqe.signaled], ["write", 1, qp.qpn, true]);
    same(wqe.remote, { va: 0x6000_0000_0000n, rkey: 5 });
    same(wqe.sges, [{ address: mr.address, length: 1000, lkey: mr.lkey }]);
    equal(pointerOf(qp.sq.queue).pointer, 1);
    equal(rig.registers.length, 1);
    equal(rig.registers[0]!.offset, DOORBELL_OFFSET);
    same(decodeDoorbell(rig.registers[0]!.bytes), {
      queue: qp.sq.queue,
      write: pointerOf(qp.sq.queue),
    });
  });

  it("Q-06 (in part): a doorbell may carry the queue's number only", () => {
    open({ doorbell: "number" });
    rig.run(postSend(qp, write(1)));
    same(decodeDoorbell(rig.registers[0]!.bytes), { queue: qp.sq.queue });
    equal(pointerOf(qp.sq.queue).pointer, 0);
  });

  it("BlueFlame: a WQE of up to 256 B that is posted alone goes with its doorbell, as mlx5 has it", () => {
    /** Lines stored into the queue pair's buffers, 0 where an ordinary doorbell rang. */
    const linesOf = (
      requests: SendRequest | readonly SendRequest[],
      rule: DeviceOptions = { blueFlame: "on" },
      changes: Partial<QpOptions> = {},
    ) => {
      open(rule, changes);
      equal(rig.run(postSend(qp, requests)), undefined);
      const places = rig.registers.map(({ offset }) => placeOfRegister(offset));
      if (places[0] === undefined) return rig.registers.length === 1 ? 0 : NaN;
      ok(places.every((place) => place?.buffer === 2 * qp.sq.queue));
      return places.length;
    };
    const inline = (bytes: number) =>
      write(1, { sges: [sge(mr, 0, bytes)], sendFlags: IBV_SEND_INLINE });
    same([linesOf(write(1)), linesOf(inline(64)), linesOf(inline(220))], [1, 2, 5]);
    equal(linesOf([write(1), inline(64)]), 0, "a list is fetched");
    equal(linesOf([write(1)]), 1, "a list of one");
    same(BLUE_FLAME.map((blueFlame) => linesOf(write(1), { blueFlame })), [
      1,
      0,
      0,
    ]);
    same(
      [linesOf(inline(64), { blueFlame: "inline" }), linesOf(inline(64), { blueFlame: "off" })],
      [
        2,
        0,
      ],
    );
    equal(linesOf(write(1), { blueFlame: "off" }, { blueFlame: "on" }), 1, "a queue pair's own");
    equal(linesOf(write(1), { blueFlame: "on", doorbell: "number" }), 0, "it has the pointer");
    const verify = { level: "check" } as const;
    equal(linesOf({ ...inline(220), opcode: "write-verify", verify }), 0, "272 B are too long");
  });

  it("BlueFlame: the ring has the WQE and space 3 the pointer before; buffers are used in turn", () => {
    open({ blueFlame: "on" });
    rig.run(postSend(qp, write(1)));
    rig.run(postSend(qp, write(2)));
    const [first, second] = rig.registers.map(({ offset }) => placeOfRegister(offset)!.buffer % 2);
    same([first, second], [0, 1]);
    const line = rig.registers[1]!.bytes;
    same(decodeSendWqe(line.slice(0, 64)), wqeAt(1));
    same(decodeDoorbell(line.slice(48).fill(0, 0, 1))!.write, pointerOf(qp.sq.queue));
  });

  it("Q-08: times of one queue's pointers rise strictly, also at one instant", () => {
    rig.plan.timing satisfies object;
    const stamps: number[] = [];
    for (let i = 0; i < 3; i++) {
      rig.run(postSend(qp, write(i)));
      stamps.push(pointerOf(qp.sq.queue).stamp);
      rig.now = 1_000;
    }
    ok(stamps[0]! < stamps[1]! && stamps[1]! < stamps[2]!);
  });

  it("Q-02: a payload is in the WQE with IBV_SEND_INLINE and not otherwise, whatever its lkey", () => {
    rig.store(mr.address, Uint8Array.of(1, 2, 3));
    const inlineOf = (changes: Partial<SendRequest>) => {
      const position = (qp.sq.write + 1) % qp.sq.depth;
      equal(rig.run(postSend(qp, write(1, changes))), undefined);
      return wqeAt(position)!.inline;
    };
    const small = [sge(mr, 0, 3)], sendFlags = IBV_SEND_INLINE;
    equal(inlineOf({ sges: small }), undefined, "not by its size");
    same(inlineOf({ sges: small, sendFlags }), Uint8Array.of(1, 2, 3));
    same(inlineOf({ sges: [{ ...small[0]!, lkey: 0 }], sendFlags }), Uint8Array.of(1, 2, 3));
    same(inlineOf({ sges: [sge(mr, 0, 220)], sendFlags })?.length, 220);
    same(inlineOf({ sges: [], sendFlags }), new Uint8Array());
  });

  it("the reason of a failed send has its size, inline or not", () => {
    const reasonOf = (sendFlags: SendFlags) => {
      open();
      equal(rig.run(postSend(qp, write(1, { sges: [sge(mr, 0, 200)], sendFlags }))), undefined);
      const vendorError = VENDOR_ERRORS["nak-remote-access"].code;
      const cqe = { status: "REM_ACCESS_ERR", vendorError, opcode: "requester-error" } as const;
      rig.complete(cq, { ...cqe, qpn: qp.qpn, wqeIndex: qp.sq.tail });
      return rig.run(pollCq(cq, 1))[0]?.reason ?? "";
    };
    match(reasonOf(0), / refused a write of 200 B at VA 0x6/);
    equal(reasonOf(IBV_SEND_INLINE), reasonOf(0));
  });

  it("max_inline_data: granted is what the WQEs have room for; beyond it a post is EINVAL", () => {
    const grants = [
      ...[[undefined, 28], [0, 28], [28, 28], [29, 92], [93, 156], [157, 220], [220, 220]],
      [221, 236],
    ];
    for (const [maxInlineData, granted] of grants) {
      open({}, { ...(maxInlineData !== undefined && { maxInlineData }) });
      if (maxInlineData === undefined) {
        const plain = { type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 6, maxRecvWr: 3 } as const;
        qp = must(rig.run(createQp(pd, plain)));
        qp.life.state = "rts";
      }
      equal(qp.caps.maxInlineData, granted);
      const refusal = (bytes: number) =>
        rig.run(postSend(qp, write(1, { sges: [sge(mr, 0, bytes)], sendFlags: IBV_SEND_INLINE })));
      equal(refusal(granted!), undefined);
      const wrong = refusal(granted! + 1);
      same([wrong?.errno, wrong?.bad], ["EINVAL", 0]);
      match(wrong!.reason, new RegExp(`with ${granted! + 1} B: max_inline_data .* is ${granted}$`));
      equal(qp.sq.requests, 1, "nothing of it is posted");
    }
    open({}, { type: "ud", maxInlineData: 0 });
    equal(qp.caps.maxInlineData, 12, "a datagram's address is in the WQE, too");
    for (const maxInlineData of [237, -1, 0.5, NaN]) {
      const plan = { type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 6, maxRecvWr: 3 } as const;
      const made = rig.run(createQp(pd, { ...plan, maxInlineData }));
      match(
        "errno" in made ? `${made.errno} ${made.reason}` : "made",
        /^EINVAL maxInlineData is \S+: .* from 0 to 236$/,
      );
    }
  });

  it("IBV_SEND_INLINE is refused where nothing of the elements is sent", () => {
    const sges = [sge(mr, 0, 8)], sendFlags = IBV_SEND_INLINE;
    const atomic = { swapAdd: 1n, compare: 0n };
    for (const changes of [{ opcode: "read" }, { opcode: "fetch-add", atomic }] as const) {
      const refusal = rig.run(postSend(qp, write(1, { ...changes, sges, sendFlags })));
      equal(refusal?.errno, "EINVAL");
      match(
        refusal!.reason,
        /^IBV_SEND_INLINE is for data that is sent: (read|fetch-add) sends none/,
      );
    }
  });

  it("IBV_SEND_SIGNALED: a WQE asks for a completion with it, or by sq_sig_all, and not otherwise", () => {
    const signaled = (sendFlags?: SendFlags) => {
      const position = (qp.sq.write + 1) % qp.sq.depth;
      const flags = sendFlags === undefined ? {} : { sendFlags };
      equal(rig.run(postSend(qp, write(1, flags))), undefined);
      return wqeAt(position)!.signaled;
    };
    same([signaled(), signaled(0), signaled(IBV_SEND_SIGNALED)], [true, true, true]);
    open({}, { sqSigAll: false });
    same([signaled(), signaled(0), signaled(IBV_SEND_SIGNALED)], [false, false, true]);
  });

  it("Q-02: the driver's own rule, by size or by type, inlines what does not ask for it", () => {
    rig.store(mr.address, Uint8Array.of(1, 2, 3));
    open({ inline: { by: "size", bytes: 220 } });
    rig.store(mr.address, Uint8Array.of(1, 2, 3));
    const small = { sges: [sge(mr, 0, 3)] };
    const inlined = (changes: Partial<SendRequest> = {}) => {
      const position = (qp.sq.write + 1) % qp.sq.depth;
      equal(rig.run(postSend(qp, write(1, { ...small, ...changes }))), undefined);
      return wqeAt(position)!.inline !== undefined;
    };
    same([inlined(), inlined({ sges: [sge(mr, 0, 221)] })], [true, false]);
    same(inlined({ sges: [sge(mr, 0, 220)] }), true, "as many as the rule says");
    same(wqeAt(0)!.inline, Uint8Array.of(1, 2, 3));
    open({ inline: { by: "type", opcodes: ["send"], bytes: 64 } });
    same([inlined(), inlined({ opcode: "send", remote: undefined! })], [false, true]);
    open({ inline: { by: "program" } });
    same([inlined(), inlined({ sendFlags: IBV_SEND_INLINE })], [false, true]);
  });

  it("Q-02: what a rule or the program has inlined is found by the region's addresses: with `iova` other ones", () => {
    for (const options of [{ inline: { by: "size", bytes: 220 } }, {}] as const) {
      open(options, { maxSendSge: 2 });
      const buffer = rig.allocate(3 * 4096), iova = 0x7000_0000_0000 + buffer.address % 4096 + 24;
      const access = IBV_ACCESS_LOCAL_WRITE;
      const far = must(rig.run(regMr(pd, buffer, { access, iova, offset: 24 })));
      rig.store(buffer.address + 24, Uint8Array.from({ length: 64 }, (_, i) => i));
      const asked = Object.keys(options).length === 0 && { sendFlags: IBV_SEND_INLINE };
      const posted = (sges: SendRequest["sges"], more: Partial<SendRequest> = {}) => {
        const position = (qp.sq.write + 1) % qp.sq.depth;
        equal(rig.run(postSend(qp, write(1, { sges: sges!, ...asked, ...more }))), undefined);
        return wqeAt(position)!.inline;
      };
      same(posted([sge(far, 7, 3)]), Uint8Array.of(7, 8, 9));
      same(posted([sge(far, 1, 2), sge(far, 30, 1)]), Uint8Array.of(1, 2, 30));
      const eight = posted([sge(far, 8, 8)], { opcode: "atomic-write", sendFlags: 0 });
      same(eight, Uint8Array.of(8, 9, 10, 11, 12, 13, 14, 15));
    }
  });

  it("Q-02: a rule inlines nothing that its region does not have: the card says what is wrong", () => {
    open({ inline: { by: "size", bytes: 220 } });
    const none = must(rig.run(allocNullMr(pd)));
    const inlined = (element: { address: number; length: number; lkey: number }) => {
      const position = (qp.sq.write + 1) % qp.sq.depth;
      equal(rig.run(postSend(qp, write(1, { sges: [element] }))), undefined);
      return wqeAt(position)!.inline !== undefined;
    };
    const right = sge(mr, 4000, 96);
    equal(inlined(right), true);
    equal(inlined({ ...right, length: 97 }), false);
    equal(inlined({ ...right, address: mr.address - 1 }), false);
    equal(inlined({ ...right, lkey: 0x7f_ff00 }), false);
    equal(inlined(sge(none, 0, 8)), false, "it has no memory that a core could read");
  });

  it("Q-01 (in part): a WQE of several units goes on at the ring's beginning", () => {
    const data = Uint8Array.from({ length: 220 }, (_, i) => i + 1);
    rig.store(mr.address, data);
    const big = write(7, { sges: [sge(mr, 0, 220)], sendFlags: IBV_SEND_INLINE });
    const { depth } = qp.sq;
    let at = 0;
    while (depth - at >= 4) {
      rig.run(postSend(qp, big));
      rig.complete(cq, { qpn: qp.qpn, wqeIndex: at });
      equal(rig.run(pollCq(cq, 1))[0]!.wrId, 7);
      at += 4;
      if (at % depth === 0) {
        // Shift by one unit, so that the next pass wraps inside a WQE.
        rig.run(postSend(qp, write(8)));
        rig.complete(cq, { qpn: qp.qpn, wqeIndex: 0 });
        rig.run(pollCq(cq, 1));
        at = 1;
        while (depth - at >= 4) {
          rig.run(postSend(qp, big));
          rig.complete(cq, { qpn: qp.qpn, wqeIndex: at });
          rig.run(pollCq(cq, 1));
          at += 4;
        }
      }
    }
    equal(depth - at, 3);
    rig.run(postSend(qp, big));
    equal(pointerOf(qp.sq.queue).pointer, 0);
    const bytes = new Uint8Array(4 * WQE_UNIT_BYTES);
    bytes.set(rig.load(qp.sq.address + at * WQE_UNIT_BYTES, 3 * WQE_UNIT_BYTES));
    bytes.set(rig.load(qp.sq.address, WQE_UNIT_BYTES), 3 * WQE_UNIT_BYTES);
    same(decodeSendWqe(bytes)!.inline, data);
  });

  it("§4.3: stops at the first bad request; the earlier ones are posted", () => {
    const bad = write(2, { remote: undefined! });
    const answer = rig.run(postSend(qp, [write(1), bad, write(3)]));
    same([answer?.errno, answer?.bad], ["EINVAL", 1]);
    equal(pointerOf(qp.sq.queue).pointer, 0);
    equal(rig.registers.length, 1);
  });

  it("§4.3: ENOMEM when as many are outstanding as the queue pair was made for", () => {
    const answer = rig.run(postSend(qp, Array.from({ length: 7 }, (_, i) => write(i))));
    same([answer?.errno, answer?.bad], ["ENOMEM", 6]);
  });

  it("§7 #2: EINVAL in RESET, INIT and RTR, and nothing is rung", () => {
    for (const state of ["reset", "init", "rtr"] as const) {
      qp.life.state = state;
      equal(rig.run(postSend(qp, write(1)))?.errno, "EINVAL", state);
    }
    equal(rig.registers.length, 0);
    qp.life.state = "err";
    equal(rig.run(postSend(qp, write(1))), undefined);
  });

  it("§4.3: EINVAL for too many elements, too much inline, or an operation of another type", () => {
    const part = sge(mr, 0, 8);
    const wrong: Partial<SendRequest>[] = [
      { sges: [part, part] },
      { sendFlags: IBV_SEND_INLINE, sges: [sge(mr, 0, 300)] },
      { opcode: "send" },
      { opcode: "fetch-add", sges: [part] },
      { ud: { qKey: 1, qpn: 2, ah: must(createAh(pd, { address: 3 })) } },
    ];
    for (const changes of wrong) {
      equal(rig.run(postSend(qp, write(1, changes)))?.errno, "EINVAL", Object.keys(changes).join());
    }
    open({}, { type: "ud" });
    equal(rig.run(postSend(qp, write(1)))?.errno, "EINVAL");
  });
});

describe("postSend of requests that cover objects", () => {
  const planOf = () =>
    ({ type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 1, maxRecvWr: 1, sqSigAll: true }) as const;

  it("H-01: the list is in the WQE, for which the ring has room however many are posted", () => {
    open({}, { maxObjects: 8 });
    const objects = Array.from({ length: 8 }, (_, i) => 2n ** 64n - 1n - BigInt(i));
    for (let i = 0; i < 6; i++) equal(rig.run(postSend(qp, write(i, { objects }))), undefined);
    same(wqeAt(0)!.objects, objects);
    equal("parts" in wqeAt(0)!, false);
    equal(wqeAt(0)!.sges.length, 1, "its data is not inline, however small it is");
    equal(rig.run(postSend(qp, write(6, { objects })))?.errno, "ENOMEM");
  });

  it("H-03 [0086]: so are the parts of them that it works on, one of each; else EINVAL", () => {
    open({}, { maxObjects: 2 });
    const objects = [1n, 2n], part = { offset: 2 ** 32 - 1, length: 2 ** 32 - 1 };
    equal(rig.run(postSend(qp, write(0, { objects, parts: [part, part] }))), undefined);
    same(wqeAt(0)!.parts, [part, part]);
    const reason = (changes: Partial<SendRequest>) =>
      rig.run(postSend(qp, write(1, { objects, ...changes })))!.reason;
    match(reason({ parts: [part] }), /1 parts of 2 objects: expected one of each/);
    for (const wrong of [{ length: 0 }, { offset: -1 }, { length: 2 ** 32 }, { offset: 0.5 }]) {
      match(
        reason({ parts: [part, { ...part, ...wrong }] }),
        /An object's part has 1 to 2\^32 - 1 B/,
      );
    }
    const made = rig.run(createQp(pd, { ...planOf(), maxObjects: 1, hintEncoding: "flagged" }));
    match("errno" in made ? made.reason : "made", /flagged name no objects/);
  });

  it("H-01: EINVAL for too many or none, a name of more than 64 bits, inline data, another operation", () => {
    open({}, { maxObjects: 2 });
    const part = [sge(mr, 0, 8)];
    const wrong: Partial<SendRequest>[] = [
      { objects: [1n, 2n, 3n] },
      { objects: [] },
      { objects: [2n ** 64n] },
      { objects: [-1n] },
      { objects: [1n], sges: part, sendFlags: IBV_SEND_INLINE },
      { objects: [1n], sges: part, opcode: "atomic-write" },
    ];
    for (const changes of wrong) equal(rig.run(postSend(qp, write(1, changes)))?.errno, "EINVAL");
    // H-03: an untagged message names no region, which alone knows where its objects are.
    const untagged = rig.run(postSend(qp, { opcode: "send", wrId: 1, sges: part, objects: [1n] }));
    match(untagged!.reason, /send covers no objects: a region has them/);
    open();
    equal(rig.run(postSend(qp, write(1, { objects: [1n] })))?.errno, "EINVAL", "none by default");
    const plan = planOf();
    for (const maxObjects of [9, -1, 0.5]) {
      const made = rig.run(createQp(pd, { ...plan, maxObjects }));
      equal("errno" in made && made.errno, "EINVAL");
    }
  });
});

describe("postSend of what the standard's later issues added", () => {
  function memory(opcode: "flush" | "atomic-write", changes: Partial<SendRequest>): SendRequest {
    return { opcode, wrId: 1, remote: { va: 0x6000_0000_0000, rkey: 5 }, ...changes };
  }

  it("P-50: flush takes placement, selectivity and length along (ibv_wr_flush)", () => {
    const cases: [NonNullable<SendRequest["flush"]>, object][] = [
      [{ placement: IBV_FLUSH_GLOBAL, selectivity: "range", length: 600 }, {
        select: 0,
        placement: 1,
        length: 600,
      }],
      [{ placement: IBV_FLUSH_PERSISTENT, selectivity: "mr" }, {
        select: 1,
        placement: 2,
        length: 0,
      }],
      [{
        placement: IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT,
        selectivity: "range",
        length: 2 ** 31,
      }, {
        select: 0,
        placement: 3,
        length: 2 ** 31,
      }],
    ];
    for (const [flush, expected] of cases) {
      open();
      equal(rig.run(postSend(qp, memory("flush", { flush }))), undefined);
      same(wqeAt(0)!.flush, expected);
      same(wqeAt(0)!.remote, { va: 0x6000_0000_0000n, rkey: 5 });
    }
  });

  it("P-50: atomic-write takes its eight bytes along, whatever the queue pair's inline limit", () => {
    open({ inline: { by: "size", bytes: 0 } });
    rig.store(mr.address, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8));
    equal(rig.run(postSend(qp, memory("atomic-write", { sges: [sge(mr, 0, 8)] }))), undefined);
    same(wqeAt(0)!.inline, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8));
  });

  it("§4.3: EINVAL for what makes no sense", () => {
    const flush = { placement: IBV_FLUSH_GLOBAL, selectivity: "range", length: 8 } as const;
    const wrong: SendRequest[] = [
      memory("flush", {}),
      memory("flush", { flush: { ...flush, placement: 0 } }),
      memory("flush", { flush: { ...flush, length: -1 } }),
      memory("flush", { flush: { ...flush, length: 2 ** 31 + 1 } }),
      memory("flush", { flush, sges: [sge(mr, 0, 8)] }),
      memory("atomic-write", { sges: [sge(mr, 0, 4)] }),
      { opcode: "local-invalidate", immediate: 0x301, sges: [sge(mr, 0, 4)] },
      write(1, { flush }),
    ];
    for (const request of wrong) {
      equal(rig.run(postSend(qp, request))?.errno, "EINVAL", JSON.stringify(request));
    }
  });
});

describe("postSend of the longest message", () => {
  it("§4.3: has 2^31 B, by one element or by several; one byte more is EINVAL", () => {
    open({}, { maxSendSge: 2 });
    const nothing = must(rig.run(allocNullMr(pd)));
    const half = sge(nothing, 0, 2 ** 30);
    const of = (...sges: SendRequest["sges"] & object) =>
      rig.run(postSend(qp, write(1, { sges })))?.errno;
    same([of(sge(nothing)), of(half, half)], [undefined, undefined]);
    same([of(sge(nothing), sge(nothing, 0, 1)), of(half, sge(nothing, 0, 2 ** 30 + 1))], [
      "EINVAL",
      "EINVAL",
    ]);
  });
});

describe("postRecv", () => {
  it("§4.3: an element of more than 2^31 B is EINVAL and not cut; a null region's is as long by default", () => {
    const { write } = qp.rq;
    for (const length of [2 ** 31 + 1, 2 ** 32, 2 ** 32 + 64]) {
      const refused = rig.run(postRecv(qp, { sges: [{ ...sge(mr), length }] }));
      equal(refused?.errno, "EINVAL");
      equal(refused.reason, `Element 0 has ${length} B: 2^31 are the most`);
    }
    same([qp.rq.requests, qp.rq.write], [0, write]);
    const nothing = must(rig.run(allocNullMr(pd)));
    same([sge(nothing).length, sge(nothing, 64).length], [2 ** 31, 2 ** 31]);
    equal(rig.run(postRecv(qp, { sges: [sge(nothing)] })), undefined);
    const wqe = rig.load(qp.rq.address + qp.rq.write * qp.rq.stride, qp.rq.stride);
    same(decodeRecvWqe(wqe), [{ address: 0, length: 2 ** 31, lkey: nothing.lkey }]);
  });

  it("§4.3: an element by sge is a part of its region, or an error of the call with what was found and expected", () => {
    same(sge(mr, mr.length, 0), { address: mr.address + mr.length, length: 0, lkey: mr.lkey });
    for (
      const [offset, length] of [[0, mr.length + 1], [mr.length, 1], [-1, 4], [8, -1]] as const
    ) {
      throws(() => sge(mr, offset, length), {
        message: `EINVAL: The element is ${length} B from byte ${offset} on: ` +
          `expected a part of the region's ${mr.length} B`,
      });
    }
    throws(() => sge(mr, mr.length + 1), /EINVAL: The element is -1 B/);
  });

  it("Q-12: the receive queue has WQEs, a write pointer and a doorbell as the send queue has", () => {
    const sges = [sge(mr, 64, 100)];
    equal(rig.run(postRecv(qp, [{ wrId: 1, sges }, { wrId: 2, sges }])), undefined);
    same(decodeRecvWqe(rig.load(qp.rq.address + qp.rq.stride, qp.rq.stride)), sges);
    equal(pointerOf(qp.rq.queue).pointer, 1);
    same(rig.registers.map(({ bytes }) => decodeDoorbell(bytes)!.queue), [qp.rq.queue]);
  });

  it("§7 #1 #3 #4: EINVAL in RESET and for too many elements, ENOMEM when full", () => {
    const part = sge(mr, 0, 8);
    equal(rig.run(postRecv(qp, { sges: [part, part] }))?.errno, "EINVAL");
    const answer = rig.run(postRecv(qp, Array.from({ length: 4 }, () => ({ sges: [part] }))));
    same([answer?.errno, answer?.bad], ["ENOMEM", 3]);
    qp.life.state = "reset";
    equal(rig.run(postRecv(qp, { sges: [part] }))?.errno, "EINVAL");
  });
});
