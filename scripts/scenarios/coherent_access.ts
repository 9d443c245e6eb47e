/**
 * In phases two computers load and store lines of shared memory drawn at random (C-04, C-11,
 * `coherent_placement.yaml`). A line that is not one store's, or older than one seen before, ends
 * the program.
 */
import { type CrashView, type ProgramContext, type Steps, type Time, timeOption } from "rackmesh";
import {
  countMessages,
  isPowered,
  latencyOf,
  LINE_BYTES,
  openShared,
  type Part,
  partOf,
  type Shared,
  type Side,
  WORD_BYTES,
  wordIn,
  wordOf,
} from "./shared_memory.ts";

interface AccessOptions {
  readonly lines: number;
  /** Of both computers together in a phase: first the warm-up's, then those that count. */
  readonly warmUp: number;
  readonly accesses: number;
  readonly stores: number;
  /** The far computer's, of a hundred accesses, for each phase: `0 50 100`. */
  readonly shares: string;
  /** Phases of each share, each with other lines and stores drawn; 1 unless given. */
  readonly draws?: number;
}

interface Phase {
  readonly number: number;
  readonly farPercent: number;
  readonly draw: number;
  readonly begin: Time;
  readonly everyPs: Time;
}

/**
 * Around the accesses that count, and for the comparison: accesses and looks have ended by then.
 */
const QUIET_PS = 100e6;

export default function* coherentAccess(context: ProgramContext): Steps<void> {
  const { cpu } = context, options = context.options as unknown as AccessOptions;
  const shared = yield* openShared(context);
  const everyPs = timeOption(context.options, "every");
  let begin = timeOption(context.options, "begin");
  const access = new Accesses(context, shared, options);
  const { draws = 1 } = options;
  const phases = String(options.shares).split(" ").flatMap((share) =>
    Array.from({ length: draws }, (_, draw) => ({ farPercent: Number(share), draw }))
  );
  for (const [number, of] of phases.entries()) {
    if (begin < cpu.now) throw new Error(`Phase ${number} begins at ${begin}, it is ${cpu.now}`);
    const phase = { number, ...of, begin, everyPs };
    yield* access.run(phase);
    begin += (options.warmUp + options.accesses) * everyPs + 4 * QUIET_PS;
  }
  // The far computer looks at the memory of a PCIe card's host as long as this: it goes with its
  // program.
  yield* cpu.sleep(QUIET_PS);
}

class Accesses {
  readonly #context: ProgramContext;
  readonly #shared: Shared;
  readonly #options: AccessOptions;
  readonly #part: Part;
  /** By line: the newest stamp seen of each computer. */
  readonly #seen: Record<Side, bigint[]>;
  #stamp = 0n;

  constructor(context: ProgramContext, shared: Shared, options: AccessOptions) {
    this.#context = context;
    this.#shared = shared;
    this.#options = options;
    this.#part = partOf(context.cpu.host);
    const none = () => new Array<bigint>(options.lines).fill(0n);
    this.#seen = { home: none(), far: none() };
  }

  *run(phase: Phase): Steps<void> {
    const { cpu } = this.#context, { warmUp, accesses } = this.#options;
    const { side } = this.#part;
    const { begin, everyPs, farPercent, draw } = phase;
    const loads: number[] = [], stores: number[] = [];
    const isMine = (i: number) => (farOf(i, farPercent) ? "far" : "home") === side;
    for (let i = 0; i < warmUp; i++) {
      if (isMine(i)) yield* this.#access(phase, i, begin + i * everyPs);
    }
    // Both computers look at counters while no access is due.
    yield* this.#until(begin + warmUp * everyPs + QUIET_PS / 2);
    const messages = yield* countMessages(cpu);
    const late = begin + warmUp * everyPs + QUIET_PS;
    for (let i = warmUp; i < warmUp + accesses; i++) {
      if (!isMine(i)) continue;
      const { kind, tookPs } = yield* this.#access(phase, i, late + (i - warmUp) * everyPs);
      (kind === "load" ? loads : stores).push(tookPs);
    }
    const end = late + accesses * everyPs + QUIET_PS;
    yield* this.#until(end);
    const { bus, network, asked, hits } = yield* messages();
    const load = latencyOf(loads), store = latencyOf(stores);
    cpu.report("result", {
      program: "shared",
      workload: "access",
      ...this.#part,
      farPercent,
      draw,
      ...(load && { loadPs: load }),
      ...(store && { storePs: store }),
      ...{ busMessages: bus, networkMessages: network, asked, hits },
    });
    yield* this.#until(end + QUIET_PS);
    yield* this.#tellLines(phase);
  }

