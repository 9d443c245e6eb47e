/**
 * librdmacm's ids and event channels. An id's states are those of the kernel's `rdma_cm_state`; its
 * channel has its events (`rdma_event.ts`).
 */
import { PS_PER_MS, type Time } from "../../../fabric/base/time.ts";
import { SIDR_STATUS } from "../../../fabric/wire/roce/cm.ts";
import { isGroupAddress } from "../../../fabric/wire/roce/neighbour.ts";
import type { Steps } from "../cpu/program.ts";
import { verbError } from "../verbs/device.ts";
import type { Pd, Qp, VerbError } from "../verbs/objects.ts";
import { failed } from "../verbs/errors.ts";
import { LIMITS, refuseBeyond } from "../verbs/limits.ts";
import { createQp, destroyQp, modifyQp } from "../verbs/queue_pair.ts";
import { refuseInteger, refuseRetry, withDefaults } from "./check_options.ts";
import { disconnectEndpoint, endListening } from "./cm_agent.ts";
import type {
  CmAgent,
  CmChannel,
  CmChannelId,
  CmEndpoint,
  CmListener,
  CmOutput,
  CmRetry,
  RdmaCmEventType,
  SidrRequest,
} from "./cm_state.ts";
import { type ConnectionQp, emit, prepareQp, randomPsn, RETRY, wakeCm } from "./connection.ts";
import type { CmDevice } from "./gsi.ts";
import { type IpEnds, type PortSpace, serviceIdOfPort } from "./ip_header.ts";
import { answerService, cancelService, REFUSED } from "./sidr.ts";

/** As the kernel's `rdma_cm_state`. */
export type RdmaIdState =
  | "idle"
  | "addr-bound"
  | "addr-query"
  | "addr-resolved"
  | "route-resolved"
  | "connect"
  | "listen"
  | "disconnect"
  | "device-removal"
  | "destroyed";

/** `rdma_event_channel`: events of its ids, in their order. */
export interface RdmaEventChannel extends CmChannel {
  /** @ignore */
  readonly device: CmDevice;
  /** @ignore */
  readonly ids: Set<RdmaId>;
  /** @ignore */
  readonly byEndpoint: Map<object, RdmaId>;
  /** Managers of the cards that its ids are on. @ignore */
  readonly agents: Set<CmAgent>;
  /** False after its destruction. */
  isAlive: boolean;
}

/** `rdma_conn_param`; the defaults are librdmacm's without it. */
export interface RdmaConnParam {
  /** At most 56 B to connect, 196 B to accept; UD: 180 B and 136 B. */
  readonly privateData?: Uint8Array;
  /** READs and atomics that this end answers at a time: at most 16. */
  readonly responderResources?: number;
  /** READs and atomics that this end asks for at a time: at most 16. */
  readonly initiatorDepth?: number;
  /** For a connect: retries of both ends' sends. An accept does not use it. */
  readonly retryCount?: number;
  /** RNR retries of the other end's sends: each end tells the other. */
  readonly rnrRetryCount?: number;
  /** The number of a queue pair that the id does not have. */
  readonly qpNum?: number;
  /** True if a queue pair that the id does not have has an SRQ. */
  readonly srq?: boolean;
}

/** `rdma_cm_id`. Only the calls of librdmacm change it. */
export interface RdmaId {
  /** The channel's, unless `rdmaBindAddr` names another card of the host. @ignore */
  device: CmDevice;
  /** The channel of its events. */
  readonly channel: RdmaEventChannel;
  /** Its port space. */
  readonly ps: PortSpace;
  /** Time-out and number of transmissions of its messages. */
  readonly retry: CmRetry;
  /** As the kernel's `rdma_cm_state`. */
  state: RdmaIdState;
  /** Its queue pair, from `rdmaCreateQp`. */
  qp: Qp | undefined;
  /** Of a queue pair that the id does not have, in port space tcp. @ignore */
  qpType: "rc" | "uc";
  /** RDMA_OPTION_ID_TOS: the traffic class that a connect asks for. @ignore */
  trafficClass: number | undefined;
  /** RDMA_OPTION_ID_ACK_TIMEOUT: the code of its queue pair's time-out. @ignore */
  ackTimeout: number | undefined;
  /** Local port; 0: none. */
  port: number;
  /** True if it holds the port itself: the id of a request uses the listener's. */
  isBound: boolean;
  /** Address, port and name of the other end; 0 and "": none. */
  peer: { readonly address: number; readonly port: number; readonly host: string };
  /** @ignore */
  endpoint: CmEndpoint | undefined;
  /** @ignore */
  sidr: SidrRequest | undefined;
  /** @ignore */
  listener: CmListener | undefined;
  /**
   * The ends as a request has named them.
   * @ignore
   */
  ends: IpEnds | undefined;
  /** The parameters of the last connect or accept. */
  param: RdmaConnParam;
  /** The first PSN that this end expects. */
  readonly rqPsn: number;
  /** Events that are not acknowledged. */
  unacknowledged: number;
}

