/**
 * Captures of whole racks as Wireshark reads them, and that their bytes do not depend on what happened to
 * a rack's processes; that they do not depend on packing: `tests/rig/determinism_test.ts`.
 */
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { formatAddress } from "../../fabric/trace/describe.ts";
import { documentText, type Figure, stepsOf } from "../../fabric/trace/trace_figures.ts";
import { ETHERTYPE_IPV4 } from "../../fabric/wire/roce/ethernet.ts";
import { OPCODE } from "../../fabric/wire/roce/opcode.ts";
import { decodePacket, isRefusal, type RocePacket } from "../../fabric/wire/roce/packet.ts";
import { writeCaptures } from "../../console/captures/captures.ts";
import { dissectedRows } from "../../scripts/wireshark/dissector.ts";
import { wrongAnswersIn } from "../support/watched_answers.ts";
import { CommandRig } from "../support/command.ts";
import { type ReadCapture, readCapture } from "../support/pcapng_reader.ts";
import { RackBench, type Ran, recordedFaults, type RunOf } from "../support/process_rack.ts";
import { itUnless } from "../support/skipping.ts";
import { complaints, tsharkFields, tsharkMissing } from "../support/tshark.ts";

const SCENARIOS = new URL("../../scripts/scenarios/", import.meta.url);
const PAIR: RunOf = {
  scenario: new URL("persist_pair.yaml", SCENARIOS),
  inputBytes: 64 * 1024,
  size: 8192,
  depth: 4,
  observe: "frames",
  packing: "all",
};

/** Each method into a host of each flow, one after the other. */
const EVERY_PUT = METHODS.flatMap((method) =>
  (["off", "on"] as const).map((to) => ({ method, to }))
);
const EVERY_METHOD = `
name: every-method
seed: 3
hosts: { a: {}, off: { ddio: off, scm: { size: 1MiB } }, on: { ddio: on, scm: { size: 1MiB } } }
programs:
${
  EVERY_PUT.map(({ method, to }, i) =>
    `  - { on: a, run: put, to: ${to}, method: ${method}, name: ${method}, bytes: 64KiB, size: 8KiB, ` +
    `depth: 4, at: ${i}ms }`
  ).join("\n")
}
`;
/** All kinds of packets that the methods have between them, with those of the CM. */
const EVERY_KIND = [
  "RC SEND FIRST",
  "RC SEND MIDDLE",
  "RC SEND LAST",
  "RC SEND ONLY",
  "RC RDMA WRITE FIRST",
  "RC RDMA WRITE LAST",
  "RC RDMA WRITE LAST IMM",
  "RC RDMA READ REQUEST",
  "RC RDMA READ RESPONSE ONLY",
  "RC ACKNOWLEDGE",
  "RC FLUSH",
  "UD SEND ONLY",
  "VENDOR WRITE PERSISTENCE FIRST",
  "VENDOR WRITE PERSISTENCE LAST",
  "VENDOR PERSISTENCE ACKNOWLEDGE",
];

const withTshark = itUnless(tsharkMissing(), "what Wireshark reads");

/** The first document's: `tests/verify/verify_test.ts` has the second's. */
type PersistFigure = Exclude<Figure, 45 | 46>;

/** Steps of a figure that a frame carries out, or that the arrival of one sets off. */
const CARRIED: Readonly<Record<PersistFigure, readonly string[]>> = {
  2: ["S203", "S204", "S205", "S206", "S210", "S211", "S212", "S213"],
  3: ["S303", "S304", "S305", "S306", "S310", "S312", "S313", "S314", "S315", "S323", "S324"],
  9: ["S903", "S904", "S905", "S906", "S907", "S908"],
  10: ["S1003", "S1004", "S1006", "S1007", "S1009", "S1010", "S1013", "S1016", "S1018"],
};
const FIGURES: ReadonlyArray<
  readonly [method: RunOf["method"] & string, "off" | "on", PersistFigure]
