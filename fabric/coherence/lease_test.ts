/** The lease of a pair of cards (decision 13): who stops when, what rides on what, and that idle cards are quiet. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { NEVER } from "../base/time.ts";
import {
  farAccess,
  type FarCard,
  farLine,
  farNextAt,
  farReceive,
  farWake,
  fence,
  newFarCard,
} from "./far_card.ts";
import { FAR_TABLE } from "./far_card_table.ts";
import {
  homeAccess,
  homeBus,
  homeNextAt,
  homeReceive,
  homeWake,
  stopRenewing,
} from "./home_card.ts";
import { type HomeCard, homeLine, newHomeCard } from "./home_card_state.ts";
import { HOME_TABLE } from "./home_card_table.ts";
import { type HostAgent, hostReceive, newHostAgent } from "./host_agent.ts";
import { HOST_TABLE } from "./host_agent_table.ts";
import { BYTE_CONTENTS } from "./line_bytes.ts";
import { WHOLE_LINE } from "../wire/host_bus/line_change.ts";
import type { Access } from "./access.ts";
import type { WireMessage } from "../wire/roce/coherence_messages.ts";
import { newOutput, type Output, rangesOf } from "./output.ts";

const TIMES = { lease: 8000, grace: 100 };
const CACHE = { lines: 4, writeBacks: 2 };
const LOAD: Access = { kind: "load", line: 0, ticket: 0 };
const change = { kind: "write", mask: WHOLE_LINE, bytes: new Uint8Array(64).fill(3) };
const STORE: Access = { kind: "store", line: 0, change, ticket: 1 };

interface Pair {
  readonly far: FarCard;
  readonly home: HomeCard;
  readonly host: HostAgent;
}

function pair(): Pair {
  const given = { contents: BYTE_CONTENTS, regionOf: () => 0 };
  const far = newFarCard({ ...given, agent: 1, table: FAR_TABLE, size: CACHE, lease: TIMES });
  const home = newHomeCard({
    ...given,
    tables: { home: HOME_TABLE, far: FAR_TABLE },
    size: { slots: 2, entries: 4, localCache: CACHE },
    times: TIMES,
  });
  const initial = () => new Uint8Array(64);
  const host = newHostAgent({ table: HOST_TABLE, contents: BYTE_CONTENTS, initial });
  return { far, home, host };
}

/** Lets both cards talk without delay at one time; `hears` says what arrives. @returns all that was sent. */
function talk(
  { far, home, host }: Pair,
  now: number,
  { first = [], hears = () => true }: {
    readonly first?: readonly WireMessage[];
    readonly hears?: (message: WireMessage) => boolean;
  } = {},
): WireMessage[] {
  far.now = home.now = now;
  const sent: WireMessage[] = [];
  const toHome = [...first], toFar: WireMessage[] = [];
  while (toHome.length + toFar.length > 0) {
    const out = newOutput();
    const up = toHome.shift(), down = up === undefined ? toFar.shift() : undefined;
    if (up !== undefined) {
      sent.push(up);
      if (hears(up)) homeReceive(home, up, out);
    }
    if (down !== undefined) {
      sent.push(down);
      if (hears(down)) farReceive(far, down, out);
    }
    (up === undefined ? toHome : toFar).push(...out.wire);
    const bus = [...out.bus];
    for (let message = bus.shift(); message !== undefined; message = bus.shift()) {
      const reply = newOutput();
      hostReceive(host, message, reply);
      const from = newOutput();
      for (const each of reply.bus) homeBus(home, each, from);
      bus.push(...from.bus);
      toFar.push(...from.wire);
    }
  }
  return sent;
}

/** Registered, and with an access done at `now`. */
function holding(access: Access, now = 0): Pair {
  const cards = pair();
  const { far } = cards;
  const hello = newOutput();
  far.now = now;
  fence(far, hello);
  talk(cards, now, { first: hello.wire });
  const out = newOutput();
  farAccess(far, access, out);
  talk(cards, now, { first: out.wire });
  return cards;
}

/** What the far card does by itself at a time. */
function farAt(card: FarCard, now: number): Output {
  const out = newOutput();
  card.now = now;
  farWake(card, out);
  return out;
}

