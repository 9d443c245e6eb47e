/**
 * The API reference (`deno task doc`), and the examples of programs in it and on the pages of `scripts/scenarios`:
 * their types hold, and each runs on a rack.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { ROOT, toFileUrl } from "../../console/base/paths.ts";
import type { OwnProgram } from "../../nodes/host/own_programs.ts";
import { bootDevice } from "../../nodes/host/open_device.ts";
import { VerbsRig } from "../../nodes/host/testing/verbs_testing.ts";
import { writeEntries, writeReference } from "../../scripts/doc.ts";
import { NO_CHECK } from "../../console/base/no_check.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import { WITH_DENO } from "../support/command.ts";

interface Example {
  /** The name that it is an example of, or the page that it is on. */
  readonly of: string;
  readonly text: string;
}

interface Documented {
  readonly nodes: Readonly<Record<string, { readonly symbols: readonly DocSymbol[] }>>;
}
interface DocSymbol {
  readonly name: string;
  readonly declarations: readonly {
    readonly jsDoc?: {
      readonly tags?: readonly { readonly kind: string; readonly doc?: string }[];
    };
  }[];
}

const BLOCK = /^```ts\n([\s\S]*?)^```$/gm;

async function deno(args: readonly string[], cwd: string, env: Record<string, string> = {}) {
  const command = new Deno.Command(Deno.execPath(), {
    args: [...args],
    cwd,
    env: { NO_COLOR: "1", ...env },
  });
  const { success, stdout, stderr } = await command.output();
  const [out, said] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { success, out: out!, said: said! };
}

async function examplesOfReference(folder: string): Promise<Example[]> {
  const files = await writeEntries(folder);
  const { out, said } = await deno(["doc", "--json", ...files], folder);
  assert.notEqual(out, "", said);
  const symbols = Object.values((JSON.parse(out) as Documented).nodes).flatMap((each) =>
    each.symbols
  );
  return symbols.flatMap(({ name, declarations }) =>
    declarations.flatMap(({ jsDoc }) => jsDoc?.tags ?? [])
      .filter(({ kind }) => kind === "example")
      .flatMap(({ doc = "" }) =>
        [...doc.matchAll(BLOCK)].map(([, text]) => ({ of: name, text: text! }))
      )
  );
}

/** Whole programs: an example with … shows a part of a shipped file. */
function examplesOfPages(): Example[] {
  const folder = `${ROOT}/scripts/scenarios`;
  const pages = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) =>
    name.endsWith(".md")
  );
  return pages.flatMap((of) =>
    [...Deno.readTextFileSync(`${folder}/${of}`).matchAll(BLOCK)]
      .map(([, text]) => ({ of, text: text! }))
      .filter(({ text }) => text.includes("export default") && !text.includes("…"))
  );
}

