/**
 * A frame field by field, with the place of every bit. Accepts any bytes: what is beyond the
 * frame's end is left out.
 */
import { type Field, readFields, sizeOf } from "../base/fields.ts";
import { viewOf } from "../base/slab.ts";
import { ackText, nakText } from "../wire/roce/aeth.ts";
import { BTH_BYTES, BTH_FIELDS, DEFAULT_PKEY, GSI_QPN, MULTICAST_QPN } from "../wire/roce/bth.ts";
import {
  COHERENCE_CHANGES,
  COHERENCE_PAYLOAD_FIELDS,
  COHERENCE_STATES,
  COHERENCE_STATUS,
  coherenceCommand,
  coherencePayloadName,
} from "../wire/roce/coherence_eth.ts";
import { ETHERNET_FIELDS, ETHERTYPE_IPV4 } from "../wire/roce/ethernet.ts";
import { EXTENSION_ROWS } from "../wire/roce/extension_headers.ts";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../wire/roce/feth.ts";
import {
  ETHERTYPE_ROCE_V1,
  ETHERTYPE_VLAN,
  findGrh,
  GRH_FIELDS,
  NEXT_HEADER_IBA,
  VLAN_FIELDS,
} from "../wire/roce/grh.ts";
import { grhIcrcHolds, ICRC_BYTES, icrcHolds } from "../wire/roce/icrc.ts";
import { IPV4_BYTES, IPV4_FIELDS, ipv4Checksum, PROTOCOL_UDP } from "../wire/roce/ipv4.ts";
import { opcodeRow } from "../wire/roce/opcode.ts";
import { ROCE_PORT, UDP_FIELDS } from "../wire/roce/udp.ts";
import { VERIFY_LEVELS } from "../wire/roce/verify_eth.ts";
import { formatAddress, formatMac, type Naming } from "./describe.ts";

/** Or a run of bytes (`payload`, `pad`, `filling`). */
export interface FrameField {
  /**
   * `Ethernet`, `IPv4`, `UDP`, or `802.1Q`, `GRH` of RoCEv1, `BTH`, an extension header such as
   * `RETH`, or `Frame`.
   */
  readonly header: string;
  /** "" for reserved bits without a name. */
  readonly name: string;
  /** From the first bit of the frame. */
  readonly bit: number;
  readonly bits: number;
  /** Addresses and keys in hex, counts in decimal. */
  readonly value: string;
  /** "" if the value has none of its own. */
  readonly meaning: string;
}

type Value = number | bigint | boolean;
type Values = Readonly<Record<string, Value>>;

const IN_HEX = new Set([
  ..."etherType opcode pKey destQpn sourceQpn qKey va rkey immediate crc checksum flags".split(" "),
  ..."address region magic original syndrome mask operand compare swap".split(" "),
]);

/**
 * Without gaps.
 * @param bytes the last ones may be missing, except those of headers.
 * @param naming of IPv4 addresses: `a` for 10.0.0.1.
 * @param length of the whole frame.
 */
export function frameFields(
  bytes: Uint8Array<ArrayBuffer>,
  naming: Naming = formatAddress,
  length: number = bytes.length,
): FrameField[] {
  const reader = new FieldReader(bytes, length);
  const ethernet = reader.read("Ethernet", ETHERNET_FIELDS, meaningOfEthernet);
  if (findGrh(viewOf(bytes)) !== undefined) return grhFields(reader, { bytes, naming, length });
  const isIpv4 = ethernet?.["etherType"] === ETHERTYPE_IPV4;
  const ipAt = reader.at;
  const ip = isIpv4
    ? reader.read("IPv4", IPV4_FIELDS, (name, value) => {
      return meaningOfIpv4(name, value, { bytes, ipAt, naming });
    })
    : undefined;
  const isUdp = ip?.["protocol"] === PROTOCOL_UDP && ip["headerWords"] === IPV4_BYTES / 4;
  const udp = isUdp ? reader.read("UDP", UDP_FIELDS, meaningOfUdp) : undefined;
  const isRoce = udp?.["destinationPort"] === ROCE_PORT;
  if (!isRoce || ip === undefined) return reader.rest("payload");
  const packetEnd = ipAt + Number(ip["totalLength"]) - ICRC_BYTES;
  const holds = () => icrcHolds(viewOf(bytes), { from: ipAt, end: packetEnd });
  return transportFields(reader, { bytes, length, packetEnd, holds });
}

