/**
 * The bandwidth loop: keeps every queue pair at its depth, requests a completion every {@link
 * CQ_MODERATION} messages, and records the times of posts and completions for the two figures.
 */
import { IBV_SEND_INLINE, IBV_SEND_SIGNALED, type SendFlags } from "../../verbs/flags.ts";
import { waitCompletion } from "../../verbs/completion_queue.ts";
import { must, ProgramError } from "../../verbs/device.ts";
import { postSend } from "../../verbs/post.ts";
import type { Cpu, Steps } from "../../cpu/program.ts";
import { sendSge } from "./buffer.ts";
import type { Lane, TestRun } from "./ping_pong.ts";
import { CQ_MODERATION, PERFTEST } from "./terms.ts";
import type { SendRequest } from "../../verbs/objects.ts";

export interface Stream extends TestRun {
  readonly depth: number;
  readonly lanes: readonly Lane[];
  readonly onProgress: (completed: number) => void;
}

/** When each message was posted and when its completion was polled, in ps, each in order. */
export interface StreamTimes {
  readonly posted: Float64Array;
  readonly completed: Float64Array;
}

interface StreamLane extends Lane {
  readonly index: number;
  posted: number;
  completed: number;
}

/** @throws ProgramError where a message fails, or after too long without completions. */
export function* runStream(cpu: Cpu, stream: Stream): Steps<StreamTimes> {
  const { iterations, depth, sendCq, mode, idlePs, onProgress } = stream;
  const total = iterations * stream.lanes.length;
  const times = { posted: new Float64Array(total), completed: new Float64Array(total) };
  const every = Math.min(CQ_MODERATION, depth);
  const lanes = stream.lanes.map((lane, index): StreamLane => {
    return { ...lane, index, posted: 0, completed: 0 };
  });
  const byQpn = new Map(lanes.map((lane) => [lane.qp.qpn, lane]));
  let posted = 0, completed = 0;
  while (completed < total) {
    for (const lane of lanes) {
      while (lane.posted < iterations && lane.posted - lane.completed < depth) {
        times.posted[posted++] = cpu.now;
        lane.posted++;
        const isSignaled = lane.posted % every === 0 || lane.posted === iterations;
        must(yield* postSend(lane.qp, requestOf(stream, lane, isSignaled ? IBV_SEND_SIGNALED : 0)));
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

function requestOf(stream: Stream, lane: StreamLane, sendFlags: SendFlags): SendRequest {
  const { verb, inlineBytes } = PERFTEST[stream.test];
  const sges = [sendSge(stream.buffer, lane.index, stream.bytes)];
  // The completion returns the number of finished messages of its queue pair.
  const wrId = lane.posted;
  if (verb === "read") return { opcode: "read", wrId, sges, remote: lane.remote, sendFlags };
  const sent = sendFlags | (stream.bytes <= inlineBytes ? IBV_SEND_INLINE : 0);
  if (verb === "send") return { opcode: "send", wrId, sges, sendFlags: sent };
  return { opcode: "write", wrId, sges, remote: lane.remote, sendFlags: sent };
}