const NO_PEER = { address: 0, port: 0, host: "" } as const;
const EPHEMERAL = { first: 32_768, last: 60_999 } as const;
const PORT_MAX = 0xffff;
/** Linux, for UD queue pairs of ids. */
export const RDMA_UDP_QKEY = 0x0123_4567;
/** ETIMEDOUT, as the negative status of an event. */
export const ETIMEDOUT = -110;

/** `rdma_create_event_channel`. */
export function rdmaCreateEventChannel(device: CmDevice): RdmaEventChannel {
  const { agent } = device.cm;
  const { program } = device.cpu;
  const channel: RdmaEventChannel = {
    device,
    program,
    signal: `rdma-cm:${program}/${agent.nextChannel++}`,
    events: [],
    ids: new Set(),
    byEndpoint: new Map(),
    agents: new Set([agent]),
    isAlive: true,
  };
  agent.channels.add(channel);
  return channel;
}

/** `rdma_destroy_event_channel`. EBUSY while it has ids. */
export function rdmaDestroyEventChannel(channel: RdmaEventChannel): VerbError | undefined {
  if (!channel.isAlive) return verbError("EINVAL", "The event channel is gone already");
  if (channel.ids.size > 0) {
    const [{ state, port }] = [...channel.ids] as [RdmaId];
    const count = channel.ids.size === 1 ? "one id" : `${channel.ids.size} ids, one of them`;
    const found = `The event channel has ${count} in state ${state} (port ${port})`;
    return verbError("EBUSY", `${found}: expected rdmaDestroyId before`);
  }
  const { cpu } = channel.device;
  channel.isAlive = false;
  for (const agent of channel.agents) agent.channels.delete(channel);
  cpu.signal(channel.signal);
  return undefined;
}

/** Options of `rdmaCreateId`. */
export interface RdmaIdOptions {
  /** RDMA_PS_TCP, for RC and UC, or RDMA_PS_UDP, for UD. */
  readonly ps: PortSpace;
  /** Time-out and number of transmissions of its messages; three times 500 µs by default. */
  readonly retry?: Partial<CmRetry>;
}

/** `rdma_create_id`. EINVAL for another port space or time-outs out of range. */
export function rdmaCreateId(
  channel: RdmaEventChannel,
  { ps, retry }: RdmaIdOptions,
): RdmaId | VerbError {
  if (!channel.isAlive) return verbError("EINVAL", "The event channel is gone");
  if (ps !== "tcp" && ps !== "udp") {
    return verbError("EINVAL", `The port space is ${String(ps)}: expected tcp or udp`);
  }
  const wrong = refuseRetry(retry);
  if (wrong !== undefined) return verbError("EINVAL", wrong);
  return makeId(channel, { ps, retry: withDefaults(RETRY, retry), qpType: "rc" });
}

export function makeId(
  channel: RdmaEventChannel,
  { ps, retry, qpType }: Pick<RdmaId, "ps" | "retry" | "qpType">,
): RdmaId {
  const id: RdmaId = {
    device: channel.device,
    channel,
    ps,
    retry,
    state: "idle",
    qp: undefined,
    qpType,
    trafficClass: undefined,
    ackTimeout: undefined,
    port: 0,
    isBound: false,
    peer: NO_PEER,
    endpoint: undefined,
    sidr: undefined,
    listener: undefined,
    ends: undefined,
    param: {},
    rqPsn: randomPsn(channel.device),
    unacknowledged: 0,
  };
  channel.ids.add(id);
  return id;
}