> = [
  ["write-read", "off", 2],
  ["write-send", "off", 3],
  ["persist-opcode", "off", 9],
  ["persist-opcode", "on", 10],
];

/** The same of what is before the BTH. */
function outerFieldsOf(packet: RocePacket): Record<string, string> {
  const { grh, dscp, ecn, ttl } = packet;
  const source = formatAddress(packet.sourceAddress);
  const destination = formatAddress(packet.destinationAddress);
  if (grh === undefined) {
    return {
      "ip.src": source,
      "ip.dst": destination,
      "ip.ttl": String(ttl),
      "udp.srcport": String(packet.udpSourcePort),
      "infiniband.grh": "",
    };
  }
  return {
    "ip.src": "",
    "udp.srcport": "",
    "vlan.priority": grh.priority === undefined ? "" : String(grh.priority),
    "infiniband.grh.ipver": "6",
    "infiniband.grh.tclass": String((dscp << 2) | ecn),
    "infiniband.grh.flowlabel": String(grh.flowLabel),
    "infiniband.grh.nxthdr": "27",
    "infiniband.grh.hoplmt": String(ttl),
    "infiniband.grh.sgid": `::ffff:${source}`,
    "infiniband.grh.dgid": `::ffff:${destination}`,
  };
}

/** What Wireshark calls a field of ours, and what it has to say. */
function fieldsOf(packet: RocePacket): Record<string, string> {
  const { bth, reth, aeth, deth, immdt } = packet;
  return {
    ...outerFieldsOf(packet),
    "infiniband.bth.opcode": String(bth.opcode),
    "infiniband.bth.psn": String(bth.psn),
    "infiniband.bth.destqp": hex(bth.destQpn, 6),
    "infiniband.bth.a": bth.ackReq ? "1" : "0",
    "infiniband.bth.padcnt": String(bth.padCount),
    // After an opcode that it does not know, Wireshark knows nothing.
    ...(isKnown(bth.opcode) && {
      "infiniband.reth.va": reth === undefined ? "" : hex(reth.va, 16),
      "infiniband.reth.r_key": reth === undefined ? "" : hex(reth.rkey, 8),
      "infiniband.reth.dmalen": reth === undefined ? "" : String(reth.length),
      "infiniband.aeth.syndrome": aeth === undefined ? "" : String(aeth.syndrome),
      "infiniband.aeth.msn": aeth === undefined ? "" : String(aeth.msn),
      "infiniband.deth.q_key": deth === undefined ? "" : hex(deth.qKey, 16),
      "infiniband.immdt": immdt === undefined ? "" : hex(immdt.immediate, 8).slice(2),
    }),
  };
}

/** Whether Wireshark reads such a packet without our dissector. */
function isKnown(opcode: number): boolean {
  return !dissectedRows().some(({ code }) => code === opcode);
}

const READ_FIELDS = [
  "ip.src",
  "ip.dst",
  "ip.ttl",
  "udp.srcport",
  "vlan.priority",
  "infiniband.grh",
  "infiniband.grh.ipver",
  "infiniband.grh.tclass",
  "infiniband.grh.flowlabel",
  "infiniband.grh.nxthdr",
  "infiniband.grh.hoplmt",
  "infiniband.grh.sgid",
  "infiniband.grh.dgid",
  "infiniband.bth.opcode",
  "infiniband.bth.psn",
  "infiniband.bth.destqp",
  "infiniband.bth.a",
  "infiniband.bth.padcnt",
  "infiniband.reth.va",
  "infiniband.reth.r_key",
  "infiniband.reth.dmalen",
  "infiniband.aeth.syndrome",
  "infiniband.aeth.msn",
  "infiniband.deth.q_key",
  "infiniband.immdt",
  "frame.interface_name",
  "frame.packet_flags_direction",
  "frame.comment",
  "frame.time_epoch",
  "infiniband.invariant.crc",
] as const;

