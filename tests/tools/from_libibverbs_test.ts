/** The page "From libibverbs" has each call of rdma-core's headers, and names nothing that is not there. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { CQE_OPCODES } from "../../fabric/wire/host_bus/cqe.ts";
import { WQE_OPCODES } from "../../fabric/wire/host_bus/wqe_opcode.ts";
import { FIELDS_THERE, VALUES_THERE } from "../../nodes/host/calls/names_there.ts";
import { bootDevice, type Verbs } from "../../nodes/host/open_device.ts";
import { VerbsRig } from "../../nodes/host/testing/verbs_testing.ts";
import { RDMA_CMA_H, RDMA_VERBS_H, VERBS_H } from "./rdma_core_names.ts";

const PAGE = new URL("../../scripts/scenarios/FROM_LIBIBVERBS.md", import.meta.url);

/** The connection manager by name and helpers of programs, which rdma-core has not. */
const OWN: ReadonlySet<string> = new Set(
  [
    "accept",
    "disconnect",
    "disconnecting",
    "isDisconnected",
    "listen",
    "listening",
    "nextEvent",
    "noteActivity",
    "refused",
    "reject",
    "unlisten",
    "waitDisconnect",
    "waitEvent",
  ] satisfies (keyof Verbs)[],
);

/** Of other headers: mlx5's provider. */
const BEYOND: ReadonlySet<string> = new Set(["mlx5dv_modify_qp_udp_sport"]);

interface Row {
  readonly calls: readonly string[];
  readonly here: readonly string[];
  readonly note: string;
}

/** Rows of the first table below a heading: calls, what they are here (if the table says so), and the note. */
function tableOf(page: string, heading: string): Row[] {
  const section = page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`));
  assert.ok(section !== undefined, `a section ${heading}`);
  return section.split("\n").filter((line) => line.startsWith("| `")).map((line) => {
    const cells = line.split("|").slice(1, -1).map((cell) => cell.trim());
    const names = (cell = "") => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name!);
    const here = cells.length === 3 ? names(cells[1]) : [];
    return { calls: names(cells[0]), here, note: cells.at(-1)! };
  });
}

describe("scripts/scenarios/FROM_LIBIBVERBS.md", () => {
  const page = Deno.readTextFileSync(PAGE);
  const rig = new VerbsRig();
  const { verbs } = rig.run(bootDevice(rig, rig.plan));
  const same = tableOf(page, "As in rdma-core");
  const differs = tableOf(page, "Differs");
  const leftOut = tableOf(page, "Left out");
  const calls = [...same, ...differs, ...leftOut].flatMap((row) => row.calls);

  it("has each function of rdma-core's three headers in one of its tables, once, and no other", () => {
    const declared = [...VERBS_H, ...RDMA_CMA_H, ...RDMA_VERBS_H];
    assert.ok(declared.length > 200, `${declared.length} names`);
    assert.deepEqual(declared.filter((name) => !calls.includes(name)), [], "not on the page");
    const known = new Set([...declared, ...BEYOND]);
    assert.deepEqual(calls.filter((name) => !known.has(name)), [], "in no header");
    assert.deepEqual(calls.filter((name, i) => calls.indexOf(name) !== i), [], "twice");
  });

  it("names for each call that is not left out a function that there is", () => {
    for (const row of [...same, ...differs]) {
      assert.ok(row.here.length > 0, row.calls.join());
      for (const name of row.here) assert.ok(Object.hasOwn(verbs, name), `${name} of ${row.calls}`);
    }
  });

  it("leaves no call out that `device.verbs` has", () => {
    const there = leftOut.flatMap((row) => row.calls).filter((name) => {
      const camel = name.replace(/^ibv_/, "").replaceAll(
        /_(\w)/g,
        (_, letter) => letter.toUpperCase(),
      );
      return Object.hasOwn(verbs, camel);
    });
    assert.deepEqual(there, []);
  });

  it("says of each call that differs or is left out why", () => {
    for (const { calls, note } of [...differs, ...leftOut]) assert.ok(note !== "", calls.join());
  });

  it("has every function of `device.verbs`", () => {
    const missing = Object.keys(verbs).filter((name) =>
      !OWN.has(name) && !new RegExp(`\`${name}[\`(]`).test(page)
    );
    assert.deepEqual(missing, []);
  });

  it("names the fields of other names that the check of types knows", () => {
    const section = page.split(/^## /m).find((part) => part.startsWith("Fields\n"))!;
    const rows = section.split("\n").filter((line) => line.startsWith("| `")).map((line) => {
      const names = (cell = "") => [...cell.matchAll(/`([\w.]+)`/g)].map(([, name]) => name!);
      const [, there, here] = line.split("|");
      return { there: names(there).map((name) => name.split(".").at(-1)!), here: names(here) };
    });
    // One here for all there, or one for each.
    const onPage = rows.flatMap(({ there, here }) =>
      there.map((name, i) => `${here.length === 1 ? here[0] : here[i]} ${name}`)
    );
    const known = FIELDS_THERE.flatMap(([type, field, ...there]) =>
      there.map((name) => `${type}.${field} ${name}`)
    );
    assert.deepEqual(onPage.toSorted(), known.toSorted());
  });

  it("has the values of rdma-core's constants that the check of types knows", () => {
    const section = page.split(/^## /m).find((part) => part.startsWith("Constants\n"))!;
    const values = section.split("\n").flatMap((line) => {
      const [, there, here] = line.split("|");
      const names = [...(there ?? "").matchAll(/`([A-Z]\w+)`/g)].map(([, name]) => name!);
      const texts = [...(here ?? "").matchAll(/"([\w-]+)"|: (\d+)`/g)];
      return names.map((name, i) => [name, texts[i]?.[1] ?? Number(texts[i]?.[2])] as const);
    });
    const known = values.filter(([name]) => Object.hasOwn(VALUES_THERE, name));
    assert.ok(known.length > 15, `${known.length} constants`);
    assert.deepEqual(known, known.map(([name]) => [name, VALUES_THERE[name]]));
  });

  it("has each opcode of libibverbs as the text that requests and completions have", () => {
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
