import { PERFTEST_OPERATION } from "../../../../fabric/inspection.ts";
import { createCq } from "../../verbs/create_cq.ts";
import { must, ProgramError } from "../../verbs/device.ts";
import { GRH_BYTES } from "../../verbs/flags.ts";
import type { Steps } from "../../cpu/program.ts";
import { outcomeOf } from "../common/summary.ts";
import { makeBuffer, recvPlace } from "./buffer.ts";
import {
  type BandwidthFigures,
  bandwidthFigures,
  decodeFigures,
  FIGURES_BYTES,
  type LatencyFigures,
  latencyFigures,
  type LatencyRate,
  latencyRate,
  latencySamples,
  sampledBandwidth,
  sumOfEnds,
} from "./figures.ts";
import { jobOf } from "./job.ts";
import { type Begun, type ClientLane, closeLane, IDLE_PS, openLane } from "./client_lane.ts";
import { nothingCame } from "./lane.ts";
import { runLatency } from "./ping_pong.ts";
import { runStream, type Stream, takeUntil } from "./stream.ts";
import {
  type Atomic,
  type ConnectionType,
  PERFTEST,
  type PerftestName,
  RX_DEPTH,
} from "./terms.ts";
import type { ProgramContext } from "../../program_context.ts";
import type { CmDevice } from "../../cm/gsi.ts";

export type PerftestRow =
  & { readonly bytes: number; readonly iterations: number }
  & (
    | (
      & { readonly measures: "latency" }
      & LatencyFigures
      /** Latencies in ps, in the order of messages; on request. */
      & { readonly samplesPs?: readonly number[] }
    )
    | ({ readonly measures: "latency-rate" } & LatencyRate)
    | (
      & { readonly measures: "bandwidth" }
      & BandwidthFigures
      & { readonly local?: BandwidthFigures; readonly remote?: BandwidthFigures }
    )
  );

export interface PerftestSettings {
  readonly connection: ConnectionType;
  readonly qps: number;
  readonly bidirectional: boolean;
  readonly depth: number;
  readonly rxDepth: number;
  readonly postList: number;
  readonly cqModeration: number;
  readonly inlineBytes: number;
  readonly outstanding: number;
  readonly trafficClass: number;
  readonly atomic: Atomic;
  readonly mode: "poll" | "interrupt";
  readonly isTimed: boolean;
}

export interface PerftestResult {
  readonly program: "perftest";
  readonly status: "done" | "failed";
  readonly error?: string;
  readonly test: PerftestName;
  /** The client's card, unless it is its host's first: `rackmesh1`. */
  readonly device?: string;
  readonly pathMtu: number;
  readonly settings: PerftestSettings;
  readonly rows: readonly PerftestRow[];
  readonly ends: {
    readonly local: readonly PerftestEnd[];
    readonly remote: readonly PerftestEnd[];
  };
}

export interface PerftestEnd {
  readonly host: string;
  readonly address: number;
  readonly qpn: number;
  /** The first PSN that this end sends. */
  readonly psn: number;
  readonly rkey: number;
  readonly va: number;
}

/** Added to the timeout, in ps a byte: cables have at least 1 Gb/s. */
const BYTE_PS = 8_000;

/**
 * The program. Options, with perftest's defaults: `to`, `test`; `size` (bytes) or `all` (2 B to 8 MiB),
 * `iterations` or `durationUs` and `marginUs`, `connection` (RC, UC, UD), `bidirectional`, `qps`,
 * `depth`, `rxDepth`, `postList`, `cqModeration`, `inlineBytes`, `outstanding`, `trafficClass`,
 * `hopLimit`, `timeout`, `retryCount`, `mtu`, `memory` (dram, scm), `completion`, `atomic`, `noPeak`,
 * `samples`. Reports `result`.
 */
export function* perftest({ cpu, device, options }: ProgramContext): Steps<void> {
  const job = jobOf(device, options);
  const { test, pathMtu, qps, bidirectional, depth, rxDepth } = job;
  const rows: PerftestRow[] = [];
  let ends: PerftestResult["ends"] = { local: [], remote: [] };
  let error: string | undefined;
  try {
    const bytes = job.sizes.at(-1)! + (job.connection === "UD" ? GRH_BYTES : 0);
    const buffer = must(
      yield* makeBuffer(device, { bytes, count: qps, memory: "dram", report: bidirectional }),
    );
    // The card gets a small queue's consumer index more often.
    const sendRoom = depth * qps + RX_DEPTH, recvRoom = rxDepth * qps + RX_DEPTH;
    // Sends and receives are awaited together.
    const sendCq = must(
      yield* createCq(device, { entries: bidirectional ? sendRoom + recvRoom : sendRoom }),
    );
    const recvCq = bidirectional ? sendCq : must(yield* createCq(device, { entries: recvRoom }));
    for (const [i, bytes] of job.sizes.entries()) {
      const begun: Begun = { job, bytes, buffer, sendCq, recvCq, lanes: [] };
      const { lanes } = begun;
      cpu.store(buffer.reportAddress + FIGURES_BYTES - 1, bidirectional ? Uint8Array.of(0) : NONE);
      for (let index = 0; index < qps; index++) {
        lanes.push(yield* openLane(device, begun, index));
      }
      ends = endsOf(device, begun);
      const progress = (share: number) => {
        cpu.report("progress", { written: (i + share) / job.sizes.length, messages: 1 });
      };
      rows.push(yield* measure(device, begun, progress));
      for (const lane of lanes) yield* closeLane(lane);
    }
  } catch (cause) {
    if (!(cause instanceof ProgramError)) throw cause;
    error = cause.message;
  }
  const { connection, postList, cqModeration, inlineBytes, outstanding, trafficClass } = job;
  const { atomic, mode } = job;
  const isTimed = job.duration !== undefined;
  const result: PerftestResult = {
    program: "perftest",
    ...outcomeOf(error),
    test,
    ...((cpu.rnic ?? 0) > 0 && { device: `rackmesh${cpu.rnic}` }),
    pathMtu,
    settings: {
      ...{ connection, qps, bidirectional, depth, rxDepth, postList, cqModeration },
      ...{ inlineBytes, outstanding, trafficClass, atomic, mode, isTimed },
    },
    rows,
    ends,
  };
  cpu.report("result", result);
}

