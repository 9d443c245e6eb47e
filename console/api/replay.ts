/**
 * What the replay of a run answers: `console/replay/types.ts` as schemas, which says what the members mean.
 * The types are those of that file; a schema that does not fit its type is an error of types here.
 */
import { z } from "zod";
import type * as replay from "../replay/types.ts";
import { PLACES } from "../replay/types.ts";
import { maybe, name, orNull, time } from "./common.ts";
import { COUNT_MAX } from "../../fabric/trace/predicate.ts";
import { ladderDocument } from "./operations.ts";
import { node, predicateText } from "./predicate.ts";
import { rnicState } from "./rack.ts";

const number = z.number(), text = z.string(), flag = z.boolean();

const kind = z.enum(["host", "rnic", "switch"]);
const options = z.record(text, z.unknown());
const never = time.nullable();

export const density: z.ZodType<replay.Density> = z.object({
  from: time,
  to: time,
  counts: z.array(number),
  byNode: maybe(z.record(name, z.array(number))),
}).meta({ id: "Density" });

const programState: z.ZodType<replay.ProgramState> = z.object({
  host: name,
  program: text,
  serves: flag,
  waitsFor: text,
  since: time,
  at: maybe(text),
  seenAt: time,
}).meta({ id: "ProgramState" });

const faultAction = z.enum([
  "kill",
  "start",
  "loss",
  "corrupt",
  "duplicate",
  "reorder",
  "delay",
  "cut",
  "heal",
]);

export const timeline: z.ZodType<replay.Timeline> = z.object({
  run: text,
  variant: text,
  scenario: text,
  seed: number,
  exactness: z.discriminatedUnion("state", [
    z.object({ state: z.literal("equal"), digest: text, nodes: number }),
    z.object({ state: z.literal("unknown"), why: text }),
  ]),
  endPs: time,
  events: number,
  isLive: flag,
  devices: z.array(z.object({
    node: name,
    kind,
    power: z.array(z.object({ from: time, to: never })),
    events: number,
  })),
  promises: z.array(z.object({
    at: time,
    node: name,
    by: text,
    id: number,
    on: name,
    from: number,
    to: number,
    promised: flag,
  })),
  morePromises: number,
  faults: z.array(z.object({
    at: time,
    action: faultAction,
    nodes: z.array(name),
    cable: maybe(number),
    until: maybe(time),
  })),
  orders: z.array(z.object({ at: time, host: name, order: number, program: text, options })),
  moreOrders: number,
  reports: z.array(z.object({ at: time, node: name, topic: text, text })),
  moreReports: number,
  density,
  kept: z.object({ detailFromPs: time, samples: number, residentBytes: number }),
}).meta({ id: "Timeline" });

export const snapshot: z.ZodType<replay.Snapshot> = z.object({
  at: time,
  events: number,
  nextEventAt: never,
  lastEventAt: never,
  devices: z.array(z.object({
    node: name,
    kind,
    hasPower: flag,
    life: number,
    since: time,
    events: number,
    counters: z.record(text, number),
    countersAt: time,
    queues: z.array(z.object({
      queue: z.enum(["send", "recv", "shared"]),
      qpn: number,
      rnic: maybe(number.describe("which of the host's RNICs has it, from 0; absent: the first")),
      posted: number,
      completed: number,
      failed: number,
      lastStatus: text,
    })),
    rnic: maybe(rnicState),
  })),
  cables: z.array(z.object({
    cable: number,
    kind: z.enum(["network", "bus"]),
    from: name,
    to: name,
    inFlight: z.array(z.object({
      startPs: time,
      endPs: time,
      arrivesPs: never,
      bytes: number,
      text,
      head: maybe(text),
      effect: maybe(z.array(text)),
    })),
    inFlightCount: number,
    sent: number,
    sentBytes: number,
  })),
  programs: z.array(programState).nullable(),
}).meta({ id: "Snapshot" });

const place = z.enum(PLACES).meta({ id: "Place" });
const standing = z.enum(["posted", "visible", "claimed", "promised"]);
const writeRef: z.ZodType<replay.WriteRef> = z.object({
  by: text,
  id: number,
  node: name,
  issuedAt: time,
  standing,
  standingAt: time,
}).meta({ id: "WriteRef" });

export const memory: z.ZodType<replay.MemoryView> = z.object({
  at: time,
  host: name,
  from: number,
  to: number,
  hasPower: flag,
  domain: text,
  lines: z.array(z.object({
    at: number,
    spans: z.array(z.object({
      from: number,
      to: number,
      place,
      survives: flag,
      since: time,
      write: maybe(number),
    })),
    torn: flag,
    seen: maybe(text),
    left: maybe(text),
  })),
  moreLines: number,
  writes: z.array(writeRef),
  touched: z.array(z.tuple([number, number])),
}).meta({ id: "Memory" });

