/** What a report finds in the SCM of a host whose process has not put its last span into the content. */
import { machineOf } from "../../fabric/rack/plan/names.ts";
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import { ScmFile } from "../../nodes/host/store/scm_file.ts";
import { heldFor, survivedView } from "../../console/rack/survived.ts";

const BYTES = 1 << 20;
const FROM = 4096, TO = 4112;

describe("survivedView", () => {
  let directory: string;
  let scm: ScmFile;

  /** Two spans, at the begin and the end of the range; the second is in the log alone. */
  beforeEach(async () => {
    directory = await Deno.makeTempDir({ prefix: "rackmesh-survived-" });
    await Deno.mkdir(`${directory}/scm`);
    scm = ScmFile.open(`${directory}/scm/b.scm`, { host: "b", bytes: BYTES });
    scm.settle("unknown");
    scm.commit(1, [{ offset: 4096, data: new Uint8Array(4).fill(1) }]);
    scm.commit(2, [{ offset: 4108, data: new Uint8Array(8).fill(2) }]);
  });

  afterEach(async () => {
    scm.close();
    await Deno.remove(directory, { recursive: true });
  });

  function record(...faults: { action: "kill" | "start"; settledSpan: number; node?: string }[]) {
    const lines = faults.map(({ node, ...fault }) =>
      JSON.stringify({ ...fault, at: 1, partition: "b", nodes: [node ?? "b"] })
    );
    return Deno.writeTextFile(`${directory}/faults.jsonl`, lines.join("\n") + "\n");
  }

  const read = () => [...survivedView(directory, "b")!.read(FROM, TO)];
  const first = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
  const both = [...first.slice(0, 12), 2, 2, 2, 2];

  it("has all spans of a process that is still there", () => {
    assert.deepEqual(read(), both);
  });

  it("P-05: has the last span of a killed process where it was reported", async () => {
    await record({ action: "kill", settledSpan: 2 });
    assert.deepEqual(read(), both);
  });

  it("leaves out the last span of a killed process where nobody heard of it", async () => {
    await record({ action: "kill", settledSpan: 1 });
    assert.deepEqual(read(), first);
  });

  it("takes the last word of the record, and of this host only", async () => {
    await record(
      { action: "kill", settledSpan: 1 },
      { action: "start", settledSpan: 1 },
      { action: "kill", settledSpan: 1, node: "a" },
    );
    assert.deepEqual(read(), both);
  });

  it("P-05: has what its card held for the host last, over all else, and of this host only", () => {
    const write = { address: SCM_BASE + 4110, data: "0304" };
    const held = (node: string, writes: readonly object[]) => {
      return { node, topic: "held", value: { host: machineOf(node), writes } };
    };
    const reports = [
      held("b-rnic", [{ ...write, data: "ffffffff" }]),
      held("b-rnic", [write, { ...write, data: "05" }]),
      held("a-rnic", [{ ...write, data: "ee" }]),
    ];
    const survived = survivedView(directory, "b", { held: heldFor("b", reports) })!.read(FROM, TO);
    assert.deepEqual([...survived], [...both.slice(0, 14), 5, 4]);
    const back = held("b-rnic", []);
    assert.deepEqual(heldFor("b", [...reports, back]), [], "the host has it again");
    const second = held("b-rnic2", [{ ...write, data: "06" }]);
    const offsets = heldFor("b", [second, ...reports]).map(({ data }) => data[0]);
    assert.deepEqual(offsets, [3, 5, 6], "of all its cards, the first one's first");
    assert.deepEqual(heldFor("b", [second, ...reports, back]).length, 1, "each by itself");
  });

  it("has all of a process that ended in order", () => {
    scm.close();
    assert.deepEqual(read(), both);
    scm = ScmFile.open(`${directory}/scm/b.scm`, { host: "b", bytes: BYTES });
    scm.settle("unknown");
  });
});
