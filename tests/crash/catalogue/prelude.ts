/**
 * What the protocols of the catalogue share: a client on host `a`, servers on `b` and `c` whose SCM
 * it writes, small messages between them, and what was acknowledged. A protocol is then the few
 * lines in which it is right or wrong.
 */
import {
  type Check,
  type CrashView,
  IBV_ACCESS_FLUSH_GLOBAL,
  IBV_ACCESS_FLUSH_PERSISTENT,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_ATOMIC,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_FLUSH_PERSISTENT,
  IBV_SEND_INLINE,
  IBV_SEND_SIGNALED,
  type Mr,
  type ProgramContext,
  type Qp,
  type Recover,
  type RecoveryContext,
  type SendRequest,
  type Steps,
  type WorkCompletion,
} from "rackmesh";

/** The servers' region: its place in SCM, and its bytes. */
export const AT = 4096, BYTES = 4096;
/** Of a message between client and server. */
const MESSAGE_BYTES = 128, RECEIVES = 8;
const MAX_INLINE = 220;
/** In a client's memory: the region's image, what READs bring, messages to be sent. */
const READS_AT = BYTES, SENDS_AT = 2 * BYTES, RECEIVED_AT = SENDS_AT + 1024;
const LOCAL_BYTES = RECEIVED_AT + RECEIVES * MESSAGE_BYTES;
const SERVICE = "log";

export type Host = "a" | "b" | "c";
type Part = (context: ProgramContext) => Steps<void>;

/** The protocol's program: its part on each host. */
export function onHosts(parts: Partial<Record<Host, Part>>): Part {
  return function* (context) {
    yield* parts[context.cpu.host as Host]?.(context) ?? nothing();
  };
}

function* nothing(): Steps<void> {}

/** Eight bytes, big-endian. */
export function word(value: number | bigint): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value));
  return bytes;
}

export function valueOf(bytes: Uint8Array, at = 0): number {
  return Number(new DataView(bytes.buffer, bytes.byteOffset + at).getBigUint64(0));
}

/** Of a record: differs from another one's, and from empty memory, in each byte. */
export function record(number: number, length = 64): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, (_, i) => 1 + (31 * number + i) % 250);
}

export function joined(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

export function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, i) => byte === other[i]);
}

/** A sum that two equal, lost words do not leave alone (FNV-1a). */
export function sumOf(bytes: Uint8Array): number {
  let sum = 0x811c9dc5;
  for (const byte of bytes) sum = Math.imul(sum ^ byte, 0x01000193) >>> 0;
  return sum;
}

/** A connection, from either end. */
export interface Link {
  readonly context: ProgramContext;
  readonly qps: readonly Qp[];
  readonly mr: Mr;
  /** The peer's region; of a server, its own. */
  readonly va: number;
  readonly rkey: number;
  readonly cq: Qp["sendCq"];
  readonly messages: Uint8Array[];
  sent: number;
  done: number;
}

/** @param options.queues queue pairs to the server; each request goes over the first by default. */
export function* dial(
  context: ProgramContext,
  { to = "b", queues = 1 }: { readonly to?: Host; readonly queues?: number } = {},
): Steps<Link> {
  const { cpu, device } = context;
  const { allocPd, createCq, regMr, connect, refused, postRecv, sge, must } = device.verbs;
  const pd = allocPd(device), cq = must(yield* createCq(device, { entries: 64 }));
  const access = IBV_ACCESS_LOCAL_WRITE;
  const mr = must(yield* regMr(pd, cpu.allocate(LOCAL_BYTES), { access }));
  const qps: Qp[] = [];
  let va = 0, rkey = 0;
  for (let i = 0; i < queues; i++) {
    const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 16, maxRecvWr: 16 };
    const connection = yield* connect(device, {
      to,
      service: SERVICE,
      qp: { ...qp, maxInlineData: MAX_INLINE },
    });
    if (refused(connection)) throw new Error(connection.reason);
    va = valueOf(connection.privateData), rkey = valueOf(connection.privateData, 8);
    qps.push(connection.qp);
  }
  for (let wrId = 0; wrId < RECEIVES; wrId++) {
    const sges = [sge(mr, RECEIVED_AT + wrId * MESSAGE_BYTES, MESSAGE_BYTES)];
    must(yield* postRecv(qps[0]!, { wrId, sges }));
  }
  // Stalls are tried between the first report of a run and its last one.
  cpu.report("connected", to);
  return { context, qps, mr, va, rkey, cq, messages: [], sent: 0, done: 0 };
}

