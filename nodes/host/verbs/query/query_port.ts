import type { RnicReply } from "../../../../fabric/wire/host_bus/rnic_command.ts";
import { MESSAGE_BYTES_MAX } from "../refuse_send.ts";
import type { Steps } from "../../cpu/program.ts";
import { failed, inTime, refuseQp, request, verbError } from "../device.ts";
import {
  type DataInOrderFlags,
  IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES,
  IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS,
  IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG,
} from "../flags.ts";
import type { Device, Qp, VerbError } from "../objects.ts";

/** 0xffff: full membership of the default partition. */
const PORT = 1, GIDS = 1, PKEYS = 1, DEFAULT_PKEY = 0xffff;

/** ibv_port_attr; fields of a subnet manager are left out, as Ethernet has none. */
export interface PortAttributes {
  /** `down`: the cable's other end has no power, as far as the card knows. */
  readonly state: "active" | "down";
  /** `disabled` while `state` is `down`. */
  readonly physState: "link-up" | "disabled";
  /** RoCE. */
  readonly linkLayer: "ethernet";
  /** Bytes of the largest path MTU. */
  readonly maxMtu: number;
  /** Bytes of the port's present path MTU. */
  readonly activeMtu: number;
  /** Entries of the table of GIDs. */
  readonly gidTblLen: number;
  /** Entries of the table of partition keys. */
  readonly pkeyTblLen: number;
  /** Bytes of the longest message. */
  readonly maxMsgSz: number;
  /** A LID is InfiniBand's: 0. */
  readonly lid: 0;
  /** ibv_port_attr's code for 1, 2, 4, 8 or 12 lanes: with `activeSpeed` the nearest rate from below. */
  readonly activeWidth: number;
  /** ibv_port_attr's code for the speed of a lane. */
  readonly activeSpeed: number;
  /** The exact rate. */
  readonly bitsPerSecond: number;
}

/** ibv_gid_entry. */
export interface GidEntry {
  /** 16 bytes in network order. */
  readonly gid: Uint8Array;
  /** Its index in the table. */
  readonly gidIndex: number;
  /** The number of its port, from 1. */
  readonly portNum: number;
  /** The RoCE version that uses it. */
  readonly gidType: "roce-v1" | "roce-v2";
  /** The IPv4 address in it, as `destAddress` of `modifyQp` takes it. */
  readonly address: number;
}

const WIDTHS: readonly (readonly [code: number, lanes: number])[] = [
  [2, 4],
  [1, 1],
  [16, 2],
  [4, 8],
  [8, 12],
];
/** SDR, DDR, QDR, FDR, EDR, HDR, NDR, in Mb/s of a lane. */
const SPEEDS: readonly (readonly [code: number, mbps: number])[] = [
  [1, 2_500],
  [2, 5_000],
  [4, 10_000],
  [16, 14_000],
  [32, 25_000],
  [64, 50_000],
  [128, 100_000],
];

/** @returns the highest rate up to the port's; four lanes where there is a choice. */
function linkOf(bitsPerSecond: number): { activeWidth: number; activeSpeed: number } {
  let best = { activeWidth: 1, activeSpeed: 1 }, most = 0;
  for (const [activeWidth, lanes] of WIDTHS) {
    for (const [activeSpeed, mbps] of SPEEDS) {
      const rate = lanes * mbps * 1e6;
      if (rate > bitsPerSecond || rate <= most) continue;
      best = { activeWidth, activeSpeed };
      most = rate;
    }
  }
  return best;
}

function refusePort(portNum: number): VerbError | undefined {
  if (portNum === PORT) return undefined;
  return verbError("EINVAL", `The device has port ${PORT}: found ${portNum}`);
}

function refuseIndex(index: number, table: string, length: number): VerbError | undefined {
  if (Number.isInteger(index) && index >= 0 && index < length) return undefined;
  return verbError("EINVAL", `The ${table} table has indices 0 to ${length - 1}: found ${index}`);
}

type Answer = Extract<RnicReply, { readonly op: "query-port" }>;

function* ask(device: Device): Steps<Answer | VerbError> {
  const { epoch } = device.state;
  const command = { op: "query-port" } as const;
  return inTime(yield* request(device.cpu, "query-port", command), device, epoch);
}

/** ibv_query_port: asks the firmware. EINVAL for another port than 1. */
export function* queryPort(device: Device, portNum: number): Steps<PortAttributes | VerbError> {
  const card = refusePort(portNum) ?? (yield* ask(device));
  if (failed(card)) return card;
  const { up, bitsPerSecond } = card;
  const { mtu } = device.state;
  return {
    state: up ? "active" : "down",
    physState: up ? "link-up" : "disabled",
    linkLayer: "ethernet",
    maxMtu: mtu,
    activeMtu: mtu,
    gidTblLen: GIDS,
    pkeyTblLen: PKEYS,
    maxMsgSz: MESSAGE_BYTES_MAX,
    lid: 0,
    ...linkOf(bitsPerSecond),
    bitsPerSecond,
  };
}

/** ibv_query_gid_table: all valid entries of the device. */
export function* queryGidTable(device: Device): Steps<readonly GidEntry[] | VerbError> {
  const card = yield* ask(device);
  if (failed(card)) return card;
  const { address } = device.state;
  const gid = new Uint8Array(16);
  gid.fill(0xff, 10, 12);
  new DataView(gid.buffer).setUint32(12, address);
  const gidType = card.roce === "v1" ? "roce-v1" : "roce-v2";
  return [{ gid, gidIndex: 0, portNum: PORT, gidType, address }];
}

/** ibv_query_gid_ex. EINVAL for another port than 1, or an index that the table does not have. */
export function* queryGidEx(
  device: Device,
  portNum: number,
  index: number,
): Steps<GidEntry | VerbError> {
  const table = refusePort(portNum) ?? refuseIndex(index, "GID", GIDS) ??
    (yield* queryGidTable(device));
  return failed(table) ? table : table[index]!;
}

/** ibv_query_gid: the 16 bytes. Errors as of {@link queryGidEx}. */
export function* queryGid(
  device: Device,
  portNum: number,
  index: number,
): Steps<Uint8Array | VerbError> {
  const entry = yield* queryGidEx(device, portNum, index);
  return failed(entry) ? entry : entry.gid;
}

/** ibv_query_pkey. EINVAL for another port than 1, or an index that the table does not have. */
export function queryPkey(_device: Device, portNum: number, index: number): number | VerbError {
  return refusePort(portNum) ?? refuseIndex(index, "P_Key", PKEYS) ?? DEFAULT_PKEY;
}

const ORDERED: ReadonlySet<string> = new Set(["send", "write", "read"]);

/**
 * ibv_query_qp_data_in_order: whether data of a READ of this queue pair, or of a peer's WRITE or SEND into it, is
 * seen by the processor in the order of its addresses, so that a program may wait for the last byte. It is: packets
 * are taken in order, and writes of the card become visible in order (P-03). EINVAL for unknown flags.
 * @returns 1 or 0; with IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS the flags that hold.
 */
export function queryQpDataInOrder(
  qp: Qp,
  op: "send" | "write" | "read",
  flags: DataInOrderFlags = 0,
): number | VerbError {
  const gone = refuseQp(qp);
  if (gone !== undefined) return gone;
  const returnsCaps = flags === IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS;
  if (flags !== 0 && !returnsCaps) {
    return verbError(
      "EINVAL",
      `flags are 0 or IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS: found ${flags}`,
    );
  }
  if (!ORDERED.has(op)) return 0;
  return returnsCaps
    ? IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG | IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES
    : 1;
}