/** The same of home's card. */
function homeAt(card: HomeCard, now: number): Output {
  const out = newOutput();
  card.now = now;
  homeWake(card, out);
  return out;
}

describe("the lease of a pair of cards", () => {
  it("C-10, decision 13: the far card stops at L after sending, and home gives away at L + ε after receiving", () => {
    const { far, home } = holding(STORE);
    assert.equal(farLine(far, 0).state, "M");
    assert.equal(far.lease?.until, TIMES.lease);
    assert.equal(home.leases.get(1)?.until, TIMES.lease + TIMES.grace);
    // All renewals are lost from now on.
    farAt(far, TIMES.lease / 2);
    assert.deepEqual(farAt(far, TIMES.lease - 1).lost, []);
    assert.deepEqual(farAt(far, TIMES.lease).lost, [0]);
    assert.equal(farLine(far, 0).state, "I");
    assert.deepEqual(homeAt(home, TIMES.lease + TIMES.grace - 1).lost, []);
    assert.deepEqual(homeAt(home, TIMES.lease + TIMES.grace).lost, [0]);
  });

  it("decision 13: an access at L finds the lease over, though nothing has woken the card", () => {
    const { far } = holding(LOAD);
    far.now = TIMES.lease;
    const out = newOutput();
    farAccess(far, LOAD, out);
    assert.deepEqual(out.answers, []);
    assert.deepEqual(out.wire.map(({ kind }) => kind), ["Hello"]);
    far.now = 2 * TIMES.lease;
    farWake(far, out);
    assert.deepEqual(out.answers.map(({ result }) => result), ["fenced"]);
  });

  it("decision 13: counts from sending, not from the answer", () => {
    const cards = holding(LOAD);
    const renewal = farAt(cards.far, TIMES.lease / 2);
    assert.deepEqual(renewal.wire.map(({ kind, stamp }) => [kind, stamp]), [["Renew", 4000]]);
    // A thousand ps later, there and back.
    const sent = talk(cards, 5000, { first: renewal.wire });
    assert.deepEqual(sent.map(({ kind }) => kind), ["Renew", "Renewed"]);
    assert.equal(cards.far.lease?.until, 4000 + TIMES.lease);
    assert.equal(cards.home.leases.get(1)?.until, 5000 + TIMES.lease + TIMES.grace);
  });

  it("decision 13: a renewal rides on what goes anyway, and has a message of its own where nothing goes", () => {
    const cards = holding(LOAD);
    cards.far.now = 1000;
    const out = newOutput();
    farAccess(cards.far, { ...LOAD, line: 1 }, out);
    const sent = talk(cards, 1000, { first: out.wire });
    assert.deepEqual(sent.map(({ kind, stamp }) => [kind, stamp]), [
      ["GetS", 1000],
      ["DataS", 1000],
      ["Complete", undefined],
    ]);
    assert.equal(cards.far.lease?.until, 1000 + TIMES.lease);
    assert.equal(farNextAt(cards.far), 1000 + TIMES.lease / 2);
  });

  it("decision 13: home's card gives a stamp back by itself where nothing else takes it along", () => {
    const cards = holding(LOAD);
    cards.far.now = 2000;
    const out = newOutput();
    farAccess(cards.far, STORE, out);
    const sent = talk(cards, 2000, { first: out.wire, hears: ({ kind }) => kind !== "DataE" });
    assert.equal(sent.at(-1)?.stamp, 2000);
    // The same, with a message that has no answer.
    const dirty: WireMessage = {
      kind: "Dirty",
      line: 0,
      agent: 1,
      life: 1,
      homeLife: 1,
      stamp: 3000,
    };
    talk(cards, 3000, { first: [dirty] });
    assert.equal(homeNextAt(cards.home), 4000);
    const late = homeAt(cards.home, 4000);
    assert.deepEqual(late.wire.map(({ kind, stamp }) => [kind, stamp]), [["Renewed", 3000]]);
  });

  it("a card that holds nothing renews nothing, and home forgets what it has dropped in silence", () => {
    const cards = holding(LOAD);
    const { far, home } = cards;
    far.lines.clear();
    assert.equal(farNextAt(far), NEVER);
    const over = homeAt(home, TIMES.lease + TIMES.grace);
    assert.deepEqual([over.lost, over.wire], [[], []]);
    assert.equal(homeLine(home, 0).sharers, 0);
    assert.equal(homeNextAt(home), NEVER);
    // It is as welcome as before.
    far.now = 50_000;
    const out = newOutput();
    farAccess(far, LOAD, out);
    talk(cards, 50_000, { first: out.wire });
    assert.equal(farLine(far, 0).state, "S");
    assert.equal(far.lease?.until, 50_000 + TIMES.lease);
  });

  for (const isUsed of [true, false]) {
    const what = isUsed
      ? "keeps the copies that its cores use"
      : "gives copies back that no core uses";
    it(`a card ${what}, after four renewals`, () => {
      const cards = holding(STORE);
      const { far } = cards;
      const sent: string[] = [];
      for (let renewals = 0; renewals < 8 && farNextAt(far) < NEVER; renewals++) {
        const now = farNextAt(far);
        const due = farAt(far, now);
        if (isUsed) farAccess(far, LOAD, due);
        sent.push(...talk(cards, now, { first: due.wire }).map(({ kind }) => kind));
      }
      const renewed = (times: number) => Array(times).fill(["Renew", "Renewed"]).flat();
      assert.equal(farLine(far, 0).state, isUsed ? "M" : "I");
      if (isUsed) assert.deepEqual(sent, renewed(8));
      else assert.deepEqual(sent, [...renewed(3), "Renew", "Put", "Renewed", "WbAck"]);
    });
  }

  it("decision 13: home does not let a lease end of which an InvAck is owed: it answers in the dead card's place", () => {
    const { home } = holding(LOAD);
    const snoop = newOutput();
    home.now = 10;
    homeBus(home, { kind: "SnpInv", line: 0 }, snoop);
    assert.deepEqual(snoop.wire.map(({ kind }) => kind), ["Inv"]);
    assert.deepEqual(homeAt(home, TIMES.lease + TIMES.grace - 1).bus, []);
    const over = homeAt(home, TIMES.lease + TIMES.grace);
    assert.deepEqual(over.bus.map(({ kind }) => kind), ["RspI"]);
    assert.equal(home.lives.has(1), false);
    assert.equal(homeLine(home, 0).snoop, null);
  });

  it("decision 13: a card whose request still waits when its lease is over gets no line any more", () => {
    const cards = pair(), { far, home } = cards;
    const hello = newOutput();
    fence(far, hello);
    talk(cards, 0, { first: hello.wire });
    // A verb has the line, for which memory is asked.
    const line = 1, verb = newOutput();
    homeAccess(home, { ...LOAD, line, ticket: 9 }, verb);
    assert.deepEqual(verb.bus.map(({ kind }) => kind), ["RdInvOwn"]);
    const asked = newOutput();
    farAccess(far, { ...STORE, line }, asked);
    talk(cards, 0, { first: asked.wire });
    assert.deepEqual(home.requests.map(({ message, isBegun }) => [message.agent, isBegun]), [
      [1, false],
    ]);
    homeAt(home, TIMES.lease + TIMES.grace);
    assert.equal(home.lives.has(1), false);
    assert.deepEqual(home.requests, []);
    const granted = newOutput();
    homeBus(home, { kind: "GrantE", line, data: new Uint8Array(64) }, granted);
    assert.deepEqual(granted.answers.map(({ result }) => result), ["done"]);
    assert.deepEqual(granted.wire, []);
  });

  it("decision 13: a failed queue pair to a card that has no lease ends its life after a lease and its grace", () => {
    const { far, home } = holding(LOAD);
    far.lines.clear();
    homeAt(home, TIMES.lease + TIMES.grace);
    assert.equal(homeNextAt(home), NEVER);
    home.now = 20_000;
    stopRenewing(home, 1);
    assert.equal(homeNextAt(home), 20_000 + TIMES.lease + TIMES.grace);
    homeAt(home, homeNextAt(home));
    assert.equal(home.lives.has(1), false);
  });

  it("decision 13: a failed queue pair ends the life, and not before the far card has stopped", () => {
    const cards = holding(STORE);
    const { far, home } = cards;
    home.now = 10;
    stopRenewing(home, 1);
    assert.equal(homeLine(home, 0).owner, 1);
    const renewal = farAt(far, TIMES.lease / 2);
    assert.deepEqual(talk(cards, 5000, { first: renewal.wire }).map(({ kind }) => kind), ["Renew"]);
    assert.deepEqual(farAt(far, TIMES.lease).lost, [0]);
    assert.deepEqual(homeAt(home, TIMES.lease + TIMES.grace).lost, [0]);
  });

  it("decision 14: a card that is up does not take a late Welcome of home's next life for its own", () => {
    const { far } = holding(LOAD);
    const late: WireMessage = { kind: "Welcome", line: 0, agent: 1, life: 1, homeLife: 2 };
    farReceive(far, late, newOutput());
    assert.equal(far.homeLife, 1);
  });

  it("decision 14: what home's local cache has begun for one life of a far card is no answer to the next one", () => {
    const { far, home } = holding(LOAD);
    const local = { place: "local", version: 0 } as const;
    home.placements.set(0, local);
    far.placements.set(0, local);
    const act = (does: (out: Output) => void) => {
      const out = newOutput();
      does(out);
      return out;
    };
    const line = 1;
    const [asked] = act((out) => farAccess(far, { ...LOAD, line }, out)).wire;
    assert.equal(asked!.kind, "Read");
    assert.deepEqual(act((out) => homeReceive(home, asked!, out)).bus.map(({ kind }) => kind), [
      "RdData",
    ]);
    const [hello] = act((out) => fence(far, out)).wire;
    for (const message of act((out) => homeReceive(home, hello!, out)).wire) {
      act((out) => farReceive(far, message, out));
    }
    assert.equal(far.isUp, true);
    far.placements.set(0, local);
    const [again] = act((out) => farAccess(far, { ...STORE, line }, out)).wire;
    assert.equal(again!.kind, "Write");
    const data = new Uint8Array(64);
    const late = act((out) => homeBus(home, { kind: "GrantS", line, data }, out));
    assert.deepEqual(late.wire, [], "the life that has asked is over");
    assert.equal(far.active.get(line)?.kind, "store", "the store is not done");
  });

  it("decision 14: a life begins once: a Hello that comes twice gets no second life", () => {
    const cards = pair();
    const hello: WireMessage = { kind: "Hello", line: 0, agent: 1, life: 1, homeLife: 0 };
    homeReceive(cards.home, hello, newOutput());
    const out = newOutput();
    homeReceive(cards.home, hello, out);
    assert.deepEqual(out.wire, []);
  });
});

