/**
 * Accesses of a far host's cores (decision 2): non-coherent requests to its card, each answered by it. No line of a
 * region is in this host's LLC.
 */
import type { LineChange } from "../../../fabric/wire/host_bus/line_change.ts";
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
  readonly #refused: (region: number) => void;
  readonly #waiting = new Map<number, number>();

  constructor(
    { send, ended, refused }: {
      readonly send: (access: FarAccess) => void;
      readonly ended: FarEnded;
      readonly refused: (region: number) => void;
    },
  ) {
    this.#send = send;
    this.#ended = ended;
    this.#refused = refused;
  }

  /** Requests without an answer. */
  get waiting(): number {
    return this.#waiting.size;
  }

  request(ticket: number, { region, line, op, change, lines }: FarRequest): void {
    this.#waiting.set(ticket, region);
    const access: FarAccess = { kind: "far-access", tag: ticket, region, line, op };
    if (change !== undefined) this.#send({ ...access, change });
    else this.#send(lines === undefined ? access : { ...access, lines });
  }

  /** An answer to a request that has already ended changes nothing. */
  take({ kind: _, tag, ...outcome }: FarAnswer): void {
    const region = this.#waiting.get(tag);
    if (region === undefined) return;
    this.#waiting.delete(tag);
    if (outcome.result === "refused") this.#refused(region);
    this.#ended(tag, outcome);
  }

  /** The card is gone: it may or may not have done the waiting requests (decision 13). */
  disconnected(): void {
    const tickets = [...this.#waiting.keys()];
    this.#waiting.clear();
    for (const ticket of tickets) this.#ended(ticket, { result: "fenced" });
  }
}