function hex(value: number | bigint, digits: number): string {
  return `0x${value.toString(16).padStart(digits, "0")}`;
}

function decoded(bytes: Uint8Array<ArrayBuffer>): RocePacket {
  const packet = decodePacket(bytes);
  if (isRefusal(packet)) assert.fail(`our own check, ICRC included: ${packet}`);
  return packet;
}

describe("A rack's capture", () => {
  let bench: RackBench;
  let captures = 0;

  beforeAll(async () => void (bench = await RackBench.open()));
  afterAll(() => bench.close());

  /** Runs it, and answers where its capture is. */
  async function captureOf(run: RunOf): Promise<{ path: string; read: ReadCapture; ran: Ran }> {
    const ran = await bench.run(run);
    return { ...await captured(ran), ran };
  }

  async function captured(ran: Ran): Promise<{ path: string; read: ReadCapture }> {
    const { plan, label } = ran.prepared;
    const pcap = `${bench.directory}/capture-${captures++}`;
    const [path] = await writeCaptures([{ label, plan, directory: ran.outcome.directory }], {
      pcap,
    });
    const read = readCapture(Deno.readFileSync(path!));
    assert.deepEqual(wrongAnswersIn(read), [], "answers leave in order");
    return { path: path!, read };
  }

  // All in one capture, as it is tshark's start that takes long.
  withTshark("§7 #90: every method, in both flows, is read by tshark as we mean it", async () => {
    await assertRead(EVERY_METHOD);
  });

  withTshark("C-01: tshark reads the same of RoCEv1, global route headers and tags", async () => {
    const fabric = (words: string) =>
      EVERY_METHOD.replace("hosts:", `fabric: { ${words} }\nhosts:`);
    await assertRead(fabric("roce: v1"));
    await assertRead(fabric("roce: v1, pfc: on"));
  });

  async function assertRead(scenario: string): Promise<void> {
    const { path, read, ran } = await captureOf({ scenario, observe: "frames", packing: "all" });
    assert.deepEqual(ran.puts.map(({ status }) => status), EVERY_PUT.map(() => "done"));
    const seen = new Set(read.frames.map(({ bytes }) => decoded(bytes).bth.opcode));
    const names = Object.entries(OPCODE).filter(([, code]) => seen.has(code)).map(([name]) => name);
    assert.deepEqual(names, EVERY_KIND);
    assert.deepEqual(await complaints(path), []);
    assert.deepEqual(await complaints(path, true), [], "with the Lua dissector");
    const rows = await tsharkFields(path, { fields: READ_FIELDS });
    assert.equal(rows.length, read.frames.length);
    for (const [i, frame] of read.frames.entries()) {
      const row = rows[i]!, packet = decoded(frame.bytes);
      for (const [field, value] of Object.entries(fieldsOf(packet))) {
        assert.equal(row[field as keyof typeof row], value, `frame ${i + 1}: ${field}`);
      }
      assert.equal(row["frame.interface_name"], frame.port);
      assert.equal(row["frame.comment"], frame.comment);
      const direction = Number(row["frame.packet_flags_direction"]);
      assert.equal(direction, frame.direction === "in" ? 1 : 2);
      assert.equal(BigInt(row["frame.time_epoch"].replace(".", "")), frame.stamp);
      if (isKnown(packet.bth.opcode)) {
        assert.equal(row["infiniband.invariant.crc"], hex(icrcOf(frame.bytes), 8));
      }
    }
  }

  for (const [method, ddio, figure] of FIGURES) {
    it(`has figure ${figure}'s numbers as comments, in the document's words`, async () => {
      const { read } = await captureOf({ ...PAIR, method: method as never, ddio });
      const said = new Set(read.frames.flatMap(({ comment }) => comment.split("; ")));
      for (const step of CARRIED[figure]) {
        assert.ok(stepsOf(figure).includes(step));
        assert.ok(said.has(`${step} ${documentText(step)}`), `${step} is in ${[...said]}`);
      }
      const other = [...said].filter((text) => /^S\d/.test(text) && !ofFigure(text, figure));
      assert.deepEqual(other, [], "no other figure's");
    });
  }

  it("has an interface for every port, and every frame at all ports that it passed", async () => {
    const { read } = await captureOf({ ...PAIR, method: "persist-opcode", ddio: "off" });
    assert.deepEqual(read.ports, ["a-rnic:1", "b-rnic:1", "tor:0", "tor:1"]);
    const seenAt = (port: string, direction: "in" | "out") =>
      read.frames.filter((each) => each.port === port && each.direction === direction)
        .map(({ bytes }) => bytes.toHex());
    assert.deepEqual(seenAt("tor:0", "in"), seenAt("a-rnic:1", "out"));
    assert.deepEqual(seenAt("tor:1", "out"), seenAt("a-rnic:1", "out"));
    assert.deepEqual(seenAt("b-rnic:1", "in"), seenAt("a-rnic:1", "out"));
    assert.deepEqual(seenAt("a-rnic:1", "in"), seenAt("b-rnic:1", "out"));
    const stamps = read.frames.map(({ stamp }) => stamp);
    assert.deepEqual(stamps, stamps.toSorted((x, y) => Number(x - y)));
  });

  it("leaves out what a killed process had not reported, so that its replay has the same", async () => {
    const run: RunOf = {
      ...PAIR,
      method: "persist-opcode",
      ddio: "off",
      inputBytes: 512 * 1024,
      packing: "node",
      delayMsMax: 2,
      midway: { share: 0.3, act: (rack) => void rack.kill("b") },
    };
    const { ran, path } = await captureOf(run);
    const faults = await recordedFaults(ran);
    assert.ok(faults.some(({ node, action }) => node === "b" && action === "kill"));
    const { midway: _, ...rest } = run;
    const replay = await captureOf({ ...rest, faults, packing: "all", delayMsMax: 0 });
    assert.equal(replay.ran.outcome.digest, ran.outcome.digest);
    assert.deepEqual(Deno.readFileSync(replay.path), Deno.readFileSync(path));
  });

  it("says what cables did to which frames", async () => {
    const whole = await captureOf({ scenario: FAULTY, observe: "frames", packing: "all" });
    checkRemarks(whole.read);
    const kinds = ["lost", "corrupted", "doubled", "held back", "delayed", "duplicate of"];
    for (const word of [...kinds, "retransmission of", "NAK PSN sequence error", "(cut)"]) {
      assert.ok(whole.read.frames.some(({ comment }) => comment.includes(word)), word);
    }
    const counts = whole.ran.outcome.finals.flatMap(({ linkFaults }) => linkFaults);
    for (const [id, cause] of ["loss 2%", "duplicate 2%", "corrupt 2%"].entries()) {
      const hit = counts.filter(({ fault }) => fault === id).reduce(
        (sum, each) => sum + each.hit,
        0,
      );
      const said = whole.read.frames.filter(({ comment, direction }) =>
        direction === "out" && comment.includes(`(${cause})`)
      );
      assert.equal(said.length, hit, cause);
    }
  });

  it("changes nothing of the run", async () => {
    const run: RunOf = { ...PAIR, method: "write-send", ddio: "on" };
    const { observe: _, ...plain } = run;
    const [with_, without] = [await bench.run(run), await bench.run(plain)];
    assert.equal(with_.outcome.digest, without.outcome.digest);
  });
});

