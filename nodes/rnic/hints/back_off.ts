/**
 * H-02, H-22: hints that bring nothing get rare. The responder knows of each hint whether anything had to be
 * fetched for it, and names what the last {@link NEEDLESS_HINTS} were needless for: regions by their keys, and
 * queue pairs for work that no key names. The requester remembers this by responder, whatever queue pairs come and
 * go: it announces every second batch about such scopes, and with each answer that says the same half as many. A
 * hint that was needed, work that has to be sent again, and a request that missed what no hint had announced each
 * make it announce all about that scope again, at once.
 */
import type { HintEntry, HintGroup, HintMessage } from "../../../fabric/wire/roce/hint.ts";
import {
  HINT_ENTRY_BYTES,
  HINT_GROUP_BYTES,
  HINT_KINDS,
} from "../../../fabric/wire/roce/hint_eth.ts";
import type { Device } from "../state/device.ts";
import type { Batch, HintElement, Hints, Scope } from "./state/hint_state.ts";
import {
  forgetPeer,
  forgetScope,
  hintingPeer,
  isNeedless,
  peerIn,
  remember,
  scopeOfQueuePair,
} from "./needless.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { Sender } from "./send_hint.ts";

/** At least every 2^6-th batch is announced: a hint costs a few percent of its work, so this costs nothing. */
const RARITY_MAX = 6;
/** The other content of a message that names regions: how long requests should wait, for each kind. */
const WAITS_BYTES = HINT_GROUP_BYTES + Object.keys(HINT_KINDS).length * HINT_ENTRY_BYTES;

/** Keys that one message of the queue pair names, beside a queue pair and `others` bytes. */
function namesMax({ attributes: { pathMtu } }: QueuePair, others = 0): number {
  return Math.floor((pathMtu - others - 2 * HINT_GROUP_BYTES) / HINT_ENTRY_BYTES);
}

/** The fate of a batch. A probe's answer says whether hints are needed again. */
export type Turn = "announced" | "probe" | "passed-over";

/**
 * The fate of a batch, work elements [from, until). A batch with a key that the peer has not named as needless is
 * announced: its memory may well be absent.
 */
export function turnOf({ hints, qp }: Sender, from: number, until: number): Turn {
  const quiet = hints.quiet.peers.get(qp.path.address);
  if (quiet === undefined || quiet.scopes.size === 0) return "announced";
  const scopes = scopesOf(hints, qp, { from, until });
  for (const scope of scopes) if (!quiet.scopes.has(scope)) return "announced";
  if (scopes.size === 0) return "announced";
  if (++quiet.passedOver < 2 ** quiet.rarity) {
    hints.counters.hintBatchesPassedOver++;
    return "passed-over";
  }
  quiet.passedOver = 0;
  return "probe";
}

/** The scopes of work elements [from, until). */
export function scopesOf(
  hints: Hints,
  qp: QueuePair,
  { from, until }: { readonly from: number; readonly until: number },
): Set<Scope> {
  const scopes = new Set<Scope>();
  const { work } = qp.requester;
  for (let number = from; number < until; number++) {
    const { wqe, plan } = work.at(number)!;
    if (wqe?.remote !== undefined) {
      scopes.add(scopeOf(hints, { qpn: qp.qpn, address: qp.path.address, rkey: wqe.remote.rkey }));
    } else if (plan.wire === "send") scopes.add(scopeOfQueuePair(qp.qpn));
  }
  return scopes;
}

/**
 * A region by its key. A carrier's or group's hints bring contexts, too, so with one the scope is the queue pair:
 * as both ends' programs have made the carrier, both ends use the same scope.
 */
export function scopeOf(
  { carriers, groups }: Hints,
  { qpn, address, rkey }: {
    readonly qpn: number;
    readonly address: number;
    readonly rkey: number;
  },
): Scope {
  return groups.size > 0 || carriers.has(address) ? scopeOfQueuePair(qpn) : rkey;
}

/** Work of the queue pair is sent again: all about its memory is announced again. */
export function announceAgain(hints: Hints, qp: QueuePair): void {
  if (!hints.quiet.peers.has(qp.path.address)) return;
  const { work, cursor } = qp.requester;
  const until = Math.min(cursor + 1, work.end);
  wake(hints, qp.path.address, scopesOf(hints, qp, { from: work.first, until }));
}

function wake({ quiet }: Hints, address: number, scopes: Iterable<Scope>): void {
  const peer = quiet.peers.get(address);
  if (peer === undefined) return;
  for (const scope of scopes) forgetScope(quiet, peer, scope);
  // The other regions may have changed, too: the next probe comes earlier.
  peer.rarity = 1;
  peer.passedOver = 0;
}

/**
 * The peer has said anew which kinds it wants. With them come the regions and queue pairs of misses that no hint
 * had announced; a peer that remembers none of its needless scopes has another life, or had no room.
 */
