/**
 * Flush-on-fail journal (persistence domain `wsp`): the card's writes into persistent memory that have not arrived
 * at the host. Their buffers, here and on the bus, outlast a power failure of the host. Without it a write could be
 * acknowledged, as the bus has taken it (P-41), and be lost because the host had no power any more when it came, or
 * because the card had not heard of the failure.
 *
 * Real hardware drains the buffers into memory with residual energy. In this model the card sends again the writes
 * that the host has missed, first of all when it is back: its driver's first answer comes behind them on the bus,
 * and no program runs before. A power failure's reset leaves the journal alone, see `rnic.ts`. A card that fails
 * itself loses it with all else.
 *
 * Lines of shared regions that the card has dirty, or has sent to its host, enter it at the failure: see
 * `../coherence/kept_lines.ts`.
 */
import type { Outputs } from "../../../fabric/node.ts";
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import type { MemoryWrite } from "../../../fabric/wire/host_bus/pcie.ts";
import type { Device } from "../state/device.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import type { HeldLog, Journal, JournalWrite } from "../state/dma_state.ts";

/**
 * Content of a report `held`: bytes that are durable though the host has not got them, by physical address, in
 * order, in hexadecimal digits. A card's last report counts.
 */
export interface HeldWrites {
  readonly host: string;
  readonly writes: { readonly address: number; readonly data: string }[];
}

/** Undefined of a card whose plan has none. */
export function createJournal(
  { host, flushOnFail }: RnicPlan,
  log?: HeldLog | undefined,
): Journal | undefined {
  return flushOnFail && { host, ...flushOnFail, writes: new Fifo(), log };
}

/**
 * The bus takes the write, until `freeAt`; NEVER where the coherent port says later when that is. Forgets entries
 * that no power failure can concern any more. @returns the entry, where there is a journal.
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

/** Forgets writes that have arrived at a host that had power until then; at that instant it takes no more. */
function forgetBefore({ writes }: Journal, death: Time): void {
  while (writes.length > 0 && writes.peek()!.arrivesAt < death) writes.shift();
}

/**
 * The bus to the host has gone down, or is back, where the card sends the writes that the host has missed. They are
 * on their way as before: power may fail again.
 */
export function survivePowerFailure(
  journal: Journal,
  event: {
    readonly up: boolean;
    readonly now: Time;
    /** Gives the bus a write that the host has missed. @returns when it has taken it; NEVER: it is told later. */
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
