/**
 * Flush-on-fail journal (persistence domain `wsp`): the card's writes into persistent memory that have not arrived
 * at the host. Their buffers, here and on the bus, outlast a power failure of the host. Without it a write could be
 * acknowledged, as the bus has taken it (P-41), and be lost when the host had no power as it came.
 *
 * Real hardware drains the buffers into memory with residual energy. In this model the card sends the writes that the
 * host has missed again, first of all when the host is back: its driver's first answer comes behind them on the bus,
 * and no program runs before. A power failure's reset leaves the journal alone (`rnic.ts`). A card that fails itself
 * loses it.
 *
 * Dirty lines of shared regions, and those sent to the host, enter it at the failure: `../coherence/kept_lines.ts`.
 */
import type { Outputs } from "../../../fabric/node.ts";
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import type { MemoryWrite } from "../../../fabric/wire/host_bus/pcie.ts";
import type { Device } from "../state/device.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import type { HeldLog, Journal, JournalWrite } from "../state/dma_state.ts";

/**
 * A report `held`: bytes that are durable though the host has not got them, by physical address, in
 * order, in hexadecimal. A card's last report counts.
 */
export interface HeldWrites {
  readonly host: string;
  readonly writes: { readonly address: number; readonly data: string }[];
}

export function createJournal(
  { host, flushOnFail }: RnicPlan,
  log?: HeldLog | undefined,
): Journal | undefined {
  return flushOnFail && { host, ...flushOnFail, writes: new Fifo(), log };
}

/**
 * The bus takes the write until `freeAt`; NEVER where the coherent port reports the time later.
 * Forgets entries that no power failure can concern. @returns the entry, where there is a journal.
 */
export function noteInJournal(
  { journal, now }: Pick<Device, "journal" | "now">,
  message: MemoryWrite,
  freeAt: Time,
): JournalWrite | undefined {
  if (journal === undefined) return undefined;
  forgetBefore(journal, now - journal.noticePs);
  const entry = { message, arrivesAt: freeAt + journal.busLatencyPs };
  journal.writes.push(entry);
  journal.log?.written(now, entry);
  return entry;
}

/** The host had power until `death`: at that instant it takes no more. */
function forgetBefore({ writes }: Journal, death: Time): void {
  while (writes.length > 0 && writes.peek()!.arrivesAt < death) writes.shift();
}

/**
 * The bus to the host goes down or comes back; then the card sends the writes that the host has
 * missed. Power may fail again meanwhile.
 */
export function survivePowerFailure(
  journal: Journal,
  event: {
    readonly up: boolean;
    readonly now: Time;
    /**
     * @returns when the bus has taken it; NEVER where that is reported later.
     */
    readonly send: (entry: JournalWrite) => Time;
    readonly out: Pick<Outputs, "report">;
  },
): void {
  const { host, writes, busLatencyPs } = journal;
  const { up, now, send, out } = event;
  const death = now - journal.noticePs;
  forgetBefore(journal, death);
  const held: HeldWrites["writes"] = [];
  for (let number = writes.first; number < writes.end; number++) {
    const write = writes.at(number)!;
    // A line of a shared region may arrive before writes that were asked for earlier.
    if (write.arrivesAt < death) continue;
    if (up) {
      write.arrivesAt = send(write) + busLatencyPs;
    } else {
      const { address, data } = write.message;
      write.arrivesAt = NEVER;
      held.push({ address, data: data.toHex() });
    }
  }
  out.report("held", { host, writes: held } satisfies HeldWrites);
}