interface Transport {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly length: number;
  readonly packetEnd: number;
  readonly holds: () => boolean;
}

function transportFields(
  reader: FieldReader,
  { bytes, length, packetEnd, holds }: Transport,
): FrameField[] {
  const bth = reader.read("BTH", BTH_FIELDS, meaningOfBth);
  if (bth === undefined) return reader.rest("payload");
  const row = opcodeRow(Number(bth["opcode"]));
  let last: Values | undefined;
  for (const name of row?.headers ?? []) {
    const meaning = (field: string, value: Value, values: Values) =>
      meaningOfExtension(name, field, { value, values, operation: row!.operation });
    const read = reader.read(titleOf(name), EXTENSION_ROWS[name].fields, meaning);
    if (read === undefined) return reader.rest("payload");
    last = read;
  }
  if (packetEnd < reader.at || packetEnd + ICRC_BYTES > length) return reader.rest("payload");
  const pad = Math.min(Number(bth["padCount"]), packetEnd - reader.at);
  const part = last && messagePart(row!.operation, last);
  if (part !== undefined && reader.at + sizeOf(part.fields) <= packetEnd - pad) {
    reader.read(part.title, part.fields, () => "");
  }
  reader.run("payload", packetEnd - pad, "");
  reader.run("pad", packetEnd, "to a whole number of 4 bytes");
  const icrc = packetEnd + ICRC_BYTES > bytes.length
    ? ""
    : holds()
    ? "holds"
    : "does not hold: it is dropped";
  reader.run("ICRC", packetEnd + ICRC_BYTES, icrc);
  return reader.rest("filling", "to the least size of a frame");
}

/** RoCEv1, behind the MAC addresses. */
function grhFields(
  reader: FieldReader,
  { bytes, naming, length }: Pick<Transport, "bytes" | "length"> & { readonly naming: Naming },
): FrameField[] {
  const view = viewOf(bytes), from = findGrh(view)!;
  if (from > reader.at) reader.read("802.1Q", VLAN_FIELDS, meaningOfTag);
  const grh = reader.read("GRH", GRH_FIELDS, (name, value) => meaningOfGrh(name, value, naming));
  if (grh === undefined) return reader.rest("payload");
  const packetEnd = reader.at + Number(grh["payloadLength"]) - ICRC_BYTES;
  const holds = () => grhIcrcHolds(view, { from, end: packetEnd });
  const isWhole = packetEnd >= reader.at + BTH_BYTES;
  return isWhole
    ? transportFields(reader, { bytes, length, packetEnd, holds })
    : reader.rest("payload");
}

/** Begin of a payload between coherent cards; the rest is a line. */
function messagePart(
  operation: string,
  header: Values,
): { readonly title: string; readonly fields: readonly Field[] } | undefined {
  const command = coherenceCommand(operation, Number(header["command"]));
  const name = command && coherencePayloadName(command, Number(header["change"]));
  return name && { title: titleOf(name), fields: COHERENCE_PAYLOAD_FIELDS[name] };
}

class FieldReader {
  readonly #bytes: Uint8Array<ArrayBuffer>;
  readonly #length: number;
  readonly #fields: FrameField[] = [];
  at = 0;

  constructor(bytes: Uint8Array<ArrayBuffer>, length: number) {
    this.#bytes = bytes;
    this.#length = length;
  }

