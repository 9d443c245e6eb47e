import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../base/property_testing.ts";
import { type CardMessage, LOST } from "./coherence_messages.ts";
import {
  type CardMessageRefusal,
  decodeCardMessage,
  encodeCardMessage,
  isCardRefusal,
} from "./card_message.ts";
import { anyCardMessage } from "./card_message_testing.ts";
import {
  COHERENCE_CODES,
  COHERENCE_COMMANDS,
  COHERENCE_ETH_FIELDS,
  type CoherenceClass,
  type CoherenceEth,
} from "./coherence_eth.ts";
import { sizeOf } from "../../base/fields.ts";
import { EXTENSION_HEADERS } from "./extension_headers.ts";
import { opcodeFor, payloadFits } from "./opcode.ts";
import { decodePacket, encodePacket, isRefusal, type RocePacket } from "./packet.ts";
import { makeBth } from "./packet_testing.ts";

const CONTEXT = { region: 0x55aa, transaction: 9 };
const PLACEMENT = { place: "remote", version: 3 } as const;
const BYTES = Uint8Array.from({ length: 64 }, (_, index) => index);
/** A message of each kind that the tests below break. */
const GET_M: CardMessage = {
  kind: "GetM",
  line: 5,
  agent: 1,
  life: 2,
  homeLife: 3,
  placement: PLACEMENT,
};
const WRITE: CardMessage = {
  ...GET_M,
  kind: "Write",
  change: { kind: "add", offset: 8, operand: 1n },
};
const DATA_S: CardMessage = { kind: "DataS", line: 5, agent: 1, life: 2, homeLife: 3, data: BYTES };
const VALUE: CardMessage = { kind: "Value", line: 5, agent: 1, life: 2, homeLife: 3 };
const INV: CardMessage = { kind: "Inv", line: 5, agent: 1, life: 2, homeLife: 3 };
const RANGE: CardMessage = {
  kind: "FlushRange",
  line: 5,
  agent: 1,
  life: 2,
  homeLife: 3,
  lines: 4,
};
const RENEW: CardMessage = { kind: "Renew", line: 0, agent: 1, life: 2, homeLife: 3, stamp: 7 };
const REGISTER: CardMessage = { kind: "Register", agent: 1, life: 2, homeLife: 3, bytes: 4096 };

const COHERENCE_ETH_BYTES = sizeOf(COHERENCE_ETH_FIELDS);

describe("encodeCardMessage", () => {
  it("C-02: is what decodeCardMessage takes, through a packet's bytes, for each message", () => {
    const frame: Omit<RocePacket, "bth" | "payload"> = {
      destinationMac: 2,
      sourceMac: 1,
      sourceAddress: 1,
      destinationAddress: 2,
      dscp: 26,
      ecn: 2,
      ttl: 64,
      identification: 0,
      udpSourcePort: 50000,
    };
    fc.assert(
      fc.property(anyCardMessage, ({ message, context }) => {
        const { operation, header, payload } = encodeCardMessage(message, context);
        const row = opcodeFor({ service: "rc", operation }, "only");
        assert.equal(operation, COHERENCE_CODES[message.kind].operation);
        assert.ok(payloadFits(row, { bytes: payload.length, pathMtu: 256 }));
        const bth = makeBth({ opcode: row.code, destQpn: 2, psn: 0 });
        const packet = decodePacket(encodePacket({ ...frame, bth, payload, coherenceEth: header }));
        assert.ok(!isRefusal(packet));
        const parts = { operation, header: packet.coherenceEth!, payload: packet.payload };
        assert.deepEqual(decodeCardMessage(parts), { message, ...context });
      }),
      seeded({ numRuns: 2000 }),
    );
  });

  it("C-02: has the bytes that the fields' table says", () => {
    const bytes = new Uint8Array(COHERENCE_ETH_BYTES);
    const { header } = encodeCardMessage(WRITE, CONTEXT);
    EXTENSION_HEADERS.coherenceEth.write(new DataView(bytes.buffer), 0, header);
    assert.equal(
      bytes.toHex(),
      "02051c00" + "000055aa" + "00000009" + "00000002" + "00000003" + "00000003" +
        "01080001" + "0000000000000140" + "0000000000000000",
    );
  });

  const BAD: readonly (readonly [message: CardMessage, error: RegExp])[] = [
    [{ ...GET_M, placement: undefined }, /GetM: a placement is missing, expected always/],
    [{ ...INV, placement: PLACEMENT }, /Inv: a placement is given, expected never/],
    [{ ...DATA_S, data: undefined }, /DataS: a line is missing/],
    [{ ...INV, data: BYTES }, /Inv: a line is given/],
    [{ ...DATA_S, data: 7 }, /DataS: its line is no 64 bytes/],
    [{ ...DATA_S, data: BYTES.subarray(1) }, /DataS: its line is no 64 bytes/],
    [{ ...INV, line: -1 }, /line -1 of agent 1/],
    [{ ...INV, line: 2 ** 46 }, /expected a line below/],
    [{ ...INV, agent: 0 }, /line 5 of agent 0/],
    [{ ...INV, agent: 256 }, /does not fit its field: .* agent 256/],
    [{ ...INV, life: 2 ** 32 }, /does not fit its field: .* life 4294967296/],
    [{ ...INV, homeLife: -1 }, /does not fit its field: .* homeLife -1/],
  ];

  for (const [message, error] of BAD) {
    it(`refuses what its command cannot say: ${error.source}`, () => {
      assert.throws(() => encodeCardMessage(message, CONTEXT), error);
    });
  }
});

