/**
 * Faults of a {@link System}, and their consequences (C-10, decisions 13 and 14). A step is a fault, or
 * the end of a time that a fault has started: the order of steps stands for all possible times. Explorer
 * and random tester do the same steps. A lease, a cable, a far card or its host, home's card and home's
 * host may fail at any instant, and each comes back at any later one:
 *
 * - *Cable, lease*: the far card stops (`fence`), answers its accesses `fenced`, and reports its dirty lines.
 * - *Far card or its host without power*: the card loses all state and reports nothing; a host that lives
 *   answers its accesses `fenced`. As in the first case, home gives the card's lines away after lease and
 *   grace, or at the next life's `Hello`: S is forgotten; of E and M the last received write-back is taken,
 *   else the line is poisoned and reported.
 * - *Home's card*: the host agent's record poisons exclusively lent lines (`cardLost`), after lease and
 *   grace; shared lines are in memory.
 * - *Home's host*: memory has what survived (`fabric/rack/plan/persistence_domain.ts`), and is the truth
 *   from then on (`restartHost`). With the directory in memory (decision 7) exclusively lent lines are
 *   poisoned; else they show the last content that home received, and far cards report their dirty lines.
 *
 * An access is answered within two leases of its own card, and within one lease and grace for each fault
 * that it meets.
 */
import { type FarCard, fence, newFarCard } from "./far_card.ts";
import { loseFarCard } from "./home_card.ts";
import { newHomeCard } from "./home_card_state.ts";
import { cardLost, restartHost } from "./host_agent.ts";
import type { LeaseTimes } from "./lease.ts";
import { act, type Events, HOST, type System, type Wire } from "./system.ts";

export interface FaultStep {
  readonly name: string;
  /** A consequence of a fault: a time has passed. */
  readonly isProgress: boolean;
  readonly isFault: boolean;
  readonly act: (system: System) => Events;
}

const NOTHING: Events = { answers: [], lost: [] };

/** All possible faults, and all consequences of earlier ones. */
export function* faultsOf(
  system: System,
  { mayFail, isEarly, isFirstOnly = false }: {
    readonly mayFail: boolean;
    /**
     * Only the first far card fails: enough for one fault, as cards differ only in their numbers.
     */
    readonly isFirstOnly?: boolean;
    /** A break of decision 13: home, or its host, may end leases before far cards do. */
    readonly isEarly?: "home's card" | "home's host" | undefined;
  },
): Generator<FaultStep> {
  for (const [at, card] of system.fars.entries()) {
    yield* farFaults(system, { at, card, mayFail: mayFail && (at === 0 || !isFirstOnly) });
  }
  yield* leaseEnds(system, isEarly);
  if (mayFail && system.outage === null) {
    yield step("home's card dies", (next) => homeDies(next, "card"));
    yield step("home's host dies", (next) => homeDies(next, "host"));
  }
}

function step(
  name: string,
  does: FaultStep["act"],
  as: "fault" | "progress" | "repair" = "fault",
): FaultStep {
  return { name, isProgress: as === "progress", isFault: as === "fault", act: does };
}

function* farFaults(
  { wires }: System,
  { at, card, mayFail }: {
    readonly at: number;
    readonly card: FarCard;
    readonly mayFail: boolean;
  },
): Generator<FaultStep> {
  const { agent } = card;
  const wire = wires[at];
  if (wire === undefined) return;
  if (mayFail && !wire.isOff) {
    yield step(`card ${agent} or its host loses its power`, (next) => losePower(next, at));
  }
  if (mayFail && card.isUp && !wire.isCut) {
    yield step(`card ${agent}'s lease ends`, (next) => farEnds(next, at));
    yield step(`the cable to card ${agent} is cut`, (next) => {
      cut(next, at);
      return NOTHING;
    });
  }
  if (wire.isCut) {
    yield step(`the cable to card ${agent} heals`, (next) => {
      setWire(next, at, { isCut: false });
      return NOTHING;
    }, "repair");
  }
  if (wire.isOff) {
    yield step(`card ${agent} starts again`, (next) => {
      setWire(next, at, { isOff: false, isDoomed: false });
      return farEnds(next, at);
    }, "repair");
  }
}

