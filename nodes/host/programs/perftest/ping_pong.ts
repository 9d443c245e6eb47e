/**
 * The latency loops. In a ping-pong both ends run the same loop; the client sends first. An end
 * detects a WRITE by its last byte, like perftest, which works because the bytes of one WRITE
 * become visible in order.
 */
import type { Time } from "../../../../fabric/base/time.ts";
import { waitCompletion } from "../../verbs/completion_queue.ts";
import { must, ProgramError } from "../../verbs/device.ts";
import { postRecv, postSend } from "../../verbs/post.ts";
import type { Cpu, Steps } from "../../cpu/program.ts";
import { recvSge, sendSge, type TestBuffer } from "./buffer.ts";
import { PERFTEST, type PerftestName, type RemotePlace, RX_DEPTH } from "./terms.ts";
import type { Cq, Qp, SendRequest } from "../../verbs/objects.ts";
import { IBV_SEND_INLINE, IBV_SEND_SIGNALED } from "../../verbs/flags.ts";

/** A queue pair, and the place at the other end. */
export interface Lane {
  readonly qp: Qp;
  readonly remote: RemotePlace;
}

/** The test of one size, at either end. */
export interface TestRun {
  readonly test: PerftestName;
  readonly bytes: number;
  /** Number of messages per queue pair. */
  readonly iterations: number;
  readonly sendCq: Cq;
  readonly buffer: TestBuffer;
  readonly mode: "poll" | "interrupt";
  /** Timeout without completions. */
  readonly idlePs: Time;
}

/** One queue pair of a latency test, at either end. */
export interface LatencyEnd extends TestRun, Lane {
  readonly recvCq: Cq;
  /** Called before each post, for the client's clock. */
  readonly onPost?: (now: Time) => void;
  readonly atomic?: "fetch-add" | "compare-swap";
}

/** Receives that an end of a SEND test posts before the peer can send. */
export function* postFirstRecvs(
  qp: Qp,
  { buffer, index, bytes }: {
    readonly buffer: TestBuffer;
    readonly index: number;
    readonly bytes: number;
  },
): Steps<void> {
  const sges = [recvSge(buffer, index, bytes)];
  must(yield* postRecv(qp, Array.from({ length: RX_DEPTH }, (_, wrId) => ({ wrId, sges }))));
}

/** The loop of one end: returns when all messages have gone both ways. */
export function* runLatency(end: LatencyEnd, role: "client" | "server"): Steps<void> {
  const { pingPong } = PERFTEST[end.test];
  if (!pingPong && role === "server") return;
  for (let i = 1; i <= end.iterations; i++) {
    if (role === "server") yield* receive(end, i);
    yield* send(end, i);
    if (role === "client" && pingPong) yield* receive(end, i);
    yield* takeOne(end, end.sendCq);
  }
}

/** A byte that differs from the previous message's. */
function markOf(i: number): number {
  return i & 0xff;
}

function* send(end: LatencyEnd, i: number): Steps<void> {
  const { test, bytes, qp, buffer, remote, onPost, atomic = "fetch-add" } = end;
  const { verb, inlineBytes } = PERFTEST[test];
  const { cpu } = qp.device;
  onPost?.(cpu.now);
  const place = sendSge(buffer, 0, bytes);
  if (verb === "write") cpu.store(place.address + bytes - 1, Uint8Array.of(markOf(i)));
  const sges = [place];
  // As perftest does it: every message of the test is inline, or none is.
  const sent = IBV_SEND_SIGNALED | (bytes <= inlineBytes ? IBV_SEND_INLINE : 0);
  const sendFlags = IBV_SEND_SIGNALED;
  const requests: Record<typeof verb, SendRequest> = {
    write: { opcode: "write", sendFlags: sent, sges, remote },
    read: { opcode: "read", sendFlags, sges, remote },
    send: { opcode: "send", sendFlags: sent, sges },
    atomic: { opcode: atomic, sendFlags, sges, remote, atomic: { swapAdd: 1n, compare: 0n } },
  };
  must(yield* postSend(qp, requests[verb]));
}

function* receive(end: LatencyEnd, i: number): Steps<void> {
  const { qp, recvCq, buffer, bytes, idlePs } = end;
  if (PERFTEST[end.test].verb === "send") {
    const { wrId } = yield* takeOne(end, recvCq);
    must(yield* postRecv(qp, { wrId, sges: [recvSge(buffer, 0, bytes)] }));
    return;
  }
  const { cpu } = qp.device;
  const last = recvSge(buffer, 0, bytes).address + bytes - 1;
  const deadline = cpu.now + idlePs;
  while (cpu.load(last, 1)[0] !== markOf(i)) {
    if ((yield* cpu.waitMemory(last, 1, deadline)) === "timeout") throw nothingCame(cpu, idlePs);
  }
}

function* takeOne({ qp, mode, idlePs }: LatencyEnd, cq: Cq) {
  const { cpu } = qp.device;
  const deadline = cpu.now + idlePs;
  for (;;) {
    const [completion] = yield* waitCompletion(cq, { mode, deadline, most: 1 });
    if (completion === undefined) throw nothingCame(cpu, idlePs);
    // A completion of an earlier test, whose client has died.
    if (completion.qpNum !== qp.qpn) continue;
    if (completion.status === "SUCCESS") return completion;
    throw new ProgramError(`Completed with ${completion.status}`);
  }
}

function nothingCame(cpu: Cpu, idlePs: Time): ProgramError {
  return new ProgramError(`${cpu.host}: nothing has come for ${idlePs / 1e6} us`);
}
