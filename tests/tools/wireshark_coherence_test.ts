/** Messages between coherent cards, as Wireshark reads them with our Lua dissector: field by field, in ours. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe } from "@std/testing/bdd";
import fc from "fast-check";
import { type Field, readFields, sizeOf } from "../../fabric/base/fields.ts";
import { interfaceBlock, packetBlock, sectionBlock } from "../../fabric/capture/pcapng.ts";
import { describeFrame } from "../../fabric/trace/describe.ts";
import { encodeCardMessage } from "../../fabric/wire/roce/card_message.ts";
import { anyCardMessage } from "../../fabric/wire/roce/card_message_testing.ts";
import {
  COHERENCE_COMMANDS,
  COHERENCE_ETH_FIELDS,
  COHERENCE_PAYLOAD_FIELDS,
  COHERENCE_STATES,
  coherencePayloadName,
} from "../../fabric/wire/roce/coherence_eth.ts";
import { opcodeFor } from "../../fabric/wire/roce/opcode.ts";
import { encodePacket } from "../../fabric/wire/roce/packet.ts";
import { makeBth } from "../../fabric/wire/roce/packet_testing.ts";
import { viewOf } from "../../fabric/base/slab.ts";
import { itUnless } from "../support/skipping.ts";
import { complaints, tsharkFields, tsharkMissing } from "../support/tshark.ts";

const withTshark = itUnless(tsharkMissing(), "what Wireshark reads");

/** What Wireshark has to read of a packet, by its names; undefined where it must read nothing. */
interface Expected {
  readonly frame: Uint8Array<ArrayBuffer>;
  readonly kind: string;
  readonly state: string;
  readonly address: bigint;
  readonly lines: number;
  readonly values: Readonly<Record<string, bigint>>;
  readonly line: string;
}

const PAYLOADS = Object.entries(COHERENCE_PAYLOAD_FIELDS) as [string, readonly Field[]][];
const NAMES: readonly string[] = [
  ...COHERENCE_ETH_FIELDS.map(([name]) => `rackmesh.coherenceEth.${name}`),
  ...PAYLOADS.flatMap(([part, fields]) => fields.map(([name]) => `rackmesh.${part}.${name}`)),
];

/** Some messages of each kind, of each change, with lines and without. */
function messages(): Expected[] {
  const samples = fc.sample(anyCardMessage, { seed: 12, numRuns: 1500 });
  const seen = new Map<string, number>();
  return samples.flatMap(({ message, context }): Expected[] => {
    const { operation, header, payload } = encodeCardMessage(message, context);
    const key = `${message.kind} ${header.change} ${header.status} ${payload.length}`;
    const count = seen.get(key) ?? 0;
    seen.set(key, count + 1);
    if (count >= 2) return [];
    const row = opcodeFor({ service: "rc", operation }, "only");
    const frame = encodePacket({
      destinationMac: 0x0200_0000_0002,
      sourceMac: 0x0200_0000_0001,
      sourceAddress: 0x0a00_0001,
      destinationAddress: 0x0a00_0002,
      dscp: 26,
      ecn: 2,
      ttl: 64,
      identification: 0,
      udpSourcePort: 0xc242,
      bth: makeBth({ opcode: row.code, destQpn: 0x22, psn: 7 }),
      payload,
      coherenceEth: header,
    });
    const part = coherencePayloadName(message.kind, header.change);
    const fields: readonly Field[] = part === undefined ? [] : COHERENCE_PAYLOAD_FIELDS[part];
    const parts = readFields(fields, { view: viewOf(payload), at: 0 });
    const values = Object.fromEntries([
      ...Object.entries(header).map(([name, value]) => [`rackmesh.coherenceEth.${name}`, value]),
      ...Object.entries(parts).map(([name, value]) => [`rackmesh.${part}.${name}`, value]),
    ].map(([name, value]) => [name, BigInt(value ?? 0)]));
    return [{
      frame,
      kind: message.kind,
      state: COHERENCE_STATES[header.state]!,
      address: header.address,
      lines: header.lines,
      values,
      line: payload.subarray(sizeOf(fields)).toHex(),
    }];
  });
}

describe("Wireshark", () => {
  let folder: string;
  beforeAll(async () => void (folder = await Deno.makeTempDir({ prefix: "rackmesh-wire-" })));
  afterAll(() => Deno.remove(folder, { recursive: true }));

  withTshark("C-02: reads each message between coherent cards, with all its fields", async () => {
    const expected = messages();
    const kinds = new Set(expected.map(({ kind }) => kind));
    assert.deepEqual([...kinds].sort(), Object.values(COHERENCE_COMMANDS).flat().sort());
    const port = { name: "a-rnic:1", description: "a port", bitsPerSecond: 100e9 };
    const blocks = [
      sectionBlock({ application: "rackmesh", comment: "coherence" }),
      interfaceBlock(port),
      ...expected.map(({ frame: bytes }, i) =>
        packetBlock({ interface: 0, time: 1000 * i, direction: "out", bytes, comment: "" })
      ),
    ];
    const path = `${folder}/coherence.pcapng`;
    await Deno.writeFile(path, new Uint8Array(blocks.flatMap((block) => [...block])));
    assert.deepEqual(await complaints(path, true), []);
    const fields = [
      "_ws.col.Info",
      "rackmesh.coherence.message",
      "rackmesh.coherence.line",
      ...NAMES,
    ];
    const rows = await tsharkFields(path, { fields, lua: true });
    assert.equal(rows.length, expected.length);
    for (const [i, { frame, kind, state, address, lines, values, line }] of expected.entries()) {
      const row = rows[i]!, info = row["_ws.col.Info"]!;
      assert.equal(row["rackmesh.coherence.message"], kind);
      assert.equal(row["rackmesh.coherence.line"], line, kind);
      for (const name of NAMES) {
        const read = row[name]!, value = values[name];
        const text = value === undefined
          ? ""
          : `0x${value.toString(16).padStart(read.length - 2, "0")}`;
        assert.equal(read, text, `${name} of ${kind}`);
      }
      // The list of packets has the message's name, the line's address and state, as describe.ts has.
      const words = describeFrame(frame);
      assert.match(info, new RegExp(` QP=0x000022 PSN=7 ${kind}\\b`));
      for (const text of state === "none" ? [] : [state]) {
        assert.ok(info.includes(` ${text}`) && words.includes(`state=${text}`), info);
      }
      if (lines > 0) {
        const text = ` line=0x${address.toString(16)}`;
        assert.ok(`${info} `.includes(`${text} `) && words.includes(`${text} `), info);
      }
    }
  });
});
