import { z } from "zod";
import { name, seed, time } from "./common.ts";
import { SEARCHED_MAX } from "./replay_terms.ts";
import { NOTE_LETTERS_MAX, RUN_SORTS, VERDICTS } from "./run_filter.ts";

export const runState = z.enum([
  "up",
  "running",
  "left over",
  "another user's",
  "damaged",
  "kept",
]).meta({ id: "RunState" });

export const run = z.object({
  id: z.string(),
  state: runState,
  started: z.string().describe("ISO 8601; empty where its directory has been deleted"),
  bytes: z.number().describe("on the disk"),
  mark: z.string().optional().describe("the user's own name for it; empty: kept without a name"),
  damage: z.string().optional().describe("what is wrong with a file of the run"),
  scenario: z.string().nullable(),
  seed: seed.nullable(),
  digest: z.string().nullable().describe("null while it is up, and where it left no report"),
  methods: z.array(z.string()).describe("of its report; empty where it has none"),
  ddio: z.array(z.string()).describe("of its responders: `on`, `off`, `mixed`; of its report"),
  note: z.string().optional().describe("the user's own words about it"),
  verdict: z.enum(VERDICTS).describe(
    "of the checks in its report; unchecked: nothing was done",
  ),
  isOwn: z.boolean().describe("this console has started it"),
  checkpoints: z.array(z.string()).describe("names; of a run with several variants: VARIANT/NAME"),
}).meta({ id: "Run" });
export type Run = z.infer<typeof run>;

export const runs = z.object({
  runs: z.array(run).describe("newest first"),
  limits: z.object({
    runs: z.number().nullable().describe("at most so many runs stay; null: any number"),
    bytes: z.number().nullable(),
  }),
}).meta({ id: "Runs" });
export type Runs = z.infer<typeof runs>;

export const runsQuery = z.object({
  text: z.string().min(1).max(SEARCHED_MAX).optional().describe(
    "in a run's name, its scenario, the user's name and note, in any case of letters",
  ),
  method: name.optional(),
  ddio: name.optional().describe("`on`, `off`, `mixed`"),
  verdict: z.enum(VERDICTS).optional(),
  state: runState.optional(),
  sort: z.enum(RUN_SORTS).optional().describe("default: newest"),
});

export const noteOrder = z.strictObject({
  note: z.string().max(NOTE_LETTERS_MAX).describe("empty: none"),
}).meta({ id: "NoteOrder" });

export const runDetail = run.extend({
  variants: z.array(z.string()).describe("names of its parts; empty where it has a single one"),
  hasReport: z.boolean(),
  hasTrace: z.boolean(),
  ended: z.string().describe("why a rack has gone down by itself; else empty"),
}).meta({ id: "RunDetail" });
export type RunDetail = z.infer<typeof runDetail>;

/** Of the user's own name of a run. */
const MARK_LETTERS_MAX = 80;

export const keepOrder = z.strictObject({
  keep: z.boolean(),
  name: z.string().max(MARK_LETTERS_MAX).optional(),
}).meta({ id: "KeepOrder" });

/** Everything before the instant has happened, and nothing else. */
export const checkpoint = z.object({
  name: z.string(),
  atPs: time,
  taken: z.string().describe("wall time, ISO 8601"),
  events: z.number().int(),
  digest: z.string().nullable().describe(
    "of the rack; null: a device lost its power at that instant",
  ),
}).meta({ id: "Checkpoint" });
export type Checkpoint = z.infer<typeof checkpoint>;

export const checkpoints = z.object({
  checkpoints: z.array(checkpoint).describe("by their instants"),
}).meta({ id: "Checkpoints" });
export type Checkpoints = z.infer<typeof checkpoints>;

export const checkpointOrder = z.strictObject({
  name: name.optional().describe("else c1, c2 …"),
  variant: name.optional(),
  atPs: time.optional().describe("of the run; absent: where the rack that is up stands"),
}).meta({ id: "CheckpointOrder" });

export const file = z.object({
  path: z.string().describe("below the run's directory"),
  bytes: z.number(),
  kind: z.enum(["report", "capture", "timeline", "log", "scenario", "record", "memory", "other"]),
}).meta({ id: "File" });

export const files = z.object({ files: z.array(file) }).meta({ id: "Files" });

export const logs = z.object({
  lines: z.array(z.object({ log: z.string(), line: z.string() })).describe("the last ones"),
  none: z.string().optional().describe("why the run has no logs"),
}).meta({ id: "Logs" });

const LOG_LINES_MAX = 10_000;

export const logsQuery = z.object({
  node: name.optional(),
  last: z.coerce.number().int().min(1).max(LOG_LINES_MAX).default(500).describe("so many lines"),
});

export const attachOrder = z.strictObject({
  url: z.string().min(1).max(4_000).describe(
    "of the rack's broker, with the supervisor's credential: nats://user:password@host:port",
  ),
  run: name.optional().describe("which run there, or how its name begins; else the only one"),
}).meta({ id: "AttachOrder" });

export const attached = z.object({ run: z.string() }).meta({ id: "Attached" });

export const down = z.object({
  run: z.string(),
  processes: z.number().int(),
  captures: z.array(z.string()),
  problem: z.string().optional(),
}).meta({ id: "Down" });

export const trace = z.object({ text: z.string() }).meta({ id: "Trace" });
