/** What the process of a host may do once a user's program is loaded in it: what a device may. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { runProcesses } from "../../console/rack/run_variant.ts";
import { RackBench } from "../support/process_rack.ts";

/** Each throws where it is refused. The text is no bundle, so real globals stand in it. */
const ATTEMPTS = {
  "read a file": 'Deno.readTextFileSync("/etc/hostname")',
  "look at a file": 'Deno.statSync("/etc")',
  "write a file": 'Deno.writeTextFileSync(DIRECTORY + "/run.json", "")',
  "write another host's SCM": 'Deno.writeTextFileSync(DIRECTORY + "/scm/b.scm", "")',
  "write a log": 'Deno.writeTextFileSync(DIRECTORY + "/logs/a.log", "")',
  "read the environment": "Deno.env.toObject()",
  "read a credential": 'Deno.env.get("RACKMESH_NATS_PASSWORD")',
  "start a process": 'new Deno.Command("true").outputSync()',
  "listen": "Deno.listen({ port: 0 })",
  "look at the machine": "Deno.hostname()",
  "load a library": 'Deno.dlopen("libc.so.6", {})',
  "make code": 'new Function("return 1")()',
} as const;
/** Each rejects. */
const LATER = {
  "connect": 'Deno.connect({ hostname: "127.0.0.1", port: 22 })',
  "look up a name": 'Deno.resolveDns("localhost", "A")',
  "import a file": 'import("/etc/" + "hostname")',
  "import from afar": 'import("https://deno.land/x/" + "any.ts")',
  "be given a right": 'Deno.permissions.request({ name: "read" }).then(({ state }) => {' +
    ' if (state === "granted") return; throw new Deno.errors.NotCapable(state); })',
} as const;

function raw(directory: string): string {
  const attempts = Object.entries(ATTEMPTS).map(([what, use]) =>
    `  try { ${use}; found[${JSON.stringify(what)}] = "done"; }` +
    ` catch (error) { found[${JSON.stringify(what)}] = error.name; }\n`
  );
  const later = Object.entries(LATER).map(([what, use]) =>
    `await ${use}.then(() => found[${JSON.stringify(what)}] = "done", ` +
    `(error) => found[${JSON.stringify(what)}] = error.name);\n`
  );
  return `const DIRECTORY = ${JSON.stringify(directory)}, found = {};\n${later.join("")}` +
    `export default function instance(module) {\n  module.exports.default = function* ({ cpu }) {\n` +
    `${attempts.join("")}  cpu.report("result", found);\n  yield* cpu.sleep(1);\n  };\n}\n`;
}

let bench: RackBench;

beforeAll(async () => {
  bench = await RackBench.open();
});

afterAll(() => bench.close());

describe("a host's process with a user's program", () => {
  it("may use its bus, the files that it has open and outputs/, and nothing else", async () => {
    await Deno.writeTextFile(`${bench.directory}/own.ts`, "export default function* () {}\n");
    const prepared = await bench.prepare({
      scenario: "name: own\nhosts: { a: {}, b: {} }\nprograms: [{ on: a, run: ./own.ts }]\n",
    });
    const directory = `${bench.directory}/with, a comma`;
    const outcome = await runProcesses(
      { ...prepared, programs: { "./own.ts": raw(directory) } },
      { run: "rights", directory, broker: bench.server },
    );
    const reports = outcome.finals.flatMap(({ reports }) => reports);
    const found = reports.find(({ topic }) => topic === "result")?.value;
    const expected = [...Object.keys(LATER), ...Object.keys(ATTEMPTS)]
      .map((what) => [what, what === "make code" ? "EvalError" : "NotCapable"]);
    expected.find(([what]) => what === "import a file")![1] = "TypeError";
    expected.find(([what]) => what === "import from afar")![1] = "TypeError";
    assert.deepEqual(found, Object.fromEntries(expected), JSON.stringify(reports));
  });
});
