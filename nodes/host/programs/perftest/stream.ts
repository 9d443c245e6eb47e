/**
 * The bandwidth loop: every queue pair kept at its depth, completions asked for every
 * {@link CQ_MODERATION} messages, times of posts and completions kept for the two figures.
 */
import type { Time } from "../../../../fabric/base/time.ts";
import { waitCompletion } from "../../verbs/completion_queue.ts";
import { must, ProgramError } from "../../verbs/device.ts";
import { postSend } from "../../verbs/post.ts";
import type { Cpu, Steps } from "../../cpu/program.ts";
import { sendSge, type TestBuffer } from "./buffer.ts";
import { CQ_MODERATION, PERFTEST, type PerftestName, type RemotePlace } from "./terms.ts";
import type { Cq, Qp, SendRequest } from "../../verbs/objects.ts";

export interface StreamQp {
  readonly qp: Qp;
  readonly remote: RemotePlace;
}

export interface Stream {
  readonly test: PerftestName;
  readonly bytes: number;
  /** Messages of each queue pair. */
  readonly iterations: number;
  readonly depth: number;
  readonly qps: readonly StreamQp[];
  readonly sendCq: Cq;
  readonly buffer: TestBuffer;
  readonly mode: "poll" | "interrupt";
  readonly idlePs: Time;
  readonly onProgress: (completed: number) => void;
}

/** When each message was posted and known to be complete, in ps, in the order of each. */
export interface StreamTimes {
  readonly posted: Float64Array;
  readonly completed: Float64Array;
}

interface Lane extends StreamQp {
  readonly index: number;
  posted: number;
  completed: number;
}

/** Runs the test. Throws ProgramError where a message fails, or nothing completes for too long. */
export function* runStream(cpu: Cpu, stream: Stream): Steps<StreamTimes> {
  const { qps, iterations, depth, sendCq, mode, idlePs, onProgress } = stream;
  const total = iterations * qps.length;
  const times = { posted: new Float64Array(total), completed: new Float64Array(total) };
  const every = Math.min(CQ_MODERATION, depth);
  const lanes = qps.map((each, index): Lane => ({ ...each, index, posted: 0, completed: 0 }));
  const byQpn = new Map(lanes.map((lane) => [lane.qp.qpn, lane]));
  let posted = 0, completed = 0;
  while (completed < total) {
    for (const lane of lanes) {
      while (lane.posted < iterations && lane.posted - lane.completed < depth) {
        times.posted[posted++] = cpu.now;
        lane.posted++;
        const signaled = lane.posted % every === 0 || lane.posted === iterations;
        must(yield* postSend(lane.qp, requestOf(stream, lane, signaled)));
      }
    }
    const deadline = cpu.now + idlePs;
    const completions = yield* waitCompletion(sendCq, { mode, deadline });
    if (completions.length === 0) {
      throw new ProgramError(`${cpu.host}: nothing has completed for ${idlePs / 1e6} us`);
    }
    for (const { status, qpNum, wrId } of completions) {
      if (status !== "SUCCESS") throw new ProgramError(`Completed with ${status}`);
      const lane = byQpn.get(qpNum)!;
      while (lane.completed < wrId) {
        lane.completed++;
        times.completed[completed++] = cpu.now;
      }
    }
    onProgress(completed);
  }
  return times;
}

function requestOf(stream: Stream, lane: Lane, signaled: boolean): SendRequest {
  const { verb, inlineBytes } = PERFTEST[stream.test];
  const sges = [sendSge(stream.buffer, lane.index, stream.bytes)];
  // The completion tells how many messages of its queue pair are done.
  const wrId = lane.posted;
  if (verb === "read") return { opcode: "read", wrId, sges, remote: lane.remote, signaled };
  // As its header says; else the driver's own rule would decide.
  const inline = stream.bytes <= inlineBytes;
  if (verb === "send") return { opcode: "send", wrId, sges, inline, signaled };
  return { opcode: "write", wrId, sges, remote: lane.remote, inline, signaled };
}
