import type { AuditRecord, TimedRecord } from "../../fabric/audit.ts";
import type { QueueState } from "../api/replay.ts";

type Counted = { -readonly [K in keyof QueueState]: QueueState[K] };

/** True for a note of no more than queues. */
export function isOfQueue({ kind }: AuditRecord): boolean {
  return kind === "posted" || kind === "completed";
}

export class QueueCounts {
  readonly #queues = new Map<string, Counted>();

  constructor(before?: QueueCounts) {
    if (before === undefined) return;
    for (const [key, queue] of before.#queues) this.#queues.set(key, { ...queue });
  }

  add({ note }: TimedRecord): void {
    if (note.kind !== "posted" && note.kind !== "completed") return;
    const qpn = note.kind === "completed" && note.queue === "shared" ? note.srqn! : note.qpn;
    const { rnic = 0 } = note, key = `${rnic} ${note.queue} ${qpn}`;
    let queue = this.#queues.get(key);
    if (queue === undefined) {
      const counts = { posted: 0, completed: 0, failed: 0, lastStatus: "" };
      queue = { queue: note.queue, qpn, ...(rnic > 0 && { rnic }), ...counts };
      this.#queues.set(key, queue);
    }
    if (note.kind === "posted") queue.posted++;
    else {
      queue.completed++;
      queue.lastStatus = String(note.status);
      if (note.status !== "SUCCESS") queue.failed++;
    }
  }

  states(): QueueState[] {
    return [...this.#queues.values()];
  }
}