export function refuseState(id: RdmaId, ...expected: RdmaIdState[]): VerbError | undefined {
  if (expected.includes(id.state)) return undefined;
  return verbError("EINVAL", `The id is in state ${id.state}: expected ${expected.join(" or ")}`);
}

/** Options of `rdmaBindAddr`. */
export interface BindAddrOptions {
  /** From 1 to 65535; 0: any. */
  readonly port: number;
  /**
   * A card of this host, by its name (the host's name stands for its first card) or its IPv4
   * address; absent: the channel's.
   */
  readonly address?: string | number;
}

/**
 * `rdma_bind_addr`: the id uses the card with the address; port 0 draws a free port. EADDRINUSE for
 * a port that another id of the card holds, until its `rdmaDestroyId`; EADDRNOTAVAIL where no port
 * is free, and for an address of no card of this host.
 */
export function rdmaBindAddr(
  id: RdmaId,
  { port, address }: BindAddrOptions,
): VerbError | undefined {
  const wrong = refuseState(id, "idle") ?? refusePort(port);
  if (wrong !== undefined) return wrong;
  const device = address === undefined ? id.device : deviceAt(id.device, address);
  if (device === undefined) {
    const found = `No card of this host has the address ${JSON.stringify(address)}`;
    return verbError("EADDRNOTAVAIL", `${found}: expected one by name, like ${id.device.cpu.host}`);
  }
  const held = portsInUse(device, id);
  if (held.has(port)) {
    return verbError("EADDRINUSE", `Another id of the host holds port ${port} of ${id.ps}`);
  }
  id.device = device;
  id.channel.agents.add(device.cm.agent);
  device.cm.agent.channels.add(id.channel);
  const own = port === 0 ? ephemeralPort(id, held) : port;
  if (own === undefined) {
    const { first, last } = EPHEMERAL;
    return verbError("EADDRNOTAVAIL", `Ids hold all ports of ${id.ps} from ${first} to ${last}`);
  }
  id.port = own;
  id.isBound = true;
  id.state = "addr-bound";
  return undefined;
}

function refusePort(port: number): VerbError | undefined {
  const wrong = refuseInteger("The port", port, { least: 0, most: PORT_MAX });
  return wrong === undefined ? undefined : verbError("EINVAL", wrong);
}

/** @returns the device on the caller's core; undefined for no card of this host. */
function deviceAt(device: CmDevice, named: string | number): CmDevice | undefined {
  const { cpu, devices } = device;
  const address = typeof named === "number" ? named : cpu.addresses[named];
  if (device.state.address === address) return device;
  for (const [index] of devices?.names.entries() ?? []) {
    const opened = devices!.at(index) as CmDevice | undefined;
    if (opened?.state.address !== address) continue;
    return { ...device, cpu: cpu.at?.(index) ?? cpu, state: opened!.state, cm: opened!.cm };
  }
  return undefined;
}

/** Another program's ids on this card hold ports, too. */
function portsInUse({ cm: { agent } }: CmDevice, { ps }: RdmaId): Set<number> {
  const ids = [...agent.channels].flatMap((channel) => [...channel.ids]);
  const isIts = ({ isBound, ps: its, device }: CmChannelId) =>
    isBound && its === ps && device.cm.agent === agent;
  return new Set(ids.filter(isIts).map(({ port }) => port));
}

function ephemeralPort(
  { device: { cm: { agent } } }: RdmaId,
  held: ReadonlySet<number>,
): number | undefined {
  const { first, last } = EPHEMERAL;
  const size = last - first + 1;
  for (let tries = 0; tries < size; tries++) {
    const port = first + agent.nextPort++ % size;
    if (!held.has(port)) return port;
  }
  return undefined;
}

/**
 * `rdma_listen`: requests are events CONNECT_REQUEST, each with an id of its own. At most `backlog`
 * of them wait to be taken (0: 1024); a further one is dropped, and its sender repeats it.
 */