const FAULTY = `
name: faulty
seed: 5
hosts: { a: {}, b: { ddio: off } }
programs: [{ on: a, run: put, to: b, bytes: 512KiB, size: 8KiB, depth: 8, method: write-read }]
faults:
  - { link: b, loss: 2%, from: 200us }
  - { link: b, duplicate: 2%, from: 200us }
  - { link: a, corrupt: 2%, from: 200us }
  - { link: b, delay: 3us, jitter: 1us, from: 205us, until: 206us }
  - { link: tor->b-rnic, reorder: 3%, by: 2, hold: 20us, from: 200us }
  - { at: 230us, cut: a-rnic/tor }
  - { at: 240us, heal: a-rnic/tor }
`;
/** Ports of the star of two hosts, and the other ends of their cables. */
const FAR: Readonly<Record<string, string>> = {
  "a-rnic:1": "tor:0",
  "tor:0": "a-rnic:1",
  "b-rnic:1": "tor:1",
  "tor:1": "b-rnic:1",
};

/** That what comments say of frames is so, as far as the capture itself shows it. */
function checkRemarks({ frames }: ReadCapture): void {
  for (const [i, frame] of frames.entries()) {
    const { comment, port, direction, bytes } = frame;
    const named = (text: RegExp): ReadCapture["frames"][number] | undefined => {
      const match = text.exec(comment);
      return match === null ? undefined : frames[Number(match[1]) - 1]!;
    };
    const what = `frame ${i + 1}: ${comment}`;
    const arrivals = frames.slice(i).filter((each) =>
      each.port === FAR[port] && each.direction === "in" && isEqual(each.bytes, bytes)
    );
    if (comment.includes("lost by the cable")) {
      assert.equal(direction, "out", what);
      // What was sent again may arrive, but later than it would have.
      const prompt = arrivals.filter(({ stamp }) => stamp - frame.stamp < 1_000n);
      assert.deepEqual(prompt, [], what);
    }
    const first = named(/duplicate of frame (\d+)/);
    if (first !== undefined) {
      assert.deepEqual([first.port, first.direction], [port, direction], what);
      assert.ok(isEqual(first.bytes, bytes), what);
    }
    const left = named(/left as frame (\d+)/);
    if (left !== undefined) {
      assert.deepEqual([left.port, left.direction, direction], [FAR[port], "out", "in"], what);
      assert.ok(left.stamp < frame.stamp, what);
      const damage = /byte (\d+), 0x(..) became 0x(..)/.exec(comment);
      const expected = left.bytes.slice();
      if (damage !== null) {
        assert.equal(expected[Number(damage[1])], Number.parseInt(damage[2]!, 16), what);
        expected[Number(damage[1])] = Number.parseInt(damage[3]!, 16);
      }
      assert.ok(isEqual(expected, bytes), what);
    }
    const before = named(/retransmission (?:from PSN \d+ on )?of frame (\d+)/);
    if (before !== undefined) {
      assert.deepEqual([before.port, before.direction, direction], [port, "out", "out"], what);
      const [own, its] = [decoded(bytes).bth, decoded(before.bytes).bth];
      assert.equal(own.destQpn, its.destQpn, what);
      if (!comment.includes("from PSN")) assert.equal(own.psn, its.psn, what);
    } else if (port.includes("rnic") && direction === "out") {
      const { bth } = decoded(bytes);
      const isAgain = bth.destQpn > 1 && bth.opcode !== OPCODE["RC ACKNOWLEDGE"] &&
        frames.slice(0, i).some((each) =>
          each.port === port && each.direction === "out" && isEqual(each.bytes, bytes)
        );
      assert.ok(!isAgain, `frame ${i + 1} leaves again, and its comment is "${comment}"`);
    }
    assert.equal(comment.includes("NAK PSN sequence error"), syndromeOf(bytes) === 0x60, what);
  }
}

