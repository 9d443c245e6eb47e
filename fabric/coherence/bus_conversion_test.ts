/**
 * C-02: the table of conversions, whole: against QPI's messages, against the protocol's tables row by row, and
 * against what cards are seen to do.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../base/rng.ts";
import { type Conversion, CONVERSIONS, type Converted } from "./bus_conversion_testing.ts";
import { canEvict, evict, farAccess, fence } from "./far_card.ts";
import type { FarRow } from "./far_card_table.ts";
import { canEvictLocal, evictLocal, homeAccess, loseFarCard, move } from "./home_card.ts";
import { homePlacement } from "./home_card_state.ts";
import type { HomeInput, HomeLine, HomeRow, HomeTable } from "./home_card_table.ts";
import { canEvictFromLlc, evictFromLlc, hostAccess } from "./host_agent.ts";
import type { Access } from "./access.ts";
import { BUS_MESSAGES } from "../wire/host_bus/region_messages.ts";
import { COHERENCE_COMMANDS } from "../wire/roce/coherence_eth.ts";
import { explore, smallest } from "./mutations_testing.ts";
import { newOutput, type Output } from "./output.ts";
import {
  CORE_MESSAGES,
  NOT_CONVERTED,
  QPI_CLASSES,
  QPI_FORMS,
  type QpiMessage,
} from "./qpi_messages_testing.ts";
import { act, deliver, deliveries, HOST, newSystem, type System } from "./system.ts";
import { TABLES } from "./tables.ts";

const textOf = ({ at, from, to }: Pick<Conversion, "at" | "from" | "to">) =>
  `${at}: ${from} → ${to}`;
const ALL: ReadonlySet<string> = new Set(CONVERSIONS.map(textOf));
const kindOf = (message: Converted) => message.slice(message.indexOf(":") + 1);

describe("QPI's messages", () => {
  const names: readonly QpiMessage[] = Object.values(QPI_CLASSES).flat();
  const packets = new Set(Object.values(QPI_FORMS).flatMap((form) => form.packets));

  it("C-02: each is a form of a message that is converted, or has a reason why it is not", () => {
    assert.equal(new Set(names).size, names.length);
    const twice = names.filter((name) => packets.has(name) && name in NOT_CONVERTED);
    const missing = names.filter((name) => !packets.has(name) && !(name in NOT_CONVERTED));
    assert.deepEqual({ twice, missing }, { twice: [], missing: [] });
    assert.ok(Object.keys(NOT_CONVERTED).every((name) => names.includes(name as QpiMessage)));
  });

  it("C-02: each message of a bus has a form, and a place in the table", () => {
    const messages = [
      ...Object.keys(BUS_MESSAGES),
      ...CORE_MESSAGES.map((name) => `core:${name}` as const),
    ];
    assert.deepEqual(Object.keys(QPI_FORMS).sort(), messages.toSorted());
    const used = new Set(CONVERSIONS.flatMap(({ from, to }) => [from, to]));
    for (const name of messages) {
      const converted = (name.startsWith("core:") ? name : `bus:${name}`) as Converted;
      assert.ok(used.has(converted), name);
    }
  });
});

describe("CONVERSIONS", () => {
  it("C-02: has no pair twice, and a reason that cites its source in each row", () => {
    assert.equal(ALL.size, CONVERSIONS.length);
    const reasons = [...CONVERSIONS, ...Object.values(QPI_FORMS)].map(({ why }) => why)
      .concat(Object.values(NOT_CONVERTED));
    const source = /^(?:\[00\d\d\]|C-\d\d|decisions? \d|Races|Tables)/;
    assert.deepEqual(reasons.filter((why) => !source.test(why)), []);
  });

  it("C-02: each message of the wire is made by a row, and met by a row", () => {
    const kinds = Object.values(COHERENCE_COMMANDS).flat();
    for (const kind of kinds) {
      assert.ok(CONVERSIONS.some(({ to }) => to === `wire:${kind}`), `${kind} is made`);
      assert.ok(CONVERSIONS.some(({ from }) => from === `wire:${kind}`), `${kind} is met`);
    }
  });

  it("C-02: at home it is what the directory's table does, pair for pair", () => {
    const seen = new Set<string>();
    const home = watched(seen);
    for (
      const given of [
        { size: smallest(1), with: ["own", "flush"] as const },
        { size: smallest(1), with: ["moves"] as const, statesMax: 1500 },
        { size: smallest(2), statesMax: 8000 },
      ]
    ) {
      assert.equal(explore({ ...given, tables: { ...TABLES, home } }).violation, null);
    }
    const events = new Set(Object.values(TABLES.home).flatMap((rows) => Object.keys(rows)));
    // A range is cut into lines, and an old placement refused, before the table is asked.
    const expected = CONVERSIONS.filter(({ at, from, to, placement }) =>
      at === "home" && placement === undefined && events.has(eventOf(from)) &&
      to !== "wire:Retry" &&
      // Agent 0's accesses that leave nothing behind: two rows of the table in a row.
      !(from === "bus:GrantE" && to === "bus:WbMtoI")
    );
    assert.deepEqual([...seen].sort(), expected.map(textOf).sort());
  });

  it("C-02: at a far card it is what the remote cache's table sends, pair for pair", () => {
    const sent = new Set<string>();
    for (const rows of Object.values(TABLES.far)) {
      for (const [event, row] of Object.entries(rows) as [string, FarRow][]) {
        if (row.send === undefined) continue;
        sent.add(textOf({ at: "far", from: FAR_EVENTS[event]!, to: `wire:${row.send}` }));
      }
    }
    const expected = CONVERSIONS.filter(({ at, from, to, placement }) =>
      at === "far" && placement !== "local" && to.startsWith("wire:") &&
      Object.values(FAR_EVENTS).includes(from) &&
      // The store that asked for the grant meets its row as any other does.
      !(from === "wire:DataE" && to === "wire:Dirty")
    );
    assert.deepEqual([...sent].sort(), expected.map(textOf).sort());
  });

  it("C-02, C-06, C-07: cards are seen to do what each row says", () => {
    const seen = new Set<string>();
    for (let seed = 1; seed <= 6; seed++) watchCards(seen, seed);
    const missing = CONVERSIONS.filter((row) => !seen.has(textOf(row)) && !isElsewhere(row));
    assert.deepEqual(missing.map(textOf), []);
  });
});

const VERBS = ["read", "write", "atomic"] as const;

const FAR_EVENTS: Readonly<Record<string, Converted>> = {
  load: "core:load",
  store: "core:store",
  evict: "card:evict",
  ...Object.fromEntries(
    ["DataS", "DataE", "Inv", "RecI", "RecS"].map((kind) => [kind, `wire:${kind}`]),
  ) as Record<string, Converted>,
};

/** `GetS` for `wire:GetS`, `Purge` for `card:purge`. */
function eventOf(message: Converted): string {
  return message === "card:purge" ? "Purge" : kindOf(message);
}

