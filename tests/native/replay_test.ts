/** What stands on records of native programs: replays of kept runs, a run at a time of it, chaos. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe } from "@std/testing/bdd";
import type { CampaignReport } from "../../console/chaos/campaign.ts";
import { Replay } from "../../console/replay/client.ts";
import { CommandRig } from "../support/command.ts";
import { executableInPath } from "../../console/base/executables.ts";
import { compiled, giveLibrary, nativeMissing } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const missing = await nativeMissing() ??
  (executableInPath("rping") ? undefined : "there is no rping (Debian's package rdmacm-utils)");
const it = itUnless(missing, "tests/native/replay_test.ts");

const RPING = `name: rping
hosts: { a: {}, b: {} }
programs:
  - { on: b, native: [rping, -s, -C, "5"], restart: true }
  - { on: a, native: [rping, -c, -a, b, -C, "5"], at: 1ms, restart: true }
`;

interface Report {
  readonly id: string;
  readonly digest: string;
  readonly directory: string;
  readonly virtualPs: number;
}

describe("a kept run with native programs", () => {
  let rig: CommandRig, cache: string | undefined;
  beforeAll(async () => {
    rig = await CommandRig.open();
    if (missing === undefined) await giveLibrary(rig);
    cache = Deno.env.get("RACKMESH_CACHE");
    Deno.env.set("RACKMESH_CACHE", rig.cache);
  });
  afterAll(async () => {
    if (cache === undefined) Deno.env.delete("RACKMESH_CACHE");
    else Deno.env.set("RACKMESH_CACHE", cache);
    await rig.closeDown();
  });

  const run = async (text: string, args: readonly string[]): Promise<Report> => {
    const path = await rig.file("native.yaml", text);
    const { stdout, stderr } = await rig.run(["run", path, "--json", ...args]);
    assert.ok(stdout.startsWith("{"), stderr);
    return JSON.parse(stdout);
  };
  /** One for several tests, which leave its files as they were. */
  let pingedOnce: Promise<Report> | undefined;
  const pinged = () => pingedOnce ??= run(RPING, ["--pack", "all"]);
  /** @returns its digest, and how far it has come. */
  const replayed = async (directory: string) => {
    const replay = await Replay.open({ run: directory.replace(/.*\//, "") });
    try {
      const { exactness, natives, events } = await replay.timeline();
      assert.equal(exactness.state, "equal");
      return { digest: exactness.state === "equal" ? exactness.digest : "", natives, events };
    } finally {
      await replay.close();
    }
  };

  it("of processes, one of which is killed, is replayed in one without the binary", async () => {
    const file = compiled(rig.cache, "scm_check.c", ["-ldl"]);
    const regions = "log: { at: 64KiB, size: 1MiB }, other: { at: 8MiB, size: 4KiB }";
    const text = [
      "name: scm",
      `hosts: { a: { services: none, scm: { size: 16MiB, regions: { ${regions} } } }, b: {} }`,
      `programs: [{ on: a, native: [${file}], restart: true }]`,
      "faults: [{ kill: a, at: 2ms }, { start: a, at: 3ms }]",
    ].join("\n");
    const packed = await run(text, ["--pack", "all"]), spread = await run(text, []);
    Deno.removeSync(file);
    assert.equal(packed.digest, spread.digest);
    for (const { directory, digest } of [packed, spread]) {
      const again = await replayed(directory);
      assert.deepEqual([again.digest, again.natives], [digest, 1]);
    }
    const { code, stderr } = await rig.run(["run", `${rig.cache}/native.yaml`]);
    assert.equal(code, 64, stderr);
  });

  it("has checkpoints, and is brought up at one by the binaries that ran", async () => {
    const { directory } = await pinged();
    const id = directory.replace(/.*\//, "");
    const kept = await rig.run(["checkpoint", id, "--at", "1.2ms", "--name", "half"]);
    assert.equal(kept.code, 0, kept.stderr);
    const up = await rig.run(["resume", id, "--at", "half"]);
    assert.equal(up.code, 0, up.stderr);
    assert.match(up.stdout, /same {3}digest [0-9a-f]{16} after \d+ events, on every device/);
    assert.match(up.stderr, /native programs: rping on [ab], rping on [ab], /);
    // The replay of a rack that is up goes on as its record grows.
    assert.equal((await rig.run(["until", "1.6ms"])).code, 0);
    const found = await rig.run(["find", "wqe", "--after", "1.3ms"]);
    assert.equal(found.code, 0, found.stderr);
    await rig.run(["down", "--all"]);
    const path = `${directory}/run.json`, file = Deno.readTextFileSync(path);
    Deno.writeTextFileSync(path, file.replace(/"[0-9a-f]{64}"/, `"${"0".repeat(64)}"`));
    const other = await rig.run(["resume", id, "--at", "half"]);
    assert.equal(other.code, 64);
    assert.match(other.stderr, /The native program \S*rping is not the one that ran: SHA-256 /);
    Deno.writeTextFileSync(path, file);
  });

  it("says where a program would have gone another way, and is never ok", async () => {
    const { directory } = await pinged();
    const path = `${directory}/run.json`, file = Deno.readTextFileSync(path);
    const { plan } = JSON.parse(file), [{ latencyPs }] = plan.cables;
    Deno.writeTextFileSync(
      path,
      file.replaceAll(`"latencyPs":${latencyPs}`, `"latencyPs":${latencyPs + 1_000}`),
    );
    const args = ["find", "wqe", "--run", directory.replace(/.*\//, "")];
    const { code, stderr } = await rig.run(args);
    Deno.writeTextFileSync(path, file);
    assert.equal(code, 2, stderr);
    assert.match(
      stderr,
      /^Native program rping#1 on [ab] would have gone another way at the reply at .* needs to be run again\.$/m,
    );
  });

  it("is run with other faults by its binaries, and that run is replayed", async () => {
    const path = await rig.file("native.yaml", RPING);
    const faults = await rig.file(
      "faults.jsonl",
      `{"at":1300000000,"action":"kill","nodes":["a"]}\n` +
        `{"at":1500000000,"action":"start","nodes":["a"]}\n`,
    );
    const { stdout, stderr } = await rig.run(["run", path, "--json", "--faults", faults]);
    assert.ok(stdout.startsWith("{"), stderr);
    const { directory, digest }: Report = JSON.parse(stdout);
    assert.equal((await replayed(directory)).digest, digest);
  });

  it("rounds of chaos are replayed from their records to their digests", async () => {
    const path = await rig.file("native.yaml", RPING);
    const rounds = Deno.env.get("RACKMESH_CHAOS_ROUNDS") ?? "2";
    const { stdout, stderr } = await rig.run(
      ["chaos", path, "--rounds", rounds, "--for", "1h", "--seed", "7", "--json"],
    );
    assert.ok(stdout.startsWith("{"), stderr);
    const { held, replayed, inexact, failures }: CampaignReport = JSON.parse(stdout);
    assert.deepEqual(failures, []);
    assert.deepEqual([held, replayed + inexact], [Number(rounds), Number(rounds)]);
    assert.ok(replayed > 0);
  });
});
