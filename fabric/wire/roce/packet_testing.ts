/** For tests only: packets with every extension header, to try codecs on. */
import { EXTENSION_HEADERS, type ExtensionHeader } from "./extension_headers.ts";
import fc from "fast-check";
import { type Bth, DEFAULT_PKEY } from "./bth.ts";
import type { Grh } from "./grh.ts";
import { OPCODE_ROWS } from "./opcode.ts";
import type { RocePacket } from "./packet.ts";

/** As decoded objects are: with the ordinary prototype. */
function record<T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> {
  return fc.record(model, { noNullPrototype: true }) as fc.Arbitrary<T>;
}

/** Any packet that can be sent: the fields of any row, at the limits of their widths. */
export const anyPacket: fc.Arbitrary<RocePacket> = fc.constantFrom(...OPCODE_ROWS).chain((row) => {
  const u = (bits: number) => fc.oneof(fc.nat(2 ** bits - 1), fc.constant(2 ** bits - 1));
  const u32 = u(31).map((n) => (2 * n + 1) % 2 ** 32);
  const u64 = fc.bigInt(0n, (1n << 64n) - 1n);
  const mac = fc.maxSafeNat().map((n) => n % 2 ** 48);
  const ofWidth = (bits: number) =>
    bits === 1 ? fc.boolean() : bits === 64 ? u64 : bits === 32 ? u32 : u(bits);
  const anyHeader = (name: ExtensionHeader) =>
    record(
      Object.fromEntries(
        EXTENSION_HEADERS[name].fields.map(([field, bits]) => [field, ofWidth(bits)]),
      ),
    );
  const size = typeof row.payload === "number" ? row.payload : undefined;
  const payload = fc.uint8Array(
    size === undefined ? { maxLength: 300 } : { minLength: size, maxLength: size },
  ).map((bytes) => new Uint8Array(bytes));
  const bth = record({
    opcode: fc.constant(row.code),
    solicited: fc.boolean(),
    migReq: fc.boolean(),
    tver: fc.constant(0),
    pKey: fc.constantFrom(DEFAULT_PKEY, 0x7fff, 0),
    fecn: fc.boolean(),
    becn: fc.boolean(),
    reserved6: u(6),
    destQpn: u(24),
    ackReq: fc.boolean(),
    reserved7: u(7),
    psn: u(24),
  });
  return fc.tuple(
    record({
      destinationMac: mac,
      sourceMac: mac,
      sourceAddress: u32,
      destinationAddress: u32,
      dscp: u(6),
      ecn: u(2),
      ttl: u(8),
      identification: u(16),
      udpSourcePort: u(16),
      payload,
    }),
    bth,
    record(Object.fromEntries(row.headers.map((name) => [name, anyHeader(name)]))),
  ).map(([outer, header, inner]) => ({
    ...outer,
    ...inner,
    bth: { ...header, padCount: -outer.payload.length & 3 },
  }));
});

/** The same packets in RoCEv1, some with a priority tag. */
export const anyGrhPacket: fc.Arbitrary<RocePacket> = fc.tuple(
  anyPacket,
  fc.nat(0xf_ffff),
  fc.option(fc.nat(7), { nil: undefined }),
).map(([packet, flowLabel, priority]) => inGrh(packet, { flowLabel, priority }));

/** A packet as a card of RoCEv1 sends it. */
export function inGrh(packet: RocePacket, grh: Partial<Grh> = {}): RocePacket {
  return {
    ...packet,
    identification: 0,
    udpSourcePort: 0,
    grh: { flowLabel: 0, priority: undefined, ...grh },
  };
}

/** A header with default values, except for the given fields. */
export function makeBth(given: Partial<Bth> & Pick<Bth, "opcode" | "destQpn" | "psn">): Bth {
  return {
    opcode: given.opcode,
    solicited: given.solicited ?? false,
    migReq: given.migReq ?? true,
    padCount: given.padCount ?? 0,
    tver: given.tver ?? 0,
    pKey: given.pKey ?? DEFAULT_PKEY,
    fecn: given.fecn ?? false,
    becn: given.becn ?? false,
    reserved6: given.reserved6 ?? 0,
    destQpn: given.destQpn,
    ackReq: given.ackReq ?? false,
    reserved7: given.reserved7 ?? 0,
    psn: given.psn,
  };
}
