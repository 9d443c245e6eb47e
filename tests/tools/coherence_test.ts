/**
 * The coherent card's protocol (C-12): the Murphi model, which is written by hand, and the exploration of the
 * code reach the same quiet states. With RACKMESH_COHERENCE=whole also the explorations that take minutes, and ten million random
 * actions.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import { newCoverage } from "../../fabric/coherence/coverage_testing.ts";
import { type Exploration, explore } from "../../fabric/coherence/explore_testing.ts";
import { reachedOutcomes, sequentialOutcomes } from "../../fabric/coherence/litmus_testing.ts";
import { SLOW_MUTATIONS, smallest } from "../../fabric/coherence/mutations_testing.ts";
import { type RandomRun, runRandomly } from "../../fabric/coherence/random_testing.ts";
import { HOST } from "../../fabric/coherence/system_testing.ts";
import { checkModel, rumurMissing } from "../support/rumur.ts";
import { itUnless } from "../support/skipping.ts";

const withRumur = itUnless(rumurMissing(), "the Murphi model of coherence");
const isWhole = Deno.env.get("RACKMESH_COHERENCE") === "whole";
const whole = isWhole
  ? it
  : itUnless("RACKMESH_COHERENCE is not `whole`", "exploring coherence for minutes");

const MODEL = fromFileUrl(projectFile("fabric/coherence/coherence.m"));
/** What the model covers; it changes with the model alone. */
const TWO_COMPUTERS = "498 states, 1303 rules fired";
const THREE_COMPUTERS = "17334 states, 60328 rules fired";
/** The model's words of rights, as the code has them. */
const RIGHTS: Readonly<Record<string, string>> = { NONE: "I", SHARED: "S", OWNED: "X" };

/** The quiet states that the model prints, as `stableState` writes them. */
function quietStates(text: string): Set<string> {
  const states = new Set<string>();
  for (const [, block = ""] of text.matchAll(/^quiet ([^]*?)\n \n/gm)) {
    const value = (name: string) => block.match(new RegExp(`\\b${name}:(\\w+)`))?.[1] ?? "";
    const far = [...block.matchAll(/far\[f\]\.state:(\w+)/g)].map(([, state]) => state);
    const sharers = [...block.match(/sharers=([01]+)/)?.[1] ?? ""]
      .reduce((set, bit, index) => set | (bit === "1" ? 2 << index : 0), 0);
    const hd = RIGHTS[value("hd")];
    states.add(
      `hd=${hd === "I" ? "none" : hd} llc=${value("llc").slice(1)} memory=${value("memory")} ` +
        `b=${RIGHTS[value("b")]} d=${sharers}/${Number(value("owner")) || -1} local=I far=${
          far.join(" ")
        }`,
    );
  }
  return states;
}

/** The model's text, for so many far cards. */
async function modelOf(fars: number): Promise<string> {
  return (await Deno.readTextFile(MODEL)).replace(/FARS: \d+;/, `FARS: ${fars};`);
}

/**
 * How many states the checker has found, and how often rules have fired in them. Quiet states are reached by many
 * ways; these numbers are others when a rule or a message of the model is missing.
 */
function coverageOf(text: string): string {
  return text.match(/[\d,]+ states?, [\d,]+ rules? fired/)?.[0] ?? "no numbers";
}

async function agrees(fars: number, covered: string): Promise<number> {
  const text = await checkModel(await modelOf(fars));
  assert.equal(coverageOf(text), covered);
  const model = quietStates(text);
  const code = explore({ size: smallest(fars), with: ["own"] });
  assert.equal(code.violation, null, JSON.stringify(code.violation, null, 1));
  assert.deepEqual([...model].sort(), [...code.quiet].sort());
  return model.size;
}

describe("the Murphi model of the coherent card's protocol", () => {
  withRumur(
    "C-12: holds, and reaches the quiet states of the code: two computers",
    async () => {
      assert.equal(await agrees(1, TWO_COMPUTERS), 9);
    },
  );

  (isWhole ? withRumur : whole)("C-12: the same of three computers", async () => {
    assert.equal(await agrees(2, THREE_COMPUTERS), 23);
  });

  (isWhole ? withRumur : whole)(
    "C-12: without any of its rules, or without Dirty, it is another model",
    async () => {
      const source = await modelOf(1);
      const rules = [...source.matchAll(/^ *rule "([^"]+)"[^]*?endrule;/gm)];
      assert.ok(rules.length > 15, `${rules.length} rules`);
      const broken = new Map(rules.map(([text, name]) => [name, source.replace(text, "")]));
      broken.set("Dirty", source.replaceAll("SendAnswer(f, Dirty, 0);", ""));
      const unnoticed: unknown[] = [];
      for (const [name, text] of broken) {
        try {
          if (coverageOf(await checkModel(text)) === TWO_COMPUTERS) unnoticed.push(name);
        } catch {
          // An invariant or an assertion has noticed it.
        }
      }
      assert.deepEqual(unnoticed, []);
    },
  );
});

