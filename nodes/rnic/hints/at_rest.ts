/**
 * What hints still hold when no event is left, and where their books do not add up: quotas, receives that are wanted
 * of a ring, remembered scopes, and the effects of fetches (H-30) are each counted where they change, so each is
 * counted again from what there is.
 */
import type { Count, HeldCounts } from "../state/card_extension.ts";
import type { Device } from "../state/device.ts";
import { rights } from "../state/life_cycle.ts";
import type { RingAhead } from "../state/queue_pair.ts";
import { accountOf } from "./charges.ts";
import type { Hints, Remembered, Scope } from "./state/hint_state.ts";
import { wordKey } from "./words.ts";

export function heldByHints(device: Device): HeldCounts {
  const { hints } = device;
  if (hints === undefined) return { leaked: [] };
  const { work, line, preparing, holds, receiving } = hints;
  return {
    leaked: [
      ["hints that have not left", line.jobs.length],
      ["jobs for hints", work?.due.length ?? 0],
      ["hints that are not answered", preparing.length],
      ["holds behind hints", holds.values().reduce((sum, each) => sum + each.length, 0)],
      ["batches held by no hint", heldForEver(hints)],
      [
        "queue pairs whose receives are wanted",
        receiving.values().filter(({ wanted }) => wanted > 0).toArray().length,
      ],
      ["receives wanted of rings beside those of queue pairs", ringsOff(device, hints)],
      ["hints' parts of queue pairs that are gone", partsOfGone(device, hints)],
      ...chargesOff(hints),
      ["remembered scopes counted wrong", scopesOff(hints.quiet) + scopesOff(hints.hinting)],
    ],
    asked: [["jobs for hints at the host", work?.atHost.size ?? 0]],
  };
}

/**
 * A batch is held by a hold, or by a hint that is being made. At rest the card makes none; a core of the
 * host may still do so.
 */
function heldForEver({ ends, work }: Hints): number {
  let count = 0;
  for (const [qp, { life, batches }] of ends) {
    if (life !== qp.life || !rights(qp.state).startsWork) continue;
    for (const { held, end, unsent } of batches) {
      const isAtHost = unsent > 0 && (work?.atHost.size ?? 0) > 0;
      if (held && end > qp.requester.cursor && !isAtHost) count++;
    }
  }
  return count;
}

function ringsOff({ queuePairs, sharedReceiveQueues }: Device, { receiving }: Hints): number {
  const wanted = new Map<RingAhead, number>();
  for (const { ring, wanted: its } of receiving.values()) {
    wanted.set(ring, (wanted.get(ring) ?? 0) + its);
  }
  const rings = [
    ...queuePairs.values().map(({ rq }) => rq.ahead),
    ...sharedReceiveQueues.values().map(({ ahead }) => ahead),
  ];
  return sum(rings.map((ring) => Math.abs(ring.wanted - (wanted.get(ring) ?? 0))));
}

function partsOfGone({ queuePairs }: Device, hints: Hints): number {
  const { ends, receiving, groups, carriers } = hints;
  const all = [...ends.keys(), ...receiving.keys(), ...groups.keys(), ...carriers.values()];
  return all.filter((qp) => queuePairs.get(qp.qpn) !== qp).length;
}

function chargesOff(hints: Hints): Count[] {
  const all = [...hints.charges.values()], onTime = new Set(hints.byTime.values());
  return [
    ["fetches for hints that no quota has", quotasOff(hints)],
    ["fetches for hints that never get old", all.filter((each) => !onTime.has(each)).length],
    ...wordsOff(hints),
    ...effectsOff(hints),
  ];
}

function quotasOff({ charges, charged }: Hints): number {
  const accounts = Map.groupBy(charges.values(), accountOf);
  const keys = new Set([...charged.keys(), ...accounts.keys()]);
  const off = (key: number) => Math.abs((charged.get(key) ?? 0) - (accounts.get(key)?.length ?? 0));
  return sum([...keys].map(off));
}

function wordsOff({ charges, words }: Hints): Count[] {
  const all = [...words.values()], held = new Set(all.map(({ charge }) => charge));
  const unheld = charges.values().filter((each) => each.kind === "word" && !held.has(each));
  return [
    [
      "words read ahead that no quota has",
      all.filter(({ address, charge }) => charges.get(wordKey(address)) !== charge).length,
    ],
    ["words in a quota that are not on the chip", unheld.toArray().length],
    [
      "reads of words that have not ended",
      all.filter(({ state }) => state === "coming" || state === "gone").length,
    ],
  ];
}

function effectsOff({ charges, counters }: Hints): Count[] {
  const owed = {
    page: counters.hintPagesAsked - counters.hintPagesUseful - counters.hintPagesLate -
      counters.hintPagesWasted,
    line: counters.hintLinesFetched - counters.hintLinesUseful - counters.hintLinesLate -
      counters.hintLinesWasted,
    context: counters.hintContextsFetched - counters.hintContextsUseful -
      counters.hintContextsLate - counters.hintContextsWasted,
  };
  return (["page", "line", "context"] as const).map((kind): Count => {
    const open = charges.values().filter((each) => each.kind === kind).toArray().length;
    return [`fetches of a ${kind} for hints without an effect`, Math.abs(owed[kind] - open)];
  });
}

function scopesOff<P extends { readonly scopes: Map<Scope, unknown> }>(
  { peers, size }: Remembered<P>,
): number {
  return Math.abs(size - sum([...peers.values()].map(({ scopes }) => scopes.size)));
}

function sum(counts: readonly number[]): number {
  return counts.reduce((all, count) => all + count, 0);
}
