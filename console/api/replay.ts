/**
 * Queries on the replay of a run. Times are virtual, in ps since the start; an absent end is null.
 * Bytes are hexadecimal text.
 *
 * An instant `at`: everything before `at` has happened, nothing at `at` or later. To see the effect
 * of an event at `t`, ask for `t + 1`.
 */
import { z } from "zod";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { IMPAIRMENTS } from "../../fabric/rack/plan/link_plan.ts";
import { COUNT_MAX, type Predicate } from "../../fabric/trace/predicate.ts";
import { maybe, name, orNull, type Plain, time } from "./common.ts";
import { ladderDocument } from "./operations.ts";
import { node, predicateText } from "./predicate.ts";
import { nodeKind, rnicState } from "./rack.ts";
import { finding } from "./report.ts";
import {
  BUCKETS,
  COPY_PLACES,
  EVENT_KINDS,
  EVENTS,
  OPERATION_SORTS,
  OPERATION_STATUSES,
  OPERATIONS,
  PARTS,
  RECENT_PS,
  SEARCHED_MAX,
} from "./replay_terms.ts";

const number = z.number(), text = z.string(), flag = z.boolean();
const options = z.record(text, z.unknown());
const never = time.nullable();

// The run, and whether its replay is the run.

export const density = z.object({
  from: time,
  to: time,
  counts: z.array(number).describe("events of all devices in equal spans of virtual time"),
  byNode: maybe(z.record(name, z.array(number))),
}).meta({ id: "Density" });
export type Density = Plain<typeof density>;

const exactness = z.discriminatedUnion("state", [
  z.object({
    state: z.literal("equal").describe("every device has the digest that the run left"),
    digest: text,
    nodes: number,
  }),
  z.object({
    state: z.literal("unknown").describe(
      "the run's timekeeper was killed with it: digests are of an earlier instant, or there are none",
    ),
    why: text,
  }),
]);
/** A difference from the run is an error of `Replay.open`. */
export type Exactness = Plain<typeof exactness>;

const promiseTick = z.object({
  at: time,
  node: name.describe("the device that learns that bytes persist"),
  by: text.describe("the program"),
  id: number,
  on: name.describe("whose bytes"),
  from: number,
  to: number,
  promised: flag.describe("false: the method claims persistence without a promise"),
});
export type PromiseTick = Plain<typeof promiseTick>;

const faultTick = z.object({
  at: time,
  action: z.enum(["kill", "start", "cut", "heal", ...IMPAIRMENTS]),
  nodes: z.array(name).describe("devices that lose or get power; of a cable its two ends"),
  cable: maybe(number.describe("index in the plan")),
  until: maybe(time.describe("where a fault of a cable ends by itself")),
});
export type FaultTick = Plain<typeof faultTick>;

const orderTick = z.object({
  at: time,
  host: name,
  order: number,
  program: text.describe("`put`, `get`, `list`, `remove`, or the path of the user's own"),
  options: options.describe("without content"),
});
export type OrderTick = Plain<typeof orderTick>;

export const timeline = z.object({
  run: text,
  variant: text,
  scenario: text,
  seed: number,
  exactness,
  endPs: time.describe("the instant after the last event"),
  events: number,
  isLive: flag.describe("the rack is up: `endPs` grows"),
  natives: number.describe("native programs, which the run's record serves: none is started"),
  devices: z.array(z.object({
    node: name,
    kind: nodeKind,
    power: z.array(z.object({ from: time, to: never })).describe("null: to the end"),
    events: number,
  })),
  promises: z.array(promiseTick),
  morePromises: number.describe("beyond those that are listed"),
  faults: z.array(faultTick),
  orders: z.array(orderTick).describe("the latest ones"),
  moreOrders: number,
  reports: z.array(z.object({ at: time, node: name, topic: text, text }))
    .describe("the latest final reports of programs"),
  moreReports: number,
  density,
  kept: z.object({
    detailFromPs: time.describe("steps, frames and memory of an earlier instant take another pass"),
    samples: number.describe("of counters"),
    detailBytes: number.describe("of steps, frames and memory, in all passes of the replay"),
    residentBytes: number.describe("of the replay's process"),
    spoolBytes: number.describe("of its file on the disk"),
  }),
}).meta({ id: "Timeline" });
export type Timeline = Plain<typeof timeline>;

