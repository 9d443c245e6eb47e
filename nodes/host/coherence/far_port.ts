/**
 * Accesses of a far host's cores (decision 2): non-coherent requests to its card, each answered by it. No line of a
 * region is in this host's LLC.
 */
import type { LineChange } from "../../../fabric/coherence/line_bytes.ts";
import type {
  FarAccess,
  FarAnswer,
  FarOp,
  FarResult,
} from "../../../fabric/wire/host_bus/region_messages.ts";

export interface FarRequest {
  readonly region: number;
  readonly line: number;
  readonly op: FarOp;
  readonly change?: LineChange | undefined;
  readonly lines?: number | undefined;
}

type FarEnded = (
  ticket: number,
  outcome: Pick<FarAnswer, "away"> & { readonly result: FarResult; readonly data?: Uint8Array },
) => void;

export class FarPort {
  readonly #send: (access: FarAccess) => void;
  readonly #ended: FarEnded;
  /** Requests that the card has not answered. */
  readonly #waiting = new Set<number>();

  constructor(
    { send, ended }: {
      readonly send: (access: FarAccess) => void;
      readonly ended: FarEnded;
    },
  ) {
    this.#send = send;
    this.#ended = ended;
  }

  request(ticket: number, { region, line, op, change, lines }: FarRequest): void {
    this.#waiting.add(ticket);
    const access: FarAccess = { kind: "far-access", tag: ticket, region, line, op };
    if (change !== undefined) this.#send({ ...access, change });
    else this.#send(lines === undefined ? access : { ...access, lines });
  }

  /** An answer; one to a request that has ended before changes nothing. */
  take({ kind: _, tag, ...outcome }: FarAnswer): void {
    if (this.#waiting.delete(tag)) this.#ended(tag, outcome);
  }

  /** The card is gone: what it was asked may or may not have been done (decision 13). */
  disconnected(): void {
    const tickets = [...this.#waiting];
    this.#waiting.clear();
    for (const ticket of tickets) this.#ended(ticket, { result: "fenced" });
  }
}
