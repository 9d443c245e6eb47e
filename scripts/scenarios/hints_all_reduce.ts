/**
 * A ring all-reduce (H-30; document 001_ [0117, 0118]; `hints_all_reduce.yaml`): each of N hosts
 * gets the sum of all vectors. In N - 1 steps a host writes a chunk into scratch memory of its
 * right neighbour, which adds it to its own; in N - 1 more the sums go round. With `tell` a pass
 * announces its targets while the backward pass computes (H-09).
 */
import {
  type Connection,
  type ConnectionQp,
  type Cq,
  HINT_KINDS,
  type HintMessage,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_SIGNALED,
  type Mr,
  type ProgramContext,
  type SendRequest,
  type Steps,
} from "rackmesh";
import { tellMeasured, tellServed } from "./hints_measured.ts";
import { countersOf } from "./peer.ts";

const SERVICE = "ring";
const WORD = 4;
const PASSES = 2;
/** The cards' initial messages about hints have arrived by then, and the ring is closed. */
const AGREED_PS = 200e6;

interface Place {
  readonly ring: readonly string[];
  readonly rank: number;
  readonly right: string;
  readonly left: string;
}

/** Its vector of N chunks, and behind it N - 1 chunks of scratch. */
interface Ends {
  readonly mr: Mr;
  readonly cq: Cq;
  readonly toRight: Connection;
  readonly fromLeft: Connection;
}

interface Job extends Place, Ends {
  readonly chunkBytes: number;
  readonly pieceBytes: number;
  /** Steps begun, own chunks sent, chunks that came: the left neighbour may be a step ahead. */
  readonly count: { steps: number; sent: number; came: number };
}

interface Move {
  readonly from: number;
  readonly to: number;
  /**
   * The left neighbour's chunk of the same step is added to it; undefined where it comes into its
   * place.
   */
  readonly add?: { readonly from: number; readonly to: number };
}

export default function* allReduce(context: ProgramContext): Steps<void> {
  const { cpu, options } = context;
  const place = placeOf(context);
  const { ring, rank, right, left } = place;
  const bytes = Number(options.bytes), pieces = Number(options.pieces ?? 1);
  const chunkBytes = bytes / ring.length, pieceBytes = chunkBytes / pieces;
  if (!Number.isInteger(pieceBytes / WORD)) {
    throw new Error(
      `A piece has whole words: ${bytes} B are ${ring.length} times ${pieces} pieces`,
    );
  }
  const count = { steps: 0, sent: 0, came: 0 };
  const ends = yield* connectRing(context, place);
  const job: Job = { ...place, ...ends, chunkBytes, pieceBytes, count };
  yield* cpu.sleep(AGREED_PS);
  const before = yield* countersOf(cpu);
  const moves = movesOf(job);
  const passes: number[][] = [];
  for (let pass = 0; pass < PASSES; pass++) {
    if (pass === 0) fillVector(context, job);
    // Only the gradients are missing, which an accelerator computes.
    if (options.tell === true) yield* tell(context, job, moves);
    yield* cpu.sleep(Number(options.computeUs) * 1e6);
    const latencies: number[] = [];
    for (const move of moves) {
      const began = cpu.now;
      yield* step(context, job, move);
      latencies.push(cpu.now - began);
    }
    passes.push(latencies);
  }
  checkSums(context, job);
  const [cold, warm] = passes.map((each) => each.reduce((sum, ps) => sum + ps, 0)) as [
    number,
    number,
  ];
  if (rank === 1) yield* tellServed(cpu, { client: left, before });
  if (rank === 0) {
    yield* tellMeasured(cpu, {
      workload: `all-reduce: ${ring.length} of ${bytes} B`,
      to: right,
      latencies: passes[0]!,
      failed: 0,
      stallPs: cold - warm,
      before,
    });
  }
  yield* leaveRing(context, job);
}

function placeOf({ cpu: { host }, options }: ProgramContext): Place {
  const ring = options.ring as readonly string[];
  const rank = ring.indexOf(host);
  if (rank < 0 || ring.length < 2) throw new Error(`${host} is in no ring: ${ring}`);
  const at = (other: number) => ring[(other + ring.length) % ring.length]!;
  return { ring, rank, right: at(rank + 1), left: at(rank - 1) };
}

/** The first host connects first, and the ring closes at it. */
function* connectRing(
  { cpu, device, options }: ProgramContext,
  { ring, rank, right }: Place,
): Steps<Ends> {
  const v = device.verbs;
  const bytes = Number(options.bytes), pieces = Number(options.pieces ?? 1);
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 64 + 4 * pieces }));
  const buffer = cpu.allocate(bytes + bytes / ring.length * (ring.length - 1));
  const mr = v.must(
    yield* v.regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE }),
  );
  const listener = v.must(v.listen(device, SERVICE));
  const receives = PASSES * 2 * (ring.length - 1);
  const maxSendWr = 2 * pieces, maxRecvWr = Math.max(receives, maxSendWr);
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr, maxRecvWr };
  const place = new DataView(new ArrayBuffer(16));
  place.setBigUint64(0, BigInt(mr.address));
  place.setUint32(8, mr.rkey);
  const accept = function* (): Steps<Connection> {
    const event = yield* v.waitEvent(listener);
    if (event?.kind !== "request") throw new Error(`A request was expected: ${event?.kind}`);
    const privateData = new Uint8Array(place.buffer);
    const connection = v.must(yield* v.accept(listener, event.request, { qp, privateData }));
    if (v.refused(connection)) throw new Error(`The left neighbour has gone: ${connection.reason}`);
    v.must(
      yield* v.postRecv(connection.qp, Array.from({ length: receives }, () => ({ sges: [] }))),
    );
    return connection;
  };
  const first = rank === 0 ? undefined : yield* accept();
  const toRight = yield* connect({ cpu, device }, right, qp);
  return { mr, cq, toRight, fromLeft: first ?? (yield* accept()) };
}