function* leaseEnds(system: System, isEarly: string | undefined): Generator<FaultStep> {
  const { home, fars, wires, outage } = system;
  let areFenced = true;
  for (const [at, card] of fars.entries()) {
    const { agent, life, isUp } = card;
    const wire = wires[at];
    if (wire === undefined) continue;
    if (wire.isDoomed && isUp) {
      yield step(`card ${agent}'s lease ends`, (next) => farEnds(next, at), "progress");
    }
    if (isUp && card.homeLife === home.life) areFenced = false;
    const known = home.lives.get(agent);
    const isOver = known !== undefined && (known < life || wire.isOff);
    if (outage === null && known !== undefined && (isOver || isEarly === "home's card")) {
      const does = (next: System) => act(next, 0, (out) => loseFarCard(next.home, agent, out));
      yield step(`home gives card ${agent} up`, does, "progress");
    }
    if (wire.isOff) {
      if (card.waiting.length === 0) continue;
      const name = `the host finds card ${agent} without power`;
      yield step(name, (next) => losePower(next, at), "progress");
      continue;
    }
    // Accesses of a card that is down are answered at the end of the life that it has asked for.
    if (!isUp && (wire.isCut || outage !== null) && card.waiting.length > 0) {
      yield step(`card ${agent} waits no longer`, (next) => farEnds(next, at), "progress");
    }
    // Its `Hello` was lost: neither it nor a `Welcome` is on its way.
    const asks = wire.req.some(({ kind }) => kind === "Hello") ||
      wire.down.some((message) => message.kind === "Welcome" && message.life === life);
    if (!isUp && !wire.isCut && !asks && outage === null) {
      yield step(`card ${agent} says Hello again`, (next) => farEnds(next, at), "progress");
    }
  }
  if (outage !== null && (areFenced || isEarly === "home's host")) {
    yield step(`home's ${outage} starts again`, (next) => homeStarts(next, outage), "progress");
  }
}

function farEnds(system: System, at: number): Events {
  const card = system.fars[at];
  if (card === undefined) return NOTHING;
  setWire(system, at, { isDoomed: false });
  // Home's card cannot take the `Hello` of the ending life, which is no longer repeated.
  if (system.outage !== null) lose(system.wires[at]);
  return act(system, at + 1, (out) => fence(card, out));
}

/**
 * A card loses its power, or its host, which holds it off. Only its life number outlasts it, so it
 * reports nothing. A host that lives answers the accesses that were under way.
 */
function losePower(system: System, at: number): Events {
  const card = system.fars[at];
  if (card === undefined) return NOTHING;
  lose(system.wires[at]);
  setWire(system, at, { isOff: true });
  const { agent, active, waiting, life, table, contents, size, regionOf } = card;
  system.fars[at] = newFarCard({ agent, life, table, contents, size, regionOf });
  const accesses = [...active.values(), ...waiting];
  return {
    answers: accesses.map((access) => ({ by: agent, answer: { access, result: "fenced" } })),
    lost: [],
  };
}

/** Messages on their way are lost, so the life has to end: the queue pairs have failed. */
function cut(system: System, at: number): void {
  lose(system.wires[at]);
  setWire(system, at, { isCut: true, isDoomed: true });
}

function lose(wire: Wire | undefined): void {
  if (wire === undefined) return;
  for (const queue of [wire.req, wire.snp, wire.up, wire.down]) queue.length = 0;
}

function setWire(
  system: System,
  at: number,
  change: Partial<Pick<Wire, "isCut" | "isDoomed" | "isOff">>,
): void {
  const wire = system.wires[at];
  if (wire !== undefined) Object.assign(wire, change);
}

function homeDies(system: System, outage: "card" | "host"): Events {
  system.outage = outage;
  system.toHome.length = system.toHost.length = 0;
  for (const [at, wire] of system.wires.entries()) {
    // Its queue pair repeats a `Hello` until home's card is there.
    const hellos = wire.req.filter(({ kind }) => kind === "Hello");
    lose(wire);
    wire.req.push(...hellos);
    setWire(system, at, { isDoomed: true });
  }
  // Its cores die with it, and get no answers.
  if (outage === "host") system.host.waiting.length = 0;
  return NOTHING;
}

/** Home's card begins another life. @param times of the card; none by default. */
export function renewHome({ home, host, size }: System, times?: LeaseTimes): void {
  const fresh = newHomeCard({
    tables: { home: home.table, far: home.local.table },
    size: size.home,
    contents: host.contents,
    regionOf: home.regionOf,
    life: home.life + 1,
    times: times ?? null,
    order: home.order,
  });
  // Software tells the card's next life the region's placement.
  for (const [region, placement] of home.placements) fresh.placements.set(region, placement);
  Object.assign(home as { -readonly [K in keyof typeof home]: (typeof home)[K] }, fresh);
}

/**
 * Decision 14: all leases are over. The host agent's record poisons, or has started anew with its
 * host.
 */
function homeStarts(system: System, outage: "card" | "host"): Events {
  const { host } = system;
  renewHome(system);
  system.outage = null;
  if (outage === "card") return act(system, HOST, (out) => cardLost(host, out));
  return act(system, HOST, (out) => restartHost(host, out));
}
