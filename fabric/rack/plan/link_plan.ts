/**
 * Cable faults as plain data. `fabric/link/fault.ts` executes them; `link_faults.ts` reads them
 * from a scenario.
 */
import {
  type Check,
  count,
  isCount,
  oneOf,
  shaped,
  text,
} from "../../wire/host_bus/rnic_command_shape.ts";
import { OPCODE_ROWS } from "../../wire/roce/opcode.ts";
import type { Time } from "../../base/time.ts";

interface ImpairmentRow {
  /** The kind of its value, with an example of one. */
  readonly amount: "share" | "time" | "rate";
  readonly like: string;
  /** For people: what it does. */
  readonly what: string;
}

/** What a cable may do wrong to frames, as scenarios, commands, orders and the page say it. */
export const IMPAIRMENT_ROWS = {
  loss: { amount: "share", like: "1%", what: "of the frames, this share is lost" },
  corrupt: {
    amount: "share",
    like: "1%",
    what: "of the frames, this share gets one bit turned over",
  },
  duplicate: { amount: "share", like: "1%", what: "of the frames, this share arrives twice" },
  reorder: {
    amount: "share",
    like: "1%",
    what: "of the frames, this share is held back until later ones have overtaken it",
  },
  delay: { amount: "time", like: "5us", what: "frames take so much longer" },
  rate: { amount: "rate", like: "10Gbps", what: "frames are sent no faster" },
} as const satisfies Readonly<Record<string, ImpairmentRow>>;
export type Impairment = keyof typeof IMPAIRMENT_ROWS;
export const IMPAIRMENTS = Object.keys(IMPAIRMENT_ROWS) as readonly Impairment[];

interface FaultTermRow {
  /** The kind of its value. */
  readonly value: "time" | "n" | "share" | "packets" | "crc";
  /** The impairment that has it; absent: all have. */
  readonly of?: Impairment;
  readonly what: string;
}

/** What limits an impairment, or says more of it. */
export const FAULT_TERMS = {
  until: { value: "time", what: "up to this virtual time" },
  count: { value: "n", what: "at most so many frames, in each direction" },
  nth: { value: "n", what: "only this one of the frames, in each direction" },
  only: {
    value: "packets",
    what: "only these: an opcode's name (RC ACKNOWLEDGE) or its beginning, or a class of packets",
  },
  past: {
    value: "crc",
    of: "corrupt",
    what: "icrc: in the payload, and with an ICRC made anew over it",
  },
  jitter: { value: "time", of: "delay", what: "and up to so much more" },
  share: { value: "share", of: "delay", what: "only this share of the frames" },
  by: { value: "n", of: "reorder", what: "overtaken by so many" },
  hold: { value: "time", of: "reorder", what: "held back for so long, beside `by` at most" },
} as const satisfies Readonly<Record<string, FaultTermRow>>;
export type FaultTerm = keyof typeof FAULT_TERMS;

export const OVERTAKEN_MAX = 1_000;

export type LinkDirection = "a" | "b" | "both";

/** One fault, or the end of all earlier ones. It strikes as frames are sent. */
export interface LinkFaultPlan {
  /** Unique in the run: part of random streams' names, event keys and reports. */
  readonly id: number;
  readonly action: Impairment | "cut" | "heal";
  readonly cable: number;
  readonly direction: LinkDirection;
  readonly at: Time;
  /** Exclusive; absent: until the end, or until a heal. */
  readonly until?: Time;
  /** Of matching frames; absent: all. */
  readonly share?: number;
  /** Only the nth matching frame, from 1 in each direction. */
  readonly nth?: number;
  readonly count?: number;
  /** `corrupt`: the damaged payload has a valid ICRC, so that no receiver detects it (V-08). */
  readonly sealed?: true;
  readonly only?: string;
  /** `delay`: the added delay; `jitterPs` is the maximum of a random addition. */
  readonly delayPs?: Time;
  readonly jitterPs?: Time;
  /** `rate`. */
  readonly bitsPerSecond?: number;
  /** `reorder`: how many later frames overtake it; `holdPs` limits its wait. */
  readonly overtakenBy?: number;
  readonly holdPs?: Time;
}

export const PACKET_CLASSES = ["request", "response", "notice"] as const;

/**
 * A name (`RC ACKNOWLEDGE`), a common prefix of several (`RC RDMA WRITE`, `VENDOR`), or one of
 * {@link PACKET_CLASSES}. Empty for an unknown text.
 */
export function opcodesOf(text: string): number[] {
  return OPCODE_ROWS.filter(({ name, direction }) =>
    name === text || name.startsWith(`${text} `) || direction === text
  ).map(({ code }) => code);
}