function* connect(
  { cpu, device }: Pick<ProgramContext, "cpu" | "device">,
  to: string,
  qp: ConnectionQp,
): Steps<Connection> {
  for (let tries = 0;; tries++) {
    const connection = yield* device.verbs.connect(device, { to, service: SERVICE, qp });
    if (!device.verbs.refused(connection)) return connection;
    if (connection.refused !== "no-service" || tries > 100) {
      throw new Error(`${to} refuses: ${connection.reason}`);
    }
    yield* cpu.sleep(20e6);
  }
}

/** The left neighbour leaves when it has written its last chunk. */
function* leaveRing(
  { device: { verbs: v } }: ProgramContext,
  { toRight, fromLeft }: Job,
): Steps<void> {
  yield* v.disconnect(toRight);
  yield* v.disconnect(fromLeft);
}

/** Words of this host, which each sum shows. */
function fillVector({ cpu }: ProgramContext, { rank, mr, chunkBytes, ring }: Job): void {
  const words = new Uint32Array(chunkBytes * ring.length / WORD).map((_, i) => 1000 * rank + i);
  cpu.store(mr.address, new Uint8Array(words.buffer));
}

/** Each pass adds up the hosts' vectors: the second one sums equal vectors. */
function checkSums(
  { cpu }: ProgramContext,
  { mr, chunkBytes, ring: { length: hosts } }: Job,
): void {
  const { buffer } = cpu.load(mr.address, chunkBytes * hosts).slice();
  const ranks = 1000 * hosts * (hosts - 1) / 2;
  for (const [i, found] of new Uint32Array(buffer).entries()) {
    const expected = (ranks + hosts * i) * hosts ** (PASSES - 1);
    if (found !== expected) {
      throw new Error(`Word ${i} of the sum is ${found}: expected ${expected}`);
    }
  }
}

function movesOf({ ring: { length: hosts }, rank, chunkBytes }: Job): Move[] {
  const chunk = (number: number) => (number + 2 * hosts) % hosts * chunkBytes;
  const scratch = (step: number) => (hosts + step) * chunkBytes;
  const steps = Array.from({ length: hosts - 1 }, (_, i) => i);
  return [
    ...steps.map((i) => {
      const add = { from: scratch(i), to: chunk(rank - i - 1) };
      return { from: chunk(rank - i), to: scratch(i), add };
    }),
    ...steps.map((i) => ({ from: chunk(rank + 1 - i), to: chunk(rank + 1 - i) })),
  ];
}

/** The last piece has an immediate; waits for it, and for that of the left neighbour. */
function* step(
  { cpu, device: { verbs: v } }: ProgramContext,
  job: Job,
  { from, to, add }: Move,
): Steps<void> {
  const { mr, cq, toRight, chunkBytes, pieceBytes, count } = job;
  const { va, rkey } = memoryOf(toRight);
  const pieces = Array.from({ length: chunkBytes / pieceBytes }, (_, i): SendRequest => {
    const isLast = (i + 1) * pieceBytes === chunkBytes;
    return {
      opcode: isLast ? "write-immediate" : "write",
      sges: [v.sge(mr, from + i * pieceBytes, pieceBytes)],
      remote: { va: va + to + i * pieceBytes, rkey },
      sendFlags: isLast ? IBV_SEND_SIGNALED : 0,
    };
  });
  v.must(yield* v.postSend(toRight.qp, pieces));
  count.steps++;
  while (Math.min(count.sent, count.came) < count.steps) {
    for (const { status, opcode, qpNum } of yield* v.waitCompletion(cq)) {
      if (status !== "SUCCESS") throw new Error(`A ${opcode} ended with ${status}`);
      count[qpNum === toRight.qp.qpn ? "sent" : "came"]++;
    }
  }
  if (add === undefined) return;
  const [come, own] = [add.from, add.to].map((at) =>
    new Uint32Array(cpu.load(mr.address + at, chunkBytes).slice().buffer)
  ) as [Uint32Array<ArrayBuffer>, Uint32Array<ArrayBuffer>];
  cpu.store(mr.address + add.to, new Uint8Array(own.map((word, i) => word + come[i]!).buffer));
}

function memoryOf({ privateData }: Connection): { readonly va: number; readonly rkey: number } {
  const place = new DataView(privateData.buffer, privateData.byteOffset);
  return { va: Number(place.getBigUint64(0)), rkey: place.getUint32(8) };
}

function* tell(
  { device: { verbs: v } }: ProgramContext,
  { toRight, chunkBytes: length }: Job,
  moves: readonly Move[],
): Steps<void> {
  const { va, rkey } = memoryOf(toRight);
  const entries = moves.map(({ to }) => ({
    kinds: HINT_KINDS.prefetch,
    operation: "write" as const,
    messages: 1,
    sequence: 0,
    rkey,
    length,
    va: BigInt(va + to),
    objects: [],
  }));
  const groups = [{ sourceQpn: toRight.qp.qpn, destQpn: toRight.peer.qpn, entries }];
  const kinds = HINT_KINDS.prefetch;
  const hint: HintMessage = {
    type: "announce",
    kinds,
    reason: "none",
    sequence: 0,
    answer: false,
    groups,
  };
  v.must(yield* v.postHint(toRight.qp, hint));
}
