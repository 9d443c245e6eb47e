import { z } from "zod";
import { maybe, name, seed, time, timeOrNever } from "./common.ts";
import { predicate } from "./predicate.ts";

export const nodeKind = z.enum(["host", "rnic", "switch"]).meta({ id: "NodeKind" });

export const node = z.object({
  name,
  kind: nodeKind,
  process: name.describe("the process that runs it: it has power with it"),
  host: name.nullable().describe("of an RNIC: its host"),
  config: z.record(z.string(), z.unknown()).describe("its plan: caches, SCM, timing, queues …"),
}).meta({ id: "Node" });
export type Node = z.infer<typeof node>;

const end = z.object({ node: name, port: z.number().int() });

export const cable = z.object({
  name: z.string().describe("`a-rnic/tor`"),
  kind: z.enum(["bus", "network"]),
  a: end,
  b: end,
  latencyPs: time,
  bitsPerSecond: z.number(),
}).meta({ id: "Cable" });
export type Cable = z.infer<typeof cable>;

export const program = z.object({
  on: name,
  run: z.string(),
  atPs: time.describe("after the host's boot"),
  service: z.boolean(),
  options: z.record(z.string(), z.unknown()),
}).meta({ id: "Program" });

/** Constant while the rack is up: the page draws it once. */
export const topology = z.object({
  run: z.string(),
  scenario: z.string(),
  seed,
  until: timeOrNever,
  nodes: z.array(node),
  cables: z.array(cable),
  programs: z.array(program),
  inputs: z.array(name).describe("hosts whose programs have an input file"),
}).meta({ id: "Topology" });
export type Topology = z.infer<typeof topology>;

export const waiting = z.object({
  partition: name,
  status: z.string().describe("idle, running, dead (without power), absent, unknown"),
  forMs: z.number().describe("wall time in this state"),
  nextPs: timeOrNever.describe("its next event"),
  nowPs: time.describe("its last event"),
  heldBy: z.string().describe("the process whose next event it waits for; empty: none"),
}).meta({ id: "Waiting" });

export const clock = z.object({
  virtualPs: time,
  nextPs: timeOrNever,
  limitPs: timeOrNever.describe("nothing happens from here on until time is resumed"),
  paused: z.boolean(),
  finished: z.boolean(),
  psPerSecond: z.number().describe(
    "the pace whenever time runs, until another is ordered; 0: as fast as it can be",
  ),
  events: z.number().int(),
  digest: z.string(),
  why: z.string().describe("one sentence: whether time moves, and if not, what holds it"),
  whyParts: z.array(z.union([z.string(), z.object({ process: name })]))
    .describe("`why`, with the names of processes in it apart"),
  waiting: z.array(waiting),
  standsAtPs: timeOrNever.optional().describe("the one instant at which all of the rack stands"),
  hits: z.array(z.object({
    break: z.number().int().describe("place in `breaks`"),
    node: name,
    step: z.string(),
    atPs: time,
    count: z.number().int(),
  })).optional().describe("the breaks of the last order that were hit"),
  breaks: z.array(predicate).optional().describe("those of the last order"),
  watchedFromPs: timeOrNever.optional().describe(
    "what happens at this instant or later counts for `breaks`; null: none are watched",
  ),
}).meta({ id: "Clock" });
export type Clock = z.infer<typeof clock>;

export const why = z.object({
  clock,
  refused: z.array(z.object({
    by: z.string(),
    of: z.string(),
    subject: z.string(),
    count: z.number().int(),
  })).describe("messages that were forged, damaged or beyond their sender's rights"),
  inexact: z.array(z.string()).describe("why the run cannot be replayed exactly; empty: it can"),
}).meta({ id: "Why" });
export type Why = z.infer<typeof why>;

export const processState = z.object({
  name,
  kind: z.enum(["supervisor", "nats", "timekeeper", "partition"]),
  pid: z.number().int().nullable(),
  alive: z.boolean(),
  nodes: z.array(name),
}).meta({ id: "Process" });
export type ProcessState = z.infer<typeof processState>;