/** Home's table, each row of which notes what it sends. */
function watched(seen: Set<string>): HomeTable {
  const noting = (event: string, row: HomeRow): HomeRow => (line: HomeLine, message: HomeInput) => {
    const moved = row(line, message);
    const from: Converted = event === "Purge" ? "card:purge" : named(event);
    const sends = (moved.send ?? []).map(({ kind }) => named(kind));
    for (const to of sends.length === 0 ? ["nothing" as const] : sends) {
      seen.add(textOf({ at: "home", from, to }));
    }
    return moved;
  };
  return Object.fromEntries(
    Object.entries(TABLES.home).map(([state, rows]) => [
      state,
      Object.fromEntries(Object.entries(rows).map(([event, row]) => [event, noting(event, row)])),
    ]),
  ) as HomeTable;
}

function named(kind: string): Converted {
  return (kind in BUS_MESSAGES ? `bus:${kind}` : `wire:${kind}`) as Converted;
}

/** Rows of the cards' firmware, timers and reports, which the nodes prove; and notices that no card waits for. */
function isElsewhere({ from, to }: Conversion): boolean {
  const pair = [from, to];
  return pair.some((name) =>
    /^(?:card:due|card:register|card:deregister|core:invalidate|report|nothing)$/.test(name) ||
    /^wire:(?:Regist|Deregist|Renew|Counts)/.test(name)
  );
}

