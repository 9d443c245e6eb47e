/**
 * The coherent card's protocol (C-12): the Murphi model, which is written by hand, and the exploration of the
 * code reach the same quiet states. With RACKMESH_COHERENCE=whole also the explorations that take minutes.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { type Exploration, explore } from "../../fabric/coherence/explore_testing.ts";
import { smallest } from "../../fabric/coherence/mutations_testing.ts";
import { checkModel, rumurMissing } from "../support/rumur.ts";
import { itUnless } from "../support/skipping.ts";

const withRumur = itUnless(rumurMissing(), "the Murphi model of coherence");
const isWhole = Deno.env.get("RACKMESH_COHERENCE") === "whole";
const whole = isWhole
  ? it
  : itUnless("RACKMESH_COHERENCE is not `whole`", "exploring coherence for minutes");

const MODEL = fromFileUrl(projectFile("fabric/coherence/coherence.m"));
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

async function agrees(fars: number): Promise<number> {
  const source = await Deno.readTextFile(MODEL);
  const model = quietStates(await checkModel(source.replace(/FARS: \d+;/, `FARS: ${fars};`)));
  const code = explore({ size: smallest(fars), with: ["own"] });
  assert.equal(code.violation, null, JSON.stringify(code.violation, null, 1));
  assert.deepEqual([...model].sort(), [...code.quiet].sort());
  return model.size;
}

describe("the Murphi model of the coherent card's protocol", () => {
  withRumur(
    "C-12 (in part): holds, and reaches the quiet states of the code: two computers",
    async () => {
      assert.equal(await agrees(1), 9);
    },
  );

  (isWhole ? withRumur : whole)("C-12 (in part): the same of three computers", async () => {
    assert.equal(await agrees(2), 23);
  });
});

/** Each with the number of its states. */
const EXPLORATIONS: readonly (Exploration & { readonly states: number })[] = [];

describe("every state of the coherent card's protocol, in minutes", () => {
  for (const { states, ...given } of EXPLORATIONS) {
    const { size: { fars, lines, home: { slots } }, with: also = [] } = given;
    const what = ["loads, stores", ...also].join(", ");
    whole(`C-12 (in part): ${fars + 1} computers, ${lines} lines, ${slots} slots: ${what}`, () => {
      const found = explore(given);
      assert.equal(found.violation, null, JSON.stringify(found.violation, null, 1));
      assert.equal(found.states, states);
    });
  }
});
