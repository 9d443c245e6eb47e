import { MEMORIES } from "../../../../fabric/rack/plan/plan.ts";
import { PS_PER_US } from "../../../../fabric/base/time.ts";
import { RD_ATOMIC_MAX } from "../../../../fabric/wire/host_bus/qp_life_cycle.ts";
import { TRANSPORT } from "../../cm/connection.ts";
import type { CmDevice } from "../../cm/gsi.ts";
import { PATH_MTUS } from "../../cm/connect.ts";
import { ProgramError } from "../../verbs/device.ts";
import { MAX_INLINE_BYTES } from "../../../../fabric/wire/host_bus/wqe.ts";
import {
  completionOption,
  countOption,
  microsecondsOption,
  type Options,
  textOption,
  wordOption,
} from "../common/options.ts";
import {
  ATOMICS,
  BYTES_MAX,
  CONNECTIONS,
  type ConnectionType,
  CQ_MODERATION,
  type Duration,
  MODERATED_BYTES_MAX,
  PERFTEST,
  type PerftestName,
  PERFTESTS,
  QPS_MAX,
  RX_DEPTH,
} from "./terms.ts";

const SIZES = Array.from({ length: 23 }, (_, i) => 2 ** (i + 1));
const DEPTH_MAX = 8192;
const U8 = 0xff;

/** @throws ProgramError for a wrong option, or one that does not fit another. */
export function jobOf(device: CmDevice, options: Options) {
  const test = wordOption(options, "test", { words: PERFTESTS });
  const { connections, verb, inlineBytes } = PERFTEST[test];
  const connection = wordOption(options, "connection", { words: CONNECTIONS, otherwise: "RC" });
  if (!connections.includes(connection)) {
    refuse(`${test} runs on ${connections.join(", ")}: not ${connection}`);
  }
  const mtu = countOption(options, "mtu", { least: 256, otherwise: device.state.mtu });
  const pathMtu = PATH_MTUS.find((each) => each === mtu) ??
    refuse(`mtu must be one of ${PATH_MTUS.join(", ")}: it is ${mtu}`);
  const duration = durationOf(options);
  const mode = completionOption(options, device);
  const sizes = sizesOf(test, options, { connection, pathMtu, duration });
  const isReading = verb === "read" || verb === "atomic";
  return {
    to: textOption(options, "to"),
    test,
    connection,
    sizes,
    ...queuesOf(test, options, { sizes, duration, mode }),
    duration,
    inlineBytes: within(options, "inlineBytes", {
      least: 0,
      most: isReading ? 0 : MAX_INLINE_BYTES,
      otherwise: inlineBytes,
    }),
    outstanding: within(options, "outstanding", { most: RD_ATOMIC_MAX, otherwise: RD_ATOMIC_MAX }),
    trafficClass: within(options, "trafficClass", { least: 0, most: U8, otherwise: 0 }),
    // RFC 1122, 3.2.1.7: no packet is sent with a time to live of 0.
    hopLimit: within(options, "hopLimit", { most: U8, otherwise: 64 }),
    timeout: within(options, "timeout", { least: 0, most: 31, otherwise: TRANSPORT.timeout }),
    retryCount: within(options, "retryCount", { least: 0, most: 7, otherwise: TRANSPORT.retryCnt }),
    memory: wordOption(options, "memory", { words: MEMORIES, otherwise: "dram" }),
    pathMtu,
    mode,
    atomic: wordOption(options, "atomic", { words: ATOMICS, otherwise: "fetch-add" }),
    peak: !isSet(options, "noPeak"),
    samples: isSet(options, "samples"),
  };
}

function refuse(text: string): never {
  throw new ProgramError(text);
}

function isSet(options: Options, name: string): boolean {
  return options[name] === true;
}

function within(
  options: Options,
  name: string,
  { least = 1, most, otherwise }: { least?: number; most: number; otherwise: number },
): number {
  const found = countOption(options, name, { least, otherwise });
  return found <= most ? found : refuse(`${name} must be at most ${most}: it is ${found}`);
}

