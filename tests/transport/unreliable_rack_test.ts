/**
 * UD, UC and multicast through whole racks: groups over one switch and over leaves and spines, and two
 * programs that find each other by a group and go on over UC. Wireshark reads all of it.
 */
import { IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE } from "../../nodes/host/verbs/flags.ts";
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Observation } from "../../fabric/capture/observation.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { decodeReport } from "../../fabric/wire/roce/igmp.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { writePcap } from "../support/pcap_writer.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import { itUnless } from "../support/skipping.ts";
import { complaints, tsharkFields, tsharkMissing } from "../support/tshark.ts";
import type { Qp, WorkCompletion } from "../../nodes/host/verbs/objects.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";

const GROUP = 0xef01_0101, DIRECTORY = 0xef01_0102;
const Q_KEY = 0x1234, GRH_BYTES = 40, SLOT_BYTES = 256, SLOTS = 32;
const US = 1_000_000;

const withTshark = itUnless(tsharkMissing(), "what Wireshark reads");

type Radio = ReturnType<typeof openRadio> extends Steps<infer T> ? T : never;

/** A UD queue pair in RTS with all its receives posted, and one slot to send from. */
function* openRadio({ cpu, device }: ProgramContext) {
  const { allocPd, createCq, regMr, createQp, modifyQp, postRecv, sge, must } = device.verbs;
  const pd = allocPd(device);
  const sendCq = must(yield* createCq(device, { entries: 64 }));
  const recvCq = must(yield* createCq(device, { entries: 64 }));
  const buffer = cpu.allocate((SLOTS + 1) * SLOT_BYTES);
  const mr = must(yield* regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
  const depths = { maxSendWr: 32, maxRecvWr: SLOTS, sqSigAll: true };
  const qp = must(yield* createQp(pd, { type: "ud", sendCq, recvCq, ...depths }));
  must(yield* modifyQp(qp, { state: "init", qKey: Q_KEY }));
  const recvs = Array.from({ length: SLOTS }, (_, slot) => ({
    wrId: slot,
    sges: [sge(mr, slot * SLOT_BYTES, SLOT_BYTES)],
  }));
  must(yield* postRecv(qp, recvs));
  must(yield* modifyQp(qp, { state: "rtr" }));
  must(yield* modifyQp(qp, { state: "rts", sqPsn: 0 }));
  return { pd, qp, sendCq, recvCq, mr, cpu, device };
}

/** Sends a few numbers, inline. */
function* say(
  radio: Radio,
  to: { readonly address: number; readonly qpn: number },
  words: readonly number[],
): Steps<void> {
  const { createAh, destroyAh, postSend, waitCompletion, sge, must } = radio.device.verbs;
  const at = SLOTS * SLOT_BYTES;
  radio.cpu.store(radio.mr.address + at, new Uint8Array(new Uint32Array(words).buffer));
  const ah = must(createAh(radio.pd, { address: to.address }));
  must(
    yield* postSend(radio.qp, {
      opcode: "send",
      sges: [sge(radio.mr, at, 4 * words.length)],
      ud: { ah, qpn: to.qpn, qKey: Q_KEY },
    }),
  );
  destroyAh(ah);
  const [sent] = yield* waitCompletion(radio.sendCq);
  equal(sent?.status, "SUCCESS");
}

function bytesOf(radio: Radio, wc: WorkCompletion): Uint8Array {
  return radio.cpu.load(radio.mr.address + wc.wrId * SLOT_BYTES, wc.byteLen);
}

function wordsOf(bytes: Uint8Array): number[] {
  return [...new Uint32Array(bytes.slice(GRH_BYTES).buffer)];
}

/** Joins, says numbers if it is to, hears numbers until `until`, leaves, hears on. */
const member: Program = function* (context) {
  const { cpu, device, options } = context;
  const { attachMcast, detachMcast, destroyQp, must, waitCompletion } = device.verbs;
  const radio = yield* openRadio(context);
  const joins = options.joins !== false;
  if (joins) must(yield* attachMcast(radio.qp, GROUP));
  for (const number of (options.says as number[] | undefined) ?? []) {
    yield* cpu.sleep(number * 10 * US - cpu.now);
    yield* say(radio, { address: GROUP, qpn: 0xff_ffff }, [number]);
  }
  const heard: number[] = [];
  const hear = function* (deadline: number): Steps<void> {
    for (;;) {
      const got = yield* waitCompletion(radio.recvCq, { deadline });
      if (got.length === 0) return;
      for (const wc of got) heard.push(...wordsOf(bytesOf(radio, wc)));
    }
  };
  yield* hear(Number(options.until ?? 10_000) * US);
  if (joins) {
    const refusal = yield* destroyQp(radio.qp);
    must(yield* detachMcast(radio.qp, GROUP));
    yield* hear(cpu.now + 1000 * US);
    cpu.report("busy", refusal?.errno);
  }
  must(yield* destroyQp(radio.qp));
  cpu.report("heard", heard);
};

/** A UC queue pair in INIT. */
function* openUc(radio: Radio): Steps<Qp> {
  const { createQp, modifyQp, must } = radio.device.verbs;
  const { pd, sendCq, recvCq } = radio;
  const depths = { maxSendWr: 8, maxRecvWr: 8, sqSigAll: true };
  const qp = must(yield* createQp(pd, { type: "uc", sendCq, recvCq, ...depths }));
  must(yield* modifyQp(qp, { state: "init", accessFlags: 3 }));
  return qp;
}

function* bringUp(
  { device }: Radio,
  qp: Qp,
  peer: { address: number; qpn: number },
): Steps<void> {
  const { modifyQp, must } = device.verbs;
  const attributes = { destAddress: peer.address, destQpn: peer.qpn, rqPsn: 0 };
  must(yield* modifyQp(qp, { state: "rtr", ...attributes, pathMtu: 1024 }));
  must(yield* modifyQp(qp, { state: "rts", sqPsn: 0 }));
}

const BULK_BYTES = 10_000;

/** Waits in the group for who asks, answers it alone, and takes what it writes over UC. */
const ucServer: Program = function* (context) {
  const { cpu, device } = context;
  const verbs = device.verbs;
  const { attachMcast, createAhFromWc, regMr, postRecv, waitCompletion, must } = verbs;
  const radio = yield* openRadio(context);
  must(yield* attachMcast(radio.qp, DIRECTORY));
  const [asked] = yield* waitCompletion(radio.recvCq);
  const question = bytesOf(radio, asked!);
  const { address } = must(createAhFromWc(radio.pd, question));
  const qp = yield* openUc(radio);
  const place = cpu.allocate(BULK_BYTES);
  const mr = must(
    yield* regMr(radio.pd, place, { access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE }),
  );
  must(yield* postRecv(qp, { wrId: 77, sges: [] }));
  yield* bringUp(radio, qp, { address, qpn: wordsOf(question)[0]! });
  const high = Math.floor(mr.address / 2 ** 32), low = mr.address % 2 ** 32;
  yield* say(radio, { address, qpn: asked!.srcQp }, [qp.qpn, mr.rkey, high, low]);
  const [written] = yield* waitCompletion(radio.recvCq);
  const bytes = cpu.load(mr.address, BULK_BYTES);
  cpu.report("written", {
    opcode: written?.opcode,
    immediate: written?.immData,
    good: bytes.every((byte, i) => byte === (i * 7) % 251),
  });
};

const ucClient: Program = function* (context) {
  const { cpu, device } = context;
  const { regMr, postSend, waitCompletion, createAhFromWc, sge, must } = device.verbs;
  const radio = yield* openRadio(context);
  const qp = yield* openUc(radio);
  yield* cpu.sleep(500 * US);
  yield* say(radio, { address: DIRECTORY, qpn: 0xff_ffff }, [qp.qpn]);
  const [answered] = yield* waitCompletion(radio.recvCq);
  const answer = bytesOf(radio, answered!);
  const [qpn, rkey, high, low] = wordsOf(answer) as [number, number, number, number];
  const { address } = must(createAhFromWc(radio.pd, answer));
  yield* bringUp(radio, qp, { address, qpn });
  const place = cpu.allocate(BULK_BYTES);
  cpu.store(place.address, Uint8Array.from({ length: BULK_BYTES }, (_, i) => (i * 7) % 251));
  const mr = must(yield* regMr(radio.pd, place, { access: 0 }));
  must(
    yield* postSend(qp, {
      opcode: "write-immediate",
      immediate: 4711,
      sges: [sge(mr)],
      remote: { va: high * 2 ** 32 + low, rkey },
    }),
  );
  const [sent] = yield* waitCompletion(radio.sendCq);
  cpu.report("sent", sent?.status);
};

const PROGRAMS = {
  "./member.ts": member,
  "./server.ts": ucServer,
  "./client.ts": ucClient,
};

interface Run {
  readonly rack: SimulatedRack;
  /** Frames that arrived at a port of a node, by the node's name. */
  arrived(node: string): Uint8Array<ArrayBuffer>[];
}

function run(scenario: string): Run {
  const seen: Observation[] = [];
  const observer = {
    scope: "frames",
    see: (observation: Observation) => void seen.push(observation),
    commit: () => {},
  } as const;
  const rack = new SimulatedRack(scenario, { programs: PROGRAMS, observer }).run();
  const index = (plan: RackPlan, name: string) =>
    plan.nodes.findIndex((node) => node.name === name);
  return {
    rack,
    arrived: (name) =>
      seen.flatMap((each) =>
        each.kind === "received" && each.node === index(rack.plan, name) && each.frame
          ? [each.frame]
          : []
      ),
  };
}

function isOfGroup(frame: Uint8Array): boolean {
  return frame[0] === 0x01 && frame[23] === 17;
}

/** RoCEv1's: 33:33, EtherType 0x8915. */
function isOfGid(frame: Uint8Array): boolean {
  return frame[0] === 0x33 && frame[12] === 0x89 && frame[13] === 0x15;
}

function groupScenario(fabric: string): string {
  return `
name: groups
fabric: ${fabric}
hosts: { a: {}, b: {}, c: {}, d: {}, e: {}, f: {} }
programs:
  - { on: a, run: ./member.ts, says: [50, 51, 120] }
  - { on: b, run: ./member.ts, says: [55] }
  - { on: c, run: ./member.ts, until: 1000 }
  - { on: d, run: ./member.ts, joins: false, says: [56] }
  - { on: e, run: ./member.ts, joins: false }
  - { on: f, run: ./member.ts }
`;
}

const FABRICS = {
  "one switch": "{ topology: star }",
  "three leaves and two spines": "{ topology: leaf-spine, leaves: 3, spines: 2, cables: 2 }",
};

describe("multicast", () => {
  for (const [name, fabric] of Object.entries(FABRICS)) {
    it(`C-01: in RoCEv1 over ${name}: switches flood what no port reports, cards take what is theirs`, () => {
      const scenario = groupScenario(fabric.replace("{", "{ roce: v1,"));
      const { rack, arrived } = run(scenario);
      same(rack.reported("program-failed"), []);
      const heard = (host: string) => rack.reported("heard", host);
      same(heard("a"), [[50, 51, 55, 56, 120]]);
      same(heard("b"), [[50, 51, 55, 56, 120]]);
      same(heard("c"), [[50, 51, 55, 56]], "it has left before the last one");
      same([heard("d"), heard("e")], [[[]], [[]]]);
      const all = rack.plan.nodes.flatMap((node) => arrived(node.name));
      ok(all.every((frame) => decodeReport(frame) === undefined), "no port reports");
      const statistics = rack.simulator.statistics();
      for (const [host, sent] of [["d", 4], ["e", 5]] as const) {
        equal(arrived(`${host}-rnic`).filter(isOfGid).length, sent, host);
        equal(statistics[`${host}-rnic`]!["drop-foreign-group"], sent, host);
      }
    });
  }

  for (const [name, fabric] of Object.entries(FABRICS)) {
    it(`§7 #82 #83 #84 over ${name}: every member hears every number once, its own too`, () => {
      const { rack, arrived } = run(groupScenario(fabric));
      same(rack.reported("program-failed"), []);
      const heard = (host: string) => rack.reported("heard", host);
      same(heard("a"), [[50, 51, 55, 56, 120]]);
      same(heard("b"), [[50, 51, 55, 56, 120]]);
      same(heard("f"), [[50, 51, 55, 56, 120]]);
      same(heard("c"), [[50, 51, 55, 56]], "it has left before the last one");
      same([heard("d"), heard("e")], [[[]], [[]]]);
      same(rack.reported("busy", "f"), ["EBUSY"]);
      // The switches keep the group from who has not joined: snooping, not the RNICs' filters.
      for (const host of ["d", "e"]) {
        equal(arrived(`${host}-rnic`).filter(isOfGroup).length, 0, host);
      }
    });
  }

  it("reports reach every switch on the tree, and no host", () => {
    const { rack, arrived } = run(groupScenario(FABRICS["three leaves and two spines"]));
    const reports = (node: string) =>
      arrived(node).filter((frame) => decodeReport(frame) !== undefined).length;
    const names = rack.plan.nodes.map(({ name }) => name);
    for (const name of names.filter((each) => each.startsWith("leaf") || each === "spine1")) {
      ok(reports(name) > 0, name);
    }
    for (const name of names.filter((each) => each.endsWith("-rnic"))) {
      equal(reports(name), 0, name);
    }
    equal(reports("spine2"), 0);
  });
});

const UC_SCENARIO = `
name: uc
hosts: { a: {}, b: {}, c: {} }
programs:
  - { on: b, run: ./server.ts }
  - { on: a, run: ./client.ts }
`;

describe("UC", () => {
  it("C-01: the same two programs do so in RoCEv1, by the GRH in their receive buffers", () => {
    const { rack } = run(`${UC_SCENARIO}fabric: { roce: v1 }\n`);
    same(rack.reported("program-failed"), []);
    same(rack.reported("sent"), ["SUCCESS"]);
    same(rack.reported("written"), [
      { opcode: "recv-write-immediate", immediate: 4711, good: true },
    ]);
  });

  it("two programs find each other by a group, and one writes to the other without an ACK", () => {
    const { rack, arrived } = run(UC_SCENARIO);
    same(rack.reported("program-failed"), []);
    same(rack.reported("sent"), ["SUCCESS"]);
    same(rack.reported("written"), [
      { opcode: "recv-write-immediate", immediate: 4711, good: true },
    ]);
    const opcodes = arrived("a-rnic").map((frame) => frame[42]);
    ok(!opcodes.includes(0x11), "no acknowledgement of it came back");
  });
});

describe("Wireshark", () => {
  withTshark(
    "§7 #90: reads UD, UC, multicast and membership reports without complaint",
    async () => {
      const groups = run(groupScenario(FABRICS["one switch"])), uc = run(UC_SCENARIO);
      const path = await Deno.makeTempFile({ suffix: ".pcap" });
      try {
        const frames = [groups, uc].flatMap((
          { arrived },
        ) => [...arrived("tor"), ...arrived("b-rnic"), ...arrived("f-rnic")]);
        writePcap(path, frames);
        same(await complaints(path), []);
        const rows = await tsharkFields(path, {
          fields: [
            "infiniband.bth.opcode",
            "infiniband.bth.destqp",
            "igmp.maddr",
            "eth.dst",
            "ip.dst",
          ],
        });
        equal(rows.length, frames.length);
        const group = rows.filter((row) => row["infiniband.bth.destqp"] === "0xffffff");
        ok(group.length > 0);
        for (const row of group) equal(row["eth.dst"], `01:00:5e:01:01:0${row["ip.dst"].at(-1)}`);
        ok(rows.some((row) => row["igmp.maddr"] === "239.1.1.1"));
        const opcodes = new Set(rows.map((row) => row["infiniband.bth.opcode"]));
        for (const opcode of ["38", "39", "41", "100"]) ok(opcodes.has(opcode), opcode);
      } finally {
        await Deno.remove(path);
      }
    },
  );
});
