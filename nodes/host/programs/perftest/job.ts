/** What a client is told to do: its options, checked, with perftest's defaults. */
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
  CQ_MODERATION,
  type Duration,
  MEMORIES,
  MODERATED_BYTES_MAX,
  PERFTEST,
  PERFTESTS,
  QPS_MAX,
  RX_DEPTH,
} from "./terms.ts";

const SIZES = Array.from({ length: 23 }, (_, i) => 2 ** (i + 1));
const DEPTH_MAX = 8192;
const U8 = 0xff;

/** @throws ProgramError of an option that is wrong, or does not go with another. */
export function jobOf(device: CmDevice, options: Options) {
  const test = wordOption(options, "test", { words: PERFTESTS });
  const kind = PERFTEST[test];
  const isLatency = kind.measures === "latency";
  const refuse = (text: string): never => {
    throw new ProgramError(text);
  };
  /** A whole number of a range. */
  const within = (
    name: string,
    { least = 1, most, otherwise }: { least?: number; most: number; otherwise: number },
  ) => {
    const found = countOption(options, name, { least, otherwise });
    return found <= most ? found : refuse(`${name} must be at most ${most}: it is ${found}`);
  };
  const on = (name: string) => options[name] === true;

  const connection = wordOption(options, "connection", { words: CONNECTIONS, otherwise: "RC" });
  if (!kind.connections.includes(connection)) {
    refuse(`${test} runs on ${kind.connections.join(", ")}: not ${connection}`);
  }
  const mtu = countOption(options, "mtu", { least: 256, otherwise: device.state.mtu });
  const pathMtu = PATH_MTUS.find((each) => each === mtu) ??
    refuse(`mtu must be one of ${PATH_MTUS.join(", ")}: it is ${mtu}`);
  const all = on("all") && kind.verb !== "atomic";
  const most = connection === "UD" ? pathMtu : BYTES_MAX;
  const size = countOption(options, "size", { least: 1, otherwise: Math.min(kind.bytes, most) });
  if (kind.verb === "atomic" && size !== 8) refuse(`An atomic has 8 B: not ${size}`);
  if (size > most) {
    const why = connection === "UD" ? ", the path MTU, on UD" : "";
    refuse(`size must be at most ${most}${why}: it is ${size}`);
  }
  const qps = within("qps", { most: QPS_MAX, otherwise: 1 });
  if (isLatency && qps !== 1) refuse(`${test} has one queue pair: not ${qps}`);
  const bidirectional = on("bidirectional");
  if (isLatency && bidirectional) refuse(`${test} is not a bandwidth test: not bidirectional`);

  const duration = durationOf(options);
  if (duration !== undefined && all) refuse("A test by time has one size: not all");
  const mode = completionOption(options, device);
  const iterations = countOption(options, "iterations", {
    least: isLatency ? 2 : 1,
    otherwise: kind.iterations,
  });
  const bound = duration === undefined ? iterations : Infinity;
  const depth = isLatency
    ? 1
    : Math.min(bound, within("depth", { most: DEPTH_MAX, otherwise: kind.depth }));
  const postList = within("postList", { most: DEPTH_MAX, otherwise: 1 });
  if (isLatency && postList !== 1) refuse(`${test} posts one message at a time: not ${postList}`);
  if (postList > depth) refuse(`postList must be at most the depth, ${depth}: it is ${postList}`);
  if (duration === undefined && iterations % postList !== 0) {
    refuse(`iterations must be a multiple of postList, ${postList}: it is ${iterations}`);
  }
  const isLarge = size > MODERATED_BYTES_MAX && !all && mode === "poll";
  const usual = postList > 1 ? postList : isLarge ? 1 : CQ_MODERATION;
  const cqModeration = Math.min(depth, within("cqModeration", { most: 1024, otherwise: usual }));
  if (postList > 1 && postList % cqModeration !== 0) {
    refuse(`postList must be a multiple of cqModeration, ${cqModeration}: it is ${postList}`);
  }
  const rxDepth = Math.max(
    2,
    Math.min(bound, within("rxDepth", { most: 16_384, otherwise: RX_DEPTH })),
  );
  const inlineBytes = within("inlineBytes", {
    least: 0,
    most: kind.verb === "read" || kind.verb === "atomic" ? 0 : MAX_INLINE_BYTES,
    otherwise: kind.inlineBytes,
  });
  return {
    to: textOption(options, "to"),
    test,
    connection,
    sizes: all ? SIZES.filter((each) => each <= most) : [size],
    iterations,
    duration,
    bidirectional,
    depth,
    rxDepth: rxDepth + rxDepth % 2,
    postList,
    cqModeration,
    inlineBytes,
    outstanding: within("outstanding", { most: RD_ATOMIC_MAX, otherwise: RD_ATOMIC_MAX }),
    trafficClass: within("trafficClass", { least: 0, most: U8, otherwise: 0 }),
    // RFC 1122, 3.2.1.7: no packet is sent with a time to live of 0.
    hopLimit: within("hopLimit", { most: U8, otherwise: 64 }),
    timeout: within("timeout", { least: 0, most: 31, otherwise: TRANSPORT.timeout }),
    retryCount: within("retryCount", { least: 0, most: 7, otherwise: TRANSPORT.retryCnt }),
    qps,
    memory: wordOption(options, "memory", { words: MEMORIES, otherwise: "dram" }),
    pathMtu,
    mode,
    atomic: wordOption(options, "atomic", { words: ATOMICS, otherwise: "fetch-add" }),
    peak: !on("noPeak"),
    samples: on("samples"),
  };
}

/** A client's options, checked. */
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