const NONE = new Uint8Array(0);

function endsOf({ cpu, state }: CmDevice, { buffer, lanes }: Begun): PerftestResult["ends"] {
  const local = lanes.map(({ qp, index }) => {
    const psn = qp.life.attributes.sqPsn!;
    const here = { host: cpu.host, address: state.address, qpn: qp.qpn, psn };
    return { ...here, ...recvPlace(buffer, index) };
  });
  const remote = lanes.map(({ connection: { peer }, qp, ud, udPsn, remote }) => {
    const { host, address, qpn } = peer;
    const psn = qp.life.attributes.rqPsn ?? udPsn;
    return { host, address, qpn: ud?.qpn ?? qpn, psn, ...remote };
  });
  return { local, remote };
}

function* measure(
  device: CmDevice,
  begun: Begun,
  progress: (share: number) => void,
): Steps<PerftestRow> {
  const { job, bytes, lanes } = begun;
  if (PERFTEST[job.test].measures === "latency") {
    return yield* measureLatency(device, begun, progress);
  }
  const { cpu } = device;
  const { iterations, depth } = job;
  const total = iterations * lanes.length;
  const idlePs = IDLE_PS + BYTE_PS * bytes * depth * lanes.length + (job.duration?.ps ?? 0);
  const onProgress = everyTwentieth(total, progress);
  const stream: Stream = { ...job, ...begun, idlePs, onProgress };
  const ended = yield* runStream(cpu, stream);
  const isTimed = "count" in ended;
  const own = isTimed
    ? sampledBandwidth(ended, bytes)
    : bandwidthFigures(ended, bytes, { peak: job.peak });
  const row = { measures: "bandwidth", bytes, iterations: isTimed ? ended.count : total } as const;
  if (!job.bidirectional) return { ...row, ...own };
  const { figures } = yield* peerFigures(device, stream);
  return { ...row, ...sumOfEnds(own, figures), local: own, remote: figures };
}

function* peerFigures({ cpu }: CmDevice, stream: Stream) {
  const { buffer, idlePs } = stream;
  const mark = buffer.reportAddress + FIGURES_BYTES - 1;
  const isThere = () => cpu.load(mark, 1)[0] === 1;
  if (PERFTEST[stream.test].verb === "send") yield* takeUntil(stream, isThere);
  const deadline = cpu.now + idlePs;
  while (!isThere()) {
    if ((yield* cpu.waitMemory(mark, 1, deadline)) === "timeout") throw nothingCame(cpu, idlePs);
  }
  return decodeFigures(cpu.load(buffer.reportAddress, FIGURES_BYTES));
}

function* measureLatency(
  device: CmDevice,
  begun: Begun,
  progress: (share: number) => void,
): Steps<PerftestRow> {
  const { job, bytes } = begun;
  const { test, iterations, duration, samples } = job;
  const lane = begun.lanes[0] as ClientLane;
  const posts: number[] = [];
  let posted = 0, last: number | undefined;
  const trips = PERFTEST[test].pingPong ? 2 : 1;
  const named = { operation: PERFTEST_OPERATION, method: test, bytes };
  const onPosted = everyTwentieth(iterations, progress);
  const { qp, remote, index, ud } = lane;
  const sampled = yield* runLatency({
    ...job,
    ...begun,
    ...{ qp, remote, index },
    ...(ud && { ud }),
    idlePs: IDLE_PS,
    onPost: (now) => {
      if (last !== undefined) {
        device.cpu.measured({ ...named, latencyPs: (now - last) / trips });
      }
      last = now;
      if (duration === undefined) posts.push(now);
      onPosted(++posted);
    },
  }, "client");
  if (sampled !== undefined) {
    const row = { measures: "latency-rate", bytes, iterations: sampled.count } as const;
    return { ...row, ...latencyRate(sampled, trips) };
  }
  const figures = latencyFigures(posts, trips);
  const samplesPs = samples ? { samplesPs: latencySamples(posts, trips) } : {};
  return { measures: "latency", bytes, iterations, ...figures, ...samplesPs };
}

function everyTwentieth(total: number, report: (share: number) => void): (done: number) => void {
  let reported = 0;
  return (done) => {
    const part = Math.min(20, Math.floor(20 * done / total));
    if (part <= reported) return;
    reported = part;
    report(Math.min(1, done / total));
  };
}
