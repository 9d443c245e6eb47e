import { deepEqual as same, equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { HINT_PLAN } from "../../../fabric/rack/plan/hint_plan.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { TranslationTable } from "../state/translation_table.ts";
import { createEnd, createHints, type Remembered } from "./state/hint_state.ts";
import {
  forgetPeer,
  forgetScope,
  hintingPeer,
  isNeedless,
  NEEDLESS_HINTS,
  noteHint,
  noteMiss,
  peerIn,
  remember,
  SCOPES_MAX,
} from "./needless.ts";

interface Peer {
  readonly scopes: Map<number, string>;
}

function empty(): Remembered<Peer> {
  return { peers: new Map(), size: 0 };
}

function note(all: Remembered<Peer>, address: number, scope: number): Peer[] {
  const peer = peerIn(all, address, () => ({ scopes: new Map() }));
  const lost = remember(all, peer, [scope, "known"]);
  return lost === undefined ? [] : [lost.loser];
}

function scopesOf({ peers }: Remembered<Peer>, address: number): number[] {
  return [...peers.get(address)?.scopes.keys() ?? []];
}

describe("what is remembered of needless hints (H-02, H-24)", () => {
  it("H-24: of all peers, what the one that was used longest ago has used longest ago is forgotten", () => {
    const all = empty();
    const peers = SCOPES_MAX.all / SCOPES_MAX.peer;
    for (let address = 0; address < peers; address++) {
      for (let scope = 0; scope < SCOPES_MAX.peer; scope++) same(note(all, address, scope), []);
    }
    peerIn(all, 0, () => ({ scopes: new Map() }));
    same(note(all, 99, 0), [all.peers.get(1)!]);
    same([scopesOf(all, 0).length, scopesOf(all, 1)[0]], [SCOPES_MAX.peer, 1]);
  });

  it("H-24: of one peer so much, and what it has used longest ago is forgotten", () => {
    const all = empty();
    for (let scope = 0; scope < SCOPES_MAX.peer; scope++) same(note(all, 1, scope), []);
    same(note(all, 1, 0), [], "known, and used again");
    same(note(all, 1, -7), [all.peers.get(1)]);
    equal(scopesOf(all, 1).length, SCOPES_MAX.peer);
    same(scopesOf(all, 1).slice(0, 1), [2]);
    same(scopesOf(all, 1).slice(-2), [0, -7]);
  });

  it("H-24: a peer with many takes nothing from another but by what all may have together", () => {
    const all = empty();
    note(all, 9, 1);
    for (let scope = 0; scope < 3 * SCOPES_MAX.peer; scope++) note(all, 1, scope);
    same(scopesOf(all, 9), [1]);
    for (let peer = 2; all.size < SCOPES_MAX.all; peer++) {
      for (let i = 0; i < SCOPES_MAX.peer && all.size < SCOPES_MAX.all; i++) note(all, peer, i);
    }
    const loser = all.peers.get(9);
    same(note(all, 2, -1).length, 1);
    same(note(all, 10, 1), [loser], "the one that was used longest ago");
  });

  it("H-24: never more than the bound, whatever comes", () => {
    const step = fc.tuple(fc.nat(6), fc.integer({ min: -40, max: 1200 }), fc.nat(20));
    fc.assert(
      fc.property(fc.array(step, { minLength: 50, maxLength: 400 }), (steps) => {
        const all = empty();
        for (const [address, scope, act] of steps) {
          if (act === 0) forgetPeer(all, address);
          else if (act < 4) {
            const peer = all.peers.get(address);
            if (peer !== undefined) forgetScope(all, peer, scope);
          } else for (let i = 0; i < 30; i++) note(all, address, scope + i);
          const sizes = [...all.peers.values()].map(({ scopes }) => scopes.size);
          equal(all.size, sizes.reduce((sum, each) => sum + each, 0));
          equal(all.size <= SCOPES_MAX.all, true);
          equal(sizes.every((each) => each <= SCOPES_MAX.peer), true);
        }
      }),
      seeded({ numRuns: 30 }),
    );
  });
});

describe("a request that met what no hint had announced (H-02, H-22)", () => {
  const KEY = 0x500;

  /** A peer whose hints about a region have been needless for long, and that was told so. */
  function needless() {
    const hints = createHints(HINT_PLAN)!;
    const qp = { qpn: 17, life: 0, path: { address: 9 } } as unknown as QueuePair;
    const requester = { cursor: 0 } as QueuePair["requester"];
    hints.ends.set(qp, createEnd(HINT_PLAN, { ...qp, requester } as QueuePair));
    const peer = hintingPeer(hints, qp.path.address);
    const note = (isNeeded: boolean) => {
      const its = noteHint(hints, peer, { scope: KEY, region: KEY, isNeeded });
      return isNeedless(peer, its);
    };
    for (let i = 1; i <= NEEDLESS_HINTS; i++) equal(note(false), i === NEEDLESS_HINTS);
    const its = peer.scopes.get(KEY)!;
    its.isNamed = its.isRare = true;
    return { hints, qp, note };
  }

  const table = (key: number) => ({ key }) as TranslationTable;

  it("has the peer told of that region, whose hints are needless no more until they have been again", () => {
    const { hints, qp, note } = needless();
    noteMiss(hints, qp, [table(KEY + 1), table(KEY)]);
    same(hints.missed, [{ qp, scopes: [KEY] }]);
    for (let i = 1; i <= NEEDLESS_HINTS; i++) equal(note(false), i === NEEDLESS_HINTS, `hint ${i}`);
    noteMiss(hints, qp, [table(KEY)]);
    equal(hints.missed.length, 1, "it was not named again");
  });

  it("says nothing of other regions, which stay what they are", () => {
    const { hints, qp, note } = needless();
    noteMiss(hints, qp, [table(KEY + 1)]);
    same(hints.missed, []);
    equal(note(false), true);
  });
});
