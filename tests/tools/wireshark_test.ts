/**
 * One packet of every opcode, as Wireshark reads it with and without our Lua dissector; and what a
 * switch or a cable may do to a packet, which Wireshark does not judge and we do (`rocev2.md` §6).
 */
import type { Extensions } from "../../fabric/wire/roce/extension_headers.ts";
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { interfaceBlock, packetBlock, sectionBlock } from "../../fabric/capture/pcapng.ts";
import { MULTICAST_QPN } from "../../fabric/wire/roce/bth.ts";
import { inGrh, makeBth } from "../../fabric/wire/roce/packet_testing.ts";
import { describeFrame } from "../../fabric/trace/describe.ts";
import { markCongestion } from "../../fabric/wire/roce/frame_peek.ts";
import {
  attachHint,
  attachRange,
  detachHint,
  encodeHint,
  type HintGroup,
  type HintMessage,
  hintOf,
  hintParts,
} from "../../fabric/wire/roce/hint.ts";
import { HINT_KINDS } from "../../fabric/wire/roce/hint_eth.ts";
import { ipv4Checksum } from "../../fabric/wire/roce/ipv4.ts";
import {
  OPCODE,
  OPCODE_ROWS,
  type OpcodeName,
  type OpcodeRow,
  opcodeRow,
} from "../../fabric/wire/roce/opcode.ts";
import {
  decodePacket,
  encodePacket,
  isRefusal,
  type RocePacket,
} from "../../fabric/wire/roce/packet.ts";
import { PERSIST_ETH } from "../../fabric/wire/roce/persist_eth.ts";
import { DOCUMENT_HINT, VENDOR_EXTENSIONS } from "../../fabric/wire/roce/vendor_testing.ts";
import { dissectedRows, HEADERS, SCRIPT, withTables } from "../../scripts/wireshark/dissector.ts";
import ways from "../../scripts/scenarios/hints_ways.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import { itUnless } from "../support/skipping.ts";
import { complaints, tsharkFields, tsharkMissing } from "../support/tshark.ts";

const withTshark = itUnless(tsharkMissing(), "what Wireshark reads");

const EXTENSIONS: Required<Extensions> = {
  reth: { va: 0x7f00_1234_5000n, rkey: 0x12a5c, length: 32 },
  persistEth: PERSIST_ETH,
  aeth: { syndrome: 0x1f, msn: 7 },
  deth: { qKey: 0x1111_1111, reserved: 0, sourceQpn: 0x33 },
  atomicEth: { va: 0x7f00_1234_5000n, rkey: 0x12a5c, swapAdd: 5n, compare: 42n },
  atomicAckEth: { original: 37n },
  immdt: { immediate: 0xdead_beef },
  ieth: { rkey: 0xabcd },
  feth: { reserved: 0, select: 0, placement: 2 },
  ...VENDOR_EXTENSIONS,
};
/** H-03: twelve messages are coming that name no memory, for one object. */
const UNTAGGED: HintGroup = {
  destQpn: 0x222,
  sourceQpn: 99,
  entries: [{
    kinds: HINT_KINDS.receive,
    operation: "send",
    messages: 12,
    sequence: 1,
    rkey: 0,
    length: 0,
    va: 0n,
    objects: [7n],
  }],
};
/** An atomic that tells its operands, and covers an object; a READ that tells a part of one. */
const TOLD: HintGroup = {
  destQpn: 0x223,
  sourceQpn: 98,
  entries: [{
    kinds: HINT_KINDS.prefetch,
    operation: "read",
    messages: 1,
    sequence: 1,
    rkey: 5,
    length: 8,
    va: 64n,
    objects: [11n],
    parts: [{ offset: 4096, length: 77 }],
  }, {
    kinds: HINT_KINDS.atomic,
    operation: "compare-swap",
    messages: 1,
    sequence: 2,
    rkey: 5,
    length: 8,
    va: 64n,
    objects: [9n],
    operands: { swapAdd: 17n, compare: 34n },
  }],
};
/** No payload that Wireshark takes for another protocol (`rocev2.md` §6.2). */
const TEXT = new TextEncoder().encode("thirty-two bytes, that is enough");

