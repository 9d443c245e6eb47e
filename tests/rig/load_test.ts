/** What the process of a host loads when it is come to, and what a rack in one process has from the start. */
import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PROGRAMS } from "../../nodes/host/programs/programs.ts";
import { loadPrograms, PROGRAM_MODULES } from "../../nodes/load.ts";
import type { Program } from "../../nodes/host/program_context.ts";

describe("loadPrograms", () => {
  it("has what a rack in one process has, under the same names", async () => {
    same(Object.keys(PROGRAM_MODULES).sort(), Object.keys(PROGRAMS).sort());
    const programs: Record<string, Program> = {};
    await loadPrograms(Object.keys(PROGRAM_MODULES), programs);
    for (const [name, program] of Object.entries(PROGRAMS)) equal(programs[name], program, name);
  });

  it("loads what is named, leaves what is there, and passes over what is not shipped", async () => {
    const own: Program = PROGRAMS["get"]!;
    const programs: Record<string, Program> = { put: own };
    await loadPrograms(["put", "list", "./mine.ts", "toString"], programs);
    same(Object.keys(programs), ["put", "list"]);
    equal(programs["put"], own);
  });
});
