/** For tests only: packets with every extension header, to try codecs on. */
import type { Extensions } from "./extension_headers.ts";
import fc from "fast-check";
import { DEFAULT_PKEY } from "./bth.ts";
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
  const extensions: { [H in keyof Extensions]-?: fc.Arbitrary<NonNullable<Extensions[H]>> } = {
    reth: record({ va: u64, rkey: u32, length: u32 }),
    persistEth: record({ flags: u(16), reserved: u(8), version: u(8) }),
    verifyEth: record({
      version: u(8),
      algorithm: u(8),
      level: u(8),
      persist: fc.boolean(),
      reserved: u(7),
    }),
    digestEth: record({ crc: u32 }),
    hintEth: record({
      magic: u32,
      version: u(8),
      type: u(8),
      kinds: u(8),
      reason: u(8),
      sequence: u32,
      answer: fc.boolean(),
      reserved: u(7),
      groups: u(8),
      bytes: u(16),
    }),
    coherenceEth: record({
      version: u(8),
      command: u(8),
      state: u(2),
      far: fc.boolean(),
      reserved: u(5),
      status: u(8),
      region: u32,
      transaction: u32,
      length: u32,
      address: u64,
    }),
    aeth: record({ syndrome: u(8), msn: u(24) }),
    deth: record({ qKey: u32, reserved: u(8), sourceQpn: u(24) }),
    atomicEth: record({ va: u64, rkey: u32, swapAdd: u64, compare: u64 }),
    atomicAckEth: record({ original: u64 }),
    immdt: record({ immediate: u32 }),
    ieth: record({ rkey: u32 }),
    feth: record({ reserved: u(26), select: u(2), placement: u(4) }),
  };
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
    record(Object.fromEntries(row.headers.map((name) => [name, extensions[name]]))),
  ).map(([outer, header, inner]) => ({
    ...outer,
    ...inner,
    bth: { ...header, padCount: -outer.payload.length & 3 },
  }));
});
