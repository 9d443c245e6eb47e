/** Orders to a rack that is up: power, time, cables, objects. */
import { z } from "zod";
import {
  FAULT_TERMS,
  type FaultTerm,
  IMPAIRMENTS,
  OVERTAKEN_MAX,
} from "../../fabric/rack/plan/link_plan.ts";
import { PUT_METHODS, TRANSFER_CHOICES } from "../../fabric/rack/plan/vocabulary.ts";
import { amount, name, orderFields, queryFields, time } from "./common.ts";
import { STEP_OPTIONS } from "./options.ts";
import { predicate, predicateText } from "./predicate.ts";
import { clock } from "./rack.ts";

export const powerOrder = z.discriminatedUnion("action", [
  z.strictObject({
    action: z.literal("kill"),
    node: name.describe("a device; also `timekeeper` and `nats`, which are started again"),
    atPs: time.optional().describe("adds a power failure to the plan instead of one now"),
  }),
  z.strictObject({
    action: z.literal("shutdown"),
    node: name.describe("a host: its programs end, its shared regions go home, its caches to SCM"),
    withinPs: time.min(1).optional().describe(
      "how long after its begin the power goes off, done or not; default 1 ms",
    ),
  }),
  z.strictObject({
    action: z.literal("start"),
    node: name,
    acceptDamage: z.boolean().optional().describe("go on with an SCM file that is damaged"),
  }),
]).meta({ id: "PowerOrder" });
export type PowerOrder = z.infer<typeof powerOrder>;

export const powerDone = z.object({
  nodes: z.array(name).describe("devices that lost power, or have it again"),
  atPs: time.nullable().describe(
    "null: a service, which has no virtual time, or a shutdown that begins when time goes on",
  ),
}).meta({ id: "PowerDone" });

export const psPerSecond = z.number().int().min(0).describe(
  "virtual ps per second whenever time runs, until another pace is ordered; 0: full speed",
);

const BREAKS_MAX = 20;

export const timeOrder = z.discriminatedUnion("order", [
  z.strictObject({ order: z.literal("pause") }),
  z.strictObject({ order: z.literal("resume") }),
  z.strictObject({
    order: z.literal("step"),
    ...orderFields(STEP_OPTIONS),
    spanPs: time.min(1).optional().describe("instead: so much virtual time"),
  }),
  z.strictObject({
    order: z.literal("until"),
    atPs: time.optional(),
    step: predicateText.optional(),
    breaks: z.array(predicate).min(1).max(BREAKS_MAX).optional().describe(
      "instead of `step`: whichever comes first, `atPs` included",
    ),
  }),
  z.strictObject({
    order: z.literal("pace"),
    psPerSecond,
  }),
]).meta({ id: "TimeOrder" });
export type TimeOrder = z.infer<typeof timeOrder>;

export const timeDone = z.object({
  clock,
  missed: z.string().optional().describe("why the order did not reach its goal"),
}).meta({ id: "TimeDone" });

/** Of the words that say which packets a fault is of: `only: ack`. */
const PACKETS_LETTERS_MAX = 80;

/** With the words of a scenario's `faults`. */
function term<Schema extends z.ZodType>(name: FaultTerm, schema: Schema) {
  return schema.optional().describe(FAULT_TERMS[name].what);
}

export const linkOrder = z.strictObject({
  target: name.describe("`a-rnic/tor`, `a-rnic->tor`, or a host for its RNIC's cable"),
  action: z.enum(["cut", "heal", ...IMPAIRMENTS]),
  value: amount.optional().describe("`1%`, `5us`: of all but cut and heal"),
  atPs: time.optional(),
  forPs: time.min(1).optional(),
  untilPs: time.min(1).optional(),
  share: term("share", amount),
  count: term("count", z.number().int().min(1)),
  nth: term("nth", z.number().int().min(1)),
  only: term("only", z.string().max(PACKETS_LETTERS_MAX)),
  jitter: term("jitter", amount),
  by: term("by", z.number().int().min(1).max(OVERTAKEN_MAX)),
  hold: term("hold", amount),
  past: term("past", z.enum(["icrc"])),
}).meta({ id: "LinkOrder" });
export type LinkOrder = z.infer<typeof linkOrder>;

export const linkDone = z.object({ fault: z.number().int(), atPs: time }).meta({ id: "LinkDone" });

export const healed = z.object({
  healed: z.array(z.string()).describe("cables"),
  started: z.array(name).describe("devices that have power again"),
  problems: z.array(z.string()).describe("what could not be healed, and why"),
}).meta({ id: "Healed" });

export const objects = z.object({
  host: name.describe("that asked"),
  objects: z.array(z.object({
    name: z.string(),
    length: z.number().int(),
    incomplete: z.literal(true).optional(),
  })),
}).meta({ id: "Objects" });
export type Objects = z.infer<typeof objects>;

/** Query of `put`; the body is the object's bytes. */
/** Each of these takes virtual time. */
const wait = z.enum(["true", "false"]).optional()
  .describe("where time stands: until it moves; else that is refused at once");

export const putQuery = z.object({
  method: z.enum(PUT_METHODS).default("persist-opcode"),
  on: name.optional().describe("the host that runs the program; default: the first other one"),
  wait,
  ...queryFields(TRANSFER_CHOICES),
});

export const getQuery = z.object({
  on: name.optional(),
  wait,
  partial: z.enum(["true", "false"]).optional().describe("an incomplete object, too"),
  ...queryFields(TRANSFER_CHOICES),
});

export const onQuery = z.object({ on: name.optional(), wait });

export const putDone = z.object({
  host: name,
  bytes: z.number().int(),
  startPs: time,
  endPs: time,
  sha256: z.string(),
  promises: z.boolean(),
  confirmedMessages: z.number().int(),
  messages: z.number().int(),
  withdrawn: z.boolean().optional()
    .describe("the old object of that name had to go first: there was no room for both"),
}).meta({ id: "PutDone" });

export const removed = z.object({ host: name, from: name, name: z.string() }).meta({
  id: "ObjectRemoved",
});
