/**
 * perftest's client: connects, runs a test for each size, reports a row for each. `terms.ts` has
 * the tests, `server.ts` the other end.
 */
import { PS_PER_US } from "../../../../fabric/base/time.ts";
import { PERFTEST_OPERATION } from "../../../../fabric/inspection.ts";
import { type Connection, disconnect, refused, RETRY } from "../../cm/connection.ts";
import { connect, PATH_MTUS } from "../../cm/connect.ts";
import { createCq } from "../../verbs/create_cq.ts";
import { must, ProgramError } from "../../verbs/device.ts";
import type { Steps } from "../../cpu/program.ts";
import {
  completionOption,
  countOption,
  type Options,
  textOption,
  wordOption,
} from "../common/options.ts";
import { outcomeOf } from "../common/summary.ts";
import { makeBuffer, recvPlace, type TestBuffer } from "./buffer.ts";
import {
  type BandwidthFigures,
  bandwidthFigures,
  type LatencyFigures,
  latencyFigures,
} from "./figures.ts";
import { type Lane, postFirstRecvs, runLatency } from "./ping_pong.ts";
import { runStream } from "./stream.ts";
import {
  BYTES_MAX,
  decodePlace,
  decodeReason,
  encodePerftestTerms,
  MEMORIES,
  PERFTEST,
  type PerftestName,
  PERFTESTS,
  QPS_MAX,
  RX_DEPTH,
  SERVICE,
} from "./terms.ts";
import type { Cq } from "../../verbs/objects.ts";
import type { ProgramContext } from "../../program_context.ts";
import type { CmDevice } from "../../cm/gsi.ts";

/** A size's result. */
export type PerftestRow =
  & { readonly bytes: number; readonly iterations: number }
  & (
    | ({ readonly measures: "latency" } & LatencyFigures)
    | ({ readonly measures: "bandwidth" } & BandwidthFigures)
  );

/** The program's `result`. */
export interface PerftestResult {
  readonly program: "perftest";
  readonly status: "done" | "failed";
  readonly error?: string;
  readonly test: PerftestName;
  readonly pathMtu: number;
  readonly rows: readonly PerftestRow[];
  /** The ends of the first queue pair, in perftest's output. */
  readonly ends: readonly PerftestEnd[];
}

export interface PerftestEnd {
  readonly host: string;
  readonly address: number;
  readonly qpn: number;
  readonly rkey: number;
  readonly va: number;
}

/** Timeout without completions, in ps of virtual time. */
export const IDLE_PS = 100_000 * PS_PER_US;
/** Added to it for outstanding messages, in ps a byte: cables have at least 1 Gb/s. */
const BYTE_PS = 8_000;
const ATTEMPTS = 10, PAUSE_PS = 200 * PS_PER_US;

/**
 * The program. Options: `to`, `test`; `size` (bytes) or `all` (2 B to 8 MiB), `iterations`, `depth`,
 * `qps`, `mtu`, `memory` (dram, scm), `completion`, `atomic`; defaults are perftest's. Reports `result`.
 */
export function* perftest({ cpu, device, options }: ProgramContext): Steps<void> {
  const job = jobOf(device, options);
  const rows: PerftestRow[] = [];
  let ends: readonly PerftestEnd[] = [];
  let error: string | undefined;
  try {
    const most = job.sizes.at(-1)!;
    const wanted = { bytes: most, count: job.qps, memory: "dram" } as const;
    const buffer = must(yield* makeBuffer(device, wanted));
    const room = job.depth * job.qps + RX_DEPTH;
    const sendCq = must(yield* createCq(device, { entries: room }));
    const recvCq = must(yield* createCq(device, { entries: room }));
    for (const [i, bytes] of job.sizes.entries()) {
      const begun: Begun = { job, bytes, buffer, sendCq, recvCq, lanes: [] };
      const { lanes } = begun;
      for (let index = 0; index < job.qps; index++) {
        lanes.push(yield* openLane(device, begun, index));
      }
      const { connection: { peer }, qp, remote } = lanes[0]!;
      const { address } = device.state;
      const here = { host: cpu.host, address, qpn: qp.qpn, ...recvPlace(buffer, 0) };
      ends = [here, { ...peer, ...remote }];
      const progress = (share: number) => {
        cpu.report("progress", { written: (i + share) / job.sizes.length, messages: 1 });
      };
      rows.push(yield* measure(device, begun, progress));
      for (const { connection } of lanes) yield* disconnect(connection);
    }
  } catch (cause) {
    if (!(cause instanceof ProgramError)) throw cause;
    error = cause.message;
  }
  const result: PerftestResult = {
    program: "perftest",
    ...outcomeOf(error),
    test: job.test,
    pathMtu: job.pathMtu,
    rows,
    ends,
  };
  cpu.report("result", result);
}