/** A WRITE of these bytes to offset `at` of the server's region. */
export function write(
  { context: { cpu, device }, mr, va, rkey }: Link,
  at: number,
  bytes: Uint8Array,
): SendRequest {
  cpu.store(mr.address + at, bytes);
  return {
    opcode: "write",
    sges: [device.verbs.sge(mr, at, bytes.length)],
    sendFlags: bytes.length <= MAX_INLINE ? IBV_SEND_INLINE : 0,
    remote: { va: va + at, rkey },
  };
}

/** A WRITE WITH IMMEDIATE: the server gets the immediate as a message of eight bytes. */
export function writeWith(
  link: Link,
  at: number,
  bytes: Uint8Array,
  immediate: number,
): SendRequest {
  return { ...write(link, at, bytes), opcode: "write-immediate", immediate };
}

/** A READ; what it has brought: {@link brought}. */
export function read({ context, mr, va, rkey }: Link, at: number, length = 1): SendRequest {
  const sges = [context.device.verbs.sge(mr, READS_AT + at, length)];
  return { opcode: "read", sges, remote: { va: va + at, rkey } };
}

export function brought({ context: { cpu }, mr }: Link, at: number, length: number): Uint8Array {
  return cpu.load(mr.address + READS_AT + at, length);
}

/** The standard's FLUSH to persistence. */
export function flush({ va, rkey }: Link, at: number, length: number): SendRequest {
  const flush = { placement: IBV_FLUSH_PERSISTENT, selectivity: "range", length } as const;
  return { opcode: "flush", remote: { va: va + at, rkey }, flush };
}

/** Eight bytes that take effect at once, behind all earlier FLUSHes. */
export function atomicWrite(link: Link, at: number, value: number): SendRequest {
  return { ...write(link, at, word(value)), opcode: "atomic-write" };
}

/** What was there comes as of a READ. */
export function compareSwap(link: Link, at: number, compare: bigint, swapAdd: bigint): SendRequest {
  return { ...read(link, at, 8), opcode: "compare-swap", atomic: { compare, swapAdd } };
}

export function fetchAdd(link: Link, at: number, swapAdd: bigint): SendRequest {
  return { ...read(link, at, 8), opcode: "fetch-add", atomic: { compare: 0n, swapAdd } };
}

/** A SEND of at most 128 bytes. */
export function message(link: Link, bytes: Uint8Array): SendRequest {
  const { context: { cpu, device }, mr } = link;
  const at = SENDS_AT + link.sent % 8 * MESSAGE_BYTES;
  cpu.store(mr.address + at, bytes);
  const sges = [device.verbs.sge(mr, at, bytes.length)];
  return { opcode: "send", sges, sendFlags: IBV_SEND_INLINE };
}

/** Posts them with one doorbell; the last one has a completion. */
export function* post(link: Link, requests: readonly SendRequest[], queue = 0): Steps<void> {
  const { context: { cpu, device }, qps } = link;
  const last = requests.at(-1)!;
  const sendFlags = (last.sendFlags ?? 0) | IBV_SEND_SIGNALED;
  yield* cpu.settle();
  device.verbs.must(
    yield* device.verbs.postSend(qps[queue]!, [...requests.slice(0, -1), { ...last, sendFlags }]),
  );
  link.sent++;
}

/** Waits until all that was posted has completed. */
export function* completed(link: Link): Steps<void> {
  while (link.done < link.sent) yield* poll(link);
}

/** Posts these, and waits for them. */
export function* execute(link: Link, ...requests: readonly SendRequest[]): Steps<void> {
  yield* post(link, requests);
  yield* completed(link);
}

/** The next message of the peer. */
export function* received(link: Link): Steps<Uint8Array> {
  while (link.messages.length === 0) yield* poll(link);
  return link.messages.shift()!;
}

