/**
 * The tables of rdma-core's calls have each call of its headers and each function of `device.verbs`;
 * the page is made from them (`scripts/readme_tables_test.ts`).
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { CQE_OPCODES } from "../../fabric/wire/host_bus/cqe.ts";
import { WQE_OPCODES } from "../../fabric/wire/host_bus/wqe_opcode.ts";
import {
  CALLS_AS_THERE,
  CALLS_LEFT_OUT,
  CALLS_OF_OWN,
  CALLS_THAT_DIFFER,
  functionsOf,
  nameHere,
  namesOf,
} from "../../nodes/host/calls/names_there.ts";
import { VERB_CALLS } from "../../nodes/host/calls/verb_calls.ts";
import { RDMA_CMA_H, RDMA_VERBS_H, VERBS_H } from "./rdma_core_names.ts";

const PAGE = new URL("../../scripts/scenarios/FROM_LIBIBVERBS.md", import.meta.url);

/** Of other headers: mlx5's provider. */
const BEYOND: ReadonlySet<string> = new Set(["mlx5dv_modify_qp_udp_sport"]);

/** Ask an answer; they check no argument. */
const UNCHECKED = ["must", "failed", "refused"];

describe("calls of rdma-core", () => {
  const same = Object.values(CALLS_AS_THERE).flat();
  const differs = Object.values(CALLS_THAT_DIFFER).flat();
  const leftOut = Object.values(CALLS_LEFT_OUT).flat();
  const verbs = [...Object.keys(VERB_CALLS), ...UNCHECKED];

  it("are those of rdma-core's three headers, each in one table, once", () => {
    const calls = [...same, ...differs, ...leftOut].flatMap(namesOf);
    const declared = [...VERBS_H, ...RDMA_CMA_H, ...RDMA_VERBS_H];
    assert.ok(declared.length > 200, `${declared.length} names`);
    assert.deepEqual(declared.filter((name) => !calls.includes(name)), [], "in no table");
    const known = new Set([...declared, ...BEYOND]);
    assert.deepEqual(calls.filter((name) => !known.has(name)), [], "in no header");
    assert.deepEqual(calls.filter((name, i) => calls.indexOf(name) !== i), [], "twice");
  });

  it("are functions of `device.verbs`, each of which is in a table", () => {
    const named = [
      ...[...same, ...differs].flatMap(functionsOf),
      ...CALLS_OF_OWN.flatMap(({ here }) => here),
    ];
    assert.deepEqual(named.filter((name) => !verbs.includes(name)), [], "not there");
    assert.deepEqual(verbs.filter((name) => !named.includes(name)), [], "in no table");
  });

  it("are not left out if `device.verbs` has them", () => {
    const there = leftOut.flatMap(namesOf).filter((name) => verbs.includes(nameHere(name)));
    assert.deepEqual(there, []);
  });

  it("have a reason where they differ or are left out", () => {
    assert.deepEqual([...differs, ...leftOut].filter(({ note }) => !note), []);
  });

  it("have no name by hand that is the name by rule", () => {
    const needless = [...same, ...differs].filter(({ there, here }) =>
      here?.join() === namesOf({ there }).map(nameHere).join()
    );
    assert.deepEqual(needless, []);
  });
});

describe("scripts/scenarios/FROM_LIBIBVERBS.md", () => {
  it("has each opcode of libibverbs as the text that requests and completions have", () => {
    const page = Deno.readTextFileSync(PAGE);
    const section = page.split(/^## /m).find((part) => part.startsWith("Constants\n"))!;
    const texts = [...section.matchAll(/"([a-z-]+)"/g)].map(([, text]) => text!);
    const own = new Set(["write-persistence", "write-persist-address", "write-verify"]);
    const sends = Object.keys(WQE_OPCODES).filter((name) =>
      name !== "nop" && name !== "persistence-ack" && !own.has(name)
    );
    const receives = Object.keys(CQE_OPCODES).filter((name) =>
      name.startsWith("recv") && name !== "recv-persistence"
    );
    assert.deepEqual([...sends, ...receives].filter((name) => !texts.includes(name)), []);
  });
});