  *#access(
    { number }: Phase,
    i: number,
    due: Time,
  ): Steps<{ readonly kind: "load" | "store"; readonly tookPs: Time }> {
    const { cpu } = this.#context, { lines, stores } = this.#options;
    yield* this.#until(due);
    const line = drawn(number, 2 * i) % lines;
    const kind = drawn(number, 2 * i + 1) % 100 < stores ? "store" : "load";
    const from = cpu.now;
    if (kind === "store") yield* this.#store(line);
    else this.#examine(line, yield* this.#shared.load(line * LINE_BYTES, LINE_BYTES));
    return { kind, tookPs: cpu.now - from };
  }

  *#until(time: Time): Steps<void> {
    const { cpu } = this.#context;
    if (time > cpu.now) yield* cpu.sleep(time - cpu.now);
  }

  /** Eight times the same word: who stores, and which of its stores it is. */
  *#store(line: number): Steps<void> {
    const { side } = this.#part;
    this.#stamp++;
    const word = wordOf(this.#stamp << 1n | (side === "far" ? 1n : 0n));
    const bytes = new Uint8Array(LINE_BYTES);
    for (let at = 0; at < LINE_BYTES; at += WORD_BYTES) bytes.set(word, at);
    yield* this.#shared.store(line * LINE_BYTES, bytes);
    this.#seen[side][line] = this.#stamp;
  }

  /** @returns the line's word. @throws Error for a line that no store has made, or an old one. */
  #examine(line: number, bytes: Uint8Array): bigint {
    const word = wordIn(bytes);
    for (let at = WORD_BYTES; at < LINE_BYTES; at += WORD_BYTES) {
      if (wordIn(bytes, at) !== word) {
        throw new Error(`Line ${line} is of several stores: ${bytes.toHex()}`);
      }
    }
    const by = (word & 1n) === 1n ? "far" : "home", stamp = word >> 1n;
    const seen = this.#seen[by][line]!;
    if (stamp < seen) {
      throw new Error(`Line ${line} has store ${stamp} of ${by}, and had store ${seen} before`);
    }
    this.#seen[by][line] = stamp;
    return word;
  }

  *#tellLines({ number }: Phase): Steps<void> {
    const { cpu } = this.#context, { lines } = this.#options;
    const { card, placement, side } = this.#part;
    const found: bigint[] = [];
    for (let line = 0; line < lines; line++) {
      found.push(this.#examine(line, yield* this.#shared.load(line * LINE_BYTES, LINE_BYTES)));
    }
    const stored = [...this.#seen[side]];
    cpu.report("lines", { memory: `${card} ${placement}`, phase: number, side, found, stored });
  }
}

function farOf(i: number, percent: number): boolean {
  return Math.floor((i + 1) * percent / 100) > Math.floor(i * percent / 100);
}

/** Below 2^32 for each place in a phase (the mixer of splitmix32). */
function drawn(phase: number, place: number): number {
  let mixed = Math.imul(1 + phase, 0x9e37_79b9) + Math.imul(1 + place, 0x85eb_ca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0_aaad);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a_2d97);
  return (mixed ^ (mixed >>> 15)) >>> 0;
}

interface Lines {
  readonly memory: string;
  readonly phase: number;
  readonly side: Side;
  readonly found: readonly bigint[];
  readonly stored: readonly bigint[];
}

/** Both computers must find the same at the end of a phase, and the newest store of one of them. */
export function check({ hosts, reports }: CrashView): readonly string[] {
  const all = reports.filter(({ node, topic }) => topic === "lines" && isPowered({ hosts }, node))
    .map(({ value }) => value as Lines);
  const wrong: string[] = [];
  for (const home of all.filter(({ side }) => side === "home")) {
    const { memory, phase } = home, at = `${memory}, phase ${phase}`;
    const far = all.find((each) =>
      each.side === "far" && each.memory === memory && each.phase === phase
    );
    if (far === undefined) {
      wrong.push(`${at}: the far computer has not said what it finds`);
      continue;
    }
    for (const [line, word] of home.found.entries()) {
      if (far.found[line] !== word) wrong.push(`${at}: line ${line} differs between the computers`);
      const newest = [BigInt(home.stored[line]!) << 1n, BigInt(far.stored[line]!) << 1n | 1n];
      if (word !== 0n && !newest.includes(word)) {
        wrong.push(`${at}: line ${line} has ${word}, which is the newest store of none`);
      }
    }
  }
  return wrong;
}