function* poll(link: Link): Steps<void> {
  const { context: { device }, cq } = link;
  for (const completion of yield* device.verbs.waitCompletion(cq)) yield* take(link, completion);
}

function* take(link: Link, { status, opcode, wrId, ...of }: WorkCompletion): Steps<void> {
  const { context: { cpu, device }, mr, qps } = link;
  // A peer without power: nothing more is acknowledged.
  if (status !== "SUCCESS") yield* cpu.sleep(Number.MAX_SAFE_INTEGER);
  if (!opcode.startsWith("recv")) return void link.done++;
  const at = RECEIVED_AT + wrId * MESSAGE_BYTES;
  link.messages.push(
    opcode === "recv-write-immediate"
      ? word(of.immData)
      : cpu.load(mr.address + at, of.byteLen).slice(),
  );
  const { postRecv, sge, must } = device.verbs;
  must(yield* postRecv(qps[0]!, { wrId, sges: [sge(mr, at, MESSAGE_BYTES)] }));
}

/** A server, to the one client that it serves. Offsets are of its region. */
export interface Server extends Link {
  load(at: number, length: number): Uint8Array;
  /** Volatile until it is flushed. */
  store(at: number, bytes: Uint8Array): void;
  /** `clwb` of its lines, and a fence. */
  persist(at: number, length: number): Steps<void>;
}

type Handle = (server: Server, message: Uint8Array) => Steps<void>;

/**
 * Offers the region to a client. @param handle takes each message; without it the CPU does nothing.
 */
export function serve(handle?: Handle, { queues = 1 } = {}): Part {
  return (context) => serving(context, { queues, handle });
}

/** A server that is itself a client of the next one. */
export function relay(
  to: Host,
  handle: (server: Server, next: Link, message: Uint8Array) => Steps<void>,
): Part {
  return function* (context) {
    const next = yield* dial(context, { to });
    yield* serving(context, { queues: 1, handle: (server, text) => handle(server, next, text) });
  };
}

function* serving(
  context: ProgramContext,
  { queues, handle }: { readonly queues: number; readonly handle: Handle | undefined },
): Steps<void> {
  const server = yield* accepted(context, queues);
  for (;;) {
    const text = yield* received(server);
    if (handle !== undefined) yield* handle(server, text);
  }
}

function* accepted(context: ProgramContext, queues: number): Steps<Server> {
  const { cpu, device } = context;
  const { allocPd, createCq, regMr, listen, waitEvent, accept, refused } = device.verbs;
  const { postRecv, sge, must } = device.verbs;
  const pd = allocPd(device), cq = must(yield* createCq(device, { entries: 64 }));
  const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;
  const { address, rkey } = must(yield* regMr(pd, cpu.scm, { offset: AT, length: BYTES, access }));
  const own = { access: IBV_ACCESS_LOCAL_WRITE };
  const mr = must(yield* regMr(pd, cpu.allocate(LOCAL_BYTES), own));
  const listener = must(listen(device, SERVICE));
  const qps: Qp[] = [];
  while (qps.length < queues) {
    const event = yield* waitEvent(listener);
    if (event?.kind !== "request") continue;
    const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 16, maxRecvWr: 16 };
    const connection = yield* accept(listener, event.request, {
      qp: { ...qp, maxInlineData: MAX_INLINE },
      privateData: joined(word(address), word(rkey)),
      *prepare(made) {
        if (qps.length > 0) return;
        for (let wrId = 0; wrId < RECEIVES; wrId++) {
          const sges = [sge(mr, RECEIVED_AT + wrId * MESSAGE_BYTES, MESSAGE_BYTES)];
          must(yield* postRecv(made, { wrId, sges }));
        }
      },
    });
    if (refused(connection)) throw new Error(connection.reason);
    qps.push(connection.qp);
  }
  return {
    context,
    qps,
    mr,
    va: address,
    rkey,
    cq,
    messages: [],
    sent: 0,
    done: 0,
    load: (at, length) => cpu.load(address + at, length),
    store: (at, bytes) => cpu.store(address + at, bytes),
    persist: (at, length) => cpu.flush(address + at, length),
  };
}