export function rdmaListen(
  id: RdmaId,
  { backlog = 0 }: { readonly backlog?: number } = {},
): VerbError | undefined {
  const { device, channel, ps, retry } = id;
  const beyond = refuseBeyond("backlog", backlog, LIMITS.backlog);
  if (beyond !== undefined) return beyond;
  const unbound = id.state === "idle" ? rdmaBindAddr(id, { port: 0 }) : undefined;
  const wrong = unbound ?? refuseState(id, "addr-bound");
  if (wrong !== undefined) return wrong;
  const { listeners } = device.cm.agent;
  const serviceId = serviceIdOfPort(ps, id.port);
  const { program, signal, events } = channel;
  id.listener = {
    serviceId,
    program,
    signal,
    retry,
    events,
    backlog: backlog === 0 ? LIMITS.backlog.most : backlog,
    ...(ps === "udp" && { datagrams: true as const }),
  };
  channel.byEndpoint.set(id.listener, id);
  listeners.set(serviceId, id.listener);
  id.state = "listen";
  return undefined;
}

/** Options of `rdmaResolveAddr`. */
export interface ResolveAddrOptions {
  /** Name of a host, or its IPv4 address. */
  readonly to: string | number;
  /** From 1 to 65535; 0 where only the way is asked for: no host listens on it. */
  readonly port: number;
  /** Time until an unknown address is an error; 2 ms by default. */
  readonly timeoutPs?: Time;
}

const RESOLVE_PS: Time = 2 * PS_PER_MS;
const RESOLVE_MAX_PS: Time = 3_600_000 * PS_PER_MS;

/**
 * `rdma_resolve_addr`: event ADDR_RESOLVED, or ADDR_ERROR (ETIMEDOUT) where no host of the rack has the
 * address. A group's address (224/4) needs no host in port space udp. Neighbours are static: a host without power is resolved, as from ARP's cache, and `rdmaConnect`
 * gets UNREACHABLE. ENOENT for a name that no host has.
 */
export function rdmaResolveAddr(id: RdmaId, options: ResolveAddrOptions): VerbError | undefined {
  const { to, port, timeoutPs = RESOLVE_PS } = options;
  const { device: { cpu, cm: { agent } }, channel, ps } = id;
  const range = refuseInteger("timeoutPs", timeoutPs, { least: 1, most: RESOLVE_MAX_PS });
  if (range !== undefined) return verbError("EINVAL", range);
  const wrong = refuseState(id, "idle", "addr-bound") ?? refusePort(port);
  if (wrong !== undefined) return wrong;
  const hosts = Object.entries(cpu.addresses);
  const found = hosts.find(([name, address]) => name === to || address === to);
  if (found === undefined && typeof to !== "number") {
    const names = hosts.map(([name]) => name).join(", ");
    return verbError("ENOENT", `No host is called ${String(to)}: expected one of ${names}`);
  }
  const address = found?.[1] ?? to;
  const badAddress = refuseInteger("The address", address, { least: 0, most: 0xffff_ffff });
  if (badAddress !== undefined) return verbError("EINVAL", badAddress);
  const unbound = id.state === "idle" ? rdmaBindAddr(id, { port: 0 }) : undefined;
  if (unbound !== undefined) return unbound;
  id.peer = { address: Number(address), port, host: found?.[0] ?? "" };
  if (found !== undefined || (ps === "udp" && isGroupAddress(Number(address)))) {
    id.state = "addr-resolved";
    ready(id, "ADDR_RESOLVED");
    return undefined;
  }
  id.state = "addr-query";
  agent.timers.push({
    at: cpu.now + timeoutPs,
    sink: channel,
    event: { kind: "timer", of: id },
  });
  agent.stirred = true;
  wakeCm(id.device);
  return undefined;
}

/**
 * `rdma_resolve_route`: event ROUTE_RESOLVED. RoCE asks no subnet manager, so it cannot fail
 * (Linux: `cma_resolve_iboe_route`).
 */
export function rdmaResolveRoute(id: RdmaId): VerbError | undefined {
  const wrong = refuseState(id, "addr-resolved");
  if (wrong !== undefined) return wrong;
  id.state = "route-resolved";
  ready(id, "ROUTE_RESOLVED");
  return undefined;
}

function ready(
  id: RdmaId,
  event: RdmaCmEventType,
  { status = 0, reason = "" }: { readonly status?: number; readonly reason?: string } = {},
): void {
  id.channel.events.push({ kind: "ready", of: id, event, status, reason });
  id.device.cpu.signal(id.channel.signal);
}

/** Options of `rdmaCreateQp`. */
export type RdmaQpOptions = Omit<ConnectionQp, "pd" | "type"> & {
  readonly type?: "rc" | "uc" | "ud";
};