/** Of the process that answers all other questions. */
export const replayState = z.discriminatedUnion("state", [
  z.object({ state: z.literal("closed").describe("the next question opens it") }),
  z.object({
    state: z.literal("waiting").describe("other runs are being replayed"),
    place: number.describe("in the line, from 1"),
    length: number.describe("of the line"),
    before: z.array(text).describe("runs that are replayed now"),
  }),
  z.object({
    state: z.literal("replaying").describe("a pass over the run is under way"),
    pass: z.enum(["first", "again"]).describe(
      "again: up to an instant whose details are forgotten, for a question that waits",
    ),
    atPs: time,
    endPs: never.describe("where it goes to; null: not known"),
    events: number.describe("so far"),
  }),
  z.object({ state: z.literal("ready") }),
]).meta({ id: "ReplayState" });
export type ReplayState = Plain<typeof replayState>;

// The rack at an instant.

const programState = z.object({
  host: name,
  program: text.describe("`put#1`, `./mine.ts#2/worker`"),
  serves: flag,
  waitsFor: text,
  since: time,
  at: maybe(text.describe("the line in the program's file")),
  order: maybe(number.describe("that started it")),
  progress: maybe(
    z.object({ done: number, of: number }).describe(
      "as it last told: operations that are done, of how many; of 1: a share",
    ),
  ),
}).meta({ id: "ProgramState" });
export type ProgramState = Plain<typeof programState>;

const queueState = z.object({
  queue: z.enum(["send", "recv", "shared"]),
  qpn: number.describe("of the queue pair, or of the shared receive queue"),
  rnic: maybe(number.describe("which of the host's RNICs has it, from 0; absent: the first")),
  posted: number,
  completed: number,
  failed: number.describe("completions with an error status"),
  lastStatus: text,
});
export type QueueState = Plain<typeof queueState>;

const deviceState = z.object({
  node: name,
  kind: nodeKind,
  hasPower: flag,
  life: number.describe("from 0"),
  since: time.describe("since when it has, or has no power"),
  events: number,
  counters: z.record(text, number).describe("since power-on; empty without power"),
  countersAt: time.describe("`at`, or an earlier sample's"),
  queues: z.array(queueState).describe("of a host, as its programs know them"),
  rnic: maybe(rnicState.describe("of the very instant, where that is looked up")),
});
export type DeviceState = Plain<typeof deviceState>;

const inFlight = z.object({
  startPs: time.describe("its first bit leaves"),
  endPs: time,
  arrivesPs: never.describe("its last bit arrives; null: lost on the way"),
  bytes: number,
  text,
  head: maybe(text.describe("the first bytes of a frame, at most 128")),
  effect: maybe(z.array(text).describe("what the cable does to it")),
});
export type InFlight = Plain<typeof inFlight>;

const cableState = z.object({
  cable: number.describe("index in the plan"),
  kind: z.enum(["network", "bus"]),
  from: name,
  to: name,
  inFlight: z.array(inFlight).describe("with a bit on the cable, oldest first; at most 64"),
  inFlightCount: number,
  sent: number.describe("so far"),
  sentBytes: number,
  recentBytes: number.describe(`that left in the ${RECENT_PS / PS_PER_US} us before`),
});
export type CableState = Plain<typeof cableState>;

export const snapshot = z.object({
  at: time,
  events: number.describe("of all devices, since the start"),
  nextEventAt: never,
  lastEventAt: never,
  devices: z.array(deviceState),
  cables: z.array(cableState),
  programs: z.array(programState).nullable()
    .describe("that have not ended; null: not looked up, see `exact`"),
}).meta({ id: "Snapshot" });
export type Snapshot = Plain<typeof snapshot>;

// Programs.

const programProgress = z.object({
  host: name,
  program: text.describe("`put#1`, `./mine.ts#2/worker`"),
  state: z.enum(["waits", "serves", "ended", "failed", "stopped"])
    .describe("serves: it waits for clients; stopped: its host shut down"),
  since: time,
  text: text.describe("what it waits for, or why it failed; else empty"),
  line: maybe(text.describe("in the program's file: `mine.ts:41:12`")),
  stack: maybe(text.describe("of a failure, the program's own frames")),
  order: maybe(number.describe("that started it")),
});
export type ProgramProgress = Plain<typeof programProgress>;

const programReport = z.object({
  at: time,
  host: name,
  topic: text,
  text: text.describe("JSON, at most 16,384 characters of it; bytes as their number"),
  isCut: flag,
});
export type ProgramReport = Plain<typeof programReport>;

