/** A `put` under way: what its parts share. */
import type { VerifyLevel } from "../../../../fabric/wire/roce/verify_eth.ts";
import type { Cpu } from "../../cpu/program.ts";
import type { PersistClient, Region } from "./persist_client.ts";
import type { PutMethod } from "../common/persist_protocol.ts";
import type { MethodPlan, Stage } from "./put_methods.ts";
import type { CrcMaker, Verifying } from "./put_verify.ts";
import type { Mr } from "../../verbs/objects.ts";

export interface PutOptions {
  readonly to: string;
  /** What the data is called in reports. */
  readonly file: string;
  readonly name: string;
  readonly method: PutMethod;
  readonly messageBytes: number;
  readonly depth: number;
  readonly inline: boolean | undefined;
  /** Of methods that check: V-04, V-02, and how often a message that failed is written again. */
  readonly level?: VerifyLevel;
  readonly crcBy?: CrcMaker;
  readonly rewrites?: number;
}

/** Flags of a message. */
export const WRITTEN = 1, PERSISTED = 2, LOOKED_AT = 4;

export const STAGES: Readonly<Record<Stage, number>> = { first: 1, second: 2, reply: 4 };

/** A put under way. Arrays are by message. */
export interface Put {
  readonly cpu: Cpu;
  readonly options: PutOptions;
  readonly client: PersistClient;
  readonly region: Region;
  readonly plan: MethodPlan;
  readonly data: Uint8Array;
  readonly count: number;
  /** `depth` places for a message, its header included where it is a SEND. */
  readonly slots: Mr;
  readonly slotBytes: number;
  /** A place each for what is read back, or for the mark that is sent. */
  readonly scratch: Mr;
  readonly scratchBytes: number;
  /** Of the methods that have it checked what has arrived. */
  readonly verifying: Verifying | undefined;
  readonly freeSlots: number[];
  readonly slotOf: Int32Array;
  readonly flags: Uint8Array;
  /** What is still to come of a message, by {@link STAGES}: until nothing is, its place is in use. */
  readonly awaited: Uint8Array;
  readonly postedAt: Float64Array;
  readonly latency: Float64Array;
  /** Messages whose persistence will be told by PSN (P-28). */
  readonly byPsn: Map<number, number>;
  readonly requests: { write: number; read: number; send: number; flush: number; recv: number };
  /** Messages for which a receive is to be posted. */
  readonly recvsDue: number[];
  next: number;
  outstanding: number;
  written: number;
  persisted: number;
  /** Told twice, or told of nothing that is outstanding: must stay 0 (P-30). */
  unexpected: number;
  reportAt: number;
}
