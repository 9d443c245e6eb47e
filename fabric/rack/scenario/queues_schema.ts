import { z } from "zod";
import { wholeText } from "../../base/whole_number.ts";
import { listOf } from "../plan/problem.ts";
import {
  CACHED_QUEUES,
  QUEUE_STORES,
  type QueueCachePlan,
  QUEUES_MOST,
} from "../plan/queue_plan.ts";
import {
  PLACEABLE,
  type Placement,
  type PlacementName,
  PLACEMENTS,
  QUEUE_FIELDS,
  type QueueField,
  type Space,
} from "../../wire/host_bus/queue_placement.ts";
import {
  integer,
  leaf,
  mapping,
  oneOf,
  orShort,
  positiveTime,
  renamed,
  successRate,
} from "./values.ts";

function spaceOf(field: QueueField) {
  const spaces = PLACEABLE[field];
  const expected = spaces.length === 1
    ? `${spaces[0]}, the only space for it`
    : listOf(spaces.toSorted().map(String));
  return leaf(expected, { enum: spaces }, (value) => spaces.find((space) => space === value));
}

const PLACEMENT_NAMES = Object.keys(PLACEMENTS) as PlacementName[];

const placementSchema = orShort(
  mapping(
    Object.fromEntries(
      QUEUE_FIELDS.map((field): [string, z.ZodType<Space | undefined>] => [
        field,
        spaceOf(field).optional(),
      ]),
    ) as Record<QueueField, z.ZodType<Space | undefined>>,
  ).transform((own) => ({ ...PLACEMENTS.default, ...own }) as Placement),
  {
    or: `${PLACEMENT_NAMES.join(", ")} `,
    schema: oneOf(PLACEMENT_NAMES),
    shape: { enum: PLACEMENT_NAMES },
    meaning: (name) => PLACEMENTS[name],
  },
);

const queueCount = integer(8, QUEUES_MOST);

const evictSchema = orShort(
  mapping({
    oldest: integer(1, QUEUES_MOST).optional().describe("so many of the oldest at once"),
    olderThan: positiveTime("a time > 0 with its unit, like 10us").optional().describe(
      "all that came longer ago, at least the oldest",
    ),
    random: integer(1, QUEUES_MOST).optional().describe("so many at random"),
  }).transform((ways, context): Pick<QueueCachePlan, "evict" | "amount"> => {
    const { oldest, olderThan, random } = ways;
    if ([oldest, olderThan, random].filter((way) => way !== undefined).length !== 1) {
      context.addIssue({ code: "custom", message: "one of oldest, olderThan and random" });
      return z.NEVER;
    }
    if (olderThan !== undefined) return { evict: "older-than", amount: olderThan };
    if (random !== undefined) return { evict: "random", amount: random };
    return { evict: oldest === 1 ? "oldest" : "several-oldest", amount: oldest! };
  }),
  {
    or: "oldest ",
    schema: oneOf(["oldest"]),
    shape: { enum: ["oldest"] },
    meaning: () => ({ oldest: 1 }),
  },
);

/** How host and card know their queues. */
export const queuesSchema = orShort(
  mapping({
    count: queueCount.optional().describe("queues that the card has room for"),
    scheme: oneOf(["three-space", "classic"]).optional().describe(
      "how the card knows the host's pointers; classic: as today, by an address that it reads first",
    ),
    placement: placementSchema.optional().describe(
      "which space holds which field of queue information: a rule by name, or fields' spaces",
    ),
    store: oneOf(QUEUE_STORES).optional().describe(
      "where queue information lies: in the host's memory, in memory plugged into the node (CXL), or at the card",
    ),
    layout: oneOf(["areas", "record"]).optional().describe(
      "areas: each space by itself, three reads for a queue; record: a queue's together, one read",
    ),
    readPointer: oneOf(["at-eviction", "batched"]).optional().describe(
      "when the card tells the host what it has taken; batched: at empty, and each quarter of a ring",
    ),
    lockAnswer: oneOf(["message", "memory"]).optional().describe(
      "how the card answers a request for the lock of space 2: by message, or in a word of memory",
    ),
    arm: oneOf(["unread", "next"]).optional().describe(
      "completions for which an armed queue raises its event: also those not taken yet, or later ones alone",
    ),
    doorbell: renamed({
      form: ["form", oneOf(["fifo", "message"])],
      carries: ["carries", oneOf(["pointer", "number"])],
      slots: ["slots", integer(1, QUEUES_MOST)],
      retryPs: ["retry", positiveTime("a time > 0 with its unit, like 10us")],
      lostPpm: ["lost", successRate],
      coalescedPpm: ["coalesced", successRate],
    }).optional().describe(
      "form and content of doorbells, room for them, when the driver rings again, and their faults",
    ),
    events: oneOf(["message", "queue"]).optional().describe(
      "how the card tells asynchronous events: each by itself, or as entries of an event queue",
    ),
    cache: orShort(
      mapping({
        entries: integer(0, QUEUES_MOST).optional().describe("queues that it holds"),
        evict: evictSchema.optional().describe("what makes room in a full one"),
      }).superRefine(({ entries = CACHED_QUEUES, evict }, context) => {
        if (evict === undefined || evict.evict === "older-than" || entries === 0) return;
        if (evict.amount <= entries) return;
        const message = `an eviction of at most ${entries}, the cache's entries`;
        context.addIssue({ code: "custom", message });
      }),
      {
        or: "none ",
        schema: oneOf(["none"]),
        shape: { enum: ["none"] },
        meaning: () => ({ entries: 0 }),
      },
    ).optional().describe("the card's cache of queue information; none: every doorbell reads it"),
  }),
  {
    or: `${wholeText({ least: 8, most: QUEUES_MOST })} `,
    schema: queueCount,
    shape: { type: "integer", minimum: 8, maximum: QUEUES_MOST },
    meaning: (count) => ({ count }),
  },
);
export type QueuesSection = z.output<typeof queuesSchema>;
