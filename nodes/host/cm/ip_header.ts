/**
 * IP addressing (InfiniBand architecture, volume 1, annex A11): port and port space in the service
 * ID of a REQ or SIDR REQ, both ends' IP addresses before the program's private data. As in the
 * RDMA CM of Linux, with IPv4 addresses.
 */
import { type HeaderOf, readFields, sizeOf, writeFields } from "../../../fabric/base/fields.ts";

/** IP's protocols: TCP for RC and UC, UDP for UD. */
const PORT_SPACES = { tcp: 0x06, udp: 0x11 } as const satisfies Record<PortSpace, number>;
/** RDMA_PS_TCP or RDMA_PS_UDP. */
export type PortSpace = "tcp" | "udp";

/** `0x0000_0000_01`, the protocol, the port. */
const IP_SERVICE = 0x0100_0000n;

export function serviceIdOfPort(space: PortSpace, port: number): bigint {
  return IP_SERVICE | BigInt(PORT_SPACES[space] << 16) | BigInt(port);
}

const IP_HEADER_FIELDS = [
  ["majorVersion", 4],
  ["minorVersion", 4],
  ["ipVersion", 4],
  ["", 4],
  ["sourcePort", 16],
  /** IPv4 addresses are in the last 32 bits. */
  ["source", 128],
  ["destination", 128],
] as const;

export const IP_HEADER_BYTES = sizeOf(IP_HEADER_FIELDS);

export interface IpEnds {
  readonly sourcePort: number;
  readonly source: number;
  readonly destination: number;
}

export function withIpHeader(ends: IpEnds, own: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(IP_HEADER_BYTES + own.length);
  const header: HeaderOf<typeof IP_HEADER_FIELDS> = {
    majorVersion: 0,
    minorVersion: 0,
    ipVersion: 4,
    sourcePort: ends.sourcePort,
    source: BigInt(ends.source),
    destination: BigInt(ends.destination),
  };
  writeFields(IP_HEADER_FIELDS, header, { view: new DataView(bytes.buffer), at: 0 });
  bytes.set(own, IP_HEADER_BYTES);
  return bytes;
}

/** @returns undefined without such a header, or for another IP version. */
export function ipEndsIn(privateData: Uint8Array): IpEnds | undefined {
  if (privateData.length < IP_HEADER_BYTES) return undefined;
  const { buffer, byteOffset, byteLength } = privateData;
  const view = new DataView(buffer, byteOffset, byteLength);
  const header = readFields(IP_HEADER_FIELDS, { view, at: 0 });
  const { majorVersion, ipVersion, source, destination, sourcePort } = header;
  if (majorVersion !== 0 || ipVersion !== 4) return undefined;
  if (source >> 32n !== 0n || destination >> 32n !== 0n) return undefined;
  return { sourcePort, source: Number(source), destination: Number(destination) };
}
