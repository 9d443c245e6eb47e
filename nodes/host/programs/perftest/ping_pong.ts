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

/** One queue pair of a latency test, at either end. */
export interface LatencyEnd {
  readonly test: PerftestName;
  readonly bytes: number;
  readonly iterations: number;
  readonly qp: Qp;
  readonly sendCq: Cq;
  readonly recvCq: Cq;
  readonly buffer: TestBuffer;
  readonly remote: RemotePlace;
  readonly mode: "poll" | "interrupt";
  /** Timeout of a message. */
  readonly idlePs: Time;
  /** Called before each post, for the client's clock. */
  readonly onPost?: (now: Time) => void;
  readonly atomic?: "fetch-add" | "compare-swap";
}

/** Receives that an end of a SEND test posts before the peer can send. */
export function* postFirstRecvs(
  qp: Qp,
  of: { readonly buffer: TestBuffer; readonly index: number; readonly bytes: number },
): Steps<void> {
  const sges = [recvSge(of.buffer, of.index, of.bytes)];
  const recvs = Array.from({ length: RX_DEPTH }, (_, wrId) => ({ wrId, sges }));
  const wrong = yield* postRecv(qp, recvs);
  if (wrong !== undefined) throw new ProgramError(`${wrong.errno}: ${wrong.reason}`);
}

/** The loop of one end: returns when all messages have gone both ways. */
export function* runLatency(end: LatencyEnd, role: "client" | "server"): Steps<void> {
  const { pingPong } = PERFTEST[end.test];
  if (!pingPong && role === "server") return;
  for (let i = 1; i <= end.iterations; i++) {
    if (role === "server") yield* receive(end, i);
    yield* send(end, i);
    if (role === "client" && pingPong) yield* receive(end, i);
    yield* sent(end);
  }
}

/** A byte that differs from the previous message's. */
function markOf(i: number): number {
  return i & 0xff;
}

function* send(end: LatencyEnd, i: number): Steps<void> {
  const { test, bytes, qp, buffer, remote, onPost } = end;
  const { verb, inlineBytes } = PERFTEST[test];
  const { cpu } = qp.device;
  onPost?.(cpu.now);
  const place = sendSge(buffer, 0, bytes);
  if (verb === "write") cpu.store(place.address + bytes - 1, Uint8Array.of(markOf(i)));
  must(yield* postSend(qp, requestOf(end, { place, remote, inline: bytes <= inlineBytes })));
}

function requestOf(
  { test, atomic }: LatencyEnd,
  with_: {
    readonly place: ReturnType<typeof sendSge>;
    readonly remote: RemotePlace;
    readonly inline: boolean;
  },
): SendRequest {
  const { verb } = PERFTEST[test];
  const { place, remote, inline } = with_;
  const sges = [place];
  switch (verb) {
    case "write":
      return { opcode: "write", sges, remote, inline };
    case "read":
      return { opcode: "read", sges, remote };
    case "send":
      return { opcode: "send", sges, inline };
    case "atomic":
      return {
        opcode: atomic ?? "fetch-add",
        sges,
        remote,
        atomic: { swapAdd: 1n, compare: 0n },
      };
  }
}

function* receive(end: LatencyEnd, i: number): Steps<void> {
  if (PERFTEST[end.test].verb === "send") return yield* receiveSend(end);
  const { qp: { device: { cpu } }, buffer, bytes, idlePs } = end;
  const last = recvSge(buffer, 0, bytes).address + bytes - 1;
  const deadline = cpu.now + idlePs;
  while (cpu.load(last, 1)[0] !== markOf(i)) {
    if ((yield* cpu.waitMemory(last, 1, deadline)) === "timeout") throw nothingCame(cpu, idlePs);
  }
}

function* receiveSend(end: LatencyEnd): Steps<void> {
  const { qp, recvCq, buffer, bytes } = end;
  const wrId = (yield* takeOne(end, recvCq)).wrId;
  must(yield* postRecv(qp, { wrId, sges: [recvSge(buffer, 0, bytes)] }));
}

function* sent(end: LatencyEnd): Steps<void> {
  yield* takeOne(end, end.sendCq);
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