  /** Undefined where the frame ends before the header does. */
  read(
    header: string,
    table: readonly Field[],
    meaningOf: (name: string, value: Value, values: Values) => string,
  ): Values | undefined {
    const size = sizeOf(table);
    if (this.at + size > this.#bytes.length) return undefined;
    const values = readFields(table, { view: viewOf(this.#bytes), at: this.at }) as Values;
    let bit = this.at * 8;
    for (const [name, bits] of table) {
      const value = values[name];
      const said = value === undefined
        ? { value: "", meaning: "reserved" }
        : { value: textOf(name, value, bits), meaning: meaningOf(name, value, values) };
      this.#fields.push({ header, name, bit, bits, ...said });
      bit += bits;
    }
    this.at += size;
    return values;
  }

  run(name: string, end: number, meaning: string): void {
    const length = end - this.at;
    if (length <= 0) return;
    const bit = this.at * 8;
    const isShort = length <= ICRC_BYTES && end <= this.#bytes.length;
    const value = isShort ? hexOf(this.#bytes.subarray(this.at, end)) : `${length} B`;
    this.#fields.push({ header: "Frame", name, bit, bits: length * 8, value, meaning });
    this.at = end;
  }

  rest(name: string, meaning = ""): FrameField[] {
    this.run(name, this.#length, meaning);
    return this.#fields;
  }
}

function textOf(name: string, value: Value, bits: number): string {
  if (typeof value === "boolean") return value ? "1" : "0";
  if (bits === 48) return formatMac(Number(value));
  if (bits === 128) return formatGid(BigInt(value));
  if ((name === "source" || name === "destination") && bits === 32) {
    return formatAddress(Number(value));
  }
  if (!IN_HEX.has(name)) return `${value}`;
  return `0x${value.toString(16).padStart(Math.min(8, Math.ceil(bits / 4)), "0")}`;
}

function hexOf(bytes: Uint8Array): string {
  return `0x${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** `RETH`, `PersistETH`, `ImmDt`: as the specifications write them. */
function titleOf(name: string): string {
  return TITLES[name] ?? name;
}

const TITLES: Readonly<Record<string, string>> = {
  reth: "RETH",
  persistEth: "PersistETH",
  verifyEth: "VerifyETH",
  digestEth: "DigestETH",
  hintEth: "HintETH",
  coherenceEth: "CoherenceETH",
  coherenceMask: "Mask",
  coherenceAdd: "Add",
  coherenceSwap: "CompareSwap",
  coherenceRegion: "Region",
  coherenceCounts: "Counts",
  aeth: "AETH",
  deth: "DETH",
  atomicEth: "AtomicETH",
  atomicAckEth: "AtomicAckETH",
  immdt: "ImmDt",
  ieth: "IETH",
  feth: "FETH",
};

function meaningOfEthernet(name: string, value: Value): string {
  return name === "etherType" ? ETHERTYPES.get(Number(value)) ?? "" : "";
}

const ETHERTYPES: ReadonlyMap<number, string> = new Map([
  [ETHERTYPE_IPV4, "IPv4"],
  [ETHERTYPE_VLAN, "802.1Q tag"],
  [ETHERTYPE_ROCE_V1, "RoCEv1"],
]);

function meaningOfTag(name: string, value: Value): string {
  if (name === "vlan" && value === 0) return "none: a tag for its priority alone";
  return meaningOfEthernet(name, value);
}

/** `::ffff:10.0.0.1`: groups of 16 bits, the low 32 as an IPv4 address. */
function formatGid(gid: bigint): string {
  const high = (gid >> 32n).toString(16).padStart(24, "0").match(/..../g)!
    .map((word) => word.replace(/^0+(?=.)/, ""));
  const address = formatAddress(Number(gid & 0xffff_ffffn));
  return `${high.join(":")}:${address}`.replace(/(^|:)0(:0)+:/, "::");
}

function meaningOfGrh(name: string, value: Value, naming: Naming): string {
  switch (name) {
    case "payloadLength":
      return "behind this header, to the ICRC";
    case "nextHeader":
      return value === NEXT_HEADER_IBA ? "InfiniBand's transport" : "";
    case "sourceGid":
    case "destinationGid": {
      const address = Number(BigInt(value) & 0xffff_ffffn), named = naming(address);
      return named === formatAddress(address) ? "" : named;
    }
    default:
      return "";
  }
}

const ECN_TEXTS = ["not ECN-capable", "ECN-capable", "ECN-capable", "congestion experienced"];

function meaningOfIpv4(
  name: string,
  value: Value,
  { bytes, ipAt, naming }: {
    readonly bytes: Uint8Array<ArrayBuffer>;
    readonly ipAt: number;
    readonly naming: Naming;
  },
): string {
  switch (name) {
    case "headerWords":
      return `${Number(value) * 4} B`;
    case "ecn":
      return ECN_TEXTS[Number(value)]!;
    case "totalLength":
      return "with this header, to the ICRC";
    case "dontFragment":
      return value ? "never fragmented" : "";
    case "protocol":
      return value === PROTOCOL_UDP ? "UDP" : "";
    case "checksum":
      return ipv4Checksum(viewOf(bytes), ipAt) === 0 ? "holds" : "does not hold: it is dropped";
    case "source":
    case "destination": {
      const named = naming(Number(value));
      return named === formatAddress(Number(value)) ? "" : named;
    }
    default:
      return "";
  }
}

function meaningOfUdp(name: string, value: Value): string {
  if (name === "destinationPort" && value === ROCE_PORT) return "RoCEv2";
  if (name === "sourcePort") return "the flow: ECMP hashes it";
  return name === "checksum" && value === 0 ? "none: the ICRC covers it" : "";
}

function meaningOfBth(name: string, value: Value): string {
  switch (name) {
    case "opcode":
      return opcodeRow(Number(value))?.name ?? "unknown";
    case "solicited":
      return value ? "the receiver's interrupt is asked for" : "";
    case "migReq":
      return value ? "not migrating" : "";
    case "padCount":
      return `${value} B behind the payload`;
    case "pKey":
      return value === DEFAULT_PKEY ? "default partition" : "";
    case "fecn":
    case "becn":
      return value ? "congestion" : "";
    case "destQpn":
      return value === GSI_QPN ? "connection manager" : value === MULTICAST_QPN ? "multicast" : "";
    case "ackReq":
      return value ? "an ACK is asked for" : "";
    default:
      return "";
  }
}

function meaningOfExtension(
  header: string,
  field: string,
  { value, values, operation }: {
    readonly value: Value;
    readonly values: Values;
    readonly operation: string;
  },
): string {
  switch (`${header}.${field}`) {
    case "reth.va":
      return "address in the responder's memory";
    case "reth.length":
      return "bytes of the whole message";
    case "aeth.syndrome":
      return nakText(Number(value)) ?? ackText(Number(value));
    case "aeth.msn":
      return "messages that the responder has completed";
    case "persistEth.version":
      return "asks for persistence (P-21)";
    case "verifyEth.level":
      return VERIFY_LEVELS[Number(value)] ?? "unknown";
    case "verifyEth.persist":
      return value ? "verified and persisted in one request" : "";
    case "digestEth.crc":
      return "CRC-32 of the data";
    case "feth.select":
      return nameOf(FLUSH_SELECT, value);
    case "feth.placement":
      return namesOf(FLUSH_PLACEMENT, Number(value));
    case "ieth.rkey":
      return "the key to invalidate";
    case "coherenceEth.command":
      return EXTENSION_ROWS.coherenceEth.describe(values as never, operation);
    case "coherenceEth.state":
      return COHERENCE_STATES[Number(value)] ?? "unknown";
    case "coherenceEth.change":
      return COHERENCE_CHANGES[Number(value)]!;
    case "coherenceEth.status":
      return COHERENCE_STATUS[Number(value)] ?? "unknown";
    case "coherenceEth.remote":
      return !values["placed"] ? "" : value ? "in the remote cache" : "in the local cache";
    case "coherenceEth.life":
      return "of the far card";
    case "coherenceEth.homeLife":
      return "of home's card";
    case "coherenceEth.address":
      return "the line's, in home's memory";
    case "coherenceEth.stamp":
      return values["stamped"] ? "ps, by the far card's clock: the lease's renewal" : "";
    default:
      return field === "reserved" ? "reserved" : "";
  }
}

function nameOf(codes: Readonly<Record<string, number>>, value: Value): string {
  return Object.keys(codes).find((name) => codes[name] === value) ?? "unknown";
}

function namesOf(bits: Readonly<Record<string, number>>, value: number): string {
  return Object.keys(bits).filter((name) => (bits[name]! & value) !== 0).join(", ") || "nothing";
}