function jobOf(device: CmDevice, options: Options) {
  const test = wordOption(options, "test", { words: PERFTESTS });
  const kind = PERFTEST[test];
  const size = countOption(options, "size", { least: 1, otherwise: kind.bytes });
  const all = options["all"] === true && kind.verb !== "atomic";
  const qps = countOption(options, "qps", { least: 1, otherwise: 1 });
  const mtu = countOption(options, "mtu", { least: 256, otherwise: device.state.mtu });
  const pathMtu = PATH_MTUS.find((each) => each === mtu);
  if (pathMtu === undefined) {
    throw new ProgramError(`mtu must be one of ${PATH_MTUS.join(", ")}: it is ${mtu}`);
  }
  if (qps > QPS_MAX) throw new ProgramError(`qps must be at most ${QPS_MAX}: it is ${qps}`);
  if (kind.verb === "atomic" && size !== 8) {
    throw new ProgramError(`An atomic has 8 B: not ${size}`);
  }
  if (size > BYTES_MAX) throw new ProgramError(`size must be at most ${BYTES_MAX}: it is ${size}`);
  if (kind.measures === "latency" && qps !== 1) {
    throw new ProgramError(`${test} has one queue pair: not ${qps}`);
  }
  const least = kind.measures === "latency" ? 2 : 1;
  return {
    to: textOption(options, "to"),
    test,
    sizes: all ? Array.from({ length: 23 }, (_, i) => 2 ** (i + 1)) : [size],
    iterations: countOption(options, "iterations", { least, otherwise: kind.iterations }),
    depth: kind.measures === "latency"
      ? 1
      : countOption(options, "depth", { least: 1, otherwise: kind.depth }),
    qps,
    memory: wordOption(options, "memory", { words: MEMORIES, otherwise: "dram" }),
    pathMtu,
    mode: completionOption(options, device),
    atomic: wordOption(options, "atomic", {
      words: ["fetch-add", "compare-swap"],
      otherwise: "fetch-add",
    }),
  };
}

type Job = Readonly<ReturnType<typeof jobOf>>;

interface ClientLane extends Lane {
  readonly connection: Connection;
}

interface Begun {
  readonly job: Job;
  readonly bytes: number;
  readonly buffer: TestBuffer;
  readonly sendCq: Cq;
  readonly recvCq: Cq;
  readonly lanes: ClientLane[];
}

/** Connects a queue pair; retries while the host or its server is booting. */
function* openLane(
  device: CmDevice,
  { job, bytes, buffer, sendCq, recvCq }: Begun,
  index: number,
): Steps<ClientLane> {
  const { test, memory, iterations, pathMtu, qps } = job;
  const place = recvPlace(buffer, index);
  const privateData = encodePerftestTerms({ test, memory, bytes, iterations, index, qps, place });
  const depth = Math.max(job.depth, 2);
  const wantsRecvs = PERFTEST[test].verb === "send" && PERFTEST[test].pingPong;
  for (let attempt = 1;; attempt++) {
    const answer = yield* connect(device, {
      to: job.to,
      service: SERVICE,
      privateData,
      pathMtu,
      retry: RETRY,
      qp: {
        pd: buffer.pd,
        sendCq,
        recvCq,
        maxSendWr: depth,
        maxRecvWr: RX_DEPTH,
        maxInlineData: PERFTEST[test].inlineBytes,
      },
    });
    if (!refused(answer)) {
      const remote = decodePlace(answer.privateData);
      if (remote === undefined) throw new ProgramError(`${job.to} has no perftest server`);
      if (wantsRecvs) yield* postFirstRecvs(answer.qp, { buffer, index, bytes });
      return { connection: answer, qp: answer.qp, remote };
    }
    const mayBeBooting = answer.refused === "timeout" || answer.refused === "no-service";
    if (!mayBeBooting || attempt === ATTEMPTS) {
      const why = decodeReason(answer.privateData) || answer.reason;
      throw new ProgramError(`connect: ${answer.refused}: ${why}`);
    }
    yield* device.cpu.sleep(PAUSE_PS);
  }
}

function* measure(
  device: CmDevice,
  begun: Begun,
  progress: (share: number) => void,
): Steps<PerftestRow> {
  const { job, bytes, buffer, sendCq, recvCq, lanes } = begun;
  const { test, iterations, mode, depth } = job;
  const kind = PERFTEST[test];
  const run = { test, bytes, iterations, sendCq, buffer, mode };
  if (kind.measures === "bandwidth") {
    const total = iterations * lanes.length;
    const idlePs = IDLE_PS + BYTE_PS * bytes * depth * lanes.length;
    const onProgress = everyTwentieth(total, progress);
    const times = yield* runStream(device.cpu, { ...run, depth, lanes, idlePs, onProgress });
    const figures = bandwidthFigures(times, bytes);
    return { measures: "bandwidth", bytes, iterations: total, ...figures };
  }
  const posts: number[] = [];
  const trips = kind.pingPong ? 2 : 1;
  const named = { operation: PERFTEST_OPERATION, method: test, bytes };
  const onPosted = everyTwentieth(iterations, progress);
  yield* runLatency({
    ...run,
    ...lanes[0]!,
    recvCq,
    idlePs: IDLE_PS,
    atomic: job.atomic,
    onPost: (now) => {
      const last = posts.at(-1);
      if (last !== undefined) {
        device.cpu.measured({ ...named, latencyPs: (now - last) / trips });
      }
      posts.push(now);
      onPosted(posts.length);
    },
  }, "client");
  const figures = latencyFigures(posts, trips);
  return { measures: "latency", bytes, iterations, ...figures };
}

function everyTwentieth(total: number, report: (share: number) => void): (done: number) => void {
  let reported = 0;
  return (done) => {
    const part = Math.floor(20 * done / total);
    if (part === reported) return;
    reported = part;
    report(done / total);
  };
}
