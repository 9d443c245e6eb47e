/**
 * Sockets of one native program: TCP between the hosts of the rack, and the waits for several things
 * at once. Each `socket_*` request, `resolve` and `poll` of `requests.ts` is a method: the calling
 * thread's steps. `tcp_connection.ts` has a connection, which a thread of the host's kernel serves:
 * it goes on when the program has ended, until what was written has arrived.
 *
 * Not modelled: congestion control, options, urgent data, TIME_WAIT (a port is free at once), keepalive
 * (a silent peer that died is noticed by what is sent to it).
 */
import { NEVER, PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import type { CmAgent, CmSink } from "../cm/cm_state.ts";
import { endpointSignal } from "../cm/cm_state.ts";
import { connect } from "../cm/connect.ts";
import { hostAt, refused, serviceIdOf } from "../cm/connection.ts";
import {
  accept,
  type ConnectRequest,
  listen,
  type Listener as CmListener,
  nextEvent,
  unlisten,
} from "../cm/listen.ts";
import { type Cpu, SIGNALS, type Source, type Steps } from "../cpu/program.ts";
import type { OpenDevice } from "../open_device.ts";
import type { ProgramCpu, ThreadContext } from "../program_context.ts";
import { channelEventAt, channelSources } from "../verbs/comp_channel.ts";
import { failed } from "../verbs/device.ts";
import type { CompChannel, Device } from "../verbs/objects.ts";
import {
  BUFFER_BYTES,
  carry,
  closeLane,
  closeTcp,
  end,
  errnoOf,
  makeTcp,
  openLane,
  postRing,
  queuePairOf,
  stir,
  type Tcp,
  type TcpErrno,
} from "./tcp_connection.ts";
import type { Waiter } from "./threads.ts";

/**
 * Time of a call: the way through system call and TCP, once. [choice] A packet in and one out take
 * 3.4 µs of CPU in Linux (Peter et al., Arrakis, OSDI'14, table 1: UDP, receiver running), so about
 * 2 µs a side; the interrupt and the copies are the model's own.
 */
export const CALL_PS = 2 * PS_PER_US;

/** Linux: `ip_local_port_range`, begun with its first; Linux draws. */
const EPHEMERAL = { first: 32_768, last: 60_999 } as const;
const LOOPBACK_NET = 127;

/** Bits of poll(2). */
export const POLL = {
  in: 0x1,
  out: 0x4,
  err: 0x8,
  hup: 0x10,
  nval: 0x20,
  rdnorm: 0x40,
  wrnorm: 0x100,
  rdhup: 0x2000,
} as const;
/** Of shutdown(2). */
const SHUT = { read: 0, write: 1, both: 2 } as const;

export type SocketErrno =
  | TcpErrno
  | "EADDRINUSE"
  | "EADDRNOTAVAIL"
  | "EAGAIN"
  | "EBADF"
  | "EINPROGRESS"
  | "EINVAL"
  | "EISCONN"
  | "ENETUNREACH"
  | "ENOENT"
  | "ENOTCONN"
  | "EPIPE";

/** A thing that `poll` waits for, by names of `POLLED`. */
export interface PollRow {
  readonly kind: "socket" | "listener" | "channel" | "async" | "cm" | "futex";
  readonly handle: number;
  readonly events: number;
  /** Of kind futex. */
  readonly waiter?: Waiter;
}

/** Objects of the program that `poll` may name and that are not sockets. */
export interface PollObjects {
  channel(handle: number): CompChannel | undefined;
  /** For its asynchronous events. */
  device(handle: number): Device | undefined;
  /** A descriptor of the connection manager. */
  readonly cm?: {
    readonly signal: string;
    /** Undefined: there is no such descriptor. */
    hasEvent(channel: number): boolean | undefined;
  };
}

interface TcpListener {
  readonly listener: CmListener;
  readonly port: number;
  /** Connections that may wait for `accept`. */
  readonly backlog: number;
  /** Raised when one waits. */
  readonly signal: string;
  /** Connections that stand, and the number of those that are being made. */
  readonly ready: Tcp[];
  opening: number;
  isClosed: boolean;
}

/** Numbers of a host, for all of its programs. */
interface HostNumbers {
  nextPort: number;
  nextSignal: number;
}
const NUMBERS = new WeakMap<CmAgent, HostNumbers>();

function numbersOf(agent: CmAgent): HostNumbers {
  const known = NUMBERS.get(agent);
  if (known !== undefined) return known;
  const made = { nextPort: EPHEMERAL.first, nextSignal: 0 };
  NUMBERS.set(agent, made);
  return made;
}

/** The name of the service that stands for a port: readable in a capture of the REQ. */
function serviceOf(port: number): string {
  return `tcp${String(port).padStart(5, "0")}`;
}

/** The sockets of all processes of a program: a child has those of its parent, too. */
export class SocketTable {
  readonly streams = new Map<number, Tcp>();
  readonly listeners = new Map<number, TcpListener>();
  /** Processes that have a handle. */
  readonly users = new Map<number, number>();
  #nextHandle = 1;

  /** @returns a new handle, which has one user. */
  enter(): number {
    const handle = this.#nextHandle++;
    this.users.set(handle, 1);
    return handle;
  }
}

export class Sockets {
  readonly #cpu: ProgramCpu;
  readonly #device: OpenDevice;
  readonly #objects: PollObjects;
  readonly #table: SocketTable;
  /** This process's handles. */
  readonly #held = new Set<number>();
  #nextThread = 0;

  /** @param process of the process's main thread. */
  constructor(
    process: { readonly cpu: ProgramCpu; readonly device: OpenDevice },
    objects: PollObjects,
    table = new SocketTable(),
  ) {
    this.#cpu = process.cpu;
    this.#device = process.device;
    this.#objects = objects;
    this.#table = table;
  }

  /** A parent's handle is this process's, too. */
  share(handle: number): void {
    const { users } = this.#table, count = users.get(handle);
    if (count === undefined || this.#held.has(handle)) return;
    users.set(handle, count + 1);
    this.#held.add(handle);
  }

  /** An ephemeral port without a listener; the next call gives another one. */
  *freePort(cpu: Cpu): Steps<number> {
    yield* this.#pay(cpu);
    return this.#freePort();
  }

  /** @param port 0: an ephemeral one. EADDRINUSE where a program of this host listens there. */
  *listen(
    cpu: Cpu,
    { port: wanted, backlog }: { readonly port: number; readonly backlog: number },
  ): Steps<{ readonly handle: number; readonly port: number } | SocketErrno> {
    yield* this.#pay(cpu);
    const port = wanted === 0 ? this.#freePort() : wanted;
    const listener = listen(this.#device, serviceOf(port));
    if (failed(listener)) return listener.errno === "EBUSY" ? "EADDRINUSE" : "EINVAL";
    const made: TcpListener = {
      listener,
      port,
      backlog: Math.max(1, backlog),
      signal: this.#newSignal("listen"),
      ready: [],
      opening: 0,
      isClosed: false,
    };
    const handle = this.#enter();
    this.#table.listeners.set(handle, made);
    this.#spawn("listen", (context) => this.#serveListener(context, made));
    return { handle, port };
  }

  *accept(
    cpu: Cpu,
    { listener: handle, wait }: { readonly listener: number; readonly wait: boolean },
  ): Steps<
    { readonly handle: number; readonly address: number; readonly port: number } | SocketErrno
  > {
    const listener = this.#table.listeners.get(handle);
    if (listener === undefined) return "EBADF";
    for (;;) {
      while (wait && listener.ready.length === 0 && !listener.isClosed) {
        yield* cpu.waitSignal(listener.signal, NEVER);
      }
      yield* this.#pay(cpu);
      if (listener.isClosed) return "EINVAL";
      const tcp = listener.ready.shift();
      if (tcp !== undefined) {
        // Its thread may let the next one in.
        cpu.signal(listener.listener.queue.signal);
        return { handle: this.#add(tcp), ...tcp.peer };
      }
      if (!wait) return "EAGAIN";
    }
  }

  /**
   * Connects; without `wait` the answer is a socket that is still connecting: `poll` says when it may
   * be written, `status` what came of it.
   * @param localPort 0: an ephemeral one.
   */
  *connect(
    cpu: Cpu,
    to: {
      readonly address: number;
      readonly port: number;
      readonly localPort?: number;
      readonly wait: boolean;
    },
  ): Steps<
    { readonly handle: number; readonly port: number; readonly isConnected: boolean } | SocketErrno
  > {
    yield* this.#pay(cpu);
    const address = this.#isOwn(to.address) ? this.#device.state.address : to.address;
    const host = hostAt(this.#device, address);
    if (!Object.hasOwn(this.#cpu.addresses, host)) return "ENETUNREACH";
    const tcp = makeTcp({
      localPort: to.localPort || this.#freePort(),
      peer: { address, port: to.port },
      signal: this.#newSignal("stream"),
    });
    this.#spawn("connect", (context) => openActive(context, tcp, host));
    while (to.wait && tcp.state === "connecting") yield* cpu.waitSignal(tcp.signal, NEVER);
    const error = takeError(tcp);
    if (error !== undefined) return error;
    return {
      handle: this.#add(tcp),
      port: tcp.localPort,
      isConnected: tcp.state !== "connecting",
    };
  }

  /**
   * Hands bytes to the kernel: with `wait` all of them, else as many as it has room for.
   * EPIPE where either end has ended this direction.
   */
  *send(
    cpu: Cpu,
    { socket, bytes, wait }: {
      readonly socket: number;
      readonly bytes: Uint8Array;
      readonly wait: boolean;
    },
  ): Steps<{ readonly sent: number } | SocketErrno> {
    const tcp = this.#table.streams.get(socket);
    if (tcp === undefined) return "EBADF";
    yield* this.#pay(cpu);
    let sent = 0;
    for (;;) {
      // After a part the next call gets the error.
      const isOver = tcp.error !== undefined || refuseSend(tcp, wait) !== undefined;
      if (isOver) return sent > 0 ? { sent } : takeError(tcp) ?? refuseSend(tcp, wait)!;
      const room = tcp.state === "open" ? Math.max(0, BUFFER_BYTES - tcp.unsent.length) : 0;
      const part = bytes.slice(sent, sent + room);
      if (part.length > 0) {
        tcp.unsent.push(part);
        sent += part.length;
        stir(cpu, tcp);
      }
      if (sent === bytes.length) return { sent };
      if (!wait) return sent > 0 ? { sent } : "EAGAIN";
      yield* cpu.waitSignal(tcp.signal, NEVER);
    }
  }

  /** Bytes, at most `most`: none at the end of the stream. `peek` keeps them. */
  *receive(
    cpu: Cpu,
    { socket, most, wait, peek }: {
      readonly socket: number;
      readonly most: number;
      readonly wait: boolean;
      readonly peek: boolean;
    },
  ): Steps<{ readonly bytes: Uint8Array<ArrayBuffer> } | SocketErrno> {
    const tcp = this.#table.streams.get(socket);
    if (tcp === undefined) return "EBADF";
    for (;;) {
      while (wait && !isReadable(tcp)) yield* cpu.waitSignal(tcp.signal, NEVER);
      yield* this.#pay(cpu);
      if (tcp.received.length > 0 && most > 0) {
        if (peek) return { bytes: tcp.received.peek(most) };
        const bytes = tcp.received.take(most);
        stir(cpu, tcp);
        return { bytes };
      }
      const error = takeError(tcp);
      if (error !== undefined) return error;
      if (most === 0 || isEnded(tcp)) return { bytes: new Uint8Array(0) };
      if (!wait) return tcp.state === "connecting" ? "ENOTCONN" : "EAGAIN";
    }
  }

  /** @param how SHUT_RD, SHUT_WR or SHUT_RDWR. */
  *shutdown(
    cpu: Cpu,
    { socket, how }: { readonly socket: number; readonly how: number },
  ): Steps<SocketErrno | undefined> {
    const tcp = this.#table.streams.get(socket), listener = this.#table.listeners.get(socket);
    yield* this.#pay(cpu);
    if (listener !== undefined) return void (yield* this.#endListener(cpu, listener));
    if (tcp === undefined) return "EBADF";
    if (tcp.state !== "open") return "ENOTCONN";
    if (how !== SHUT.read && how !== SHUT.write && how !== SHUT.both) return "EINVAL";
    if (how !== SHUT.write) {
      tcp.isDeaf = true;
      tcp.received.clear();
    }
    if (how !== SHUT.read) tcp.isUnsentAll = true;
    stir(cpu, tcp);
    cpu.signal(tcp.signal);
    return undefined;
  }

  /** Of a stream or a listener, at once: the kernel sends on what was written. */
  *close(
    cpu: Cpu,
    { socket }: { readonly socket: number },
  ): Steps<SocketErrno | undefined> {
    yield* this.#pay(cpu);
    const { listeners, streams } = this.#table;
    const listener = listeners.get(socket), tcp = streams.get(socket);
    if (this.#leave(socket)) return undefined;
    listeners.delete(socket);
    streams.delete(socket);
    if (tcp !== undefined) closeTcp(cpu, tcp);
    else if (listener !== undefined) yield* this.#endListener(cpu, listener);
    else return "EBADF";
    return undefined;
  }

  /** SO_ERROR, which `take` clears, and the bytes that can be read (FIONREAD). */
  *status(
    cpu: Cpu,
    { socket, take }: { readonly socket: number; readonly take: boolean },
  ): Steps<
    | {
      readonly error: TcpErrno | undefined;
      readonly isConnected: boolean;
      readonly unread: number;
      readonly unsent: number;
    }
    | SocketErrno
  > {
    const tcp = this.#table.streams.get(socket);
    yield* this.#pay(cpu);
    if (tcp === undefined) return "EBADF";
    const error = take ? takeError(tcp) : tcp.error;
    const isConnected = tcp.state === "open";
    return { error, isConnected, unread: tcp.received.length, unsent: tcp.unsent.length };
  }

  /** An address by a name of the rack; ENOENT. It costs nothing: as from a file. */
  // deno-lint-ignore require-yield -- as the other requests
  *resolve(
    _cpu: Cpu,
    { name }: { readonly name: string },
  ): Steps<{ readonly address: number } | SocketErrno> {
    const { addresses } = this.#cpu;
    if (name === "localhost") return { address: LOOPBACK_NET * 2 ** 24 + 1 };
    return Object.hasOwn(addresses, name) ? { address: addresses[name]! } : "ENOENT";
  }

  /**
   * Waits until one of the rows is ready, or for `timeoutPs` (NEVER: for ever; 0: not at all).
   * @returns the bits of each row; EBADF's is POLLNVAL.
   */
  *poll(
    cpu: Cpu,
    { timeoutPs, rows }: { readonly timeoutPs: Time; readonly rows: readonly PollRow[] },
  ): Steps<number[]> {
    // The time that the caller owes lies before the call.
    yield* cpu.settle();
    const deadline = cpu.now + timeoutPs;
    yield* this.#pay(cpu);
    const sources = rows.flatMap((row) => this.#sourcesOf(row));
    for (;;) {
      const ready = rows.map((row) => this.#ready(row));
      if (timeoutPs === 0 || ready.some((bits) => bits !== 0)) return ready;
      if (cpu.now >= deadline) return ready;
      // An event whose interrupt has come without a waiter wakes no program.
      const channels = rows.flatMap(({ kind, handle }) =>
        kind === "channel" ? this.#objects.channel(handle) ?? [] : []
      );
      yield* cpu.waitAny(sources, Math.min(deadline, ...channels.map(channelEventAt)));
    }
  }

  /** The process has ended: closes all that is open, and no other process's, as a kernel does. */
  *end(cpu: Cpu): Steps<void> {
    const { streams, listeners } = this.#table, ending: TcpListener[] = [];
    for (const handle of [...this.#held]) {
      if (this.#leave(handle)) continue;
      const tcp = streams.get(handle), listener = listeners.get(handle);
      streams.delete(handle);
      listeners.delete(handle);
      if (tcp !== undefined) closeTcp(cpu, tcp);
      if (listener !== undefined) ending.push(listener);
    }
    for (const listener of ending) yield* this.#endListener(cpu, listener);
  }

  #enter(): number {
    const handle = this.#table.enter();
    this.#held.add(handle);
    return handle;
  }

  /** @returns whether another process still has the handle. */
  #leave(handle: number): boolean {
    const { users } = this.#table, count = users.get(handle);
    if (count === undefined || !this.#held.delete(handle)) return false;
    if (count > 1) users.set(handle, count - 1);
    else users.delete(handle);
    return count > 1;
  }

  #pay(cpu: Cpu): Steps<void> {
    cpu.charge(CALL_PS);
    return cpu.settle();
  }

  #add(tcp: Tcp): number {
    const handle = this.#enter();
    this.#table.streams.set(handle, tcp);
    return handle;
  }

  #spawn(name: string, steps: (context: ThreadContext) => Steps<void>): void {
    this.#cpu.spawnKernel!(`tcp-${name}-${this.#nextThread++}`, steps);
  }

  #newSignal(kind: string): string {
    return `tcp-${kind}-${numbersOf(this.#device.cm.agent).nextSignal++}`;
  }

  /** The next ephemeral port on which no program of the host listens. */
  #freePort(): number {
    const { agent } = this.#device.cm, numbers = numbersOf(agent);
    for (;;) {
      const port = numbers.nextPort;
      numbers.nextPort = port === EPHEMERAL.last ? EPHEMERAL.first : port + 1;
      if (!agent.listeners.has(serviceIdOf(serviceOf(port))!)) return port;
    }
  }

  #isOwn(address: number): boolean {
    return address === 0 || Math.floor(address / 2 ** 24) === LOOPBACK_NET;
  }

  #sourcesOf({ kind, handle, waiter }: PollRow): readonly Source[] {
    const signal = (name: string | undefined): Source[] =>
      name === undefined ? [] : [{ kind: "signal", name }];
    switch (kind) {
      case "socket":
        return signal(this.#table.streams.get(handle)?.signal);
      case "listener":
        return signal(this.#table.listeners.get(handle)?.signal);
      case "async":
        return signal(SIGNALS.rnicEvent);
      case "cm":
        return signal(this.#objects.cm?.signal);
      case "futex":
        return signal(waiter?.signal);
      case "channel": {
        const channel = this.#objects.channel(handle);
        return channel === undefined ? [] : channelSources(channel);
      }
    }
  }

  #ready({ kind, handle, events, waiter }: PollRow): number {
    const wanted = events | POLL.err | POLL.hup | POLL.nval;
    const readable = (is: boolean | undefined) =>
      is === undefined ? POLL.nval : is ? POLL.in | POLL.rdnorm : 0;
    switch (kind) {
      case "socket": {
        const tcp = this.#table.streams.get(handle);
        return (tcp === undefined ? POLL.nval : bitsOf(tcp)) & wanted;
      }
      case "listener": {
        const listener = this.#table.listeners.get(handle);
        return readable(listener && (listener.ready.length > 0 || listener.isClosed)) & wanted;
      }
      case "async": {
        const device = this.#objects.device(handle);
        return readable(device && device.context.unread.length > 0) & wanted;
      }
      case "futex":
        return readable(waiter?.isWoken) & wanted;
      case "cm":
        return readable(this.#objects.cm?.hasEvent(handle)) & wanted;
      case "channel": {
        const channel = this.#objects.channel(handle);
        return readable(channel && channelEventAt(channel) <= this.#cpu.now) & wanted;
      }
    }
  }

  *#endListener(cpu: Cpu, listener: TcpListener): Steps<void> {
    if (listener.isClosed) return;
    listener.isClosed = true;
    const { device, queue } = listener.listener;
    yield* unlisten({ device: { ...device, cpu }, queue });
    // Linux resets connections that no program has accepted.
    for (const tcp of listener.ready.splice(0)) {
      tcp.isReset = true;
      closeTcp(cpu, tcp);
    }
    cpu.signal(listener.signal);
    cpu.signal(queue.signal);
  }

  /** Of the host's kernel: makes connections as they are asked for, as many as the backlog lets in. */
  *#serveListener({ cpu, device }: ThreadContext, tcp: TcpListener): Steps<void> {
    const listener = { ...tcp.listener, device };
    const { signal } = listener.queue;
    while (!tcp.isClosed) {
      // Linux holds one more than the backlog. A request that waits is asked for again.
      const isFull = tcp.ready.length + tcp.opening > tcp.backlog;
      const event = isFull ? undefined : nextEvent(listener);
      if (event?.kind === "request") {
        tcp.opening++;
        this.#spawn("accept", (context) => this.#openPassive(context, tcp, event.request));
      } else if (event === undefined) yield* cpu.waitSignal(signal, NEVER);
    }
  }

  *#openPassive(
    { cpu, device }: ThreadContext,
    listener: TcpListener,
    request: ConnectRequest,
  ): Steps<void> {
    const tcp = makeTcp({
      localPort: listener.port,
      peer: { address: request.endpoint.peerAddress, port: portIn(request.privateData) },
      signal: this.#newSignal("stream"),
    });
    const letIn = () => {
      listener.opening--;
      cpu.signal(listener.listener.queue.signal);
    };
    const lane = yield* openLane(device);
    if (lane === undefined) return letIn();
    const connection = yield* accept({ ...listener.listener, device }, request, {
      qp: queuePairOf(lane),
      prepare: (qp) => postRing(lane, qp),
    });
    if (refused(connection)) {
      yield* closeLane(lane);
      return letIn();
    }
    const { endpoint } = connection;
    // Its events are its own from here on: the listener may be gone by then.
    const sink: CmSink = { program: cpu.program, signal: endpointSignal(endpoint), events: [] };
    endpoint.sink = sink;
    let isOpen = false;
    const onOpen = () => {
      isOpen = true;
      letIn();
      if (listener.isClosed) {
        tcp.isReset = true;
        closeTcp(cpu, tcp);
      } else {
        listener.ready.push(tcp);
        cpu.signal(listener.signal);
      }
    };
    yield* carry(lane, tcp, { connection, onOpen });
    if (!isOpen) letIn();
  }
}

function* openActive({ cpu, device }: ThreadContext, tcp: Tcp, to: string): Steps<void> {
  const lane = yield* openLane(device);
  if (lane === undefined) return end(tcp, cpu, "ENOBUFS");
  const connection = yield* connect(device, {
    to,
    service: serviceOf(tcp.peer.port),
    qp: queuePairOf(lane),
    privateData: Uint8Array.of(tcp.localPort >> 8, tcp.localPort & 0xff),
    prepare: (qp) => postRing(lane, qp),
  });
  if (refused(connection)) {
    yield* closeLane(lane);
    return end(tcp, cpu, errnoOf(connection));
  }
  yield* carry(lane, tcp, { connection, onOpen: () => {} });
}

/** The requester's port, from its private data. */
function portIn(privateData: Uint8Array): number {
  return (privateData[0] ?? 0) << 8 | (privateData[1] ?? 0);
}

function takeError(tcp: Tcp): TcpErrno | undefined {
  const { error } = tcp;
  tcp.error = undefined;
  return error;
}

function refuseSend(tcp: Tcp, wait: boolean): SocketErrno | undefined {
  if (tcp.isUnsentAll || tcp.state === "over") return "EPIPE";
  return tcp.state === "connecting" && !wait ? "EAGAIN" : undefined;
}

/** Nothing can follow the received bytes. */
function isEnded(tcp: Tcp): boolean {
  return tcp.isReceivedAll || tcp.isDeaf || tcp.state === "over";
}

function isReadable(tcp: Tcp): boolean {
  return tcp.received.length > 0 || tcp.error !== undefined || isEnded(tcp);
}

function bitsOf(tcp: Tcp): number {
  const canWrite = tcp.state === "over" ||
    (tcp.state === "open" && (tcp.isUnsentAll || tcp.unsent.length < BUFFER_BYTES));
  const isHungUp = tcp.state === "over" || (tcp.isUnsentAll && isEnded(tcp));
  return (isReadable(tcp) ? POLL.in | POLL.rdnorm : 0) |
    (canWrite ? POLL.out | POLL.wrnorm : 0) |
    (tcp.error !== undefined ? POLL.err : 0) |
    (isHungUp ? POLL.hup : 0) |
    (isEnded(tcp) ? POLL.rdhup : 0);
}