/** The server's answer, which is not waited for. */
export function* answer(server: Server, bytes: Uint8Array = word(1)): Steps<void> {
  yield* post(server, [message(server, bytes)]);
}

/** What a client is about to write to a server's region, for the explorer's judgement. */
export function willWrite(
  { context: { cpu } }: Link,
  id: number,
  at: number,
  bytes: Uint8Array,
  on: Host = "b",
): void {
  cpu.note({ kind: "writes", id, on, at: AT + at, bytes });
}

/** The client tells its user that this write survives. */
export function promise({ context: { cpu } }: Link, id: number): void {
  cpu.note({ kind: "persistent", id, promised: true });
}

/** The client tells its user: {@link acknowledged} finds it. */
export function acknowledge({ context: { cpu } }: Link, value: number): void {
  cpu.report("acknowledged", value);
}

/**
 * The client of a protocol that stores one record at `at`. @param store does it; the promise follows.
 */
export function storing(
  store: (link: Link, bytes: Uint8Array) => Steps<void>,
  { at = 0, length = 64, queues = 1 } = {},
): Part {
  return function* (context) {
    const link = yield* dial(context, { queues });
    const bytes = record(1, length);
    willWrite(link, 0, at, bytes);
    yield* store(link, bytes);
    promise(link, 0);
  };
}

/** A message to the server, and its answer. */
export function* asked(link: Link, bytes: Uint8Array = word(1)): Steps<Uint8Array> {
  yield* post(link, [message(link, bytes)]);
  return yield* received(link);
}

/** Memory that a recovery sees. */
export interface Memory {
  load(at: number, length: number): Uint8Array;
  word(at: number): number;
  /** Repairs it: persistent when it returns. */
  persist(at: number, bytes: Uint8Array): Steps<void>;
}

/** `find` reads the region of a server after a power failure; other hosts have none. */
export function recovering(find: (memory: Memory) => unknown | Steps<unknown>): Recover {
  return function* ({ cpu, host }: RecoveryContext) {
    if (host === "a") return null;
    const base = cpu.scm.address + AT;
    const found = find({
      load: (at, length) => cpu.load(base + at, length),
      word: (at) => valueOf(cpu.load(base + at, 8)),
      persist: (at, bytes) => cpu.ntStore(base + at, bytes),
    });
    return typeof found === "object" && found !== null && Symbol.iterator in found &&
        !Array.isArray(found)
      ? yield* found as Steps<unknown>
      : found;
  };
}

/** The values that were acknowledged before the power failure, in their order. */
export function acknowledged({ reports }: CrashView): number[] {
  return reports.filter(({ topic }) => topic === "acknowledged").map(({ value }) => Number(value));
}

/** `judge` has what recovery found on each server that lost its power, and what was acknowledged. */
export function checking<Found>(
  judge: (found: Found, acknowledged: readonly number[], host: string) => string | undefined,
): Check {
  return (view) => {
    for (const host of view.cut) {
      const { recovered } = view.hosts[host]!;
      if (recovered === null || recovered === undefined) continue;
      const wrong = judge(recovered as Found, acknowledged(view), host);
      if (wrong !== undefined) return wrong;
    }
    return undefined;
  };
}

/** The number of the record that lies there whole; {@link NOTHING} or {@link BROKEN}. */
export function recordAt({ load }: Memory, at: number, { length = 64, most = 4 } = {}): number {
  const bytes = load(at, length);
  if (bytes.every((byte) => byte === 0)) return NOTHING;
  for (let n = 1; n <= most; n++) if (isSame(bytes, record(n, length))) return n;
  return BROKEN;
}

/** For a register that holds the number of the newest record, or {@link NOTHING}, or is broken. */
export const NOTHING = 0, BROKEN = -1;

/** What was acknowledged is there, or something newer; what is there is whole. */
export const newestSurvives: Check = checking((found: number, acked) => {
  if (found === BROKEN) return "what is found was never written";
  const newest = Math.max(NOTHING, ...acked);
  return found < newest ? `${newest} was acknowledged, ${found} is found` : undefined;
});