describe("counts for home's judge", () => {
  it("decision 17: tell of a window, and of a life, what its cores have done in it, once", () => {
    const window = 1000;
    const cards = { ...pair(), far: { ...pair().far, window } };
    const { far } = cards;
    const told = (out: Output) =>
      out.wire.flatMap(({ kind, counts }) => kind === "Counts" ? [counts] : []);
    const registered = (now: number) => {
      const hello = newOutput();
      far.now = now;
      fence(far, hello);
      talk(cards, now, { first: hello.wire });
    };
    const load = (now: number) => {
      const out = newOutput();
      far.now = now;
      farAccess(far, LOAD, out);
      talk(cards, now, { first: out.wire });
    };
    registered(0);
    load(0), load(10);
    assert.equal(farNextAt(far), window);
    assert.deepEqual(told(farAt(far, window)), [{ loads: 2, stores: 0, hits: 1 }]);
    load(1100);
    assert.deepEqual(told(farAt(far, 1100 + window)), [{ loads: 1, stores: 0, hits: 1 }]);
    // The card does not tell of a window that ends while it is down.
    load(2200);
    far.now = 2300;
    fence(far, newOutput());
    assert.deepEqual(told(farAt(far, 2200 + window)), []);
    registered(3300);
    load(3400);
    assert.deepEqual(told(farAt(far, 3400 + window)), [{ loads: 1, stores: 0, hits: 0 }]);
  });
});

describe("lines that are lost", () => {
  it("C-10: are reported as ranges", () => {
    assert.deepEqual(rangesOf([5, 3, 4, 9, 4]), [{ line: 3, lines: 3 }, { line: 9, lines: 1 }]);
    assert.deepEqual(rangesOf([]), []);
  });
});