export const processes = z.object({
  processes: z.array(processState.extend({
    residentBytes: z.number(),
    status: z.string().nullable().describe("in the timekeeper's view; null: it has none"),
  })),
}).meta({ id: "Processes" });

/** By node, by name; names that end in Ps are times, those in Bytes sizes. */
export const counters = z.record(name, z.record(z.string(), z.number()));

export const countersOf = z.object({
  nodes: counters,
  missing: z.array(name).describe("processes that did not answer: without power"),
}).meta({ id: "Counters" });

export const traffic = z.object({
  cable: z.number().int().describe("its index in the topology"),
  from: name.describe("the end that sends"),
  frames: z.number(),
  bytes: z.number(),
}).meta({ id: "Traffic" });
export type Traffic = z.infer<typeof traffic>;

export const linkFault = z.object({
  fault: z.number().int(),
  action: z.string(),
  target: z.string(),
  terms: z.string().describe("the fault's effect and time, as text"),
  seen: z.number().int(),
  hit: z.number().int(),
  directions: z.array(
    z.object({ direction: z.string(), seen: z.number().int(), hit: z.number().int() }),
  ),
}).meta({ id: "LinkFault" });

export const linkFaults = z.object({ faults: z.array(linkFault) }).meta({ id: "LinkFaults" });

const number = z.number();

export const rnicState = z.object({
  queuePairs: z.array(z.object({
    qpn: number,
    type: z.enum(["rc", "uc", "ud"]),
    state: z.string(),
    peer: maybe(z.object({ address: z.string(), qpn: number })),
    nextPsn: number,
    unacknowledgedPsn: number,
    outstanding: number,
    unanswered: number,
    persistWaiting: number,
    retriesLeft: number,
    rnrRetriesLeft: number,
    rnrWaiting: z.boolean(),
    expectedPsn: number,
    answersOwed: number,
    receivesFetched: number,
    receivesAwaited: number,
  })),
  regions: z.array(z.object({
    key: number,
    pd: number,
    va: number,
    bytes: number,
    access: number,
    isWindow: z.boolean(),
    persistent: z.boolean(),
  })),
  warnings: z.array(z.object({ atPs: number, message: z.string() })).describe(
    "the last of its life: requests that it has refused and why, sends that it has given up",
  ),
});

export const device = z.object({
  node: name,
  kind: nodeKind,
  life: number.describe("the number of its present or last life, from 0"),
  hasPower: z.boolean(),
  reachedPs: timeOrNever.describe(
    "every event of its process before this has happened; null: every one that there is",
  ),
  counters: z.record(z.string(), number),
  ports: z.array(z.object({ port: number, peer: name, up: z.boolean(), busyUntilPs: number })),
  programs: z.array(z.object({
    program: z.string(),
    serves: z.boolean(),
    waitsFor: z.string(),
    since: number,
    at: z.string().optional().describe("the line in the program's file"),
    order: number.optional(),
  })).describe("those that have not ended"),
  rnic: rnicState.optional(),
  operations: z.array(z.object({
    operation: z.string(),
    method: z.string(),
    bytes: number.optional().describe("of a message, where each size has figures of its own"),
    count: number,
    sumPs: number,
    buckets: z.array(number).describe(
      "latencies by the bounds 500 ns, 1, 2, 5 us … 1 s, and longer",
    ),
    promisedBytes: number,
  })).optional().describe("what the programs of a host have measured since its power-on"),
  loss: z.object({
    domain: z.string(),
    bytes: z.object({ iio: number, llc: number, wcb: number }),
    changedBytes: number,
    ranges: z.array(z.object({ place: z.enum(["iio", "llc", "wcb"]), from: number, to: number })),
    rangesLeft: number,
  }).optional().describe("what a power failure now would lose of a host's SCM"),
}).meta({ id: "Device" });
export type Device = z.infer<typeof device>;

export const deviceQuery = z.object({
  loss: z.enum(["true", "false"]).optional().describe("of a host: what a power cut would lose"),
});
