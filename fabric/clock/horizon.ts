/**
 * The grant (README), where next(q) is {@link effectiveNext} and distance(q, p) is of
 * `rack/plan/distances.ts`.
 *
 * After a report few terms have changed, so the minimum is kept in parts: each chain's earliest
 * effect at its core partition, the least of these, and the least effect there from elsewhere. A
 * partition that may not run waits for the part that holds it back: within its chain for any change
 * there, else for the instant that the rest must have left behind.
 *
 * The same delays give the earliest time at which a partition can have lost power, or begun.
 */
import { Deadlines } from "../base/deadlines.ts";
import { effectiveNext, type Member, openFrom, unseenBy } from "./member.ts";
import type { Distances } from "../rack/plan/distances.ts";
import { formatTime, NEVER, type Time } from "../base/time.ts";

export class Horizons {
  readonly #members: readonly Member[];
  readonly #distances: Distances;
  /** next(q) by {@link Member.index}, as of the last {@link refresh} or {@link note}. */
  readonly #next: Deadlines;
  /** By partition of a chain: the least of next(q) + distance(q, p) over its chain's others. */
  readonly #within: Float64Array;
  /** By core: the earliest effect there of each of its chains, by {@link #slots}. */
  readonly #hanging: readonly Deadlines[];
  /** By core: the earliest effect there of itself and its chains; `#far`: of all others. */
  readonly #near: Float64Array;
  readonly #far: Float64Array;
  /**
   * By core, by {@link #seats}: instants that its earliest effect must be behind for a partition of
   * a chain to run; only where nothing within the chain holds it back.
   */
  readonly #waiting: readonly Deadlines[];
  /** By chain: its number within its core; `#seats`: by partition of a chain. */
  readonly #slots: Int32Array;
  readonly #seats: Int32Array;
  readonly #seated: readonly (readonly number[])[];
  readonly #changedChains = new Set<number>();
  readonly #changedCores = new Set<number>();
  readonly #ready = new Set<number>();

  constructor(members: readonly Member[], distances: Distances) {
    this.#members = members;
    this.#distances = distances;
    const { cores, chains } = distances;
    this.#next = new Deadlines(members.length);
    this.#within = new Float64Array(members.length).fill(NEVER);
    this.#near = new Float64Array(cores.length).fill(NEVER);
    this.#far = new Float64Array(cores.length).fill(NEVER);
    this.#slots = new Int32Array(chains.length);
    this.#seats = new Int32Array(members.length);
    const hanging = cores.map(() => 0), seated: number[][] = cores.map(() => []);
    for (const [chain, { core, members }] of chains.entries()) {
      this.#slots[chain] = hanging[core]!++;
      for (const i of members) this.#seats[i] = seated[core]!.push(i) - 1;
    }
    this.#seated = seated;
    this.#hanging = hanging.map((count) => new Deadlines(count));
    this.#waiting = seated.map(({ length }) => new Deadlines(length));
  }

