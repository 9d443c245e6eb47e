/**
 * What may go wrong with a cable, as a plan says it and as an order to a running rack says it: plain
 * data. `fabric/link/fault.ts` carries it out, `link_faults.ts` reads it out of a scenario.
 */
import { OPCODE_ROWS } from "../../wire/roce/opcode.ts";
import type { Time } from "../../base/time.ts";

/** What is done to single frames. */
export const IMPAIRMENTS = ["loss", "corrupt", "duplicate", "reorder", "delay"] as const;
export type Impairment = typeof IMPAIRMENTS[number];

/** A cable's direction: away from its end `a`, away from its end `b`, or each of them. */
export type LinkDirection = "a" | "b" | "both";

/**
 * One fault of a cable, or the end of all that its directions have by then (`heal`). What it does is
 * decided at the instant in which the sender's device hands a frame to its transmitter.
 */
export interface LinkFaultPlan {
  /** Unique in the run: part of its seed, of its events' order and of reports. */
  readonly id: number;
  readonly action: Impairment | "cut" | "heal";
  /** Place among the plan's cables. */
  readonly cable: number;
  readonly direction: LinkDirection;
  /** From this instant on. */
  readonly at: Time;
  /** Up to this instant, exclusive; absent: for good, or until it is healed. */
  readonly until?: Time;
  /** Of the frames that it could take, this share; absent: all. */
  readonly share?: number;
  /** Only this one of them, counted from 1 in each direction. */
  readonly nth?: number;
  /** At most so many, in each direction. */
  readonly count?: number;
  /**
   * `corrupt`: what sent the frame on made its ICRC anew over the damage, which is in the payload, so
   * that no receiver notices (V-08).
   */
  readonly sealed?: true;
  /** Only packets of these opcodes (see {@link opcodesOf}). */
  readonly only?: string;
  /** `delay`: how much longer, and up to how much more than that. */
  readonly delayPs?: Time;
  readonly jitterPs?: Time;
  /** `reorder`: how many later frames overtake it; it waits for them no longer than `holdPs`. */
  readonly overtakenBy?: number;
  readonly holdPs?: Time;
}

/** Words that stand for several opcodes, besides the beginnings of their names. */
export const PACKET_CLASSES = ["request", "response", "notice"] as const;

/**
 * Opcodes that a text stands for: a name as the opcode table has it (`RC ACKNOWLEDGE`), the words that
 * several names begin with (`RC`, `RC RDMA WRITE`, `VENDOR`), or one of {@link PACKET_CLASSES}.
 * Empty where it stands for none.
 */
export function opcodesOf(text: string): number[] {
  return OPCODE_ROWS.filter(({ name, direction }) =>
    name === text || name.startsWith(`${text} `) || direction === text
  ).map(({ code }) => code);
}

/** Which frames a fault takes, for people: `1% of RC ACKNOWLEDGE`, `number 5`, `all`. */
export function framesText({ share, nth, only }: LinkFaultPlan): string {
  const taken = share !== undefined
    ? `${Number((share * 100).toFixed(6))}%`
    : nth === undefined
    ? "all"
    : `number ${nth}`;
  return only === undefined ? taken : `${taken} of ${only}`;
}

/** What a cable has been made to do, and to how many frames: one row per fault and direction. */
export interface LinkFaultCount {
  readonly fault: number;
  /** `a-rnic->tor`. */
  readonly direction: string;
  /** Frames that it could have taken, and those that it took. */
  readonly seen: number;
  readonly hit: number;
}

/**
 * Why a fault cannot be added to those that there are; undefined where it can. They may come in any
 * order: a cable is cut once at a time, and what is healed has been broken.
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
    return { found: "a cut of what is cut already", expected: "a heal before it" };
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
  return { found: "a heal of what is whole", expected: "a fault before it" };
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
  of: { before: readonly LinkFaultPlan[]; at: Time; direction: LinkDirection },
): boolean {
  const { before, at, direction } = of;
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

/** A fault as it is ordered of a running rack: without `at` it takes effect as soon as it can. */
export interface LinkFaultRequest extends Omit<LinkFaultPlan, "id" | "at"> {
  readonly at?: Time;
  /** How long it lasts, in the place of `until`. */
  readonly forPs?: Time;
}

/** The fault that a request stands for at `at`; undefined where it would end before it begins. */
export function checkedLinkFault(
  { forPs, ...request }: LinkFaultRequest,
  { id, at }: { readonly id: number; readonly at: Time },
): LinkFaultPlan | undefined {
  const until = forPs === undefined ? request.until : at + forPs;
  if (until !== undefined && until <= at) return undefined;
  return { ...request, id, at, ...(until !== undefined && { until }) };
}

type Check = (value: unknown) => boolean;
const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isAtLeastOne: Check = (value) => isCount(value) && value !== 0;

/** What each member of a request has to be; those of {@link REQUIRED} have to be there. */
const MEMBERS: Readonly<Record<string, Check>> = {
  action: (value) => [...IMPAIRMENTS, "cut", "heal"].some((action) => action === value),
  cable: isCount,
  direction: (value) => value === "a" || value === "b" || value === "both",
  at: isCount,
  until: isCount,
  forPs: isAtLeastOne,
  share: (value) => typeof value === "number" && value > 0 && value <= 1,
  nth: isAtLeastOne,
  count: isAtLeastOne,
  sealed: (value) => value === true,
  only: (value) => typeof value === "string" && opcodesOf(value).length > 0,
  delayPs: isCount,
  jitterPs: isCount,
  overtakenBy: isAtLeastOne,
  holdPs: isAtLeastOne,
};
const REQUIRED = ["action", "cable", "direction"] as const;

function hasShape(value: unknown, extra: readonly string[]): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const given = value as Readonly<Record<string, unknown>>;
  return [...REQUIRED, ...extra].every((key) => given[key] !== undefined) &&
    Object.entries(given).every(([key, member]) =>
      key === "id" ? extra.includes("id") && isCount(member) : MEMBERS[key]?.(member) === true
    );
}

/** True where the value is a request from the bus that means something. */
export function isLinkFaultRequest(value: unknown): value is LinkFaultRequest {
  return hasShape(value, []);
}

/** True where the value is a fault of a plan. */
export function isLinkFaultPlan(value: unknown): value is LinkFaultPlan {
  return hasShape(value, ["id", "at"]) &&
    (value as { readonly forPs?: unknown }).forPs === undefined;
}
