/** The bandwidth loop: every queue pair at its depth, a completion every `-Q` messages. */
import { PS_PER_US } from "../../../../fabric/base/time.ts";
import { IBV_SEND_SIGNALED } from "../../verbs/flags.ts";
import { waitCompletion } from "../../verbs/completion_queue.ts";
import { must, ProgramError } from "../../verbs/device.ts";
import { postRecv, postSend } from "../../verbs/post.ts";
import type { Cpu, Steps } from "../../cpu/program.ts";
import type { SendRequest, WorkCompletion } from "../../verbs/objects.ts";
import {
  isReceive,
  type Lane,
  mustSucceed,
  receivePlace,
  requestOf,
  type TestRun,
} from "./lane.ts";
import { type Sampled, samplesOf, Sampling } from "./sampling.ts";
import { PERFTEST } from "./terms.ts";

export interface Stream extends TestRun {
  readonly lanes: readonly Lane[];
  readonly onProgress: (completed: number) => void;
}

export interface StreamTimes {
  readonly posted: Float64Array;
  readonly completed: Float64Array;
}

interface StreamLane extends Lane {
  readonly place: number;
  posted: number;
  completed: number;
  signaled: number;
}

const LOOK_PS = 20 * PS_PER_US;

/**
 * @returns times of all messages, or counts of a test by time.
 * @throws ProgramError where a message fails, or after a timeout without completions.
 */
export function* runStream(cpu: Cpu, stream: Stream): Steps<StreamTimes | Sampled> {
  const { iterations, depth, postList, sendCq, mode, idlePs, onProgress, duration } = stream;
  const total = duration === undefined ? iterations * stream.lanes.length : 0;
  const times = { posted: new Float64Array(total), completed: new Float64Array(total) };
  const sampling = duration && new Sampling(cpu.now, duration);
  const lanes = stream.lanes.map((lane, place): StreamLane => {
    return { ...lane, place, posted: 0, completed: 0, signaled: 0 };
  });
  const byQpn = new Map(lanes.map((lane) => [lane.qp.qpn, lane]));
  // `takeUntil` takes the other end's messages in a test by time.
  const expected = receives(stream) && duration === undefined ? total : 0;
  let posted = 0, signaled = 0, completed = 0, received = 0;
  const mayPost = (lane: StreamLane) => {
    const isWanted = sampling ? !sampling.isOver(cpu.now) : lane.posted < iterations;
    return isWanted && lane.posted - lane.completed + postList <= depth;
  };
  const isDone = () =>
    received >= expected &&
    (sampling ? sampling.isOver(cpu.now) && completed === signaled : completed === total);
  // A lane that may not post may again after a completion of its own.
  let ready = new Set(lanes);
  while (!isDone()) {
    for (const lane of [...ready].sort((x, y) => x.place - y.place)) {
      while (mayPost(lane)) {
        if (sampling === undefined) times.posted.fill(cpu.now, posted, posted + postList);
        posted += postList;
        const before = lane.signaled, list = listOf(stream, lane);
        signaled += lane.signaled - before;
        must(yield* postSend(lane.qp, list));
      }
    }
    ready = new Set();
    if (isDone()) break;
    const deadline = cpu.now + idlePs;
    const completions = yield* waitCompletion(sendCq, { mode, deadline });
    if (completions.length === 0) {
      throw new ProgramError(`${cpu.host}: nothing has completed for ${idlePs / 1e6} us`);
    }
    for (const completion of completions) {
      const lane = byQpn.get(completion.qpNum);
      // The completion is of an earlier test, whose client has died.
      if (lane === undefined) continue;
      mustSucceed(completion);
      if (isReceive(completion)) {
        received++;
        yield* receiveAgain(stream, lane, completion);
        continue;
      }
      ready.add(lane);
      while (lane.completed < completion.wrId) {
        lane.completed++;
        if (sampling) sampling.finished(cpu.now);
        else times.completed[completed] = cpu.now;
        completed++;
      }
    }
    if (sampling === undefined) onProgress(completed);
  }
  return sampling ? samplesOf(sampling) : times;
}

/** Replenishes receives until `isOver`; there are no other completions. */
export function* takeUntil(stream: Stream, isOver: () => boolean): Steps<void> {
  const { sendCq, mode, idlePs, lanes } = stream;
  const { cpu } = sendCq.device;
  const byQpn = new Map(lanes.map((lane) => [lane.qp.qpn, lane]));
  const deadline = cpu.now + idlePs;
  while (!isOver()) {
    if (cpu.now >= deadline) {
      throw new ProgramError(`${cpu.host}: the peer has not ended after ${idlePs / 1e6} us`);
    }
    for (const each of yield* waitCompletion(sendCq, { mode, deadline: cpu.now + LOOK_PS })) {
      const lane = byQpn.get(each.qpNum);
      // They are flushed at the connection's end, which is no failure of the test.
      if (lane === undefined || !isReceive(each) || each.status !== "SUCCESS") continue;
      yield* receiveAgain(stream, lane, each);
    }
  }
}

function receives({ bidirectional, test }: Stream): boolean {
  return bidirectional && PERFTEST[test].verb === "send";
}

function* receiveAgain(stream: Stream, lane: Lane, { wrId }: WorkCompletion): Steps<void> {
  must(
    yield* postRecv(lane.qp, { wrId, sges: [receivePlace(stream.buffer, lane.index, stream)] }),
  );
}

function listOf(stream: Stream, lane: StreamLane): SendRequest[] {
  const { iterations, postList, cqModeration, duration } = stream;
  return Array.from({ length: postList }, () => {
    lane.posted++;
    const isLast = duration === undefined && lane.posted === iterations;
    const isSignaled = lane.posted % cqModeration === 0 || isLast;
    if (isSignaled) lane.signaled = lane.posted;
    return requestOf(stream, lane, {
      wrId: lane.posted,
      sendFlags: isSignaled ? IBV_SEND_SIGNALED : 0,
    });
  });
}