  refresh(): void {
    for (const { index } of this.#members) this.#update(index);
    const { cores, chains } = this.#distances;
    for (let chain = 0; chain < chains.length; chain++) this.#changedChains.add(chain);
    for (let core = 0; core < cores.length; core++) this.#changedCores.add(core);
    this.#settle();
  }

  note(members: readonly Member[]): void {
    for (const { index } of members) {
      this.#update(index);
      const chain = this.#distances.chainOf[index]!;
      // Perhaps only its status has changed.
      if (chain >= 0) this.#changedChains.add(chain);
      else this.#changedCores.add(this.#distances.coreOf[index]!);
    }
    this.#settle();
  }

  /**
   * Idle partitions that may run and could not before the last {@link refresh} or {@link note}, in
   * order. One that is not granted may not be returned again before a `refresh`.
   */
  takeReady(): Member[] {
    if (this.#ready.size === 0) return [];
    const ready = [...this.#ready].sort((x, y) => x - y).map((index) => this.#members[index]!);
    this.#ready.clear();
    return ready;
  }

  #update(index: number): void {
    const next = effectiveNext(this.#members[index]!);
    if (this.#next.at(index) === next) return;
    this.#next.set(index, next);
    const chain = this.#distances.chainOf[index]!;
    if (chain < 0) this.#updateCore(this.#distances.coreOf[index]!);
    else this.#updateChain(chain);
  }

  #updateChain(chain: number): void {
    const { chains, up, down } = this.#distances;
    const { core, members } = chains[chain]!;
    // Relative to the core, as if each effect came from there or went there.
    let outward = NEVER;
    for (const i of members) {
      this.#within[i] = outward + down[i]!;
      outward = Math.min(outward, this.#next.at(i) - down[i]!);
    }
    let inward = NEVER;
    for (let place = members.length - 1; place >= 0; place--) {
      const i = members[place]!;
      this.#within[i] = Math.min(this.#within[i]!, inward - up[i]!);
      inward = Math.min(inward, this.#next.at(i) + up[i]!);
    }
    this.#changedChains.add(chain);
    if (this.#hanging[core]!.at(this.#slots[chain]!) === inward) return;
    this.#hanging[core]!.set(this.#slots[chain]!, inward);
    this.#updateCore(core);
  }

  #updateCore(core: number): void {
    this.#changedCores.add(core);
    const before = this.#near[core]!;
    const near = Math.min(
      this.#next.at(this.#distances.cores[core]!),
      this.#hanging[core]!.earliest,
    );
    if (near === before) return;
    this.#near[core] = near;
    for (let to = 0; to < this.#far.length; to++) {
      if (to === core) continue;
      const ps = this.#distances.across(core, to), far = this.#far[to]!;
      if (near + ps < far) this.#far[to] = near + ps;
      else if (near > before && before + ps === far) this.#far[to] = this.#reaching(to);
      if (this.#far[to] !== far) this.#changedCores.add(to);
    }
  }

  #reaching(core: number): Time {
    let far = NEVER;
    for (let from = 0; from < this.#near.length; from++) {
      if (from === core) continue;
      far = Math.min(far, this.#near[from]! + this.#distances.across(from, core));
    }
    return far;
  }

  #settle(): void {
    for (const chain of this.#changedChains) this.#judgeChain(chain);
    this.#changedChains.clear();
    for (const core of this.#changedCores) {
      this.#judge(this.#distances.cores[core]!);
      // A waiting partition's own chain counts here too, but never holds it: that would be within
      // the chain.
      const earliest = Math.min(this.#near[core]!, this.#far[core]!);
      const waiting = this.#waiting[core]!;
      while (waiting.earliest < earliest) this.#judge(this.#seated[core]![waiting.slot]!);
    }
    this.#changedCores.clear();
  }

  #judgeChain(chain: number): void {
    for (const i of this.#distances.chains[chain]!.members) this.#judge(i);
  }

  #judge(index: number): void {
    const { chainOf, coreOf, down } = this.#distances;
    const next = this.#next.at(index);
    const isIdle = this.#members[index]!.status === "idle" && next !== NEVER;
    if (isIdle && next < this.#horizon(index)) this.#ready.add(index);
    else this.#ready.delete(index);
    if (chainOf[index]! < 0) return;
    const isHeld = isIdle && !this.#ready.has(index) && this.#within[index]! > next;
    const until = isHeld ? next - down[index]! : NEVER;
    this.#waiting[coreOf[index]!]!.set(this.#seats[index]!, until);
  }

  #horizon(index: number): Time {
    const { cores, chainOf, coreOf, down } = this.#distances;
    const core = coreOf[index]!, chain = chainOf[index]!;
    const far = this.#far[core]!, hanging = this.#hanging[core]!;
    if (chain < 0) return Math.min(far, hanging.earliest);
    const near = Math.min(this.#next.at(cores[core]!), hanging.earliestBut(this.#slots[chain]!));
    return Math.min(this.#within[index]!, Math.min(far, near) + down[index]!);
  }

  next(member: Member): Time {
    return this.#next.at(member.index);
  }

  get least(): Time {
    return this.#next.earliest;
  }

  leastOfOthers(member: Member): Time {
    return this.#next.earliestBut(member.index);
  }

  ofOthers(member: Member): Time {
    return this.#horizon(member.index);
  }

  /** H(p), bounded by its own planned power failure. */
  of(member: Member): Time {
    return Math.min(this.ofOthers(member), member.faults[0]?.at ?? NEVER);
  }

  /** The partition whose next event keeps this one from running; "" if there is none. */
  holder(member: Member): string {
    if (member.status !== "idle" || this.next(member) === NEVER) return "";
    let holder = "", least = this.next(member);
    for (const other of this.#members) {
      const bound = this.next(other) + this.#distances.between(other.index, member.index);
      if (other !== member && bound <= least) [holder, least] = [other.name, bound];
    }
    return holder;
  }

  mayBegin(member: Member): boolean {
    return this.#members.every((other) =>
      other === member ||
      unseenBy(other) <= member.bootAt + this.#distances.between(member.index, other.index)
    );
  }

  /**
   * A life without a span failed as its power came. `effectiveNext` does not count: a restarted
   * timekeeper has only a lower bound of it.
   */
  earliestFailure(member: Member): Time {
    return this.#earliestOf(member, openFrom(member));
  }

  earliestChange(member: Member): Time {
    return this.#earliestOf(member, member.grant?.horizon ?? openFrom(member));
  }

  /** No other partition has run past the news of a failure then. */
  #earliestOf(member: Member, own: Time): Time {
    let at = own;
    for (const other of this.#members) {
      if (other === member) continue;
      const unseen = other.status === "running" ? other.grant!.horizon : unseenBy(other);
      at = Math.max(at, unseen - this.#distances.between(member.index, other.index));
    }
    return at;
  }
}

/** Why nothing can be ordered for `at`. `earliest` is the first open instant, or NEVER. */
export function refuseInstant(at: Time, earliest: Time): string | undefined {
  if (earliest === NEVER) return "it is unknown how far the rack has run: pause it first";
  if (at >= earliest) return undefined;
  return `${formatTime(at)} is past: expected ${formatTime(earliest)} or later`;
}