export const programs = z.object({
  at: time,
  programs: z.array(programProgress)
    .describe("by host, those that serve last; without those that a power failure has cut off"),
  isWhole: flag.describe("false: programs that wait were not looked up, see `exact`"),
  reports: z.array(programReport).describe("of `cpu.report`, the latest 200, but for progress"),
  moreReports: number.describe("before these"),
  log: z.array(z.object({ at: time, host: name, program: text, text }))
    .describe("of `cpu.log`, the latest 200 lines"),
  moreLog: number.describe("before these"),
}).meta({ id: "Programs" });
export type Programs = Plain<typeof programs>;

// Verdicts.

const verdictSoFar = z.object({
  name: text,
  promise: text,
  looked: text.describe("how much the check examined"),
  state: z.enum(["holds", "fails", "nothing yet"]),
  findings: z.array(finding),
  mayBeMore: flag.describe("the check has stopped at its limit"),
});
export type VerdictSoFar = Plain<typeof verdictSoFar>;

export const verdicts = z.object({
  at: time,
  soFar: z.literal(true).describe(
    "of what happened before `at`, SCM as a power failure of every host then leaves it; whether " +
      "programs come to their end is not judged, nor what comes later",
  ),
  unproved: maybe(text.describe("why the replay that was judged may not be the run")),
  checks: z.array(verdictSoFar),
}).meta({ id: "Verdicts" });
export type Verdicts = Plain<typeof verdicts>;

// Memory.

const place = z.enum(COPY_PLACES).meta({ id: "Place" });
/** A program's knowledge of its write: only `promised` has to survive. */
const standing = z.enum(["posted", "visible", "claimed", "promised"]);
export type WriteStanding = Plain<typeof standing>;

const writeRef = z.object({
  by: text,
  id: number,
  node: name,
  issuedAt: time,
  standing,
  standingAt: time.describe("when that was learned"),
  operation: maybe(number.describe("for its ladder; absent: no operation of the run is it")),
}).meta({ id: "WriteRef" });
export type WriteRef = Plain<typeof writeRef>;

const memorySpan = z.object({
  from: number,
  to: number,
  place,
  survives: flag.describe("a power failure now leaves these bytes"),
  since: time.describe("since when the newest copy is there"),
  write: maybe(number.describe("index in `writes`; absent: no program has declared it")),
  lost: maybe(
    z.object({
      at: time.describe("when the power of the host failed"),
      place: place.describe("where the newest copy was"),
    }).describe(
      "a power failure has taken the bytes of `write` that were here: the bytes are older ones",
    ),
  ),
});
export type MemorySpan = Plain<typeof memorySpan>;

const memoryLine = z.object({
  at: number.describe("offset in SCM, a multiple of 64"),
  spans: z.array(memorySpan).describe("without gaps; what was never written is on the medium"),
  torn: flag.describe(
    "a power failure now leaves a part of a write in this line, or one has left it",
  ),
  seen: maybe(text.describe("64 B as the cores see them")),
  left: maybe(text.describe("as a power failure now leaves them")),
  was: maybe(text.describe("as they were before the power failure that has taken some of them")),
});
export type MemoryLine = Plain<typeof memoryLine>;

export const memory = z.object({
  at: time,
  host: name,
  from: number,
  to: number,
  hasPower: flag,
  cut: maybe(
    z.object({
      at: time,
      lines: number.describe(
        "of the whole SCM: power failures took something of them, and nothing has come there since",
      ),
    }).describe("the latest power failure of the host before `at`"),
  ),
  domain: text.describe("of persistence"),
  lines: z.array(memoryLine).describe("of which something was written by now; at most 4,096"),
  moreLines: number,
  writes: z.array(writeRef),
  touched: z.array(z.tuple([number, number])).describe("ranges that are written in the run"),
}).meta({ id: "Memory" });
export type MemoryView = Plain<typeof memory>;

const memoryPart = z.object({
  from: number,
  to: number,
  lines: number.describe("of which something was written by now"),
  byPlace: z.record(place, number)
    .describe("of these; of a line with several, the one farthest from the medium"),
  lost: number.describe("of these: a power failure now loses something of them"),
  gone: number.describe("of these: a power failure has taken something of them"),
  torn: number,
});
export type MemoryPart = Plain<typeof memoryPart>;

export const memoryMap = z.object({
  at: time,
  host: name,
  from: number,
  to: number,
  partBytes: number.describe("of each part, a multiple of 64"),
  parts: z.array(memoryPart).describe("without those of which nothing was written by now"),
}).meta({ id: "MemoryMap" });
export type MemoryMap = Plain<typeof memoryMap>;