/** A packet of this row, with the extension headers that it has. */
function frameOf(row: OpcodeRow): Uint8Array<ArrayBuffer> {
  const bytes = typeof row.payload === "number" ? row.payload : TEXT.length;
  const extensions = Object.fromEntries(row.headers.map((name) => [name, EXTENSIONS[name]]));
  return encodePacket({
    destinationMac: 0x0200_0000_0002,
    sourceMac: 0x0200_0000_0001,
    sourceAddress: 0x0a00_0001,
    destinationAddress: 0x0a00_0002,
    dscp: 0,
    ecn: 2,
    ttl: 64,
    identification: row.code,
    udpSourcePort: 0xc242,
    bth: makeBth({ opcode: row.code, destQpn: 0x22, psn: row.code }),
    payload: TEXT.slice(0, bytes),
    ...extensions,
  });
}

/** The same packet in RoCEv1. */
function inRoceV1(
  frame: Uint8Array<ArrayBuffer>,
  priority: number | undefined,
): Uint8Array<ArrayBuffer> {
  const packet = decodePacket(frame);
  if (isRefusal(packet)) assert.fail(packet);
  return encodePacket(inGrh(packet, { priority }));
}

/** A number as Wireshark prints it: with as many digits as the text that is to be equal has. */
function hexText(value: bigint, like: string): string {
  return `0x${value.toString(16).padStart(like.length - 2, "0")}`;
}

function changed(
  frame: Uint8Array<ArrayBuffer>,
  change: (copy: Uint8Array<ArrayBuffer>, view: DataView) => void,
): Uint8Array<ArrayBuffer> {
  const copy = frame.slice();
  change(copy, new DataView(copy.buffer));
  return copy;
}

/** A hint as we read it: what Wireshark has to read, and how it went. */
interface SeenHint {
  /** By our names: of its first queue pair and element where there are several. */
  readonly fields: Readonly<Record<string, bigint | undefined>>;
  readonly isAnnouncement: boolean;
  readonly way: string;
}

const SEEN_FIELDS = [
  "rackmesh.hint.range",
  "rackmesh.hintEth.sequence",
  "rackmesh.hintGroup.sourceQpn",
  "rackmesh.hintGroup.destQpn",
  "rackmesh.hintEntry.rkey",
  "rackmesh.hintEntry.va",
  "rackmesh.hintEntry.length",
  "rackmesh.hintEntry.sequence",
] as const;

/** The hint of a frame; undefined where it has none. */
function seenHint(frame: Uint8Array<ArrayBuffer>): SeenHint | undefined {
  const packet = decodePacket(frame);
  if (isRefusal(packet)) return undefined;
  const { bth: { destQpn, reserved7 } } = packet;
  if (reserved7 !== 0) {
    const { message, range } = detachHint(packet)!;
    const form = range === undefined ? HINT_FORM_NAMES[reserved7 & 3]! : "range";
    if (range === undefined) return message && ofMessage(message, { form, destQpn });
    const fields = { "hint.range": BigInt(range.length), "hintEth.sequence": undefined };
    return { fields, isAnnouncement: true, way: `${form} of its own` };
  }
  const message = hintOf(packet);
  return message && ofMessage(message, { form: "opcode", destQpn });
}

const HINT_FORM_NAMES = ["none", "header", "payload"];

