/** The page "From libibverbs" names each call that there is, and none that there is not. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { openDevice, type Verbs } from "../../nodes/host/verbs.ts";
import { VerbsRig } from "../../nodes/host/testing/verbs_testing.ts";

const PAGE = new URL("../../scripts/scenarios/FROM_LIBIBVERBS.md", import.meta.url);

/** Helpers of programs, and calls of the connection manager, which has a page of its own. */
const ELSEWHERE: ReadonlySet<string> = new Set(
  [
    "accept",
    "connect",
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

describe("scripts/scenarios/FROM_LIBIBVERBS.md", () => {
  const page = Deno.readTextFileSync(PAGE);
  const rig = new VerbsRig();
  const { verbs } = rig.run(openDevice(rig, rig.plan));

  it("has every function of `device.verbs`", () => {
    const missing = Object.keys(verbs).filter((name) =>
      !ELSEWHERE.has(name) && !name.startsWith("rdma") && !new RegExp(`\`${name}[\`(]`).test(page)
    );
    assert.deepEqual(missing, []);
  });

  it("names in its second column functions that there are, and says what each row is", () => {
    const rows = page.split("\n").filter((line) => line.startsWith("| `"));
    assert.ok(rows.length > 40);
    for (const row of rows) {
      const [, calls, here, what] = row.split("|").map((cell) => cell.trim());
      for (const [, name] of here!.matchAll(/`(\w+)`/g)) {
        assert.ok(Object.hasOwn(verbs, name!), `${name} of ${calls}`);
      }
      const expected = here === "" ? /^left out: / : /^(as in (libibverbs|mlx5)|differs: )/;
      assert.match(what!, expected, calls);
    }
  });

  it("names no call of libibverbs twice", () => {
    const calls = [...page.matchAll(/^\| (`[^|]*)\|/gm)].flatMap(([, cell]) =>
      [...cell!.matchAll(/`(\w+)`/g)].map(([, name]) => name)
    );
    assert.deepEqual(calls.filter((name, i) => calls.indexOf(name) !== i), []);
  });
});
