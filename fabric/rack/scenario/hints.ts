/** `hints` of a host, in a scenario file: its schema, defaults of omitted values, and consistency checks. */
import type { z } from "zod";
import { wholeText } from "../../base/whole_number.ts";
import { listOf } from "../plan/problem.ts";
import {
  HINT_BACK_OFFS,
  HINT_BATCH,
  HINT_PLAN,
  HINT_TRANSPORTS,
  type HintPlan,
  refuseEncoding,
} from "../plan/hint_plan.ts";
import {
  type HintWork,
  refuseWork,
  WORK_PIECES,
  WORK_PLACES,
  WORK_PRESET_NAMES,
  WORK_PRESETS,
  type WorkPiece,
} from "../plan/hint_work.ts";
import { HINT_ENCODINGS, HINT_KINDS } from "../../wire/roce/hint_eth.ts";
import { parseDuration } from "../plan/units.ts";
import type { Report } from "./reading.ts";
import type { Path } from "./yaml_source.ts";
import {
  integer,
  leaf,
  mapping,
  oneOf,
  orShort,
  positiveTime,
  renamed,
  switchable,
  TIME_SHAPE,
  within,
} from "./values.ts";

/** H-04. */
const KINDS_OF_HINTS = {
  "prefetch": HINT_KINDS.prefetch,
  "warm-up": HINT_KINDS.warmUp,
  "receive": HINT_KINDS.receive,
  "atomic": HINT_KINDS.atomic,
} as const satisfies Record<string, number>;
const HINT_WORDS = Object.keys(KINDS_OF_HINTS) as (keyof typeof KINDS_OF_HINTS)[];

const hintKinds = leaf(
  `a list of ${listOf(HINT_WORDS)}, each once`,
  { type: "array", minItems: 1, uniqueItems: true, items: { enum: HINT_WORDS } },
  (value) => {
    if (!Array.isArray(value) || value.length === 0) return undefined;
    const known = HINT_WORDS.filter((word) => value.includes(word));
    if (known.length !== value.length) return undefined;
    return known.reduce((bits, word) => bits | KINDS_OF_HINTS[word], 0);
  },
);

/** H-06: `at-once`, `agreed`, `after-ack`, or a time. */
const hintSend = leaf(
  "at-once, agreed, after-ack, or a time > 0 with its unit, like 1us",
  { anyOf: [{ enum: ["at-once", "agreed", "after-ack"] }, TIME_SHAPE] },
  (value): Pick<HintPlan, "follow"> & Partial<Pick<HintPlan, "delayPs">> | undefined => {
    if (value === "at-once" || value === "agreed" || value === "after-ack") {
      return { follow: value };
    }
    const delayPs = parseDuration(value) || undefined;
    return delayPs === undefined ? undefined : { follow: "delay", delayPs };
  },
);

const hintWait = positiveTime("a time > 0 with its unit, like 30us");
/** H-06: the wait that the card asks of its peers behind a hint of each kind. */
const hintWaits = renamed({
  prefetch: ["prefetch", hintWait],
  warmUp: ["warm-up", hintWait],
  atomic: ["atomic", hintWait],
  receive: ["receive", hintWait],
}).describe("how long peers that send as agreed are asked to wait, behind a hint of each kind");

const hintBatch = leaf(
  `adaptive, or ${wholeText({ least: 1, most: HINT_BATCH.most })}`,
  { anyOf: [{ enum: ["adaptive"] }, { type: "integer", minimum: 1, maximum: HINT_BATCH.most }] },
  (value): HintPlan["batch"] | undefined => {
    if (value === "adaptive") return value;
    return Number.isSafeInteger(value) ? within(value as number, 1, HINT_BATCH.most) : undefined;
  },
);

const onOrOff = leaf(
  "on or off",
  { enum: ["on", "off"] },
  (value) => value === "on" ? true : value === "off" ? false : undefined,
);

const workPreset = oneOf(WORK_PRESET_NAMES);
const workPlace = oneOf(WORK_PLACES).optional();
const workPieces = Object.fromEntries(
  WORK_PIECES.map((piece): [string, typeof workPlace] => [piece, workPlace]),
) as Record<WorkPiece, typeof workPlace>;
/** [0114]: a preset, single pieces, or a preset with exceptions. */
const hintWork = orShort(
  mapping({ preset: workPreset.optional(), ...workPieces }).transform(
    ({ preset, ...pieces }) => ({ ...(preset && WORK_PRESETS[preset]), ...pieces }) as HintWork,
  ),
  {
    or: `${WORK_PRESET_NAMES.join(", ")} `,
    schema: workPreset,
    shape: { enum: WORK_PRESET_NAMES },
    meaning: (preset) => ({ preset }),
  },
).describe(
  "who does the work that hints cause: hardware, firmware, driver …, or each piece its own",
);

/** How a card announces requests, and prepares for its peers' (H-01 to H-24). */
export const hintsSchema = switchable({
  queuePairs: ["queuePairs", oneOf(["all", "asked"])],
  kinds: ["kinds", hintKinds],
  depth: ["depth", integer(1, 256)],
  batch: ["batch", hintBatch],
  backOff: ["backOff", oneOf(HINT_BACK_OFFS)],
  encoding: ["encoding", oneOf(HINT_ENCODINGS)],
  transport: ["transport", oneOf(HINT_TRANSPORTS)],
  operands: ["operands", onOrOff],
  send: ["send", hintSend],
  patiencePs: ["patience", positiveTime("a time > 0 with its unit, like 2ms")],
  intervalPs: ["interval", positiveTime("a time > 0 with its unit, like 1us")],
  waitsPs: ["waits", hintWaits],
  quota: ["quota", integer(1, 2 ** 20)],
  quotaPs: ["quotaTime", positiveTime("a time > 0 with its unit, like 10ms")],
  work: ["work", hintWork],
});

export function hintsOf({ send, ...given }: NonNullable<z.infer<typeof hintsSchema>>): HintPlan {
  // A flag concerns its own queue pair only.
  const transport = given.encoding === "flagged" ? "own" : HINT_PLAN.transport;
  const plan = { ...HINT_PLAN, transport, ...given, ...send };
  // By default a batch is as long as the look-ahead.
  const isGiven = given.batch !== undefined || plan.batch === "adaptive";
  return isGiven ? plan : { ...plan, batch: Math.min(plan.batch as number, plan.depth) };
}

/** @param host a host's part of the scenario. */
export function checkHints(
  { hints, iommu }: { readonly hints?: HintPlan; readonly iommu?: object },
  path: Path,
  report: Report,
): void {
  if (hints === undefined) return;
  const { batch, depth, encoding, transport, work } = hints;
  if (batch !== "adaptive" && batch > depth) {
    const expected = `at most ${depth}, the depth`;
    report([...path, "hints", "batch"], { found: String(batch), expected });
  }
  if (transport !== "own") {
    const refused = refuseEncoding(encoding, transport === "carrier" ? transport : "multicast");
    if (refused !== undefined) {
      const found = `${transport}, of hints that are ${encoding}`;
      const expected = `another transport, as ${refused}`;
      report([...path, "hints", "transport"], { found, expected });
    }
  }
  // [0114]: a piece of the work that cannot be done in the scenario's place.
  const isInPackets = encoding === "header" || encoding === "payload";
  const refused = work && refuseWork(work, { hasIommu: iommu !== undefined, isInPackets });
  if (refused === undefined) return;
  const { piece, reason } = refused;
  const found = work![piece] ?? "nothing, so as without it";
  report([...path, "hints", "work", piece], { found, expected: `another place, as ${reason}` });
}
