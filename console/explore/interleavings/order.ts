/**
 * The order of a run's accesses to shared regions, and the pairs that could have come in reverse. Accesses are
 * *dependent* where they share a byte and one of them writes; independent ones commute, so runs that order dependent
 * ones alike are one interleaving (Mazurkiewicz trace). Happens-before is kept in vector clocks, as in dynamic
 * partial-order reduction (Flanagan and Godefroid, POPL 2005). A store in a buffer (`memory: tso`) is a step of its
 * own when it leaves: between its program's store and its next fence it may come at any time.
 */
import type { AccessRecord, TimedRecord } from "../../../fabric/audit.ts";
import type { Time } from "../../../fabric/base/time.ts";

export interface StepPlace {
  readonly node: string;
  /** A program, or home's card for verbs. */
  readonly by: string;
  /** As in `HoldPlan`; `dma` cannot be held. */
  readonly kind: "access" | "store" | "dma";
  readonly number: number;
  readonly begin: Time;
  readonly end: Time;
}

export interface Step extends StepPlace {
  readonly note: AccessRecord;
}

/** Dependent steps of different programs, with nothing between that orders them. */
export interface Race {
  readonly first: StepPlace;
  readonly second: StepPlace;
}

/** Plain data. */
export interface RunRaces {
  readonly races: readonly Race[];
  /** Equal for runs that order dependent steps alike. */
  readonly key: string;
}

export interface RunOrder extends RunRaces {
  readonly steps: readonly Step[];
}

export function keyOf({ by, kind, number }: Pick<Step, "by" | "kind" | "number">): string {
  return `${by} ${kind} ${number}`;
}

/**
 * The steps themselves, stores into a program's buffer, fences: they change the order of its steps.
 */
type Moment =
  & { readonly time: Time; readonly order: number }
  & (
    | { readonly kind: "step"; readonly step: Step; readonly pushed?: number }
    | { readonly kind: "push"; readonly by: string; readonly node: string; readonly id: number }
    | { readonly kind: "fence"; readonly by: string }
  );

export function orderOf(notes: readonly TimedRecord[]): RunOrder {
  const moments = momentsOf(notes);
  const clocks = new Clocks();
  const kept: Placed[] = [], races: Race[] = [];
  const looks = new Looks();
  const pushes = new Map<string, Clock>();
  for (const moment of moments) {
    switch (moment.kind) {
      case "push":
        looks.end(moment.by);
        pushes.set(`${moment.node} ${moment.id}`, clocks.of(moment.by));
        break;
      case "fence":
        clocks.join(moment.by, clocks.of(bufferOf(moment.by)));
        break;
      case "step": {
        const { step, pushed } = moment;
        if (looks.isRepeated(step)) break;
        const thread = step.kind === "store" ? bufferOf(step.by) : step.by;
        const pushedAt = pushed === undefined ? undefined : pushes.get(`${step.node} ${pushed}`);
        if (pushedAt !== undefined) clocks.join(thread, pushedAt);
        const before = clocks.of(thread);
        races.push(...racesOf(kept, step, before));
        for (const { step: other, clock } of kept) {
          if (isDependent(other, step)) clocks.join(thread, clock);
        }
        kept.push({ step, thread, clock: clocks.tick(thread) });
      }
    }
  }
  const key = kept.map(({ step, clock }) => `${keyOf(step)}@${clockText(clock)}`).sort().join("\n");
  return { steps: kept.map(({ step }) => step), races, key };
}

type Clock = ReadonlyMap<string, number>;

interface Placed {
  readonly step: Step;
  readonly thread: string;
  readonly clock: Clock;
}

class Clocks {
  readonly #clocks = new Map<string, Map<string, number>>();

  of(thread: string): Clock {
    return new Map(this.#own(thread));
  }

  join(thread: string, other: Clock): void {
    const own = this.#own(thread);
    for (const [name, count] of other) if (count > (own.get(name) ?? 0)) own.set(name, count);
  }

  tick(thread: string): Clock {
    const own = this.#own(thread);
    own.set(thread, (own.get(thread) ?? 0) + 1);
    return new Map(own);
  }

  #own(thread: string): Map<string, number> {
    const known = this.#clocks.get(thread);
    if (known !== undefined) return known;
    const made = new Map<string, number>();
    this.#clocks.set(thread, made);
    return made;
  }
}

function clockText(clock: Clock): string {
  return [...clock].map(([name, count]) => `${name}=${count}`).sort().join(",");
}

function bufferOf(by: string): string {
  return `${by}, buffer`;
}