export function takeMissed(
  hints: Hints,
  { path: { address } }: QueuePair,
  { reason, groups }: HintMessage,
): void {
  if (reason !== "not-wanted") return forgetPeer(hints.quiet, address);
  for (const { sourceQpn, entries } of groups) {
    const isQueuePair = entries.length === 0;
    // Entries of a kind say how long its requests should wait.
    const keys = entries.flatMap(({ kinds, rkey }) => kinds === 0 ? [rkey] : []);
    if (isQueuePair) wake(hints, address, [scopeOfQueuePair(sourceQpn)]);
    else if (keys.length > 0) wake(hints, address, keys);
  }
}

/** As responder: the scopes, with a new miss, that {@link takeMissed} of the peer is told. */
export function missedFor(
  hints: Hints,
  qp: QueuePair,
  missed: readonly Scope[] = [],
): Pick<HintMessage, "reason" | "groups"> {
  const peer = hints.hinting.peers.get(qp.path.address);
  if (peer === undefined) return { reason: "none", groups: [] };
  if (peer.hasForgotten || missed.length > namesMax(qp, WAITS_BYTES)) {
    peer.hasForgotten = false;
    for (const its of peer.scopes.values()) {
      its.isNamed = false;
      its.isRare = false;
    }
    return { reason: "none", groups: [] };
  }
  const ends = { destQpn: qp.qpn, sourceQpn: qp.attributes.destQpn };
  const keys = missed.filter((scope) => scope >= 0);
  const groups: HintGroup[] = [];
  if (keys.length > 0) groups.push({ ...ends, entries: keys.map(named) });
  if (keys.length < missed.length) groups.push({ ...ends, entries: [] });
  const isRemembered = groups.length > 0 || [...peer.scopes.values()].some((its) => its.isRare);
  return { reason: isRemembered ? "not-wanted" : "none", groups };
}

function named(rkey: number): HintEntry {
  const none = { kinds: 0, messages: 0, sequence: 0, length: 0, va: 0n, objects: [] };
  return { ...none, operation: "read", rkey };
}

/** A probe's answer: hints get rarer still where it was needless, too. */
export function takeProbeAnswer(
  { hints, qp, batch }: {
    readonly hints: Hints;
    readonly qp: QueuePair;
    readonly batch: Batch;
  },
  { type, reason, groups }: HintMessage,
): void {
  const quiet = hints.quiet.peers.get(qp.path.address);
  if (!batch.probes || quiet === undefined) return;
  if (type === "prepared") {
    const needless = new Set(
      groups.filter(({ sourceQpn }) => sourceQpn === qp.qpn)
        .flatMap((group) => scopesNamed(hints, qp, group)),
    );
    const needed = batch.scopes.filter((scope) => !needless.has(scope));
    if (needed.length > 0) wake(hints, qp.path.address, needed);
    else quiet.rarity = Math.min(quiet.rarity + 1, RARITY_MAX);
  } else if (reason === "quota" || reason === "error") wake(hints, qp.path.address, batch.scopes);
}

function scopesNamed(hints: Hints, qp: QueuePair, { entries }: HintGroup): Scope[] {
  const { qpn, path: { address } } = qp;
  if (entries.length === 0) return [scopeOfQueuePair(qpn)];
  return entries.map(({ rkey }) => scopeOf(hints, { qpn, address, rkey }));
}

/** The peer names needless scopes: hints about them get rare. */
export function takeNeedless(
  { queuePairs }: Device,
  { hints, qp: by }: { readonly hints: Hints; readonly qp: QueuePair },
  groups: readonly HintGroup[],
): void {
  if (hints.plan.backOff === "off") return;
  const { address } = by.path;
  for (const group of groups) {
    const qp = queuePairs.get(group.sourceQpn);
    // A peer decides only on hints to itself.
    if (qp?.path.address !== address || qp.attributes.destQpn !== group.destQpn) continue;
    const quiet = peerIn(hints.quiet, address, () => ({
      scopes: new Map(),
      rarity: 1,
      passedOver: 0,
    }));
    for (const scope of scopesNamed(hints, qp, group)) remember(hints.quiet, quiet, [scope, true]);
  }
}

/** As responder: the scopes of a hint for which hints have been needless for long. */
export function needlessOf(
  { queuePairs }: Device,
  hints: Hints,
  { by, requester, elements }: {
    readonly by: QueuePair;
    readonly requester: number;
    readonly elements: readonly HintElement[];
  },
): HintGroup[] {
  if (!hints.hinting.peers.has(requester)) return [];
  const peer = hintingPeer(hints, requester), most = namesMax(by);
  const groups: HintGroup[] = [];
  for (let at = 0; at < elements.length;) {
    const { ends } = elements[at]!;
    const keys = new Set<number>();
    let isQueuePair = false;
    for (; elements[at]?.ends.destQpn === ends.destQpn; at++) {
      const { scope, entry } = elements[at]!;
      const its = scope === undefined ? undefined : peer.scopes.get(scope);
      if (its === undefined || !queuePairs.has(ends.destQpn) || !isNeedless(peer, its)) continue;
      if (scope! < 0) isQueuePair = true;
      else if (keys.size < most) keys.add(entry.rkey);
      else continue;
      its.isNamed = true;
      its.isRare = true;
    }
    if (keys.size > 0) groups.push({ ...ends, entries: [...keys].map(named) });
    if (isQueuePair) groups.push({ ...ends, entries: [] });
  }
  return groups;
}
