/**
 * `GET /api/v1/feed?run=RUN&after=SEQ`, one JSON document a line (a {@link batch}). The first
 * message is the rack's state, or, with `after`, what has happened since, as long as the server has
 * it. A reader that is too slow gets `dropped` and a new state, never a broken connection.
 */
import { z } from "zod";
import { name, orNull, seed, time } from "./common.ts";
import { clock, counters, processState, traffic } from "./rack.ts";
import { job } from "./jobs.ts";

const linkEvent = z.object({
  fault: z.number().int(),
  action: z.string(),
  target: z.string(),
  atPs: time,
  untilPs: time.optional(),
}).meta({ id: "LinkEvent" });

const stateMessage = z.object({
  type: z.literal("state"),
  run: z.string(),
  scenario: z.string(),
  seed,
  clock: orNull(clock).describe("null while the timekeeper does not answer"),
  nodes: z.array(z.object({ name, power: z.boolean() })),
  processes: z.array(processState),
  links: z.array(linkEvent).describe("planned by the scenario or ordered since"),
  counters,
  traffic: z.array(traffic),
  ended: z.object({ message: z.string() }).optional().describe("the rack is down"),
}).meta({ id: "StateMessage" });

const changes = [
  z.object({ type: z.literal("clock"), clock }),
  z.object({
    type: z.literal("power"),
    action: z.enum(["kill", "start"]),
    nodes: z.array(name),
    atPs: time,
  }),
  z.object({ type: z.literal("process"), process: processState }),
  linkEvent.extend({ type: z.literal("link") }),
  z.object({
    type: z.literal("report"),
    node: name,
    topic: z.string(),
    value: z.unknown(),
    atPs: time,
  }),
  z.object({
    type: z.literal("counters"),
    atPs: time,
    overMs: z.number().describe("wall time since the last ones"),
    nodes: counters.describe("counters that have changed, by node; the others are as before"),
    traffic: z.array(traffic).describe("of all cables, since power-on"),
  }),
  z.object({
    type: z.literal("ended"),
    message: z.string().describe("why the rack has gone down by itself; empty: it was taken down"),
  }),
] as const;

const changeMessage = z.discriminatedUnion("type", changes).meta({ id: "ChangeMessage" });
export type Change = z.infer<typeof changeMessage>;

const message = z.discriminatedUnion("type", [
  stateMessage,
  ...changes,
  z.object({
    type: z.literal("dropped"),
    count: z.number().int().describe("messages that this reader has missed; a state follows"),
  }),
  z.object({ type: z.literal("job"), job }),
  z.object({ type: z.literal("runs") }).describe("the list of runs has changed"),
]).meta({ id: "Message" });
export type Message = z.infer<typeof message>;
export type StateMessage = z.infer<typeof stateMessage>;

/** One line. An empty one says every few seconds that the server is there. */
export const batch = z.object({
  seq: z.number().int().describe("for `after`: what is behind these messages"),
  messages: z.array(message),
}).meta({ id: "Batch" });
export type Batch = z.infer<typeof batch>;

export const feedQuery = z.object({
  run: name.optional().describe("a rack that is up; without: only jobs and runs"),
  after: z.coerce.number().int().min(0).optional(),
});
