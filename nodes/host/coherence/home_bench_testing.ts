/**
 * For tests: a home agent over a host's memory, and behind its bus the protocol's own home card and one far card, in
 * virtual time. The messages of the bus are those of the real card.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import {
  farAccess,
  type FarCard,
  farReceive,
  newFarCard,
} from "../../../fabric/coherence/far_card.ts";
import { FAR_TABLE } from "../../../fabric/coherence/far_card_table.ts";
import { homeBus, homeReceive } from "../../../fabric/coherence/home_card.ts";
import { type HomeCard, newHomeCard } from "../../../fabric/coherence/home_card_state.ts";
import { HOME_TABLE } from "../../../fabric/coherence/home_card_table.ts";
import { BYTE_CONTENTS } from "../../../fabric/coherence/line_bytes.ts";
import type { HostTiming } from "../../../fabric/rack/plan/plan.ts";
import type { LineChange } from "../../../fabric/wire/host_bus/line_change.ts";
import type { Answer } from "../../../fabric/coherence/access.ts";
import { newOutput, type Output } from "../../../fabric/coherence/output.ts";
import type { LineMessage } from "../../../fabric/wire/host_bus/region_messages.ts";
import type { MemorySystem } from "../memory/memory_system.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { RIG_TIMING } from "../testing/host_testing.ts";
import { MemoryDirectory } from "./memory_directory.ts";
import { HomeAgent } from "./home_agent.ts";

const BUS_PS = 100_000, WIRE_PS = 1_000_000, PROCESSING_PS = 50_000;
const CACHE = { lines: 4, writeBacks: 2 };
const FAR = 1;

export interface Ended {
  readonly answer: Answer;
  readonly at: Time;
  readonly costPs: Time;
}

export class HomeBench {
  now: Time = 0;
  readonly agent: HomeAgent;
  /** Messages of the agent, and when each departs. */
  readonly sent: { readonly departAt: Time; readonly message: LineMessage }[] = [];
  readonly states: string[] = [];
  readonly changes: number[] = [];
  readonly #memory: MemorySystem;
  readonly #home: HomeCard;
  readonly #far: FarCard;
  readonly #ended = new Map<number, Ended>();
  #events: { readonly at: Time; readonly act: () => void }[] = [];
  #tickets = 0;

  constructor(memory: MemorySystem, timing: HostTiming = RIG_TIMING) {
    this.#memory = memory;
    const regionOf = () => 0;
    this.#home = newHomeCard({
      tables: { home: HOME_TABLE, far: FAR_TABLE },
      size: { slots: 2, entries: 8, localCache: CACHE },
      contents: BYTE_CONTENTS,
      regionOf,
    });
    this.#home.lives.set(FAR, 0);
    const far = { agent: FAR, table: FAR_TABLE, contents: BYTE_CONTENTS, size: CACHE, regionOf };
    this.#far = { ...newFarCard(far), homeLife: 1, isUp: true };
    this.agent = new HomeAgent({
      memory,
      timing,
      processingPs: PROCESSING_PS,
      directoryOf: () => "card",
      directory: new MemoryDirectory(memory, []),
      send: (message) => this.#toCard(message),
      ended: (answer, cost) => {
        const costPs = Object.values(cost).reduce((sum, ps) => sum + ps, 0);
        this.#end({ answer, at: this.now, costPs });
      },
      changed: (line) => void this.changes.push(line),
      state: (line, state) => void this.states.push(`${line} ${state}`),
    });
  }

  /** An access to line `line` of memory, and how it ends. */
  access(
    by: "home" | "far",
    kind: "load" | "store" | "flush",
    line: number,
    change?: LineChange,
  ): Ended {
    const ticket = this.begin(by, kind, line, change);
    while (!this.#ended.has(ticket)) assert(this.next(), `The ${kind} of ${line} never ends`);
    return this.#ended.get(ticket)!;
  }

  begin(
    by: "home" | "far",
    kind: "load" | "store" | "flush",
    line: number,
    change?: LineChange,
  ): number {
    const access = { kind, line, change, ticket: this.#tickets++ } as const;
    if (by === "home") this.agent.access(access, this.now);
    else this.#act((out) => farAccess(this.#far, access, out));
    return access.ticket;
  }

  ended(ticket: number): Ended | undefined {
    return this.#ended.get(ticket);
  }

  /** Lets one thing happen. @returns false where nothing is left to happen. */
  next(): boolean {
    const first = this.#events[0];
    const at = Math.min(first?.at ?? NEVER, this.agent.nextAt);
    if (at === NEVER) return false;
    this.now = Math.max(this.now, at);
    this.#memory.advance(this.now);
    if (first !== undefined && first.at <= this.now) {
      this.#events.shift();
      first.act();
    } else this.agent.run(this.now);
    return true;
  }

  runAll(): void {
    while (this.next());
  }

  #toCard(message: LineMessage): void {
    const departAt = this.now + PROCESSING_PS;
    this.sent.push({ departAt, message });
    const { op: kind, address, data } = message;
    this.#later(PROCESSING_PS + BUS_PS, () => {
      const line = address / LINE_BYTES;
      this.#act((out) => homeBus(this.#home, { kind, line, data }, out));
    });
  }

  /** What the cards give back goes on its way. */
  #act(act: (out: Output) => void): void {
    const out = newOutput();
    act(out);
    for (const message of out.wire) {
      const isToHome = ["GetS", "GetM", "Put", "Flush", "InvAck", "RecIData", "RecSData"].includes(
        message.kind,
      ) || ["Complete", "Dirty", "Read", "Write"].includes(message.kind);
      this.#later(
        WIRE_PS,
        () =>
          this.#act((its) =>
            isToHome ? homeReceive(this.#home, message, its) : farReceive(this.#far, message, its)
          ),
      );
    }
    for (const { kind: op, line, data } of out.bus) {
      const message = { kind: "line", op, address: line * LINE_BYTES } as const;
      const content = data as LineMessage["data"] & (Uint8Array<ArrayBuffer> | "lost");
      this.#later(
        BUS_PS,
        () =>
          this.agent.take(data === undefined ? message : { ...message, data: content }, this.now),
      );
    }
    for (const answer of out.answers) this.#end({ answer, at: this.now, costPs: 0 });
  }

  #end(ended: Ended): void {
    this.#ended.set(ended.answer.access.ticket, ended);
  }

  #later(ps: Time, act: () => void): void {
    const at = this.now + ps;
    let place = this.#events.length;
    while (place > 0 && this.#events[place - 1]!.at > at) place--;
    this.#events.splice(place, 0, { at, act });
  }
}

/** A store of one byte. */
export function byteAt(at: number, value: number): LineChange {
  const bytes = new Uint8Array(LINE_BYTES);
  bytes[at] = value;
  return { kind: "write", mask: 1n << BigInt(at), bytes };
}
