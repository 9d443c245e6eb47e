/**
 * Every numbered requirement that the product claims so far is named by a test, so that anybody finds
 * the proof of any line. A number's text stands in the documents that the requirements were taken from;
 * what belongs to none of them yet is not in the list.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { isTest } from "../../scripts/check/tree.ts";

/** Remote persistence: host model, baselines, the write that persists, what a run reports. */
const PERSISTENCE = [
  ...["P-01", "P-02", "P-03", "P-04", "P-05"],
  ...["P-10", "P-11", "P-12"],
  ...[
    "P-20",
    "P-21",
    "P-22",
    "P-23",
    "P-24",
    "P-25",
    "P-26",
    "P-27",
    "P-28",
    "P-29",
    "P-30",
    "P-31",
  ],
  ...["P-40", "P-41"],
  ...["P-50", "P-51"],
];

/** Write with verification. */
const VERIFY = Array.from({ length: 10 }, (_, i) => `V-${String(i + 1).padStart(2, "0")}`);

/** Queue information and write pointers, as far as every queue pair rests on them. */
const QUEUES = ["Q-01", "Q-02", "Q-03", "Q-04", "Q-05", "Q-06", "Q-07", "Q-08", "Q-12"];

/** The conformance list of the transport: `rocev2.md` §7, as tests name its rows (`§7 #49`). */
const CONFORMANCE = Array.from({ length: 90 }, (_, i) => `#${i + 1}`);

const FOLDERS = ["fabric", "nodes", "tests"];

/** `it("…")`, `describe("…")`, and the names in tables of cases. */
const NAMES = /(?:\b(?:it|describe|withTshark)\(\s*|\[\s*|name: )(["'`])((?:\\.|(?!\1)[^\\])*)\1/gs;

/** Files of tests, suites and rigs, as paths from the top. */
function* testFiles(folder: string): Generator<string> {
  for (const { name, isDirectory } of Deno.readDirSync(projectFile(folder))) {
    const path = `${folder}/${name}`;
    if (isDirectory) yield* testFiles(path);
    else if (/_(test|contract)\.ts$/.test(name) && isTest(path)) yield path;
  }
}

/** Requirement → files with a test that names it. */
function provenIn(): Map<string, Set<string>> {
  const proven = new Map<string, Set<string>>();
  for (const path of FOLDERS.flatMap((folder) => [...testFiles(folder)])) {
    if (path === "tests/tools/requirements_test.ts") continue;
    const text = Deno.readTextFileSync(fromFileUrl(projectFile(path)));
    for (const [, , name] of text.matchAll(NAMES)) {
      for (const requirement of requirementsIn(name!)) {
        const files = proven.get(requirement);
        if (files === undefined) proven.set(requirement, new Set([path]));
        else files.add(path);
      }
    }
  }
  return proven;
}

/** `P-01, P-24 to P-26: …` names P-01, P-24, P-25 and P-26; `§7 #49 #50: …` rows 49 and 50. */
function requirementsIn(name: string): string[] {
  const rows = name.includes("§7 ") ? name.match(/#\d+/g) ?? [] : [];
  const found = [...name.matchAll(/\b([PQV])-(\d\d)(?:(?: to |–|-)(?:[PQV]-)?(\d\d)\b)?/g)];
  const numbers = found.flatMap(([, letter, from, to]) => {
    const count = to === undefined ? 1 : Number(to) - Number(from) + 1;
    return Array.from(
      { length: Math.max(1, count) },
      (_, i) => `${letter}-${String(Number(from) + i).padStart(2, "0")}`,
    );
  });
  return [...rows, ...numbers];
}

describe("Requirements", () => {
  it("are each named by a test", () => {
    const proven = provenIn();
    const missing = [...PERSISTENCE, ...VERIFY, ...QUEUES].filter((number) => !proven.has(number));
    assert.deepEqual(missing, [], `No test names ${missing.join(", ")}`);
  });

  it("of the transport are each named by a test", () => {
    const proven = provenIn();
    const missing = CONFORMANCE.filter((row) => !proven.has(row));
    assert.deepEqual(missing, [], `No test names §7 ${missing.join(", ")}`);
  });

  it("are found in the names of tests, alone, listed and as ranges", () => {
    assert.deepEqual(requirementsIn("P-05: a host, see Q-12"), ["P-05", "Q-12"]);
    assert.deepEqual(requirementsIn("V-01, V-04 to V-06: a write"), [
      "V-01",
      "V-04",
      "V-05",
      "V-06",
    ]);
    assert.deepEqual(requirementsIn("P-24, P-26 to P-28: S901"), ["P-24", "P-26", "P-27", "P-28"]);
    assert.deepEqual(requirementsIn("S901 to S909"), []);
    assert.deepEqual(requirementsIn("§7 #7 #12: flushed"), ["#7", "#12"]);
  });
});
