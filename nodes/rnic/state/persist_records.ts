/** A responder's persistent messages, for the CPU's answer and for duplicates (P-30). */
import { LIMITS } from "./limits.ts";
import { psnDistance } from "./psn.ts";
import type { QueuePair } from "./queue_pair.ts";
import type { PersistRecord, Responder } from "./responder_state.ts";
import type { Writable } from "./writable.ts";

function own({ responder }: QueuePair): Writable<Responder> {
  return responder as Writable<Responder>;
}

/** Discards records that no duplicate can name, but never an unpersisted one. */
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

/** The search ends where {@link passPersisted} has arrived. */
export function firstUnproven(qp: QueuePair): PersistRecord | undefined {
  const responder = own(qp);
  const { persists } = responder;
  responder.persistHead = Math.max(responder.persistHead, persists.first);
  return persists.at(responder.persistHead);
}

export function passPersisted(qp: QueuePair): void {
  own(qp).persistHead++;
}

/** The search begins with the newest, as those are asked for. */
export function findRecord(qp: QueuePair, psn: number): PersistRecord | undefined {
  const { persists } = qp.responder;
  for (let number = persists.end - 1; number >= persists.first; number--) {
    const record = persists.at(number)!;
    if (record.lastPsn === psn) return record;
    if (psnDistance(record.lastPsn, psn) > 0) return undefined;
  }
  return undefined;
}

export interface NotifiedRanges {
  readonly va: number;
  readonly byteCount: number;
  readonly more: number;
}