/** `1% of RC ACKNOWLEDGE`, `number 5`, `all`. */
export function framesText({ share, nth, only }: LinkFaultPlan): string {
  const taken = share !== undefined
    ? `${Number((share * 100).toFixed(6))}%`
    : nth === undefined
    ? "all"
    : `number ${nth}`;
  return only === undefined ? taken : `${taken} of ${only}`;
}

export interface LinkFaultCount {
  readonly fault: number;
  /** `a-rnic->tor`. */
  readonly direction: string;
  readonly seen: number;
  readonly hit: number;
}

/**
 * Why a fault cannot be added to the existing ones, in any order of time: a cable is cut at most
 * once at a time, and only an existing fault can be healed.
 */
export function refuseLinkFault(
  known: readonly LinkFaultPlan[],
  fault: LinkFaultPlan,
): { readonly found: string; readonly expected: string } | undefined {
  const { action, at, direction } = fault;
  const before = known.filter((each) => each.cable === fault.cable && each.at <= at)
    .toSorted((x, y) => x.at - y.at || x.id - y.id);
  const cut = openCut(before);
  if (action === "cut" && cut !== undefined && overlaps(cut.direction, direction)) {
    return { found: "a cut of a cable that is cut already", expected: "a heal before it" };
  }
  if (action !== "heal") return undefined;
  if (before.some((each) => each.at === at && each.action !== "heal")) {
    return { found: "a heal at the instant of a fault", expected: "a later time" };
  }
  if (cut?.direction === "both" && direction !== "both") {
    return { found: "a heal of one way", expected: "both ways, as they were cut together" };
  }
  if (before.some((each) => each.action !== "heal" && isOpen(each, { before, at, direction }))) {
    return undefined;
  }
  return { found: "a heal of a cable without a fault", expected: "a fault before it" };
}

function openCut(before: readonly LinkFaultPlan[]): LinkFaultPlan | undefined {
  return before.findLast((each, i) =>
    each.action === "cut" &&
    !before.slice(i + 1).some((later) =>
      later.action === "heal" && overlaps(later.direction, each.direction)
    )
  );
}

function isOpen(
  fault: LinkFaultPlan,
  { before, at, direction }: {
    before: readonly LinkFaultPlan[];
    at: Time;
    direction: LinkDirection;
  },
): boolean {
  if (!overlaps(fault.direction, direction) || (fault.until ?? Infinity) <= at) return false;
  return !before.some((each) =>
    each.action === "heal" && each.at > fault.at && covers(each.direction, direction)
  );
}

function overlaps(x: LinkDirection, y: LinkDirection): boolean {
  return x === "both" || y === "both" || x === y;
}

function covers(x: LinkDirection, y: LinkDirection): boolean {
  return x === "both" || x === y;
}

/** In an order to a running rack: without `at` it takes effect as soon as possible. */
export interface LinkFaultRequest extends Omit<LinkFaultPlan, "id" | "at"> {
  readonly at?: Time;
  readonly forPs?: Time;
}

/** Undefined if the fault would end before it begins. */
export function checkedLinkFault(
  { forPs, ...request }: LinkFaultRequest,
  { id, at }: { readonly id: number; readonly at: Time },
): LinkFaultPlan | undefined {
  const until = forPs === undefined ? request.until : at + forPs;
  if (until !== undefined && until <= at) return undefined;
  return { ...request, id, at, ...(until !== undefined && { until }) };
}

const isAtLeastOne: Check<number> = (value): value is number => isCount(value) && value > 0;
const isShare: Check<number> = (value): value is number =>
  typeof value === "number" && value > 0 && value <= 1;
const isOpcodes: Check<string> = (value): value is string =>
  text(value) && opcodesOf(value).length > 0;

const TERMS = {
  action: oneOf(...IMPAIRMENTS, "cut", "heal"),
  cable: count,
  direction: oneOf("a", "b", "both"),
  until: { optional: count },
  share: { optional: isShare },
  nth: { optional: isAtLeastOne },
  count: { optional: isAtLeastOne },
  sealed: { optional: oneOf(true) },
  only: { optional: isOpcodes },
  delayPs: { optional: count },
  jitterPs: { optional: count },
  bitsPerSecond: { optional: isAtLeastOne },
  overtakenBy: { optional: isAtLeastOne },
  holdPs: { optional: isAtLeastOne },
} as const;

/** True where the value from the bus is a valid request. */
export const isLinkFaultRequest: Check<LinkFaultRequest> = shaped({
  ...TERMS,
  at: { optional: count },
  forPs: { optional: isAtLeastOne },
});

/** True where the value is a valid fault of a plan. */
export const isLinkFaultPlan: Check<LinkFaultPlan> = shaped({ ...TERMS, id: count, at: count });