/** Computers besides home, lines, and slots of home's card; all else is one entry long. */
function sized(fars: number, lines = 1, slots = 1): Exploration["size"] {
  const size = smallest(fars, lines);
  return { ...size, home: { ...size.home, slots } };
}

/** Each with the number of its states, which changes with the protocol. */
const EXPLORATIONS: readonly (Exploration & { readonly states: number })[] = [
  { size: sized(1), with: ["own", "flush", "moves"], states: 69_185 },
  { size: sized(1), with: ["verbs", "moves"], states: 204_366 },
  { size: sized(1, 2), with: ["flush"], states: 56_579 },
  { size: sized(1, 2), with: ["range"], states: 42_203 },
  { size: sized(2, 1, 2), with: ["flush"], states: 221_500 },
  // C-10: faults of cards, hosts and cables.
  { size: sized(1), with: ["own", "losses"], lossesMax: 2, states: 436_624 },
  { size: sized(1), with: ["flush", "losses"], directory: "memory", states: 87_555 },
  { size: sized(1), with: ["verbs", "losses"], states: 557_993 },
  { size: sized(1), with: ["moves", "losses"], states: 1_482_817 },
  { size: sized(2), with: ["losses"], statesMax: 200_000, states: 200_886 },
];

describe("every state of the coherent card's protocol, in minutes", () => {
  for (const { states, ...given } of EXPLORATIONS) {
    const { size: { fars, lines, home: { slots } }, with: also = [], lossesMax, directory } = given;
    const more = [lossesMax && `${lossesMax} faults`, directory && `directory: ${directory}`];
    const what = ["loads, stores", ...also, ...more.filter(Boolean)].join(", ");
    whole(
      `${also.includes("losses") ? "C-10, C-12" : "C-12"}: ${
        fars + 1
      } computers, lines: ${lines}, slots: ${slots}: ${what}`,
      () => {
        const found = explore(given);
        assert.equal(found.violation, null, JSON.stringify(found.violation, null, 1));
        assert.equal(found.states, states);
        assert.equal(found.isWhole, given.statesMax === undefined);
      },
    );
  }

  for (const { name, exploration } of SLOW_MUTATIONS) {
    whole(`C-12: is found out: ${name}`, () => {
      assert.notEqual(explore(exploration).violation, null);
    });
  }

  whole("C-09: independent reads of independent writes: both readers see one order", () => {
    const [x, y] = [0, 1];
    const threads = [
      { by: HOST, accesses: [{ line: x, store: 1 }] },
      { by: 1, accesses: [{ line: y, store: 1 }] },
      { by: 2, accesses: [{ line: x }, { line: y }] },
      { by: 3, accesses: [{ line: y }, { line: x }] },
    ];
    for (const slots of [1, 2]) {
      const { outcomes } = reachedOutcomes({ size: sized(3, 2, slots), threads });
      assert.deepEqual([...outcomes].sort(), [...sequentialOutcomes(threads)].sort());
    }
  });

  whole(
    "C-05 (in part), C-12: three computers use every row of the tables but those of faults, moves and flushes",
    () => {
      const coverage = newCoverage();
      const found = explore({ size: sized(2), with: ["own"], tables: coverage.tables });
      assert.equal(found.violation, null, JSON.stringify(found.violation, null, 1));
      const unused = coverage.unused().filter((row) =>
        !/fence|cardLost|Retry|Purge|flush/i.test(row)
      );
      assert.deepEqual(unused, []);
    },
  );
});

const CAMPAIGN_ACTIONS = 10_000_000;

describe("a campaign of random racks", () => {
  whole("C-12: ten million actions: no old value, no second writer, no lost answer", () => {
    let actions = 0;
    for (let seed = 0; actions < CAMPAIGN_ACTIONS; seed++) {
      const found = runRandomly(randomRack(seed));
      assert.equal(found.wrong, null, `seed ${seed}`);
      actions += found.actions;
    }
  });
});

/** One to four far cards, one to three lines, tables of one to three entries, six hundred choices. */
function randomRack(seed: number): RandomRun {
  const rng = rngFor(seed, "campaign");
  const upTo = (bound: number) => 1 + rng.below(bound);
  const cache = () => ({ lines: upTo(2), writeBacks: upTo(3) });
  const slow = (["req", "snp", "up", "down", "toHost", "toHome"] as const)[rng.below(12)];
  return {
    size: {
      fars: upTo(4),
      lines: upTo(3),
      remoteCache: cache(),
      home: { slots: upTo(3), entries: upTo(3), localCache: cache() },
    },
    choices: Array.from({ length: 600 }, () => rng.below(2 ** 31)),
    losses: rng.below(3) === 0,
    ...(slow !== undefined && { slow }),
  };
}
