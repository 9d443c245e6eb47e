/** Files over the bus: what arrives is what was there, whatever happened on the way. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { filesVerb, planVerb } from "../../../fabric/bus/access.ts";
import type { Bus } from "../../../fabric/bus/bus.ts";
import { createMemoryBroker, type MemoryBroker } from "../../../fabric/bus/memory_bus_testing.ts";
import { serveFiles } from "../../../fabric/files/file_service.ts";
import { type FileSet, filesIn, filesOfPlan } from "../../../fabric/files/served_files.ts";
import type { RunFile } from "../../../fabric/rack/assembly/run_file.ts";
import { sha256 } from "../../base/sha256.ts";
import { takePlan } from "./plan_over_bus.ts";
import { RemoteFiles } from "./remote_files.ts";

const RUN = "r1";
const MAX_PAYLOAD = 64 * 1024;
const MIB = 1 << 20;

describe("files over the bus", () => {
  let broker: MemoryBroker;
  let there: string, here: string;
  let owner: Bus, asker: Bus;

  beforeEach(async () => {
    broker = createMemoryBroker({ maxPayload: MAX_PAYLOAD });
    const onError = (error: unknown) => assert.fail(String(error));
    [owner, asker] = [broker.connect({ onError }), broker.connect({ onError })];
    [there, here] = [await Deno.makeTempDir(), await Deno.makeTempDir()];
    await Deno.mkdir(`${there}/scm`);
  });

  afterEach(async () => {
    await Promise.all([owner.close(), asker.close()]);
    for (const folder of [there, here]) await Deno.remove(folder, { recursive: true });
  });

  const serve = (files: FileSet = filesIn(there, ["scm"])) =>
    serveFiles(owner, { run: RUN, verb: filesVerb("b"), files: () => files });
  const remote = (goneMs = 100) =>
    new RemoteFiles(asker, { run: RUN, verb: filesVerb("b"), owner: "b", goneMs });

  /** Bytes that came with pieces. */
  async function mirrored(): Promise<number> {
    let bytes = 0;
    await remote().mirror(here, { onBytes: (count) => bytes += count });
    return bytes;
  }

  /** Sparse: `size` with some bytes from `at` on. */
  async function write(name: string, size: number, parts: Readonly<Record<number, Uint8Array>>) {
    using file = await Deno.open(`${there}/scm/${name}`, { create: true, write: true });
    for (const [at, bytes] of Object.entries(parts)) {
      await file.seek(Number(at), Deno.SeekMode.Start);
      for (let done = 0; done < bytes.length;) done += await file.write(bytes.subarray(done));
    }
    await file.truncate(size);
  }

  async function sameFile(name: string): Promise<void> {
    const [one, other] = await Promise.all(
      [there, here].map(async (folder) => await sha256(await Deno.readFile(`${folder}/${name}`))),
    );
    assert.equal(one, other, name);
  }

  const drawn = (length: number) => {
    const bytes = new Uint8Array(length);
    for (let i = 0; i < length; i++) bytes[i] = (i * 2_654_435_761) >>> 24 || 1;
    return bytes;
  };

  it("arrive whole, of any length, in pieces below the largest message", async () => {
    serve();
    const sizes = [0, 1, 7, 65_535, 65_536, 65_537, 300_001];
    for (const size of sizes) await write(`${size}`, size, { 0: drawn(size) });
    await mirrored();
    for (const size of sizes) await sameFile(`scm/${size}`);
    assert.deepEqual(
      [...Deno.readDirSync(`${here}/scm`)].length,
      sizes.length,
      "no parts are left",
    );
  });

  it("cost nothing for holes", async () => {
    serve();
    await write("b.scm", 80 * MIB, { 0: drawn(100), [70 * MIB + 5]: drawn(1_000) });
    const bytes = await mirrored();
    assert.ok(bytes < 256 * 1024, `${bytes} B came`);
    await sameFile("scm/b.scm");
    const { size, blocks } = await Deno.stat(`${here}/scm/b.scm`);
    assert.equal(size, 80 * MIB);
    assert.ok(blocks! * 512 < MIB, `${blocks} blocks are on the disk`);
  });

  it("are fetched once, and again where they have changed", async () => {
    serve();
    await write("b.scm", 200_000, { 0: drawn(200_000) });
    assert.ok(await mirrored() >= 200_000);
    assert.equal(await mirrored(), 0);
    await write("b.scm", 200_000, { 10: Uint8Array.of(0xff) });
    await Deno.utime(`${there}/scm/b.scm`, new Date(), new Date(1_000));
    assert.ok(await mirrored() >= 200_000);
    await sameFile("scm/b.scm");
  });

  it("go on where a broken transfer has ended, and begin anew where that was of another file", async () => {
    serve();
    const content = drawn(400_000);
    await write("b.scm", content.length, { 0: content });
    await Deno.mkdir(`${here}/scm`);
    await Deno.writeFile(`${here}/scm/b.scm.part`, content.subarray(0, 300_000));
    assert.equal(await mirrored(), 100_000);
    await sameFile("scm/b.scm");
    await Deno.remove(`${here}/scm/b.scm`);
    for (const other of [new Uint8Array(300_000).fill(7), new Uint8Array(500_000).fill(7)]) {
      await Deno.writeFile(`${here}/scm/b.scm.part`, other);
      assert.ok(await mirrored() >= content.length);
      await sameFile("scm/b.scm");
      await Deno.remove(`${here}/scm/b.scm`);
    }
  });

  it("are fetched again where one has become shorter meanwhile", async () => {
    const all = filesIn(there, ["scm"]);
    let opened = 0;
    // Between its only piece and its hash another has taken its place.
    serve({
      ...all,
      open(name) {
        if (++opened === 2) Deno.truncateSync(`${there}/scm/b.scm`, 700);
        return all.open(name);
      },
    });
    await write("b.scm", 1_000, { 0: drawn(1_000) });
    await mirrored();
    assert.equal((await Deno.stat(`${here}/scm/b.scm`)).size, 700);
    await sameFile("scm/b.scm");
  });

  it("are refused where what came has another SHA-256, and nothing is left of it", async () => {
    const changing = filesIn(there, ["scm"]);
    let reads = 0;
    serve({
      ...changing,
      open(name) {
        const file = changing.open(name)!;
        return {
          ...file,
          readAt(at, buffer) {
            const length = file.readAt(at, buffer);
            if (length > 0) buffer[0] = ++reads & 0xff || 1;
            return length;
          },
        };
      },
    });
    await write("b.scm", 1_000, { 0: drawn(1_000) });
    await assert.rejects(
      remote().mirror(here),
      /scm\/b\.scm of b differs from what came of it, 3 times, expected its SHA-256/,
    );
    assert.deepEqual([...Deno.readDirSync(`${here}/scm`)], []);
  });

  it("are those of the parts that are served: no others, no links, nothing above", async () => {
    serve();
    await write("b.scm", 10, { 0: drawn(10) });
    await Deno.writeTextFile(`${there}/supervisor.json`, "secret");
    await Deno.symlink(`${there}/supervisor.json`, `${there}/scm/link`);
    await Deno.symlink(there, `${there}/scm/folder`);
    assert.deepEqual((await remote().list()).map(({ name }) => name), ["scm/b.scm"]);
    const linked = ["scm/link", "scm/folder/supervisor.json"];
    for (const name of ["supervisor.json", ...linked, "scm/../supervisor.json", "scm", "scm/"]) {
      const fetched = remote().fetch({ name, bytes: 0, changedMs: 0 }, `${here}/x`);
      await assert.rejects(fetched, /Found no file of b: there is no/, name);
    }
  });

  it("do not get out of the folder that they come into", async () => {
    const list = () => [{ name: "../out", bytes: 1, changedMs: 1 }];
    serve({ list, open: () => undefined });
    await assert.rejects(remote().mirror(here), /Found the name \.\.\/out among the files of b/);
  });

  it("are a clear error where nobody has them, and awaited where one may come", async () => {
    await assert.rejects(remote(0).list(), /Found no files of b: no process answers for it/);
    const waiting = remote(60_000).list();
    serve();
    assert.deepEqual(await waiting, []);
  });

  it("come in lists of any length", async () => {
    serve();
    for (let i = 0; i < 600; i++) await Deno.writeTextFile(`${there}/scm/${i}`, "x");
    assert.equal(new Set((await remote().list()).map(({ name }) => name)).size, 600);
  });

  it("are refused where a list is not in the order of names, by which it would never end", async () => {
    const names = Array.from({ length: 300 }, (_, i) => `scm/${i}`);
    const files = names.map((name) => ({ name, bytes: 1, changedMs: 1 }));
    serve({ list: () => files, open: () => undefined });
    await assert.rejects(
      remote().list(),
      /Found scm\/\d+ after scm\/\d+ in the list of files of b, expected the order of names/,
    );
  });

  describe("a plan", () => {
    const runFile = async (): Promise<RunFile> => {
      const inputs: Record<string, Record<string, string>> = {};
      for (const host of ["a", "b"]) {
        const path = `${there}/${host}.bin`;
        await Deno.writeFile(path, drawn(host === "a" ? 150_000 : 10));
        inputs[host] = { "data.bin": path };
      }
      const host = (name: string, run: string) => {
        return { name, kind: "host", config: { programs: [{ run }], shared: [] } };
      };
      return {
        run: RUN,
        plan: { scenario: "pair", nodes: [host("a", "./a.ts"), host("b", "./b.ts")], cables: [] },
        partitions: [{ name: "a", nodes: ["a"] }, { name: "b", nodes: ["b"] }],
        directory: there,
        inputs,
        programs: { "./a.ts": "of a", "./b.ts": "of b" },
      } as unknown as RunFile;
    };

    const take = async (user: string, file: RunFile) => {
      const planFiles = filesOfPlan(file);
      const verb = planVerb(user);
      using _ = closing(serveFiles(owner, { run: RUN, verb, files: () => planFiles(user) }));
      return (await takePlan(asker, { run: RUN, user, directory: here })).runFile;
    };

    it("gives a device its own inputs and programs, and others all", async () => {
      const file = await runFile();
      const ofA = await take("a", file);
      assert.deepEqual(Object.keys(ofA.inputs), ["a"]);
      assert.deepEqual(ofA.programs, { "./a.ts": "of a" });
      assert.equal(ofA.directory, here);
      assert.deepEqual(await Deno.readFile(ofA.inputs["a"]!["data.bin"]!), drawn(150_000));
      assert.deepEqual(ofA.plan, JSON.parse(JSON.stringify(file.plan)));
      assert.equal(JSON.stringify(ofA).includes(there), false, "no path of the other machine");
      const all = await take("_supervisor", file);
      assert.deepEqual(Object.keys(all.inputs), ["a", "b"]);
      assert.deepEqual(Object.keys(all.programs), ["./a.ts", "./b.ts"]);
    });

    it("of any number of inputs comes as a whole", async () => {
      const file = await runFile();
      const path = file.inputs["b"]!["data.bin"]!;
      const names = Array.from({ length: 300 }, (_, i) => `${i}.bin`);
      const many = Object.fromEntries(names.map((name) => [name, path]));
      const { inputs } = await take("b", { ...file, inputs: { b: many } });
      assert.deepEqual(Object.keys(inputs["b"]!).sort(), names.sort());
    });

    it("is taken anew where the folder has another of the same length", async () => {
      const file = await runFile();
      assert.equal((await take("a", file)).plan.scenario, "pair");
      const other = { ...file, plan: { ...file.plan, scenario: "riap" } };
      assert.equal((await take("a", other)).plan.scenario, "riap");
    });
  });
});

function closing(subscription: { close(): void }): Disposable {
  return { [Symbol.dispose]: () => subscription.close() };
}
