/**
 * Both sides' memory of hints that have brought nothing (H-02, H-22), for each peer: by region, which a key names,
 * and by queue pair for work that no key names. It outlives queue pairs, and has a bound: the least recently used
 * scope is forgotten, which costs hints, and changes no result (H-24).
 */
import type { TranslationTable } from "../state/translation_table.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { HintingPeer, Hints, NeedlessScope, Remembered, Scope } from "./state/hint_state.ts";

/** [choice] Needless hints in a row after which the peer is told: as many as a batch has by default. */
export const NEEDLESS_HINTS = 8;

/** [choice] Remembered regions and queue pairs of all peers, and of one: at 8 B each 32 KiB of a chip. */
export const SCOPES_MAX = { all: 4096, peer: 1024 } as const;

/** Untagged messages have no key, and a context is a queue pair's. */
export function scopeOfQueuePair(qpn: number): Scope {
  return -1 - qpn;
}

/** The memory of a peer, which counts as used now. */
export function peerIn<P extends { readonly scopes: Map<Scope, unknown> }>(
  { peers }: Remembered<P>,
  address: number,
  create: () => P,
): P {
  const peer = peers.get(address) ?? create();
  peers.delete(address);
  peers.set(address, peer);
  return peer;
}

/**
 * Remembers a scope of a peer, as the one that was used last.
 * @returns the scope that is forgotten for it, and its peer.
 */
export function remember<T, P extends { readonly scopes: Map<Scope, T> }>(
  remembered: Remembered<P>,
  peer: P,
  [scope, value]: readonly [Scope, T],
): { readonly loser: P; readonly forgotten: T } | undefined {
  const { scopes } = peer;
  forgetScope(remembered, peer, scope);
  const loser = scopes.size === SCOPES_MAX.peer
    ? peer
    : remembered.size === SCOPES_MAX.all
    ? remembered.peers.values().find((each) => each.scopes.size > 0)
    : undefined;
  scopes.set(scope, value);
  remembered.size++;
  if (loser === undefined) return undefined;
  const [oldest] = loser.scopes;
  const [its, forgotten] = oldest!;
  forgetScope(remembered, loser, its);
  return { loser, forgotten };
}

export function forgetScope<P extends { readonly scopes: Map<Scope, unknown> }>(
  remembered: Remembered<P>,
  { scopes }: P,
  scope: Scope,
): void {
  if (scopes.delete(scope)) remembered.size--;
}

export function forgetPeer<P extends { readonly scopes: Map<Scope, unknown> }>(
  remembered: Remembered<P>,
  address: number,
): void {
  remembered.size -= remembered.peers.get(address)?.scopes.size ?? 0;
  remembered.peers.delete(address);
}

/** As responder: the scopes for which the address' hints have been needless. */
export function hintingPeer({ hinting }: Hints, address: number): HintingPeer {
  return peerIn(hinting, address, () => ({
    scopes: new Map(),
    needless: 0,
    hasForgotten: false,
  }));
}

/** As responder: a hint of the peer was needless for the scope, or was needed. */
export function noteHint(
  { hinting }: Hints,
  peer: HintingPeer,
  { scope, region, isNeeded }: {
    readonly scope: Scope;
    readonly region: number | undefined;
    readonly isNeeded: boolean;
  },
): NeedlessScope {
  const before = peer.scopes.get(scope);
  const its = {
    needless: isNeeded ? 0 : (before?.needless ?? 0) + 1,
    isNamed: !isNeeded && before?.isNamed === true,
    isRare: before?.isRare === true,
    region,
  };
  const lost = remember(hinting, peer, [scope, its]);
  if (lost?.forgotten.isRare) lost.loser.hasForgotten = true;
  return its;
}

/**
 * True if hints about the scope have been needless for long, or the last one was and all of the peer's have been
 * for long. A named scope stays so until a hint is needed.
 */
export function isNeedless(peer: HintingPeer, { needless, isNamed }: NeedlessScope): boolean {
  return isNamed || needless >= NEEDLESS_HINTS ||
    (needless > 0 && peer.needless >= NEEDLESS_HINTS);
}

/**
 * A request has missed a page, translation or context: a peer that announces little is told.
 * @param tables of the memory; none where it is a context.
 */
export function noteMiss(hints: Hints, qp: QueuePair, tables: readonly TranslationTable[]): void {
  const end = hints.ends.get(qp);
  if (end === undefined || end.life !== qp.life) return;
  const peer = hints.hinting.peers.get(qp.path.address);
  if (peer === undefined) return;
  peer.needless = 0;
  const missed: Scope[] = [];
  const own = scopeOfQueuePair(qp.qpn);
  for (const [scope, its] of peer.scopes) {
    const isMissed = its.region === undefined
      ? scope === own
      : tables.some(({ key }) => key === its.region);
    if (!isMissed) continue;
    its.needless = 0;
    if (its.isRare) missed.push(scope);
    its.isNamed = false;
    its.isRare = false;
  }
  if (missed.length > 0 || peer.hasForgotten) hints.missed.push({ qp, scopes: missed });
}
