/**
 * The host's agent on the coherent bus (C-01), as the root complex is for PCIe. It grants ownership of lines, puts
 * their bytes in the order of the link into the LLC or the iMC (P-02), and reports each complete write; reads look at
 * LLC and memory at once, as the card has waited for its own writes (decision 5).
 *
 * States of a line in the LLC (C-05): `RdCur` changes none. `RdCode` leaves the line clean, as the
 * card's copy is in S; a core's store to it sends `SnpInv`, for whose answer a core's store buffer
 * would wait, not the core. A grant changes none either: until the bytes come a core finds the old
 * content, as if its access had come before. A write by flow 2 leaves M, one by flow 1 I.
 *
 * Buffers, places of a power failure and the way into memory are the IIO's (`iio.ts`), with the agent's times: a byte
 * that no core sees yet is lost exactly where it is lost there.
 */
import { assert, fail } from "../../../fabric/base/assert.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import {
  type CoherentMessage,
  type LineRequest,
  linesOf,
  type LineWrite,
} from "../../../fabric/wire/host_bus/coherent.ts";
import type { Completion, MemoryRead, PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import type { Iio } from "./iio.ts";

export interface AgentSink {
  send(message: CoherentMessage, afterPs: Time): void;
  reading(read: MemoryRead): void;
  writing(address: number, data: Uint8Array<ArrayBuffer>): void;
  interrupt(vector: number): void;
  loaded(tag: number, data: Uint8Array<ArrayBuffer>): void;
}

interface Owed {
  readonly tag: number;
  readonly address: number;
  readonly lines: number;
  /** It writes nothing, so it is complete as soon as all before it are. */
  readonly isVoid: boolean;
}

export class CoherentAgent {
  granted = 0;
  written = 0;
  read = 0;
  snoopAnswers = 0;
  readonly #iio: Iio;
  readonly #grantPs: Time;
  readonly #sink: AgentSink;
  readonly #owed = new Fifo<Owed>();
  /** Pushes before this number are of a card that is gone: they get no answer. */
  #owedFrom = 0;

  /** @param host.grantPs time of a look into the LLC and the directory. */
  constructor(host: { readonly iio: Iio; readonly grantPs: Time; readonly sink: AgentSink }) {
    this.#iio = host.iio;
    this.#grantPs = host.grantPs;
    this.#sink = host.sink;
  }

  /** Writes whose end the card has not been told. */
  get owed(): number {
    return this.#owed.length;
  }

  receive(message: CoherentMessage, now: Time): void {
    switch (message.op) {
      case "RdCur":
      case "RdCode":
        return this.#read(message, now);
      case "InvItoE": {
        const { tag, address, lines } = message;
        this.granted += lines;
        const grant = { kind: "coherent", op: "GntE", tag, address, lines } as const;
        return this.#sink.send(grant, this.#grantPs);
      }
      case "WbMtoI":
      case "WbMtoE":
        return this.#write(message, now);
      case "RspI":
        this.snoopAnswers++;
        return;
      case "DataNc":
        return this.#sink.loaded(message.tag, message.data);
      case "IntPhysical":
        return this.#sink.interrupt(message.vector);
      case "GntE":
      case "Cmp":
      case "FailedCmp":
      case "DataC":
      case "SnpInv":
      case "NcRd":
      case "NcWr":
        return fail(`A host got a ${message.op} on its bus`);
    }
  }

  #read({ op, tag, address, lines, medium }: LineRequest, now: Time): void {
    this.read += lines;
    const read: MemoryRead = {
      kind: "memory-read",
      tag,
      address,
      length: lines * LINE_BYTES,
      noSnoop: false,
      ...(medium && { medium }),
      ...(op === "RdCode" && { tracked: true }),
    };
    this.#sink.reading(read);
    this.#iio.readLines(read, now);
  }

  #write({ tag, address, data, toMemory }: LineWrite, now: Time): void {
    this.#sink.writing(address, data);
    const lines = linesOf(address, data.length);
    this.written += lines;
    const first = address - address % LINE_BYTES;
    const message = { kind: "memory-write", address, data, noSnoop: toMemory } as const;
    const isTaken = this.#iio.write(message, now);
    this.#owed.push({ tag, address: first, lines, isVoid: !isTaken });
    if (!isTaken && this.#owed.length === 1) this.#completeVoid();
  }

  complete(): void {
    const owed = this.#owed.peek();
    assert(owed !== undefined && !owed.isVoid, "A write is complete that the card has not pushed");
    this.#completeOne();
    this.#completeVoid();
  }

  #completeVoid(): void {
    while (this.#owed.peek()?.isVoid) this.#completeOne();
  }

  #completeOne(): void {
    const isAwaited = this.#owed.first >= this.#owedFrom;
    const { tag, address, lines } = this.#owed.shift()!;
    if (!isAwaited) return;
    this.#sink.send({ kind: "coherent", op: "Cmp", tag, address, lines }, 0);
  }

  answer({ status, data }: Completion, { tag, address, length, tracked }: MemoryRead): void {
    if (status !== "success") {
      const lines = length / LINE_BYTES;
      this.#sink.send({ kind: "coherent", op: "FailedCmp", tag, address, lines }, 0);
      return;
    }
    const state = tracked ? "S" : "I";
    this.#sink.send({ kind: "coherent", op: "DataC", tag, address, state, data }, 0);
  }

  reset(): void {
    this.#owedFrom = this.#owed.end;
  }
}

export function coherentForm(message: PcieMessage): PcieMessage {
  switch (message.kind) {
    case "register-write": {
      const { kind: _, ...store } = message;
      return { kind: "coherent", op: "NcWr", ...store };
    }
    case "register-read": {
      const { tag, offset, length } = message;
      return { kind: "coherent", op: "NcRd", tag, offset, length };
    }
    case "snoop-invalidate":
      return { kind: "coherent", op: "SnpInv", address: message.address };
    default:
      return message;
  }
}
