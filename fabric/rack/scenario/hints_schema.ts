import { wholeText } from "../../base/whole_number.ts";
import { listOf } from "../plan/problem.ts";
import { HINT_BACK_OFFS, HINT_BATCH, HINT_TRANSPORTS, type HintPlan } from "../plan/hint_plan.ts";
import {
  type HintWork,
  WORK_PIECES,
  WORK_PLACES,
  WORK_PRESET_NAMES,
  WORK_PRESETS,
  type WorkPiece,
} from "../plan/hint_work.ts";
import { HINT_ENCODINGS, HINT_KINDS } from "../../wire/roce/hint_eth.ts";
import { parseDuration } from "../plan/units.ts";
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