function ofMessage(
  { type, sequence, groups }: HintMessage,
  { form, destQpn }: { readonly form: string; readonly destQpn: number },
): SeenHint {
  const [group] = groups, [entry] = group?.entries ?? [];
  const big = (value: number | bigint | undefined) =>
    value === undefined ? undefined : BigInt(value);
  const isOwn = groups.every((each) => each.destQpn === destQpn);
  const by = destQpn === MULTICAST_QPN ? "to the group" : isOwn ? "of its own" : "of another's";
  return {
    isAnnouncement: type === "announce",
    way: `${form} ${by}`,
    fields: {
      "hint.range": undefined,
      "hintEth.sequence": big(sequence),
      "hintGroup.sourceQpn": big(group?.sourceQpn),
      "hintGroup.destQpn": big(group?.destQpn),
      "hintEntry.rkey": big(entry?.rkey),
      "hintEntry.va": big(entry?.va),
      "hintEntry.length": big(entry?.length),
      "hintEntry.sequence": big(entry?.sequence),
    },
  };
}

describe("Wireshark", () => {
  let folder: string;
  beforeAll(async () => void (folder = await Deno.makeTempDir({ prefix: "rackmesh-wire-" })));
  afterAll(() => Deno.remove(folder, { recursive: true }));

  function written(name: string, frames: readonly Uint8Array<ArrayBuffer>[]): string {
    const port = { name: "a-rnic:1", description: "a port", bitsPerSecond: 100e9 };
    const blocks = [
      sectionBlock({ application: "rackmesh", comment: name }),
      interfaceBlock(port),
      ...frames.map((bytes, i) =>
        packetBlock({ interface: 0, time: 1000 * i, direction: "out", bytes, comment: "" })
      ),
    ];
    const path = `${folder}/${name}.pcapng`;
    Deno.writeFileSync(path, new Uint8Array(blocks.flatMap((block) => [...block])));
    return path;
  }

  withTshark("reads a packet of every opcode without a complaint", async () => {
    const path = written("opcodes", OPCODE_ROWS.map(frameOf));
    assert.deepEqual(await complaints(path), []);
    const fields = ["infiniband.bth.opcode", "infiniband.bth.psn", "ip.id"] as const;
    const rows = await tsharkFields(path, { fields });
    assert.deepEqual(
      rows.map((row) => Number(row["infiniband.bth.opcode"])),
      OPCODE_ROWS.map(({ code }) => code),
    );
  });

  withTshark(
    "takes short SENDs for another protocol, unless told not to as our README says",
    async () => {
      const row = OPCODE_ROWS.find(({ code }) => code === OPCODE["RC SEND ONLY"])!;
      const packet = decodePacket(frameOf(row));
      if (isRefusal(packet)) assert.fail(packet);
      const etherType = new Uint8Array(64).fill(0x61);
      etherType.set([8, 0, 0, 0]);
      const payloads = [new Uint8Array(2).fill(7), new Uint8Array(8).fill(7), etherType];
      const path = written(
        "guesses",
        payloads.map((payload) =>
          encodePacket({ ...packet, payload, bth: { ...packet.bth, padCount: 0 } })
        ),
      );
      const protocols = async (args: readonly string[]) =>
        (await tsharkFields(path, { fields: ["frame.protocols"], args }))
          .map((row) => row["frame.protocols"].replace("eth:ethertype:ip:udp:infiniband:", ""));
      const [short, word, long] = await protocols([]);
      assert.deepEqual([short, word], ["rpcordma", "rpcordma"]);
      assert.match(long!, /^ethertype:/);
      const readme = await Deno.readTextFile(
        new URL("../../fabric/capture/README.md", import.meta.url),
      );
      const [, options] = /^wireshark ((?:--disable-heuristic \w+ ?)+)/m.exec(readme)!;
      assert.deepEqual(await protocols(options!.trim().split(" ")), ["data", "data", "data"]);
    },
  );

  withTshark("reads by our dissector what it does not know, in describe.ts's numbers", async () => {
    const known = dissectedRows();
    assert.ok(OPCODE_ROWS.every((row) => !row.vendor || known.includes(row)), "all of ours");
    const path = written("vendor", OPCODE_ROWS.map(frameOf));
    assert.deepEqual(await complaints(path, true), []);
    const fields = [
      "_ws.col.Info",
      "rackmesh.opcode",
      "rackmesh.reth.va",
      "rackmesh.reth.rkey",
      "rackmesh.reth.length",
      "rackmesh.persistEth.version",
      "rackmesh.aeth.msn",
      "rackmesh.immdt.immediate",
      "rackmesh.feth.placement",
      "rackmesh.payload",
      "rackmesh.icrc",
    ] as const;
    const rows = await tsharkFields(path, { fields, lua: true, filter: "rackmesh" });
    assert.equal(rows.length, known.length);
    for (const [i, row] of known.entries()) {
      const read = rows[i]!, frame = frameOf(row);
      const words = describeFrame(frame);
      assert.ok(read["_ws.col.Info"].startsWith(`${row.name} QP=0x000022 PSN=${row.code}`));
      assert.ok(words.includes(row.name), words);
      assert.equal(Number(read["rackmesh.opcode"]), row.code);
      const expected = (header: keyof Extensions, value: number) =>
        row.headers.includes(header) ? value : 0;
      assert.equal(Number(read["rackmesh.reth.va"]), expected("reth", 0x7f00_1234_5000));
      assert.equal(Number(read["rackmesh.reth.rkey"]), expected("reth", 0x12a5c));
      assert.equal(Number(read["rackmesh.reth.length"]), expected("reth", 32));
      assert.equal(Number(read["rackmesh.persistEth.version"]), expected("persistEth", 1));
      assert.equal(Number(read["rackmesh.aeth.msn"]), expected("aeth", 7));
      assert.equal(Number(read["rackmesh.immdt.immediate"]), expected("immdt", 0xdead_beef));
      assert.equal(Number(read["rackmesh.feth.placement"]), expected("feth", 2));
      const payload = typeof row.payload === "number" ? row.payload : TEXT.length;
      assert.equal(read["rackmesh.payload"], TEXT.slice(0, payload).toHex());
      const end = 14 + new DataView(frame.buffer, frame.byteOffset).getUint16(16);
      assert.equal(read["rackmesh.icrc"], `0x${frame.slice(end - 4, end).toHex()}`);
    }
  });

  withTshark("reads every field of every header of ours by its name", async () => {
    const known = dissectedRows();
    // C-01: in RoCEv2, in RoCEv1, and there with a tag.
    const frames = [
      ...known.map(frameOf),
      ...[undefined, 3].flatMap((priority) => known.map((row) => inRoceV1(frameOf(row), priority))),
    ];
    const path = written("headers", frames);
    assert.deepEqual(await complaints(path), []);
    assert.deepEqual(await complaints(path, true), []);
    const cells = [...known, ...known, ...known].flatMap(({ headers }, row) =>
      headers.flatMap((header) =>
        HEADERS[header].filter(([name]) => name !== "reserved").map(([name]) => {
          const values = EXTENSIONS[header] as unknown as Record<string, bigint | number | boolean>;
          return { row, field: `rackmesh.${header}.${name}`, value: BigInt(values[name]!) };
        })
      )
    );
    const fields = [...new Set(cells.map(({ field }) => field))];
    const rows = await tsharkFields(path, { fields, lua: true });
    for (const { row, field, value } of cells) {
      assert.equal(rows[row]![field], hexText(value, rows[row]![field]!), field);
    }
    assert.ok(cells.length > 120, `${cells.length} fields`);
  });

  withTshark(
    "H-07 (in part), H-31 (in part): reads the document's hint in each packet that can carry it",
    async () => {
      const carrier = (opcode: OpcodeName, change: Partial<RocePacket> = {}): RocePacket => {
        const row = opcodeRow(OPCODE[opcode])!;
        const packet = decodePacket(frameOf(row));
        if (isRefusal(packet)) assert.fail(packet);
        return { ...packet, ...change };
      };
      const message = DOCUMENT_HINT;
      const send = carrier("RC SEND ONLY"), payload = encodeHint(message);
      const bth = makeBth({ opcode: OPCODE["UD SEND ONLY"], destQpn: MULTICAST_QPN, psn: 1 });
      const noBytes = { reth: { ...EXTENSIONS.reth, length: 0 }, payload: new Uint8Array() };
      const read = carrier("RC RDMA READ REQUEST", noBytes);
      const write = carrier("RC RDMA WRITE ONLY", noBytes);
      const packets = [
        send,
        carrier("VENDOR HINT", hintParts(message)),
        carrier("UD SEND ONLY", { bth, payload }),
        attachHint(send, { form: "header", message }),
        attachHint(send, { form: "payload", message }),
        attachHint(carrier("RC RDMA WRITE ONLY"), { form: "header", message }),
        attachRange(read, 4096),
        attachRange(write, 1 << 20),
        carrier("VENDOR HINT", hintParts({ ...message, groups: [UNTAGGED] })),
        attachHint(carrier("RC RDMA READ REQUEST"), { form: "header", message }),
        attachHint(carrier("UC RDMA WRITE ONLY"), { form: "payload", message }),
        attachRange(carrier("UC RDMA WRITE ONLY", noBytes), 8192),
        carrier("VENDOR HINT", hintParts({ ...message, groups: [TOLD] })),
        carrier("VENDOR UC HINT", hintParts(message)),
      ];
      const path = written("hints", packets.map(encodePacket));
      assert.deepEqual(await complaints(path), []);
      assert.deepEqual(await complaints(path, true), []);
      const framesWith = async (filter: string) =>
        (await tsharkFields(path, { fields: ["frame.number"], lua: true, filter }))
          .map((row) => Number(row["frame.number"]));
      const all = [2, 3, 4, 5, 6, 10, 11, 14];
      for (const { sourceQpn, destQpn, entries } of message.groups) {
        const group = `rackmesh.hintGroup.sourceQpn == ${sourceQpn}`;
        assert.deepEqual(
          await framesWith(`${group} and rackmesh.hintGroup.destQpn == ${destQpn}`),
          all,
        );
        for (const { va, rkey, length, sequence } of entries) {
          const words = { va, rkey, length, sequence };
          const filter = Object.entries(words).map(([name, value]) =>
            `rackmesh.hintEntry.${name} == ${value}`
          );
          assert.deepEqual(await framesWith(filter.join(" and ")), all);
        }
      }
      const untagged = "rackmesh.hintEntry.messages == 12 and rackmesh.hintEntry.operation == 2";
      assert.deepEqual(await framesWith(`${untagged} and rackmesh.hintObject.identity == 7`), [9]);
      const operands =
        "rackmesh.hintOperands.swapAdd == 17 and rackmesh.hintOperands.compare == 34";
      const part = "rackmesh.hintPart.offset == 4096 and rackmesh.hintPart.length == 77";
      const names = [9, 11].map((each) => `rackmesh.hintObject.identity == ${each}`);
      assert.deepEqual(await framesWith([operands, part, ...names].join(" and ")), [13]);
      assert.deepEqual(await framesWith(`rackmesh.hintTrailer.bytes == ${payload.length}`), [
        5,
        11,
      ]);
      const fields = [
        "rackmesh.hint.form",
        "rackmesh.hint.range",
        "rackmesh.hintEth.sequence",
      ] as const;
      const rows = await tsharkFields(path, { fields, lua: true });
      assert.deepEqual(rows.map((row) => row["rackmesh.hint.form"]), [
        ...["", "", "", "1", "2", "1", "3", "3", "", "1", "2", "3", "", ""],
      ]);
      assert.deepEqual([6, 7, 11].map((row) => rows[row]!["rackmesh.hint.range"]), [
        "4096",
        "1048576",
        "8192",
      ]);
      assert.equal(Number(rows[1]!["rackmesh.hintEth.sequence"]), message.sequence);
    },
  );

  withTshark(
    "H-07, H-08: reads every hint of hints_ways.yaml, in each encoding by each transport",
    async () => {
      const shipped = new URL("../../scripts/scenarios/hints_ways.yaml", import.meta.url);
      // What is behind other work is announced while there is time: half of that, and an eighth of the messages.
      const text = (await Deno.readTextFile(shipped)).replaceAll("65536", "8192")
        .replaceAll("262144", "131072");
      const sent: { by: string; bytes: Uint8Array<ArrayBuffer>; seen: SeenHint }[] = [];
      const rack: SimulatedRack = new SimulatedRack(text, {
        programs: { "./hints_ways.ts": ways },
        observer: {
          scope: "wire",
          see: (seen) => {
            if (seen.kind !== "sent" || seen.frame === undefined) return;
            const { kind, name } = rack.plan.nodes[seen.node]!;
            const hint = kind === "rnic" ? seenHint(seen.frame) : undefined;
            if (hint === undefined) return;
            sent.push({ by: name.replace("-rnic", ""), bytes: seen.frame, seen: hint });
          },
          commit: () => {},
        },
      });
      rack.run();
      const path = written("ways", sent.map(({ bytes }) => bytes));
      assert.deepEqual(await complaints(path), []);
      assert.deepEqual(await complaints(path, true), []);
      const rows = await tsharkFields(path, { fields: SEEN_FIELDS, lua: true });
      for (const [i, { by, seen: { fields } }] of sent.entries()) {
        for (const [name, value] of Object.entries(fields)) {
          const read = rows[i]![`rackmesh.${name}` as keyof typeof rows[number]];
          assert.equal(read === "" ? undefined : BigInt(read), value, `${by}: ${name}`);
        }
      }
      // Each client has announced its work as its host says; what is agreed on has the operation code.
      const announced = sent.filter(({ seen, by }) =>
        seen.isAnnouncement && !by.startsWith("server")
      );
      const found = [...new Set(announced.map(({ by, seen: { way } }) => `${by}: ${way}`))];
      for (
        const way of [
          "flagged-own: range of its own",
          "header-carrier: header of another's",
          "header-own: header of its own",
          "opcode-carrier: opcode of another's",
          "opcode-multicast: opcode to the group",
          "opcode-own: opcode of its own",
          "opcode-trusted: opcode to the group",
          "payload-carrier: payload of another's",
          "payload-own: payload of its own",
        ]
      ) assert.ok(found.includes(way), `${way}: ${found.join("; ")}`);
    },
  );

  it("has a dissector whose tables are made from ours", async () => {
    const script = await Deno.readTextFile(SCRIPT);
    assert.equal(script, withTables(script), "write them again: see dissector.ts");
  });

  withTshark("§7 #71 a flipped bit breaks the ICRC, a mark and a hop do not", async () => {
    const row = OPCODE_ROWS.find(({ code }) => code === OPCODE["RC RDMA WRITE ONLY"])!;
    const frame = frameOf(row);
    const flipped = changed(frame, (copy) => copy[80]! ^= 1);
    const marked = markCongestion(frame);
    const hopped = changed(frame, (copy, view) => {
      copy[14 + 8]! -= 1;
      view.setUint16(14 + 10, 0);
      view.setUint16(14 + 10, ipv4Checksum(view, 14));
    });
    const verdicts = [frame, flipped, marked, hopped].map((bytes) => {
      const packet = decodePacket(bytes);
      return isRefusal(packet) ? packet : "taken";
    });
    assert.deepEqual(verdicts, ["taken", "bad-icrc", "taken", "taken"]);
    // Wireshark shows all four; the ICRC it prints is that of the frame, as it checks none.
    const path = written("damage", [frame, flipped, marked, hopped]);
    assert.deepEqual(await complaints(path), []);
    const rows = await tsharkFields(path, {
      fields: ["ip.dsfield.ecn", "ip.ttl", "infiniband.invariant.crc"],
    });
    assert.deepEqual(rows.map((each) => each["ip.dsfield.ecn"]), ["2", "2", "3", "2"]);
    assert.deepEqual(rows.map((each) => each["ip.ttl"]), ["64", "64", "64", "63"]);
    assert.equal(new Set(rows.map((each) => each["infiniband.invariant.crc"])).size, 1);
  });
});
