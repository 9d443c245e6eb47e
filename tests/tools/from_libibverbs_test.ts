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

/** Calls of `verbs.h` that are easily forgotten: small ones, inline ones and those of few cards. */
const SMALL = [
  "ibv_get_device_index",
  "ibv_get_pkey_index",
  "ibv_is_fork_initialized",
  "ibv_flow_label_to_udp_sport",
  "ibv_resolve_eth_l2_from_gid",
  "ibv_rate_to_mult",
  "ibv_rate_to_mbps",
  "ibv_qp_to_qp_ex",
  "ibv_cq_ex_to_cq",
  "ibv_get_srq_num",
  "ibv_dm_export_dmabuf_fd",
  "ibv_create_flow_action_esp",
  "ibv_unimport_pd",
  "ibv_unimport_mr",
  "ibv_unimport_dm",
  "ibv_wr_bind_mw",
];

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

  it("has the small calls too", () => {
    const calls = page.split("\n").map((line) => line.split("|")[1] ?? "").join();
    assert.deepEqual(SMALL.filter((name) => !calls.includes(`\`${name}\``)), []);
  });

  it("names no call of libibverbs twice", () => {
    const calls = [...page.matchAll(/^\| (`[^|]*)\|/gm)].flatMap(([, cell]) =>
      [...cell!.matchAll(/`(\w+)`/g)].map(([, name]) => name)
    );
    assert.deepEqual(calls.filter((name, i) => calls.indexOf(name) !== i), []);
  });
});
