/** The coherent part of a card: its creation when the driver initialises the card, and its timed work. */
import { NEVER, PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import { TABLES } from "../../../fabric/coherence/tables.ts";
import { stopRenewing } from "../../../fabric/coherence/home_card.ts";
import { type Coherence, newCoherenceCounters, newStageSpent } from "./state/coherence_state.ts";
import type { Device } from "../state/device.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { farWakeAt, newFarEnd, wakeFar } from "./far.ts";
import { finishClosing, homeWakeAt, newHomeEnd, wakeHome } from "./home.ts";
import { createControl, firstLinkOf, linkSlots } from "./link.ts";

/** Places in the card's table of timers for queue pairs of its firmware. */
export function coherenceSlots({ plan }: Device): number {
  const peers = new Set(
    (plan.shared ?? []).flatMap(({ home, far }) => [home, ...far].map(({ address }) => address)),
  );
  return plan.shared === undefined ? 0 : linkSlots(2 * peers.size);
}

/**
 * The coherent part; undefined of a card that has no shared region.
 *
 * [choice] Lives (decision 14) and the numbers of links begin above all earlier ones, as the card has a clock: the
 * time of its start in microseconds, and no life is shorter than that.
 */
export function createCoherence(device: Device): Coherence | undefined {
  const { plan: { shared, address }, startedAt, tables = TABLES } = device;
  if (shared === undefined) return undefined;
  const life = Math.ceil(startedAt / PS_PER_US);
  const own = shared.filter(({ home }) => home.address === address);
  const others = shared.filter(({ home, far }) =>
    home.address !== address && far.some((each) => each.address === address)
  );
  const homes = [...new Set(others.map(({ home }) => home.address))];
  return {
    regions: shared,
    home: own.length === 0
      ? undefined
      : newHomeEnd({ regions: own, life: life + 1, startedAt, tables }),
    fars: new Map(homes.map((home) => {
      const regions = others.filter((each) => each.home.address === home);
      const agent = regions[0]!.far.find((each) => each.address === address)!.agent;
      return [home, newFarEnd({ home, regions, agent, life, table: tables.far })];
    })),
    links: new Map(),
    control: createControl(device),
    nextLink: firstLinkOf(life),
    shown: new Map(),
    noted: new Map(),
    counters: newCoherenceCounters(),
    spent: newStageSpent(),
  };
}

/** When {@link serveCoherence} has something to do. */
export function coherenceWakeAt({ home, fars }: Coherence): Time {
  let next = home === undefined ? NEVER : homeWakeAt(home);
  for (const far of fars.values()) next = Math.min(next, farWakeAt(far));
  return next;
}

/** Does the work that is due. Called in every step. */
export function serveCoherence(device: Device, coherence: Coherence): void {
  if (coherenceWakeAt(coherence) > device.now) return;
  const { home, fars } = coherence;
  if (home !== undefined && homeWakeAt(home) <= device.now) wakeHome(device, coherence, home);
  for (const far of fars.values()) {
    if (farWakeAt(far) <= device.now) wakeFar(device, coherence, far);
  }
}

/**
 * A queue pair of a link has failed. That alone proves nothing of the other card (decision 13): home only stops
 * renewing the lease, which ends. The far card may stop serving at any time, and does so at the end of this step:
 * lines that it held alone have no way home, and waiting accesses are answered.
 */
export function cardQueuePairFailed(device: Device, qp: QueuePair): void {
  const { coherence } = device;
  const link = coherence?.links.get(qp);
  if (coherence === undefined || link === undefined || link.isFailed) return;
  link.isFailed = true;
  if (link.role === "home") {
    const { home } = coherence;
    if (home === undefined) return;
    stopRenewing(home.card, link.agent);
    finishClosing(device, home);
    return;
  }
  const far = coherence.fars.get(link.peer);
  if (far?.link === link) far.renewAt = device.now;
}