function sizesOf(
  test: PerftestName,
  options: Options,
  { connection, pathMtu, duration }: {
    readonly connection: ConnectionType;
    readonly pathMtu: number;
    readonly duration: Duration | undefined;
  },
): readonly number[] {
  const { bytes, onlyBytes } = PERFTEST[test];
  const all = isSet(options, "all") && onlyBytes === undefined;
  const most = connection === "UD" ? pathMtu : BYTES_MAX;
  const size = countOption(options, "size", { least: 1, otherwise: Math.min(bytes, most) });
  if (onlyBytes !== undefined && size !== onlyBytes) {
    refuse(`An atomic has ${onlyBytes} B: not ${size}`);
  }
  if (size > most) {
    const why = connection === "UD" ? ", the path MTU, on UD" : "";
    refuse(`size must be at most ${most}${why}: it is ${size}`);
  }
  if (duration !== undefined && all) refuse("A test by time has one size: not all");
  return all ? SIZES.filter((each) => each <= most) : [size];
}

function queuesOf(
  test: PerftestName,
  options: Options,
  { sizes, duration, mode }: {
    readonly sizes: readonly number[];
    readonly duration: Duration | undefined;
    readonly mode: "poll" | "interrupt";
  },
) {
  const kind = PERFTEST[test];
  const isLatency = kind.measures === "latency";
  const qps = within(options, "qps", { most: QPS_MAX, otherwise: 1 });
  if (qps > kind.qpsMost) refuse(`${test} has one queue pair: not ${qps}`);
  const bidirectional = isSet(options, "bidirectional");
  if (isLatency && bidirectional) refuse(`${test} is not a bandwidth test: not bidirectional`);
  const iterations = countOption(options, "iterations", {
    least: kind.iterationsLeast,
    otherwise: kind.iterations,
  });
  const bound = duration === undefined ? iterations : Infinity;
  const depth = isLatency
    ? 1
    : Math.min(bound, within(options, "depth", { most: DEPTH_MAX, otherwise: kind.depth }));
  const postList = within(options, "postList", { most: DEPTH_MAX, otherwise: 1 });
  if (isLatency && postList !== 1) refuse(`${test} posts one message at a time: not ${postList}`);
  if (postList > depth) refuse(`postList must be at most the depth, ${depth}: it is ${postList}`);
  if (duration === undefined && iterations % postList !== 0) {
    refuse(`iterations must be a multiple of postList, ${postList}: it is ${iterations}`);
  }
  const isLarge = sizes.length === 1 && sizes[0]! > MODERATED_BYTES_MAX && mode === "poll";
  const usual = postList > 1 ? postList : isLarge ? 1 : CQ_MODERATION;
  const moderation = within(options, "cqModeration", { most: 1024, otherwise: usual });
  const cqModeration = Math.min(depth, moderation);
  if (postList > 1 && postList % cqModeration !== 0) {
    refuse(`postList must be a multiple of cqModeration, ${cqModeration}: it is ${postList}`);
  }
  const receives = within(options, "rxDepth", { most: 16_384, otherwise: RX_DEPTH });
  const rxDepth = Math.max(2, Math.min(bound, receives));
  return {
    qps,
    bidirectional,
    iterations,
    depth,
    rxDepth: rxDepth + rxDepth % 2,
    postList,
    cqModeration,
  };
}

export type Job = Readonly<ReturnType<typeof jobOf>>;

function durationOf(options: Options): Duration | undefined {
  if (options["durationUs"] === undefined) {
    if (options["marginUs"] === undefined) return undefined;
    throw new ProgramError("margin goes with a duration: there is none");
  }
  const ps = microsecondsOption(options, "durationUs", 0);
  // As in perftest's force_dependecies.
  const marginPs = microsecondsOption(options, "marginUs", Math.floor(ps / 4 / PS_PER_US));
  if (ps > 2 * marginPs) return { ps, marginPs };
  const found = `${ps / PS_PER_US} us and ${marginPs / PS_PER_US} us`;
  throw new ProgramError(`duration must be longer than two margins: they are ${found}`);
}