const lostRange = z.object({ host: name, from: number, to: number, place, write: maybe(writeRef) });
export type LostRange = Plain<typeof lostRange>;

const brokenPromise = z.object({ host: name, text, from: number, to: number });
/** A bug of the method, or of the model. */
export type BrokenPromise = Plain<typeof brokenPromise>;

export const loss = z.object({
  at: time.describe("of the cut"),
  happened: flag.describe(
    "the devices have no power at the instant that was asked for: what the cut has lost",
  ),
  nodes: z.array(name),
  hosts: z.array(name).describe("whose SCM was looked at: those of `nodes` that have power"),
  lost: z.array(lostRange).describe("by host and offset; at most 1,000"),
  moreLost: number,
  lostBytes: number,
  byPlace: z.record(place, number),
  byStanding: z.record(z.enum([...standing.options, "undeclared"]), number),
  broken: z.array(brokenPromise),
  keptPromisedBytes: number.describe("promised bytes that are there after the cut"),
  text: text.describe("one sentence for people"),
}).meta({ id: "Loss" });
export type Loss = Plain<typeof loss>;

// Operations and events.

const operationStatus = z.enum(OPERATION_STATUSES).meta({ id: "OperationStatus" });

const operationRow = z.object({
  index: number.describe("for its ladder"),
  node: name,
  connection: text,
  number: number.describe("the program's number of it"),
  kind: text.describe("of its first work request: `write`, `send`, `read`"),
  status: operationStatus.describe(
    "`open`: no completion of its last work request is known; `failed`: one of its work requests " +
      "has completed with an error",
  ),
  startPs: time,
  endPs: time.describe("the program's last step or completion of it"),
  step: text,
  text,
});
export type OperationRow = Plain<typeof operationRow>;

export const operations = z.object({
  operations: z.array(operationRow),
  more: number.describe("that fit, behind those that are listed"),
  total: number.describe("that fit, with those that are listed or skipped"),
  all: number.describe("of the run"),
  nodes: z.array(name).describe("requesters of the run"),
  kinds: z.array(text).describe("of the run"),
}).meta({ id: "Operations" });
export type Operations = Plain<typeof operations>;

const eventKind = z.enum(EVENT_KINDS);
export const eventRow = z.object({
  time,
  node: text,
  kind: eventKind,
  name: text.describe("the document's number or a verb; topic of a report; kind of a note"),
  text,
  frame: maybe(
    z.object({ cable: number, bytes: number, head: text.describe("at most 128 bytes") }),
  ),
}).meta({ id: "Event" });
export type EventRow = Plain<typeof eventRow>;

export const events = z.object({
  rows: z.array(eventRow),
  split: number.describe("index of the first row that is not before `at`"),
  fromPs: time.describe("earlier events were not looked at, or do not fit into `before`"),
  toPs: never.describe(
    "where to go on: events from here on were not looked at, or do not fit into `after`; null: " +
      "there are none",
  ),
}).meta({ id: "Events" });
export type Events = Plain<typeof events>;

export const found = z.object({ event: orNull(eventRow) }).meta({ id: "Found" });

// Comparison.

const firstDifference = z.object({
  at: time.describe("before it all devices that both runs have did the same"),
  nodes: z.array(name).describe("that differ there"),
  here: z.array(eventRow).describe("what these devices do shortly before `at`, there and next"),
  there: z.array(eventRow),
});
export type FirstDifference = Plain<typeof firstDifference>;

const figureDifference = z.object({
  node: name,
  name: text,
  here: number.nullable(),
  there: number.nullable(),
});
export type FigureDifference = Plain<typeof figureDifference>;

const configurationDifference = z.object({
  what: text.describe("`b: ddio`, `a: put#1, method`, `kill b`"),
  here: text.nullable(),
  there: text.nullable(),
});
export type ConfigurationDifference = Plain<typeof configurationDifference>;

const end = z.object({ digest: text, endPs: time, events: number });
export const comparison = z.object({
  isSame: flag,
  configuration: z.array(configurationDifference)
    .describe("what the two were told that differs, faults as they happened; at most 200"),
  moreConfiguration: number,
  first: firstDifference.nullable().describe("null: no event differs"),
  figures: z.array(figureDifference)
    .describe("counters at the end that differ, largest relative difference first"),
  here: end,
  there: end,
}).meta({ id: "Comparison" });
export type Comparison = Plain<typeof comparison>;

