/**
 * Both ends of a ping-pong run one loop; the client sends first, and each end polls its send's
 * completion before the peer's message, as in perftest. A WRITE is detected by its last byte, as
 * there, too: its bytes become visible in order.
 */
import { PS_PER_US, type Time } from "../../../../fabric/base/time.ts";
import { type Connection, disconnecting, isDisconnected } from "../../cm/connection.ts";
import { IBV_SEND_SIGNALED } from "../../verbs/flags.ts";
import { waitCompletion } from "../../verbs/completion_queue.ts";
import { must, ProgramError } from "../../verbs/device.ts";
import { postRecv, postSend } from "../../verbs/post.ts";
import type { Steps } from "../../cpu/program.ts";
import type { Cq } from "../../verbs/objects.ts";
import { recvSge, sendSge } from "./buffer.ts";
import {
  type Lane,
  mustSucceed,
  nothingCame,
  receivePlace,
  requestOf,
  type TestRun,
} from "./lane.ts";
import { type Sampled, samplesOf, Sampling } from "./sampling.ts";
import { PERFTEST } from "./terms.ts";

export interface LatencyEnd extends TestRun, Lane {
  readonly recvCq: Cq;
  /** Called before each post, for the client's clock. */
  readonly onPost?: (now: Time) => void;
  /** At the server: the end of this connection ends a test by time. */
  readonly client?: Connection;
}

const LOOK_PS = 1000 * PS_PER_US;

/**
 * Returns when all messages have gone both ways, or the time is over.
 * @returns the client's counts of a test by time.
 * @throws ProgramError where a message fails or is missing, and at the server of a test by time at its end.
 */
export function* runLatency(
  end: LatencyEnd,
  role: "client" | "server",
): Steps<Sampled | undefined> {
  const { pingPong } = PERFTEST[end.test];
  if (!pingPong && role === "server") return undefined;
  const { cpu } = end.qp.device;
  const { duration } = end;
  const sampling = duration && role === "client" ? new Sampling(cpu.now, duration) : undefined;
  const goesOn = (i: number) =>
    duration === undefined ? i <= end.iterations : sampling?.isOver(cpu.now) !== true;
  for (let i = 1; goesOn(i); i++) {
    if (role === "server") yield* receive(end, i);
    yield* send(end, i);
    yield* takeOne(end, end.sendCq);
    if (role === "client" && pingPong) yield* receive(end, i);
    sampling?.finished(cpu.now);
  }
  return sampling && samplesOf(sampling);
}

function markOf(i: number): number {
  return i & 0xff;
}

function* send(end: LatencyEnd, i: number): Steps<void> {
  const { bytes, qp, buffer, onPost } = end;
  const { cpu } = qp.device;
  onPost?.(cpu.now);
  const place = sendSge(buffer, 0, bytes);
  if (PERFTEST[end.test].verb === "write") {
    cpu.store(place.address + bytes - 1, Uint8Array.of(markOf(i)));
  }
  must(yield* postSend(qp, requestOf(end, end, { wrId: 0, sendFlags: IBV_SEND_SIGNALED })));
}

function* receive(end: LatencyEnd, i: number): Steps<void> {
  const { qp, recvCq, buffer, bytes, idlePs, duration, iterations, rxDepth } = end;
  if (PERFTEST[end.test].verb === "send") {
    const { wrId } = yield* takeOne(end, recvCq);
    // Like perftest, which replenishes only the receives that are still to come.
    if (duration === undefined && i + rxDepth > iterations) return;
    must(yield* postRecv(qp, { wrId, sges: [receivePlace(buffer, 0, end)] }));
    return;
  }
  const { cpu } = qp.device;
  const last = recvSge(buffer, 0, bytes).address + bytes - 1;
  const deadline = cpu.now + idlePs;
  while (cpu.load(last, 1)[0] !== markOf(i)) {
    const look = end.client === undefined ? deadline : Math.min(deadline, cpu.now + LOOK_PS);
    if ((yield* cpu.waitMemory(last, 1, look)) !== "timeout") continue;
    assertStands(end);
    if (cpu.now >= deadline) throw nothingCame(cpu, idlePs);
  }
}

function* takeOne(end: LatencyEnd, cq: Cq) {
  const { qp, mode, idlePs, client } = end;
  const { cpu } = qp.device;
  const deadline = cpu.now + idlePs;
  const also = client && { also: disconnecting(client) };
  for (;;) {
    const [completion] = yield* waitCompletion(cq, { mode, deadline, most: 1, ...also });
    if (completion === undefined) {
      assertStands(end);
      throw nothingCame(cpu, idlePs);
    }
    // The completion is of an earlier test, whose client has died.
    if (completion.qpNum !== qp.qpn) continue;
    mustSucceed(completion);
    return completion;
  }
}

function assertStands({ client }: LatencyEnd): void {
  if (client === undefined || !isDisconnected(client)) return;
  throw new ProgramError("The client has disconnected");
}