describe("examples", () => {
  let folder: string;
  const programs = new Map<string, string>();
  const tests: string[] = [];
  /** What is no program: a judge's rule, rows of a protocol. */
  const others: string[] = [];

  beforeAll(async () => {
    folder = await Deno.makeTempDir({ prefix: "rackmesh-examples-" });
    const all = [...await examplesOfReference(folder), ...examplesOfPages()];
    all.forEach(({ of, text }, i) => {
      const file = `${folder}/${i}_${of.replace(".md", "")}.ts`;
      Deno.writeTextFileSync(file, text);
      if (/^export default function\*/m.test(text)) programs.set(of, file);
      else if (/^export default /m.test(text)) others.push(file);
      else tests.push(file);
    });
  });

  afterAll(() => Deno.remove(folder, { recursive: true }));

  it("are there for what people use first", () => {
    const first = ["Program", "must", "regMr", "modifyQp", "connect", "Recover", "sizeOption"];
    assert.deepEqual([...first, "OWN_WORKLOAD.md"].filter((name) => !programs.has(name)), []);
    assert.equal(tests.length, 1);
    assert.equal(others.length, 2);
  });

  it("have types that hold", async () => {
    const config = `--config=${ROOT}/deno.json`;
    const { success, said } = await deno([
      "check",
      "--quiet",
      config,
      ...programs.values(),
      ...tests,
      ...others,
    ], folder);
    assert.ok(success, said);
  });

  /** Two hosts; the program runs on these, with these options. */
  async function runs(name: string, entries = "- { on: a, program: ./own.ts }") {
    const own = await import(toFileUrl(programs.get(name)!).href) as {
      default: OwnProgram["program"];
    };
    const scenario = `
name: example
seed: 3
defaults: { ddio: off, scm: { size: 1MiB } }
hosts: { a: {}, b: {} }
programs:
  ${entries}
`;
    const rack = new SimulatedRack(scenario, { programs: { "./own.ts": own.default } }).run();
    assert.deepEqual(rack.reported("program-failed"), [], name);
    return rack;
  }

  it("run, on a rack that is sound", async () => {
    const page = "OWN_WORKLOAD.md";
    for (const name of programs.keys()) if (name !== page) await runs(name);
  });

  it("report what they say", async () => {
    const resultOf = async (name: string) => (await runs(name)).reported("result", "a")[0];
    assert.deepEqual(await resultOf("modifyQp"), { state: "rts" });
    assert.deepEqual(await resultOf("connect"), { bytes: 5 });
    assert.deepEqual(await resultOf("sizeOption"), { size: 4096, every: 10_000_000 });
  });

  it("OWN_WORKLOAD.md: the workload runs by the entries that the page names", async () => {
    const name = "OWN_WORKLOAD.md";
    const text = Deno.readTextFileSync(`${ROOT}/scripts/scenarios/${name}`);
    const entries = [...text.matchAll(/`(\{ on: [^`]*\})`/g)].map(([, entry]) => entry!);
    assert.equal(entries.length, 2);
    const written = entries.map((entry) =>
      `- ${entry.replace("./blocks.ts", "./own.ts").replace("reads: 1000", "reads: 20")}`
    );
    const rack = await runs(name, written.join("\n  "));
    const [result] = rack.reported("result", "a") as unknown as [{ latencyPs: { count: number } }];
    assert.equal(result.latencyPs.count, 20);
  });

  it("rack: the test passes in deno test", async () => {
    for (const file of ["my_protocol.ts", "my_protocol.yaml"]) {
      await Deno.copyFile(`${ROOT}/scripts/scenarios/${file}`, `${folder}/${file}`);
    }
    const args = [
      "test",
      "--quiet",
      "--no-check",
      "--no-prompt",
      "--cached-only",
      "--allow-run=deno",
    ];
    const { success, out, said } = await deno(
      [...args, `--config=${ROOT}/deno.json`, ...tests],
      folder,
      {
        PATH: WITH_DENO,
        RACKMESH_CACHE: `${folder}/cache`,
        [NO_CHECK]: "1",
      },
    );
    assert.ok(success, out + said);
    assert.match(out, /^ok \| 1 passed \| 0 failed/m);
  });
});

describe("deno task doc", () => {
  it("writes a page for each function of `device.verbs`, and says how it is reached", async () => {
    const folder = await Deno.makeTempDir({ prefix: "rackmesh-reference-" });
    try {
      assert.equal(await writeReference(folder), `${folder}/index.html`);
      const rig = new VerbsRig();
      const { verbs } = rig.run(bootDevice(rig, rig.plan));
      for (const name of Object.keys(verbs)) {
        const page = Deno.readTextFileSync(`${folder}/verbs.ts/~/${name}.html`);
        assert.ok(page.includes(`const { ${name} } = device.verbs`), name);
      }
      const must = Deno.readTextFileSync(`${folder}/rackmesh.ts/~/must.html`);
      assert.match(must, /import \{ must \} from &quot;rackmesh&quot;/);
      assert.match(must, /An error ends the program, or is looked at/);
      Deno.statSync(`${folder}/rackmesh_testing.ts/~/rack.html`);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });

  it("refuses a folder of the tree, and one that holds something else", async () => {
    const held = await Deno.makeTempDir({ prefix: "rackmesh-held-" });
    try {
      await Deno.writeTextFile(`${held}/mine.txt`, "");
      for (const [given, wrong] of [[`${ROOT}/docs`, "in the tree"], [held, "holds mine.txt"]]) {
        const { success, said } = await deno(["task", "--quiet", "doc", given!], ROOT);
        assert.equal(success, false);
        assert.ok(said.includes(wrong!), said);
      }
      assert.deepEqual([...Deno.readDirSync(held)].map(({ name }) => name), ["mine.txt"]);
    } finally {
      await Deno.remove(held, { recursive: true });
    }
  });
});
