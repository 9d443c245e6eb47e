/**
 * Hints (`hints.md`): a card's announcements of coming requests, and its preparations for its
 * peers'.
 */
import type { Time } from "../../base/time.ts";
import { PS_PER_MS, PS_PER_US } from "../../base/time.ts";
import { HINT_KINDS, type HintEncoding } from "../../wire/roce/hint_eth.ts";
import type { HintWork } from "./hint_work.ts";

/** H-02: an adaptive card's first batch whose requests wait for it, and the bounds of its size. */
export const HINT_BATCH = { first: 8, least: 4, most: 64 } as const;

export const HINT_BACK_OFFS = ["on", "off"] as const;

/** H-06: when a request follows its hint. */
const HINT_FOLLOWS = ["at-once", "delay", "agreed", "after-ack"] as const;

/** H-04. */
export type HintKind = keyof typeof HINT_KINDS;

/**
 * H-08: each queue pair has its own hints (figure 7); or the carrier of that peer those of all
 * (figure 8); or a multicast group those for all peers (figure 9): of a protection domain, or,
 * `trusted`, of the whole card. Without a carrier or group, each has its own.
 */
export const HINT_TRANSPORTS = ["own", "carrier", "multicast", "trusted"] as const;
export type HintTransport = typeof HINT_TRANSPORTS[number];

/** A queue pair's own by its service, or a carrier queue pair, which is RC or UC [0113]. */
export type HintWay = "rc" | "uc" | "ud" | "carrier" | "multicast";

const UD_ANNOUNCED = "datagrams are not announced, as no peer has agreed to get them";
const UD_ALONE = "a hint to a group is a datagram of its own, as each other takes a receive";
/** H-07 × H-08: why hints of an encoding cannot go a way; absent ways are possible. */
const HINT_REFUSALS: Readonly<Record<HintEncoding, Readonly<Partial<Record<HintWay, string>>>>> = {
  "opcode": { ud: UD_ANNOUNCED },
  "header": { ud: UD_ANNOUNCED, multicast: UD_ALONE },
  "payload": { ud: UD_ANNOUNCED, multicast: UD_ALONE },
  "flagged": {
    ud: UD_ANNOUNCED,
    carrier: "a READ or WRITE of no bytes names no other queue pair",
    multicast: "UD has neither READ nor WRITE",
  },
};

/** Undefined where hints of the encoding can go that way. */
export function refuseEncoding(encoding: HintEncoding, way: HintWay): string | undefined {
  return HINT_REFUSALS[encoding][way];
}

/** Absent in a plan: the card neither sends nor takes hints. */
export interface HintPlan {
  /**
   * H-09: the firmware's policy: every RC and UC queue pair takes part, or those whose program asks
   * for it.
   */
  readonly queuePairs: "all" | "asked";
  /**
   * Sent if the peer wants them, prepared for if received. `atomic` only if asked for: it needs a
   * host that tells its card of changed lines (`SnoopInvalidate`), which PCIe's do not.
   */
  readonly kinds: number;
  /** H-02: work elements, from the next request on, that are looked at. */
  readonly depth: number;
  /** H-02: work elements of one hint. */
  readonly batch: number | "adaptive";
  /** H-02: useless hints become rare (`nodes/rnic/hints/back_off.ts`). */
  readonly backOff: typeof HINT_BACK_OFFS[number];
  /** H-07: for queue pairs whose program names none. */
  readonly encoding: HintEncoding;
  readonly transport: HintTransport;
  /**
   * H-03 [0086]: hints of atomics carry their operands, and received ones are compared with their
   * requests.
   */
  readonly operands: boolean;
  readonly follow: typeof HINT_FOLLOWS[number];
  readonly delayPs: Time;
  /**
   * Maximum wait of a request: `after-ack` for a missing answer, `agreed` for the responder's time.
   */
  readonly patiencePs: Time;
  /** H-06 [0121]: interval between the begins of announced requests; 0: none. */
  readonly intervalPs: Time;
  /**
   * H-06 [0121], as responder: how long a preparation takes. Peers whose `follow` is `agreed` wait
   * for it; an absent kind needs no wait.
   */
  readonly waitsPs: Readonly<Partial<Record<HintKind, Time>>>;
  /** H-24: pages and lines of translations fetched for hints of one requester, and not used. */
  readonly quota: number;
  /** H-24: after that time a fetch counts no more. */
  readonly quotaPs: Time;
  /** [0114]: the work's place, host or card; absent: as `hint_work.ts` says. */
  readonly work?: HintWork;
}

/** Choices. The patience is beyond a page fault's 475 us (Yang et al., NSDI'20). */
export const HINT_PLAN: HintPlan = {
  queuePairs: "all",
  kinds: HINT_KINDS.prefetch | HINT_KINDS.warmUp | HINT_KINDS.receive,
  depth: 32,
  batch: 8,
  backOff: "on",
  encoding: "opcode",
  transport: "carrier",
  operands: false,
  follow: "at-once",
  delayPs: PS_PER_US,
  patiencePs: 2 * PS_PER_MS,
  intervalPs: 0,
  waitsPs: {},
  quota: 4096,
  quotaPs: 10 * PS_PER_MS,
};
