import type { Time } from "../../../../fabric/base/time.ts";
import { GRH_BYTES, IBV_SEND_INLINE, type SendFlags } from "../../verbs/flags.ts";
import { createAh } from "../../verbs/address_handle.ts";
import { must, ProgramError } from "../../verbs/device.ts";
import { postRecv } from "../../verbs/post.ts";
import { createQp, modifyQp } from "../../verbs/queue_pair.ts";
import type { Cpu, Steps } from "../../cpu/program.ts";
import type { Cq, Qp, SendRequest, UdDestination, WorkCompletion } from "../../verbs/objects.ts";
import { recvSge, sendSge, type TestBuffer } from "./buffer.ts";
import { PERFTEST, type RemotePlace, type TestTerms, UD_Q_KEY } from "./terms.ts";

export interface Lane {
  readonly qp: Qp;
  readonly remote: RemotePlace;
  readonly index: number;
  readonly ud?: UdDestination;
}

export interface TestRun extends TestTerms {
  readonly sendCq: Cq;
  readonly buffer: TestBuffer;
  readonly mode: "poll" | "interrupt";
  readonly idlePs: Time;
}

/** Either all messages are inline, or none (perftest). */
export function requestOf(
  run: TestRun,
  lane: Lane,
  { wrId, sendFlags }: { readonly wrId: number; readonly sendFlags: SendFlags },
): SendRequest {
  const { verb } = PERFTEST[run.test];
  const { remote, ud } = lane;
  const sges = [sendSge(run.buffer, lane.index, run.bytes)];
  const sent = sendFlags | (run.bytes <= run.inlineBytes ? IBV_SEND_INLINE : 0);
  switch (verb) {
    case "write":
      return { opcode: "write", wrId, sendFlags: sent, sges, remote };
    case "read":
      return { opcode: "read", wrId, sendFlags, sges, remote };
    case "send":
      return { opcode: "send", wrId, sendFlags: sent, sges, ...(ud && { ud }) };
    case "atomic": {
      const atomic = { swapAdd: 1n, compare: 0n };
      return { opcode: run.atomic, wrId, sendFlags, sges, remote, atomic };
    }
  }
}

/** A UD message has 40 B in front. */
export function receivePlace(
  buffer: TestBuffer,
  index: number,
  { connection, bytes }: Pick<TestTerms, "connection" | "bytes">,
) {
  return recvSge(buffer, index, bytes + (connection === "UD" ? GRH_BYTES : 0));
}

/** Posts receives of a SEND test before the peer can send. */
export function* postFirstRecvs(
  qp: Qp,
  { buffer, index, terms }: {
    readonly buffer: TestBuffer;
    readonly index: number;
    readonly terms: Pick<TestTerms, "connection" | "bytes" | "rxDepth">;
  },
): Steps<void> {
  const sges = [receivePlace(buffer, index, terms)];
  must(yield* postRecv(qp, Array.from({ length: terms.rxDepth }, (_, wrId) => ({ wrId, sges }))));
}

export function* openUdQp(
  buffer: TestBuffer,
  { terms, sendCq, recvCq }: {
    readonly terms: Pick<TestTerms, "depth" | "rxDepth" | "inlineBytes">;
    readonly sendCq: Cq;
    readonly recvCq: Cq;
  },
): Steps<{ readonly qp: Qp; readonly psn: number }> {
  const qp = must(
    yield* createQp(buffer.pd, {
      type: "ud",
      sendCq,
      recvCq,
      maxSendWr: Math.max(2, terms.depth),
      maxRecvWr: terms.rxDepth,
      maxInlineData: terms.inlineBytes,
    }),
  );
  const psn = Math.floor(qp.device.cpu.random() * 2 ** 24);
  must(yield* modifyQp(qp, { state: "init", qKey: UD_Q_KEY }));
  must(yield* modifyQp(qp, { state: "rtr" }));
  must(yield* modifyQp(qp, { state: "rts", sqPsn: psn }));
  return { qp, psn };
}

export function udDestination(
  { pd }: TestBuffer,
  peer: { readonly address: number; readonly qpn: number },
  { trafficClass, hopLimit }: Pick<TestTerms, "trafficClass" | "hopLimit">,
): UdDestination {
  const ah = must(createAh(pd, { address: peer.address, trafficClass, hopLimit }));
  return { ah, qpn: peer.qpn, qKey: UD_Q_KEY };
}

/** @throws ProgramError for a failed completion. */
export function mustSucceed({ status, reason }: WorkCompletion): void {
  if (status === "SUCCESS") return;
  throw new ProgramError(`Completed with ${status}${reason === undefined ? "" : `: ${reason}`}`);
}

export function isReceive({ opcode }: WorkCompletion): boolean {
  return opcode.startsWith("recv");
}

export function nothingCame(cpu: Cpu, idlePs: Time): ProgramError {
  return new ProgramError(`${cpu.host}: nothing has come for ${idlePs / 1e6} us`);
}