/** As `rack trace --json` has it, with the bytes of frames. */
export const ladder = ladderDocument;

// Queries.

const whole = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const isSet = maybe(z.enum(["true", "false"]).transform((word) => word === "true"));
const instant = maybe(
  whole.describe("default: the end, or the present of a rack that is up"),
);
const variant = name.optional().describe(
  "of a run with several: name or number from 1; default: the first",
);
const query = z.object({ variant });

function atMost({ most, usual }: { readonly most: number; readonly usual: number }, least = 1) {
  return maybe(whole.min(least).max(most).describe(`default ${usual}`));
}

type Asked<Query extends z.ZodType> = Omit<Plain<Query>, "variant" | "at">;

const searched = z.string().min(1).max(SEARCHED_MAX);

export const timelineQuery = query;
export const replayStateQuery = query;

export const densityQuery = query.extend({
  from: maybe(whole),
  to: maybe(whole),
  buckets: atMost(BUCKETS),
  byNode: isSet,
});
export type DensityQuery = Asked<typeof densityQuery>;

export const snapshotQuery = query.extend({
  at: whole,
  exact: isSet.describe(
    "counters and programs of the very instant, also where that takes seconds",
  ),
});
export type SnapshotQuery = Asked<typeof snapshotQuery>;

export const programsQuery = query.extend({
  at: instant,
  host: maybe(name.describe("default: all")),
  exact: isSet.describe("look up the waits also where that takes a pass over more than 10⁶ events"),
});
export type ProgramsQuery = Asked<typeof programsQuery>;

export const verdictsQuery = query.extend({
  at: instant,
  claims: isSet.describe("a lost write is a violation if its method only claims its persistence"),
});
export type VerdictsQuery = Asked<typeof verdictsQuery>;

export const memoryQuery = query.extend({
  at: instant,
  host: name,
  from: whole.default(0),
  to: whole.default(Number.MAX_SAFE_INTEGER),
  bytes: isSet,
});
export type MemoryQuery = Asked<typeof memoryQuery>;

export const memoryMapQuery = memoryQuery.omit({ bytes: true }).extend({
  to: whole,
  parts: atMost(PARTS),
});
export type MemoryMapQuery = Asked<typeof memoryMapQuery>;

export const lossQuery = query.extend({
  at: instant,
  nodes: z.string().min(1).max(4_000).describe("names with commas between them"),
});

export const operationsQuery = query.extend({
  from: maybe(whole),
  to: maybe(whole),
  on: maybe(name.describe("the requester")),
  kind: maybe(text.max(100).describe("of its first work request: `write`, `send`, `read`")),
  status: maybe(operationStatus),
  minPs: maybe(whole.describe("its duration, at least")),
  maxPs: maybe(whole.describe("its duration, at most")),
  text: maybe(searched.describe("in its texts, in any case of letters")),
  sort: maybe(
    z.enum(OPERATION_SORTS).describe(`default ${OPERATION_SORTS[0]}; duration: the longest first`),
  ),
  skip: maybe(whole.describe("so many of those that fit")),
  most: atMost(OPERATIONS),
});
export type OperationsQuery = Asked<typeof operationsQuery>;

export const ladderQuery = query.extend({ index: whole });

export const eventsQuery = query.extend({
  at: whole,
  before: atMost(EVENTS, 0),
  after: atMost(EVENTS, 0),
  node: maybe(name),
  kinds: maybe(
    z.string().max(200).transform((kinds) => kinds.split(",")).pipe(z.array(eventKind)).describe(
      `of ${eventKind.options.join(", ")}: commas between them`,
    ),
  ),
  text: maybe(
    searched.describe(
      "in its name or text, in any case of letters; the run is searched from `at` on",
    ),
  ),
});
export type EventsQuery = Asked<typeof eventsQuery> & { readonly at: number };

export const findQuery = query.extend({
  after: maybe(whole.describe("steps after this instant; default: all")),
  atPs: maybe(whole.describe("steps before this instant; default: all")),
  step: predicateText,
  node: node.optional(),
  count: maybe(
    whole.min(1).max(COUNT_MAX).describe("which occurrence; default 1, the first"),
  ),
});
export type FindQuery = Predicate & Pick<Asked<typeof findQuery>, "after" | "atPs">;

export const compareQuery = query.extend({
  with: name.describe("the other run"),
  withVariant: variant,
});