/**
 * `rdma_create_qp`: creates the id's queue pair, in INIT, where receives can be posted; a UD one in
 * RTS. RC by default, UD in the port space udp. EINVAL where the id has one, or for a type of the
 * other port space.
 */
export function* rdmaCreateQp(
  id: RdmaId,
  pd: Pd,
  options: RdmaQpOptions,
): Steps<Qp | VerbError> {
  const { ps } = id;
  const { type = ps === "udp" ? "ud" : "rc" } = options;
  const refused = refuseQpOf(id);
  if (refused !== undefined) return refused;
  if (pd.device.state !== id.device.state) {
    return verbError("EINVAL", "The protection domain is of another card than the id");
  }
  if ((type === "ud") !== (ps === "udp")) {
    const expected = ps === "udp" ? "ud" : "rc or uc";
    return verbError(
      "EINVAL",
      `The queue pair is ${type}: expected ${expected} in port space ${ps}`,
    );
  }
  const qp = type === "ud"
    ? yield* readyDatagrams(pd, options)
    : yield* prepareQp({ ...options, pd, type });
  if (failed(qp)) return qp;
  const wrong = refuseQpOf(id);
  if (wrong === undefined) return id.qp = qp;
  // Another thread has created one, or destroyed the id.
  yield* destroyQp(qp);
  return wrong;
}

function refuseQpOf({ state, qp }: RdmaId): VerbError | undefined {
  if (state === "destroyed") return verbError("EINVAL", "The id is gone");
  if (qp !== undefined) return verbError("EINVAL", `The id has queue pair ${qp.qpn} already`);
  return undefined;
}

function* readyDatagrams(pd: Pd, options: RdmaQpOptions): Steps<Qp | VerbError> {
  const qp = yield* createQp(pd, { ...options, type: "ud" });
  if (failed(qp)) return qp;
  const wrong = (yield* modifyQp(qp, { state: "init", qKey: RDMA_UDP_QKEY })) ??
    (yield* modifyQp(qp, { state: "rtr" })) ??
    (yield* modifyQp(qp, { state: "rts", sqPsn: 0 }));
  if (wrong === undefined) return qp;
  yield* destroyQp(qp);
  return wrong;
}

/** `rdma_destroy_qp`. */
export function* rdmaDestroyQp(id: RdmaId): Steps<VerbError | undefined> {
  const { qp } = id;
  if (qp === undefined) return verbError("EINVAL", "The id has no queue pair");
  const wrong = yield* destroyQp(qp);
  // A failed card's queue pair is gone all the same.
  if (wrong === undefined || wrong.errno === "ENOENT") id.qp = undefined;
  return wrong;
}

/**
 * `rdma_destroy_id`, in any state: listening ends, a connection gets its DREQ, a pending one a REJ.
 * EBUSY while the id has a queue pair, or events that are not acknowledged.
 */
export function* rdmaDestroyId(id: RdmaId): Steps<VerbError | undefined> {
  const { device, channel, endpoint, sidr, listener, qp, unacknowledged } = id;
  if (id.state === "destroyed") return verbError("EINVAL", "The id is gone already");
  if (qp !== undefined) {
    return verbError("EBUSY", `The id has queue pair ${qp.qpn}: expected rdmaDestroyQp before`);
  }
  if (unacknowledged > 0) {
    const count = `${unacknowledged} events of the id are not acknowledged`;
    return verbError("EBUSY", `${count}: expected rdmaAckCmEvent before`);
  }
  const { agent } = device.cm;
  const output: CmOutput = { send: [], signals: new Set() };
  const context = { now: device.cpu.now, output };
  id.state = "destroyed";
  if (listener !== undefined) endListening(agent, listener, context);
  if (endpoint !== undefined) {
    endpoint.sink = undefined;
    disconnectEndpoint(agent, endpoint, context);
    wakeCm(device);
  }
  if (sidr?.phase === "received") {
    answerService(agent, sidr, { ...REFUSED, status: SIDR_STATUS.rejected, ...context });
  } else if (sidr?.phase === "sent") cancelService(agent, sidr);
  channel.ids.delete(id);
  for (const key of [endpoint, sidr, listener]) if (key) channel.byEndpoint.delete(key);
  yield* emit(device, output);
  return undefined;
}