/** What a message decodes to with other fields or another payload. */
function changed(
  message: CardMessage,
  { payload, ...fields }: Partial<CoherenceEth> & { readonly payload?: Uint8Array<ArrayBuffer> },
) {
  const packet = encodeCardMessage(message, CONTEXT);
  return decodeCardMessage({
    ...packet,
    header: { ...packet.header, ...fields },
    payload: payload ?? packet.payload,
  });
}

describe("decodeCardMessage", () => {
  it("C-02: takes a damaged message only as one that has exactly these bytes, and names what is wrong", () => {
    let refused = 0, taken = 0;
    fc.assert(
      fc.property(
        anyCardMessage,
        fc.nat(2 ** 20),
        fc.constantFrom(0, 0, 0, 1, -1),
        ({ message, context }, flip, longer) => {
          const { operation, header, payload } = encodeCardMessage(message, context);
          const bytes = new Uint8Array(COHERENCE_ETH_BYTES + Math.max(0, payload.length + longer));
          EXTENSION_HEADERS.coherenceEth.write(new DataView(bytes.buffer), 0, header);
          bytes.set(payload.subarray(0, bytes.length - COHERENCE_ETH_BYTES), COHERENCE_ETH_BYTES);
          const bit = flip % (bytes.length * 8);
          bytes[bit >> 3]! ^= 0x80 >> (bit & 7);
          const damaged = {
            operation,
            header: EXTENSION_HEADERS.coherenceEth.read(new DataView(bytes.buffer), 0),
            payload: bytes.slice(COHERENCE_ETH_BYTES),
          };
          const decoded = decodeCardMessage(damaged);
          if (isCardRefusal(decoded)) {
            refused++;
            for (const text of [decoded.field, decoded.found, decoded.expected]) {
              assert.match(text, /^.+$/);
              assert.doesNotMatch(text, /undefined|NaN|object/);
            }
          } else {
            taken++;
            assert.deepEqual(encodeCardMessage(decoded.message, decoded), damaged);
          }
        },
      ),
      seeded({ numRuns: 5000 }),
    );
    assert.ok(refused > 1000 && taken > 1000, `${refused} refused, ${taken} taken`);
  });

  it("C-02: knows each pair of class and command, and no other", () => {
    for (const operation of Object.keys(COHERENCE_COMMANDS) as CoherenceClass[]) {
      const commands: readonly string[] = COHERENCE_COMMANDS[operation];
      for (let command = 0; command < 256; command++) {
        const { header, payload } = encodeCardMessage(INV, CONTEXT);
        const answer = decodeCardMessage({ operation, header: { ...header, command }, payload });
        const isUnknown = isCardRefusal(answer) && answer.field === "command";
        assert.equal(isUnknown, command >= commands.length, `${operation} ${command}`);
      }
    }
  });

  const REFUSALS: readonly (readonly [
    message: CardMessage,
    change: Parameters<typeof changed>[1],
    refusal: CardMessageRefusal,
  ])[] = [
    [INV, { version: 1 }, { field: "version", found: "1", expected: "2" }],
    [INV, { command: 3 }, { field: "command", found: "3", expected: "0…2 of coherence-snoop" }],
    [INV, { state: 2 }, { field: "state", found: "shared", expected: "invalid of Inv" }],
    [INV, { state: 7 }, { field: "state", found: "7", expected: "invalid of Inv" }],
    [INV, { stamp: 1n }, { field: "stamp", found: "1", expected: "0 where it is not stamped" }],
    [INV, { status: 1 }, { field: "status", found: "lost", expected: "ok of Inv" }],
    [DATA_S, { status: 9 }, { field: "status", found: "9", expected: "ok or lost of DataS" }],
    [GET_M, { placed: false }, { field: "placed", found: "false", expected: "true of GetM" }],
    [INV, { placed: true }, { field: "placed", found: "true", expected: "false of Inv" }],
    [INV, { remote: true }, {
      field: "remote",
      found: "true",
      expected: "false without a placement",
    }],
    [INV, { placementVersion: 3 }, {
      field: "placementVersion",
      found: "3",
      expected: "0 without a placement",
    }],
    [INV, { agent: 0 }, { field: "agent", found: "0", expected: "1…255, a far card" }],
    [INV, { change: 1 }, { field: "change", found: "write", expected: "none of Inv" }],
    [WRITE, { change: 0 }, {
      field: "change",
      found: "none",
      expected: "write, add or compare-swap of Write",
    }],
    [WRITE, { offset: 12 }, { field: "offset", found: "12", expected: "a multiple of 8 below 64" }],
    [WRITE, { offset: 64 }, { field: "offset", found: "64", expected: "a multiple of 8 below 64" }],
    [INV, { offset: 8 }, { field: "offset", found: "8", expected: "0 without an atomic" }],
    [INV, { lines: 0 }, { field: "lines", found: "0", expected: "1 of Inv" }],
    [RENEW, { lines: 1 }, { field: "lines", found: "1", expected: "0 of Renew" }],
    [RANGE, { lines: 0 }, { field: "lines", found: "0", expected: "1…65535 of FlushRange" }],
    [RENEW, { address: 64n }, { field: "address", found: "0x40", expected: "0 of Renew" }],
    [INV, { address: 65n }, { field: "address", found: "0x41", expected: "a multiple of 64" }],
    [RANGE, { address: (1n << 52n) - 128n }, {
      field: "address",
      found: "0xfffffffffff80",
      expected: "4 lines that end by 2^52",
    }],
    [INV, { payload: BYTES }, { field: "payload", found: "64 B", expected: "0 B of Inv" }],
    [WRITE, { change: 3 }, { field: "payload", found: "8 B", expected: "16 B of Write" }],
    [DATA_S, { payload: new Uint8Array(0) }, {
      field: "payload",
      found: "0 B",
      expected: "64 B of DataS",
    }],
    [DATA_S, { status: 1 }, { field: "payload", found: "64 B", expected: "0 B of DataS" }],
    [VALUE, { payload: new Uint8Array(8) }, {
      field: "payload",
      found: "8 B",
      expected: "64 B of Value",
    }],
    [RENEW, { stamp: 1n << 63n }, {
      field: "stamp",
      found: "9223372036854775808",
      expected: "below 2^53",
    }],
    [REGISTER, { payload: new Uint8Array(8).fill(255) }, {
      field: "bytes",
      found: "18446744073709551615",
      expected: "below 2^53",
    }],
  ];

  for (const [message, change, refusal] of REFUSALS) {
    const { field, found, expected } = refusal;
    it(`C-02: refuses ${message.kind} with ${field} ${found}: expected ${expected}`, () => {
      assert.deepEqual(changed(message, change), refusal);
    });
  }

  it("C-06: a write-done carries no bytes, an atomic's old value and a lost line are told apart", () => {
    for (const data of [undefined, BYTES, LOST] as const) {
      const message: CardMessage = data === undefined ? VALUE : { ...VALUE, data };
      const packet = encodeCardMessage(message, CONTEXT);
      assert.equal(packet.payload.length, data === BYTES ? 64 : 0);
      assert.deepEqual(decodeCardMessage(packet), { message, ...CONTEXT });
    }
  });

  it("keeps no view of the packet: its frame shares memory with many", () => {
    const packet = encodeCardMessage(DATA_S, CONTEXT);
    const decoded = decodeCardMessage(packet);
    packet.payload.fill(0);
    assert.ok(!isCardRefusal(decoded));
    assert.deepEqual(decoded.message, DATA_S);
  });
});
