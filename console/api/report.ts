import { z } from "zod";
import { HINT_TRANSPORTS } from "../../fabric/rack/plan/hint_plan.ts";
import { QUEUE_STORES } from "../../fabric/rack/plan/queue_plan.ts";
import { maybe, name, seed, time } from "./common.ts";

const latencies = z.object({ median: time, p99: time, max: time });

const methodRow = z.object({
  method: z.string(),
  ddio: z.enum(["on", "off", "mixed"]),
  from: name,
  to: name,
  toRnic: name.optional().describe("the other host's RNIC, where the program has named it"),
  rnic: name.optional().describe("its own RNIC, unless that is the first one"),
  messages: z.number(),
  confirmed: z.number().describe("messages whose last completion confirmed persistence"),
  promises: z.boolean(),
  requestsPerMessage: z.number(),
  packetsPerMessage: z.number().nullable(),
  bytesPerMessage: z.number().nullable(),
  latencyPs: latencies,
  throughputBps: z.number(),
  cpuPs: z.object({ requester: time, responder: time }),
  scmAmplification: z.number().nullable(),
  intact: z.boolean(),
  replaced: z.literal(true).optional(),
  loss: z.record(z.string(), z.unknown()).nullable()
    .describe("the first byte that was reported persistent and is lost"),
  verified: z.record(z.string(), z.unknown()).optional(),
  error: z.string().nullable(),
  digest: z.string(),
}).meta({ id: "MethodRow" });
export type MethodRow = z.infer<typeof methodRow>;

/** A violation of a promise. */
export const finding = z.object({
  text: z.string(),
  scm: maybe(z.object({ host: name, from: z.number(), to: z.number() }))
    .describe("where in a host's SCM"),
  at: z.object({ node: name, time })
    .describe("which device does it, and when; else an instant that shows it"),
}).meta({ id: "Finding" });

const check = z.object({
  name: z.string(),
  promise: z.string(),
  looked: z.array(z.string()).describe("how much the check examined, by variant"),
  holds: z.boolean(),
  detail: z.string().describe("the violation, of many the first ones; empty where the check holds"),
  findings: z.array(finding.extend({ variant: z.string() }).meta({ id: "FindingOfVariant" }))
    .optional().describe("each violation of a promise by itself"),
  mayBeMore: z.literal(true).optional().describe("the check has stopped at its limit"),
}).meta({ id: "Check" });

const queueRow = z.object({
  variant: z.string(),
  node: name,
  scheme: z.enum(["three-space", "classic"]),
  placement: z.string(),
  layout: z.string(),
  store: z.enum(QUEUE_STORES).describe("where queue information lies"),
  cache: z.string().describe("entries of the card's cache, and what makes room in it"),
  qps: z.number(),
  doorbells: z.number(),
  dmaReadsPerDoorbell: z.number(),
  cacheHits: z.number(),
  cacheMisses: z.number(),
  cacheEvictions: z.number(),
  stalePointers: z.number().nullable(),
  queueBytes: z.number().describe("of one queue's information"),
  pointerBytes: z.number().describe("of these for its write pointer, and for the address of that"),
  storeBytes: z.number().describe("of all that the card has room for"),
  latencyPs: latencies.nullable(),
  messagesPerSecond: z.number().nullable(),
  throughputBps: z.number().nullable(),
}).meta({ id: "QueueRow" });

const hintRow = z.object({
  variant: z.string(),
  node: name,
  workload: z.string().nullable().describe("null: all that a card has done"),
  send: z.string().describe("when requests follow their hint"),
  encoding: z.string().nullable(),
  by: z.enum([...HINT_TRANSPORTS, "uc-carrier"]).nullable()
    .describe("whose queue pair carries the hints"),
  messages: z.number().nullable(),
  failed: z.number().nullable(),
  faults: z.number().nullable()
    .describe("accesses to pages that were not there; null where no server says"),
  rnrNaks: z.number().nullable(),
  misses: z.number().nullable().describe("contexts and translations that were not on the chip"),
  latencyPs: z.object({ median: time, p99: time }).nullable(),
  stallPs: z.number().nullable().describe("what a message took longer than the same again"),
  heldPs: time.describe("how long requests were held back behind their hints"),
  useful: z.number().nullable(),
  late: z.number().nullable(),
  wasted: z.number().nullable(),
  faultsFirst: z.number().nullable().describe(
    "of what was announced, by its element's place in the hint",
  ),
  faultsBehindFirst: z.number().nullable(),
  missesFirst: z.number().nullable(),
  missesBehindFirst: z.number().nullable(),
  hints: z.number(),
  hintBytes: z.number(),
  overhead: z.number().describe("share of hints in the bytes that the card has sent"),
}).meta({ id: "HintRow" });

const leadRow = z.object({
  variant: z.string(),
  node: name.describe("the responder's card"),
  fromPs: time.describe("how long the hint was ahead of its request"),
  toPs: time.nullable().describe("null: no end"),
  useful: z.number().describe("operations for which all was there"),
  late: z.number().describe("operations for which something was on its way"),
  wasted: z.number().describe("operations of which no request has used anything"),
}).meta({ id: "LeadRow" });

export const report = z.object({
  run: z.string(),
  scenario: z.string(),
  seed,
  digest: z.string(),
  virtualPs: time,
  wallMs: z.number(),
  processes: z.number(),
  events: z.number(),
  directory: z.string(),
  captures: z.array(z.string()).optional(),
  methods: z.array(methodRow),
  congestion: z.array(z.object({
    variant: z.string(),
    node: name,
    counters: z.record(z.string(), z.number()),
  })),
  faults: z.array(z.record(z.string(), z.unknown())),
  deviceFaults: z.array(z.record(z.string(), z.unknown())),
  queues: z.array(queueRow).optional(),
  hints: z.array(hintRow).optional(),
  hintLeads: z.array(leadRow).optional().describe("how long hints were ahead, as a histogram"),
  results: z.array(z.object({ node: name, variant: z.string(), value: z.unknown() })),
  natives: z.array(z.object({
    node: name,
    variant: z.string(),
    program: z.string(),
    code: z.number().nullable().describe("of its process; null: it has not ended"),
    lines: z.array(z.object({ atPs: time, text: z.string() })).optional()
      .describe("what it printed; absent: in the logs of its container"),
    steps: z.number().optional()
      .describe("in which it has stored into several cache lines of SCM, once it has ended"),
    flushes: z.number().optional().describe("instructions of its code that flush unseen, at most"),
  })).optional().describe("what native programs came to"),
  warnings: z.array(z.object({ node: name, variant: z.string(), text: z.string() })).optional()
    .describe("what a program, or the host for it, warns of, and goes on"),
  refused: z.array(z.record(z.string(), z.unknown())),
  inexact: z.array(z.object({ variant: z.string(), why: z.string() })).optional(),
  unchecked: z.array(z.object({ variant: z.string(), why: z.string() })).optional()
    .describe("variants that did nothing, so that their checks say nothing"),
  checks: z.array(check),
}).meta({ id: "Report" });
export type Report = z.infer<typeof report>;