/** The earlier steps that could have come after this one: the nearest that nothing orders before it. */
function* racesOf(kept: readonly Placed[], step: Step, before: Clock): Generator<Race> {
  const found: Placed[] = [];
  for (const placed of kept.toReversed()) {
    const { step: first, thread, clock } = placed;
    if (first.by === step.by || !isDependent(first, step)) continue;
    const place = clock.get(thread)!;
    if ((before.get(thread) ?? 0) >= place) continue;
    if (found.some(({ clock: later }) => (later.get(thread) ?? 0) >= place)) continue;
    found.push(placed);
    const race = { first: placeOf(first), second: placeOf(step) };
    yield race;
    // Of two at once, the records do not say which was first.
    if (step.begin < first.end) yield { first: race.second, second: race.first };
  }
}

function placeOf({ note: _, ...place }: Step): StepPlace {
  return place;
}

function isWrite({ op }: AccessRecord): boolean {
  return op === "store" || op === "add" || op === "compare-swap";
}

function isDependent({ note: x }: Step, { note: y }: Step): boolean {
  return (isWrite(x) || isWrite(y)) && x.region === y.region &&
    x.offset < y.offset + y.length && y.offset < x.offset + x.length;
}

function momentsOf(notes: readonly TimedRecord[]): Moment[] {
  const moments: Moment[] = [];
  const open = new Map<
    string,
    {
      readonly note: AccessRecord;
      readonly begin: Time;
      readonly pushed?: number;
      readonly at: Omit<StepPlace, "begin" | "end">;
    }
  >();
  const counts = new Map<string, number>();
  const numbers = new Map<string, number>();
  const again = new Set<string>();
  const next = (key: string) => {
    const number = (counts.get(key) ?? 0) + 1;
    counts.set(key, number);
    return number;
  };
  for (const [order, { time, node, by, note }] of notes.entries()) {
    switch (note.kind) {
      case "buffered":
        numbers.set(`${node} ${note.id}`, next(`${by} store`));
        moments.push({ kind: "push", time, order, by, node, id: note.id });
        break;
      case "store-fence":
        moments.push({ kind: "fence", time, order, by });
        break;
      case "access": {
        if (note.forwarded !== undefined) break;
        const { buffered: pushed } = note;
        const kind = note.dma ? "dma" : pushed === undefined ? "access" : "store";
        // One that was refused is tried again: the same step.
        const isAgain = again.delete(by);
        const number = pushed !== undefined
          ? numbers.get(`${node} ${pushed}`) ?? 0
          : isAgain
          ? counts.get(`${by} ${kind}`) ?? 0
          : next(`${by} ${kind}`);
        const at = { node, by, kind, number } as const;
        open.set(`${by} ${note.id}`, {
          note,
          begin: time,
          at,
          ...(pushed !== undefined && { pushed }),
        });
        break;
      }
      case "accessed": {
        const access = open.get(`${by} ${note.id}`);
        if (access === undefined) break;
        if (note.result === "refused") {
          if (access.at.kind === "access") again.add(by);
          break;
        }
        if (access.note.op === "flush") break;
        const { at, begin, pushed } = access;
        const step: Step = { ...at, note: access.note, begin, end: time };
        moments.push({ kind: "step", time, order, step, ...(pushed !== undefined && { pushed }) });
      }
    }
  }
  return moments.sort((x, y) => x.time - y.time || x.order - y.order);
}

/**
 * Loops that look again at what has not changed: such looks count up to the second one, as there is no end to how
 * often a program looks.
 */
const LOOKS_MOST = 2;

class Looks {
  readonly #looked = new Map<string, Map<string, { writes: number; count: number }>>();
  readonly #writes: AccessRecord[] = [];

  end(by: string): void {
    this.#looked.delete(by);
  }

  isRepeated({ by, note }: Step): boolean {
    if (isWrite(note)) {
      this.#writes.push(note);
      this.end(by);
      return false;
    }
    const { region, offset, length } = note, place = `${region} ${offset} ${length}`;
    const own = this.#looked.get(by) ?? new Map<string, { writes: number; count: number }>();
    this.#looked.set(by, own);
    const known = own.get(place);
    const isSame = known !== undefined &&
      !this.#writes.slice(known.writes).some((write) =>
        write.region === region && write.offset < offset + length &&
        offset < write.offset + write.length
      );
    const count = isSame ? known.count + 1 : 1;
    own.set(place, { writes: this.#writes.length, count });
    return count > LOOKS_MOST;
  }
}
