/**
 * The coherent card's protocol (C-12): the Murphi model, which is written by hand, and the exploration of the
 * code have the same states and steps. With RACKMESH_COHERENCE=whole also the explorations that take minutes, and ten million random
 * actions.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import { newCoverage } from "../../fabric/coherence/coverage.ts";
import type { Exploration } from "../../fabric/coherence/explore.ts";
import { reachedOutcomes, sequentialOutcomes } from "../../fabric/coherence/litmus_testing.ts";
import { explore, SLOW_MUTATIONS, smallest } from "../../fabric/coherence/mutations_testing.ts";
import { type RandomRun, runRandomly } from "../../fabric/coherence/random_testing.ts";
import { HOME_TABLE } from "../../fabric/coherence/home_card_table.ts";
import { tablesWith } from "../../fabric/coherence/own_rows.ts";
import { HOST } from "../../fabric/coherence/system.ts";
import { TABLES, type Tables } from "../../fabric/coherence/tables.ts";
import {
  addStep,
  codeState,
  type Graph,
  missingSteps,
  modelGraph,
  modelStates,
  showing,
} from "../support/murphi_states.ts";
import { checkModel, rumurMissing } from "../support/rumur.ts";
import { itUnless } from "../support/skipping.ts";

const withRumur = itUnless(rumurMissing(), "the Murphi model of coherence");
const isWhole = Deno.env.get("RACKMESH_COHERENCE") === "whole";
const whole = isWhole
  ? it
  : itUnless("RACKMESH_COHERENCE is not `whole`", "exploring coherence for minutes");

const MODEL = fromFileUrl(projectFile("fabric/coherence/coherence.m"));
/** The model's text, for so many far cards. */
async function modelOf(fars: number): Promise<string> {
  return (await Deno.readTextFile(MODEL)).replace(/FARS: \d+;/, `FARS: ${fars};`);
}

/** States that the code reaches, and its steps, as the model has them. */
function reachedBy(fars: number, tables: Tables = TABLES): Graph {
  const graph: Graph = new Map();
  const found = explore({
    size: smallest(fars),
    with: ["own"],
    tables,
    onStep: (from, to) => addStep(graph, codeState(from), codeState(to)),
  });
  assert.equal(found.violation, null, JSON.stringify(found.violation, null, 1));
  assert.ok(found.isWhole);
  return graph;
}

/** Rules of the model at most that are one step of the code. */
const IN_A_ROW = 2;

/** Some of the states and steps that one has and the other has not. */
function differences(model: Graph, code: Graph) {
  const only = (of: Graph, within: Graph) => [...of.keys()].filter((state) => !within.has(state));
  return {
    states: [...only(model, code), ...only(code, model)].slice(0, 5),
    ofModel: missingSteps(model, code, 1).slice(0, 5),
    ofCode: missingSteps(code, model, IN_A_ROW).slice(0, 5),
  };
}

const NONE = { states: [], ofModel: [], ofCode: [] };

async function graphOfModel(source: string): Promise<Graph> {
  return modelGraph(modelStates(await checkModel(showing(source))));
}

async function agree(fars: number): Promise<number> {
  const model = await graphOfModel(await modelOf(fars));
  assert.deepEqual(differences(model, reachedBy(fars)), NONE);
  return model.size;
}

function isOther(model: Graph, code: Graph): boolean {
  const { states, ofModel, ofCode } = differences(model, code);
  return states.length + ofModel.length + ofCode.length > 0;
}

/** Whether a change of the model is noticed: it breaks what the model demands, or its states or steps are others. */
async function isNoticed(text: string, code: Graph): Promise<boolean> {
  try {
    return isOther(await graphOfModel(text), code);
  } catch (error) {
    // An invariant, an assertion, liveness: not a text that cannot be compiled.
    assert.match(String(error), /^Error: \/\S*checker /);
    return true;
  }
}

/** Messages of the model, each with what sends it. */
const SENDS = /^ *(?:if [^;\n]* then )?(Send\w+\([^;]*\));/gm;

describe("the Murphi model of the coherent card's protocol", () => {
  withRumur(
    "C-12: holds, and has the states and the steps of the code, no more and no less: two computers",
    async () => {
      assert.equal(await agree(1), 498);
    },
  );

  (isWhole ? withRumur : whole)("C-12: the same of three computers", async () => {
    assert.equal(await agree(2), 17_334);
  });

  withRumur("C-12: without any of its rules, or without Dirty, it is another model", async () => {
    const source = await modelOf(1), code = reachedBy(1);
    const states = modelStates(await checkModel(showing(source)));
    const rules = new Set([...states.values()].flat().map(({ rule }) => rule));
    assert.equal(rules.size, 18);
    assert.equal(isOther(modelGraph(states), code), false);
    const unnoticed = [...rules].filter((rule) => !isOther(modelGraph(states, rule), code));
    assert.deepEqual(unnoticed, []);
    const dirty = source.replaceAll("SendAnswer(f, Dirty, 0);", "");
    assert.deepEqual(await unnoticedOf(new Map([["Dirty", dirty]]), code), []);
  });

  (isWhole ? withRumur : whole)(
    "C-12: without any of its messages it is another model, of two computers or of three",
    async () => {
      const two = withoutEachMessage(await modelOf(1));
      assert.ok(two.size > 25, `${two.size} messages`);
      // Sent only where there is a third computer.
      const left = await unnoticedOf(two, reachedBy(1));
      assert.ok(left.length <= 4, left.join("; "));
      const three = withoutEachMessage(await modelOf(2));
      const broken = new Map(left.map((name) => [name, three.get(name)!]));
      assert.deepEqual(await unnoticedOf(broken, reachedBy(2)), []);
    },
  );

  it("C-12: code with other rows, which holds, reaches other states than the model's", () => {
    const lendExclusively = HOME_TABLE["idle free"].GetM;
    const tables = tablesWith({
      home: { "idle free": { GetS: lendExclusively! } },
      far: { IS: { DataE: { next: "E", send: "Complete" } } },
    });
    assert.notDeepEqual(differences(reachedBy(1), reachedBy(1, tables)), NONE);
  });
});

/** The model without one of its messages, for each: procedures that send are what all use, and stay. */
function withoutEachMessage(source: string): Map<string, string> {
  const body = source.indexOf("procedure Clean");
  const sends = [...source.matchAll(SENDS)].filter(({ index }) => index > body);
  return new Map(sends.map((found, at) => {
    const [text, send = ""] = found, from = found.index + text.lastIndexOf(send);
    const changed = source.slice(0, from) + source.slice(from + send.length + 1);
    return [`${send}, the ${at}th`, changed];
  }));
}

/** Two at a time: each takes a second of a processor, most of it the compiler's. */
async function unnoticedOf(
  broken: ReadonlyMap<string, string>,
  code: Graph,
): Promise<string[]> {
  const unnoticed: string[] = [], left = [...broken];
  const lane = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const [name, text] = next;
      if (!await isNoticed(text, code)) unnoticed.push(name);
    }
  };
  await Promise.all([lane(), lane()]);
  return unnoticed;
}

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
