/** Messages to be persisted that a responder remembers, for the CPU's answer and for duplicates (P-30). */
import { LIMITS } from "./limits.ts";
import { psnDistance } from "./psn.ts";
import type { QueuePair } from "./queue_pair.ts";
import type { PersistRecord, Responder } from "./responder_state.ts";
import type { Writable } from "./writable.ts";

function own({ responder }: QueuePair): Writable<Responder> {
  return responder as Writable<Responder>;
}

/** Keeps the record, and discards records that no duplicate can name any more, but never an unpersisted one. */
export function rememberPersist(qp: QueuePair, record: PersistRecord): void {
  const { persists } = own(qp);
  persists.push(record);
  while (persists.length > LIMITS.persistRecords && isSettled(persists.peek()!)) {
    persists.shift();
  }
}

function isSettled({ state, service }: PersistRecord): boolean {
  return state === "persisted" || service?.state === "done";
}

/** The first record that is not known to be persistent, as far as {@link passPersisted} has gone. */
export function firstUnproven(qp: QueuePair): PersistRecord | undefined {
  const responder = own(qp);
  const { persists } = responder;
  responder.persistHead = Math.max(responder.persistHead, persists.first);
  return persists.at(responder.persistHead);
}

/** That record's data is persistent. */
export function passPersisted(qp: QueuePair): void {
  own(qp).persistHead++;
}

/** The message whose last packet has this PSN; searched newest first, as those are asked for. */
export function findRecord(qp: QueuePair, psn: number): PersistRecord | undefined {
  const { persists } = qp.responder;
  for (let number = persists.end - 1; number >= persists.first; number--) {
    const record = persists.at(number)!;
    if (record.lastPsn === psn) return record;
    // Records are in PSN order: all others are older still.
    if (psnDistance(record.lastPsn, psn) > 0) return undefined;
  }
  return undefined;
}

/** Content of a RECV's CQE: one range, and the number of further ones in the RECV's memory. */
export interface NotifiedRanges {
  readonly va: number;
  readonly byteCount: number;
  readonly more: number;
}