function isEqual(x: Uint8Array, y: Uint8Array): boolean {
  return x.length === y.length && x.every((byte, i) => byte === y[i]);
}

/** Of an ACKNOWLEDGE, whole or not. */
function syndromeOf(frame: Uint8Array): number | undefined {
  return frame[42] === OPCODE["RC ACKNOWLEDGE"] ? frame[54] : undefined;
}

/** As a big-endian number, which is how Wireshark prints it. */
function icrcOf(frame: Uint8Array<ArrayBuffer>): number {
  const view = new DataView(frame.buffer, frame.byteOffset);
  // Ethernet fills no frame of RoCEv1.
  const isIpv4 = view.getUint16(12) === ETHERTYPE_IPV4;
  const end = isIpv4 ? 14 + view.getUint16(16) : frame.length;
  return view.getUint32(end - 4);
}

function ofFigure(comment: string, figure: Figure): boolean {
  return stepsOf(figure).includes(comment.split(" ")[0]!);
}

describe("rack run --pcap, --perfetto", () => {
  let rig: CommandRig;
  beforeAll(async () => void (rig = await CommandRig.open()));
  afterAll(() => rig.close());

  const PAIR_FILE = new URL("persist_pair.yaml", SCENARIOS).pathname;

  it("writes a capture for each variant, one trace for all, and leaves no recording", async () => {
    const input = await rig.file("data.bin", new Uint8Array(4096).fill(7));
    const { code, stdout, stderr } = await rig.run([
      ...["run", PAIR_FILE, "--input", input, "--method", "write-read", "--pack", "all", "--json"],
      ...["--pcap", `${rig.cache}/pcap`, "--perfetto", `${rig.cache}/deep/trace.json`],
    ]);
    assert.equal(code, 0, stderr);
    const names = ["write-read_ddio_off", "write-read_ddio_on"];
    assert.deepEqual(JSON.parse(stdout).captures, [
      ...names.map((name) => `${rig.cache}/pcap/${name}.pcapng`),
      `${rig.cache}/deep/trace.json`,
    ]);
    for (const name of names) {
      const read = readCapture(Deno.readFileSync(`${rig.cache}/pcap/${name}.pcapng`));
      assert.ok(read.frames.length > 0);
      assert.deepEqual(
        [...Deno.readDirSync(`${rig.runs()[0]}/${name}`)].map((e) => e.name).sort(),
        [
          "clock.json",
          "logs",
          "outputs",
          "run.json",
          "scenario.yaml",
          "scm",
          "trace",
        ],
      );
    }
    JSON.parse(await Deno.readTextFile(`${rig.cache}/deep/trace.json`));
  });

  it("does what the scenario says, in its folder or in the run's", async () => {
    const scenario = await rig.file(
      "captured.yaml",
      `
name: captured
hosts: { a: {}, b: { ddio: off } }
programs: [{ on: a, run: put, to: b, bytes: 4KiB, method: write-read }]
capture: { pcap: true, perfetto: here/trace.json }
`,
    );
    const { code, stdout, stderr } = await rig.run(["run", scenario, "--pack", "all", "--json"]);
    assert.equal(code, 0, stderr);
    const { captures, directory } = JSON.parse(stdout);
    assert.deepEqual(captures, [
      `${directory}/captures/captured.pcapng`,
      `${rig.cache}/here/trace.json`,
    ]);
  });

  it("writes that of a rack in the background when it is taken down", async () => {
    const up = await rig.run([
      ...["up", PAIR_FILE, "--ddio", "off", "--method", "persist-opcode", "--pack", "machine"],
      ...["--pcap", `${rig.cache}/up`],
    ]);
    assert.equal(up.code, 0, up.stderr);
    const file = await rig.file("put.bin", new Uint8Array(8192).fill(9));
    const put = await rig.run(["put", "--to", "b", file]);
    assert.equal(put.code, 0, put.stderr);
    const down = await rig.run(["down", "--json"]);
    assert.equal(down.code, 0, down.stderr);
    const [path] = JSON.parse(down.stdout)[0].captures;
    const { frames } = readCapture(Deno.readFileSync(path));
    assert.ok(frames.some(({ comment }) => comment.startsWith("S907")), "the put is in it");
  });
});