/** Random accesses of all kinds on two lines; notes by what each message was caused. */
function watchCards(seen: Set<string>, seed: number): void {
  const rng = rngFor(seed, "conversions");
  let at: Conversion["at"] | null = null, from: Converted = "nothing";
  const note = (to: Converted) => {
    if (at !== null) seen.add(textOf({ at, from, to }));
  };
  const size = { ...smallest(2, 2), home: { ...smallest(2).home, slots: 2, entries: 2 } };
  const system = newSystem({
    size,
    contents: { apply: () => 1, tellsOld: () => false },
    initial: () => 0,
    links: {
      wire: (message) => (note(`wire:${message.kind}`), message),
      bus: (message) => (note(`bus:${message.kind}`), message),
    },
  });
  const step = (who: Conversion["at"] | null, cause: Converted, does: () => readonly unknown[]) => {
    [at, from] = [who, cause];
    if (does().length > 0 && who === "far") note("core:answer");
  };
  const acts = (by: number, does: (out: Output) => void) => () => act(system, by, does).answers;
  for (let left = 6000; left > 0; left--) {
    const next = deliveries(system);
    if (next.length > 0 && rng.below(8) !== 0) {
      const delivery = next[rng.below(next.length)]!;
      const who = delivery.from === "toHost"
        ? null
        : /snp|down/.test(delivery.from)
        ? "far"
        : "home";
      step(who, nextOf(system, delivery), () => deliver(system, delivery).answers);
      continue;
    }
    const line = rng.below(2), agent = 1 + rng.below(2), card = system.fars[agent - 1]!;
    const kind = (["load", "store", "own", "flush"] as const)[rng.below(4)]!;
    const lines = kind === "flush" && rng.below(2) === 0 ? 2 : undefined;
    const access: Access = {
      kind,
      line: lines === undefined ? line : 0,
      lines,
      ticket: 0,
      change: 1,
    };
    switch (rng.below(40)) {
      case 0: {
        const place = homePlacement(system.home, 0).place === "local" ? "remote" : "local";
        step("home", "card:purge", acts(0, (out) => move(system.home, { region: 0, place }, out)));
        break;
      }
      case 1:
        if (!card.isUp) break;
        step("far", "card:fenced", acts(agent, (out) => fence(card, out)));
        step(null, "nothing", acts(0, (out) => loseFarCard(system.home, agent, out)));
        break;
      case 2:
      case 3:
        if (canEvictFromLlc(system.host, line)) evictFromLlc(system.host, line, newOutput());
        break;
      case 4:
      case 5:
        if (canEvictLocal(system.home, line)) {
          step("home", "card:evict", acts(0, (out) => evictLocal(system.home, line, out)));
        }
        break;
      case 6:
      case 7:
        if (canEvict(card, line)) {
          step("far", "card:evict", acts(agent, (out) => evict(card, line, out)));
        }
        break;
      case 8:
      case 9: {
        const verb = VERBS[rng.below(VERBS.length)]!;
        const done: Access = {
          kind: verb === "read" ? "load" : "store",
          line,
          ticket: 0,
          change: 1,
        };
        step("home", `verb:${verb}`, acts(0, (out) => homeAccess(system.home, done, out)));
        break;
      }
      default:
        if (rng.below(3) === 0 && kind !== "own") {
          const core = { ...access, lines: undefined, kind };
          step(null, "nothing", acts(HOST, (out) => hostAccess(system.host, core, out)));
        } else if (card.isUp && card.waiting.length + card.active.size < 2) {
          step("far", `core:${kind}`, acts(agent, (out) => farAccess(card, access, out)));
        }
    }
  }
}

function nextOf(system: System, { from, agent = 0, index }: ReturnType<typeof deliveries>[number]) {
  if (from === "toHost" || from === "toHome") return named(system[from][index]?.kind ?? "");
  return named(system.wires[agent - 1]?.[from][index]?.kind ?? "");
}