export const memoryMap: z.ZodType<replay.MemoryMap> = z.object({
  at: time,
  host: name,
  from: number,
  to: number,
  partBytes: number,
  parts: z.array(z.object({
    from: number,
    to: number,
    lines: number,
    byPlace: z.record(place, number),
    lost: number,
    torn: number,
  })),
}).meta({ id: "MemoryMap" });

export const loss: z.ZodType<replay.Loss> = z.object({
  at: time,
  nodes: z.array(name),
  hosts: z.array(name),
  lost: z.array(z.object({
    host: name,
    from: number,
    to: number,
    place,
    write: maybe(writeRef),
  })),
  moreLost: number,
  lostBytes: number,
  byPlace: z.record(place, number),
  byStanding: z.record(z.enum([...standing.options, "undeclared"]), number),
  broken: z.array(z.object({ host: name, text, from: number, to: number })),
  keptPromisedBytes: number,
  text,
}).meta({ id: "Loss" });

export const operations: z.ZodType<replay.Operations> = z.object({
  operations: z.array(z.object({
    index: number,
    node: name,
    connection: text,
    number,
    startPs: time,
    endPs: time,
    step: text,
    text,
  })),
  more: number,
}).meta({ id: "Operations" });

const eventKinds = ["step", "frame-sent", "note", "report", "power", "cable", "order"] as const;
export const eventRow: z.ZodType<replay.EventRow> = z.object({
  time,
  node: text,
  kind: z.enum(eventKinds),
  name: text,
  text,
  frame: maybe(z.object({ cable: number, bytes: number, head: text })),
}).meta({ id: "Event" });

export const events: z.ZodType<replay.Events> = z.object({
  rows: z.array(eventRow),
  split: number,
}).meta({ id: "Events" });

export const found = z.object({ event: orNull(eventRow) }).meta({ id: "Found" });

const end = z.object({ digest: text, endPs: time, events: number });
export const comparison: z.ZodType<replay.Comparison> = z.object({
  isSame: flag,
  first: z.object({
    at: time,
    nodes: z.array(name),
    here: z.array(eventRow),
    there: z.array(eventRow),
  }).nullable(),
  figures: z.array(z.object({
    node: name,
    name: text,
    here: number.nullable(),
    there: number.nullable(),
  })),
  here: end,
  there: end,
}).meta({ id: "Comparison" });

/** As `rack trace --json` has it, with the bytes of frames. */
export const ladder: z.ZodType<replay.LadderDocument> = ladderDocument;

// Queries.

const whole = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const variant = name.optional().describe(
  "of a run with several: name or number from 1; default: the first",
);
const query = z.object({ variant });

export const timelineQuery = query;
export const densityQuery = query.extend({
  from: whole.optional(),
  to: whole.optional(),
  buckets: whole.min(1).max(4_096).optional(),
  byNode: z.enum(["true", "false"]).optional(),
});
export const snapshotQuery = query.extend({
  at: whole,
  exact: z.enum(["true", "false"]).optional().describe("also where that takes seconds"),
});
export const memoryQuery = query.extend({
  at: whole.optional().describe("default: the end, or the present of a rack that is up"),
  host: name,
  from: whole.default(0),
  to: whole.default(Number.MAX_SAFE_INTEGER),
  bytes: z.enum(["true", "false"]).optional(),
});
export const memoryMapQuery = memoryQuery.omit({ bytes: true }).extend({
  to: whole,
  parts: whole.min(1).max(4_096).optional(),
});
export const lossQuery = query.extend({
  at: whole.optional().describe("default: the end, or the present of a rack that is up"),
  nodes: z.string().min(1).max(4_000).describe("names with commas between them"),
});
export const operationsQuery = query.extend({
  from: whole.optional(),
  to: whole.optional(),
  on: name.optional(),
  most: whole.min(1).max(1_000).optional(),
});
export const ladderQuery = query.extend({ index: whole });
export const eventsQuery = query.extend({
  at: whole,
  before: whole.max(500).optional(),
  after: whole.max(500).optional(),
  node: name.optional(),
  kinds: z.string().max(200).optional().describe(
    `of ${eventKinds.join(", ")}: commas between them`,
  ),
});
export const findQuery = query.extend({
  after: whole.optional().describe("steps after this instant; default: all"),
  atPs: whole.optional().describe("steps before this instant; default: all"),
  step: predicateText,
  node: node.optional(),
  count: whole.min(1).max(COUNT_MAX).optional().describe("which occurrence; default 1, the first"),
});
export const compareQuery = query.extend({
  with: name.describe("the other run"),
  withVariant: variant,
});
