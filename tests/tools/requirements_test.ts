/**
 * Each numbered line of the documents' pages stands in `requirements.ts` with the tests that prove it,
 * or with the issue that is open. A number counts where it stands in the name of an `it` (`withTshark`,
 * `withRumur` are such) or a `describe`, nowhere else. `P-24: …` claims that the body proves the line for what the
 * name says; `Q-05 (in part): …` that it proves some of what the line asks for.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { isTest } from "../../scripts/check/tree.ts";
import { CONFORMANCE, REQUIREMENTS } from "./requirements.ts";

const FOLDERS = ["console", "fabric", "nodes", "scripts", "tests"];

/** Files of tests and of the suites that two implementations share, as paths from the top. */
function* testFiles(folder: string): Generator<string> {
  for (const { name, isDirectory } of Deno.readDirSync(projectFile(folder))) {
    const path = `${folder}/${name}`;
    if (isDirectory) yield* testFiles(path);
    else if (/_(test|contract)\.ts$/.test(name) && isTest(path)) yield path;
  }
}

/** Names of all tests of a file and of their groups; `…` is what an expression in a name puts in. */
function namesIn(path: string, source: string): string[] {
  const names: string[] = [];
  const plugin: Deno.lint.Plugin = {
    name: "names",
    rules: {
      names: {
        create: () => ({
          CallExpression({ callee, arguments: [name] }) {
            const isNamed = callee.type === "Identifier" &&
              /^(it|describe|with(Tshark|Rumur))$/.test(callee.name);
            if (isNamed && name !== undefined) names.push(textOf(name));
          },
        }),
      },
    },
  };
  Deno.lint.runPlugin(plugin, path, source);
  return names;
}

function textOf(name: Deno.lint.Node): string {
  if (name.type === "Literal") return String(name.value);
  return name.type === "TemplateLiteral" ? name.quasis.map(({ cooked }) => cooked).join("…") : "…";
}

/** A number that a name has. */
interface Claim {
  readonly number: string;
  readonly isWhole: boolean;
}

/**
 * `P-01, P-24 to P-26: …` claims P-01, P-24, P-25 and P-26, `P-01, Q-05 (in part): …` Q-05 in part;
 * `§7 #49 #50: …` rows 49 and 50.
 */
function claimsIn(name: string): Claim[] {
  const rows = name.includes("§7 ") ? name.match(/#\d+/g) ?? [] : [];
  const found = name.matchAll(
    /\b([PHVQC])-(\d\d)(?:(?: to |–|-)(?:[PHVQC]-)?(\d\d)\b)?( \(in part\))?/g,
  );
  return [
    ...rows.map((number) => ({ number, isWhole: true })),
    ...[...found].flatMap(([, page, from, to, part]) => {
      const count = to === undefined ? 1 : Number(to) - Number(from) + 1;
      return Array.from({ length: Math.max(1, count) }, (_, i) => ({
        number: `${page}-${String(Number(from) + i).padStart(2, "0")}`,
        isWhole: part === undefined,
      }));
    }),
  ];
}

/** The name behind its numbers. */
function withoutNumbers(name: string): string {
  return name.replace(/^…?(?:(?:§7 #|[PHVQC]-)\d[^:]*: )?/, "");
}

describe("Requirements", () => {
  const own = "tests/tools/requirements_test.ts";
  const names = FOLDERS.flatMap((folder) => [...testFiles(folder)])
    .filter((path) => path !== own)
    .flatMap((path) =>
      namesIn(path, Deno.readTextFileSync(fromFileUrl(projectFile(path))))
        .map((name) => ({ path, name, claims: claimsIn(name) }))
    );

  it("that are done have each test that proves them, which says so in its name", () => {
    for (const [number, standing] of Object.entries(REQUIREMENTS)) {
      if (!("proof" in standing)) continue;
      assert.ok(standing.proof.length > 0, `${number} has no proof`);
      for (const proof of standing.proof) {
        const isThere = names.some(({ name, claims }) =>
          withoutNumbers(name) === proof &&
          claims.some((claim) => claim.number === number && claim.isWhole)
        );
        assert.ok(isThere, `${number}: no test of this name claims to prove it: ${proof}`);
      }
    }
  });

  it("that are open are claimed in part, if at all", () => {
    for (const { path, name, claims } of names) {
      for (const { number, isWhole } of claims) {
        const standing = REQUIREMENTS[number];
        const isOpen = standing !== undefined && "open" in standing;
        const says = `${number} is open; expected "${number} (in part)"`;
        assert.ok(!(isOpen && isWhole), `${path}: "${name}" claims too much: ${says}`);
      }
    }
  });

  it("are all in the list: no test names one that there is not", () => {
    const known = new Set([...Object.keys(REQUIREMENTS), ...CONFORMANCE]);
    const unknown = names.filter(({ claims }) => claims.some(({ number }) => !known.has(number)));
    assert.deepEqual(unknown.map(({ path, name }) => `${path}: ${name}`), []);
  });

  it("of the transport are each named by a test", () => {
    const claimed = new Set(names.flatMap(({ claims }) => claims.map(({ number }) => number)));
    assert.deepEqual(CONFORMANCE.filter((row) => !claimed.has(row)), []);
  });
});

describe("The number of a requirement", () => {
  it("is found in a name alone, listed, as a range, and in part", () => {
    const read = (name: string) =>
      claimsIn(name).map(({ number, isWhole }) => isWhole ? number : `${number}?`);
    assert.deepEqual(read("P-05: a host, see Q-12"), ["P-05", "Q-12"]);
    assert.deepEqual(read("V-01, V-04 to V-06: a write"), ["V-01", "V-04", "V-05", "V-06"]);
    assert.deepEqual(read("P-24, P-26 to P-28: S901"), ["P-24", "P-26", "P-27", "P-28"]);
    assert.deepEqual(read("Q-03 (in part), P-05: spaces"), ["Q-03?", "P-05"]);
    assert.deepEqual(read("S901 to S909"), []);
    assert.deepEqual(read("§7 #7 #12: flushed"), ["#7", "#12"]);
  });

  it("counts in the name of a test or a group, not in other strings or in comments", () => {
    const source = `
      // it("P-01: a comment")
      /* describe("P-02: another", () => {}) */
      const NAMES = [{ name: "P-03: a table" }, ["P-04: a row"]];
      describe("P-05: a group", () => {
        it(\`P-10, \${x}: a test\`, () => assert.equal(1, 1, "P-11: a message"));
        it("of P-12", () => describe.name);
        unit("P-20: something else");
      });
    `;
    const names = namesIn("x_test.ts", source);
    assert.deepEqual(names, ["P-05: a group", "P-10, …: a test", "of P-12"]);
    assert.deepEqual(names.map(withoutNumbers), ["a group", "a test", "of P-12"]);
  });
});
