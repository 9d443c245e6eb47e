/**
 * Persistence domains are rows of one table: every domain × what is asked of it, by the rows alone; and a domain that
 * there is not, by a row more in a copy of the tree, through the scenario's check, the run and the explorer.
 */
import { deepStrictEqual as same, match, ok, strictEqual as equal } from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { matrixPlaces } from "../../console/explore/matrix.ts";
import {
  DOMAIN_NAMES,
  PERSISTENCE_DOMAINS,
  type PersistenceDomain,
  survives,
} from "../../fabric/rack/plan/persistence_domain.ts";
import { scenarioJsonSchema } from "../../fabric/rack/scenario/json_schema.ts";
import { CommandRig } from "../support/command.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import { copyTree, removeTree } from "../support/tree_copy.ts";

const scenarioOf = (domain: string, method: string) => `
name: domains
seed: 5
hosts: { a: {}, b: { ddio: on, domain: ${domain}, scm: { size: 1MiB } } }
programs:
  - { on: a, run: put, to: b, bytes: 600, method: ${method}, size: 300, depth: 1 }
`;

/** Whether a method's completions promise persistence on such a host. */
function promises(domain: PersistenceDomain, method: string): unknown {
  const rack = new SimulatedRack(scenarioOf(domain, method)).run();
  const [result] = rack.reported("result", "a") as { readonly promises: boolean }[];
  return result!.promises;
}

/** What is asked of a domain, by who asks: what is found, and what the domain's row says. */
const QUESTIONS: Readonly<
  Record<string, (domain: PersistenceDomain) => readonly [found: unknown, expected: unknown]>
> = {
  "scenario: its word and what it saves are in the schema": (domain) => {
    const told = JSON.stringify(scenarioJsonSchema()).includes(
      `${domain} ${PERSISTENCE_DOMAINS[domain].saves}`,
    );
    return [told, true];
  },
  "build: whether the host's card has a journal": (domain) => {
    const { nodes } = new SimulatedRack(scenarioOf(domain, "write-only")).plan;
    const card = nodes.find(({ name }) => name === "b-rnic");
    return [Object.hasOwn(card!.config, "flushOnFail"), survives("rnic", domain)];
  },
  "verbs: whether what the card has taken is persistent": (domain) => [
    promises(domain, "write-only"),
    survives("rnic", domain),
  ],
  "verbs: whether a READ makes what DDIO leaves in the cache persistent": (domain) => [
    promises(domain, "write-read"),
    survives("llc", domain),
  ],
  "explore: whether the matrix has its rows": (domain) => [
    matrixPlaces().some((place) => place.domain === domain),
    true,
  ],
};

describe("every persistence domain and every question", () => {
  for (const [question, ask] of Object.entries(QUESTIONS)) {
    for (const domain of DOMAIN_NAMES) {
      it(`P-01: ${domain}, ${question}`, () => {
        const [found, expected] = ask(domain);
        equal(found, expected);
      });
    }
  }
});

describe("a new persistence domain, by one row", () => {
  /** What the I/O controllers have survives, what the bus and the card have does not. */
  const ROW = `io: { saves: "the I/O too", survivors: ["iio", "llc", "wcb", "wpq", "scm"] },`;
  let tree: string, rig: CommandRig;
  beforeAll(async () => {
    tree = await copyTree({
      "fabric/rack/plan/persistence_domain.ts": [["export const PERSISTENCE_DOMAINS = {", ROW]],
    });
    rig = await CommandRig.open(tree);
  });
  afterAll(async () => {
    await rig?.close();
    await removeTree(tree);
  });

  it("is a word of scenarios, and another is not", async () => {
    const schema = await rig.must(["schema"]);
    ok(schema.includes("io the I/O too, adr memory") && schema.includes('"io"'));
    const path = await rig.file("other.yaml", scenarioOf("oi", "write-only"));
    const { stderr } = await rig.run(["validate", path]);
    match(stderr, /oi[^]*io/);
  });

  it("is kept by the run and judged by the explorer: a READ makes data persistent, an ACK does not", async () => {
    const [read, acked] = await Promise.all(["write-read", "write-only"].map((method) => {
      return rig.file(`${method}.yaml`, scenarioOf("io", method));
    }));
    const said = await rig.each([
      ["explore", read!, "--json"],
      ["explore", acked!, "--json"],
      ["explore", acked!, "--json", "--claims"],
    ]);
    const found = said.map(({ stdout }) => JSON.parse(stdout).runs[0]);
    same(
      found.map(({ verdict, promises }) => [verdict, promises]),
      [["safe", 2], ["unchecked", 0], ["unsafe", 0]],
    );
  });
});
