/**
 * A new protocol is the shipped `my_protocol.ts` under a name of its own, with its scenario, and
 * the settings that an editor and a debugger need for this clone.
 */
import { basename, dirname, resolve } from "node:path";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { isThere } from "../base/files.ts";
import { fromFileUrl, projectFile, toFileUrl } from "../base/paths.ts";
import { SCHEMA_COMMENT, SCHEMA_FILE } from "./shipped.ts";

export interface NewProtocol {
  readonly folder: string;
  /** Below the folder; `kept` files were there and stay as they are. */
  readonly written: readonly string[];
  readonly kept: readonly string[];
  readonly protocol: string;
  readonly scenario: string;
}

/** Deno's own choice for `rack run --inspect-brk`. */
export const INSPECTOR_PORT = 9229;

const PROGRAM_ENDING = /\.ts$/;
const STEM = /^[A-Za-z][A-Za-z0-9_]{0,39}$/;
const TEMPLATES = {
  program: "scripts/scenarios/my_protocol",
  coherence: "scripts/scenarios/my_coherence",
} as const;
/** The program that the scenario of new rows runs. */
const ACCESSES = "coherent_access.ts";
/** A program, or rows of the coherent cards' protocol. */
export type NewKind = keyof typeof TEMPLATES;

/**
 * Writes the missing files of such a folder.
 * @param target the folder, or the protocol's file in it (`x.ts`).
 * @throws Refusal where the protocol or its scenario exists, before anything is written.
 */
export async function writeNewProtocol(
  target: string,
  kind: NewKind = "program",
): Promise<NewProtocol> {
  const path = resolve(target);
  const isFile = PROGRAM_ENDING.test(path);
  const folder = isFile ? dirname(path) : path;
  const stem = stemOf(basename(path).replace(PROGRAM_ENDING, ""), { isFile });
  const protocol = `${stem}.ts`, scenario = `${stem}.yaml`;
  const files = kind === "program" ? await filesOf(stem) : await coherenceFiles(stem);
  for (const file of [protocol, scenario]) {
    if (isThere(`${folder}/${file}`)) throw alreadyThere(`${folder}/${file}`);
  }
  const written: string[] = [], kept: string[] = [];
  for (const [file, text] of Object.entries(files)) {
    const isNew = await writeNew(`${folder}/${file}`, text);
    if (!isNew && (file === protocol || file === scenario)) {
      throw alreadyThere(`${folder}/${file}`);
    }
    (isNew ? written : kept).push(file);
  }
  return { folder, written, kept, protocol, scenario };
}

/** Entries that an editor needs and a kept `deno.json` lacks; undefined where it has the names. */
export async function missingImports(folder: string): Promise<string | undefined> {
  const { imports } = await editorConfig();
  const text = await Deno.readTextFile(`${folder}/deno.json`).catch(() => "");
  const missing = Object.entries(imports).filter(([name]) => !text.includes(`"${name}"`));
  if (missing.length === 0) return undefined;
  const lines = missing.map(([name, place]) => `"${name}": "${place}"`);
  return `deno.json stays as it is; editors need in its "imports": ${lines.join(", ")}`;
}

export function alreadyThere(path: string, what = "a protocol") {
  const expected = `the name of ${what} that is not there yet`;
  return refusal("", { found: `${path} is there already`, expected });
}

/** The name of the files: the folder's, as far as it is an identifier. */
export function stemOf(
  name: string,
  { isFile, otherwise = "my_protocol" }: { readonly isFile: boolean; readonly otherwise?: string },
): string {
  if (STEM.test(name)) return name;
  const stem = name.replaceAll(/[^A-Za-z0-9]+/g, "_").replace(/^[^A-Za-z]+/, "").slice(0, 40)
    .replace(/_+$/, "");
  if (!isFile) return STEM.test(stem) ? stem : otherwise;
  const expected = "a file such as my_protocol.ts: letters, digits and _, a letter first";
  throw refusal("--protocol", { found: `"${name}.ts"`, expected });
}

/** @returns false where the file existed. */
export async function writeNew(path: string, text: string): Promise<boolean> {
  try {
    await Deno.mkdir(dirname(path), { recursive: true });
    await Deno.writeTextFile(path, text, { createNew: true });
    return true;
  } catch (cause) {
    if (cause instanceof Deno.errors.AlreadyExists && isThere(path)) return false;
    const why = (cause as Error).message;
    throw refusal("", { found: `Cannot write ${path}: ${why}`, expected: "a new folder", cause });
  }
}

async function filesOf(stem: string): Promise<Record<string, string>> {
  const rack = fromFileUrl(projectFile("scripts/rack"));
  return {
    [`${stem}.ts`]: await shipped(`${TEMPLATES.program}.ts`, stem),
    [`${stem}_test.ts`]: testOf(stem),
    [`${stem}.yaml`]: (await shipped(`${TEMPLATES.program}.yaml`, stem))
      .replace(/^# yaml-language-server.*$/m, `${SCHEMA_COMMENT}${SCHEMA_FILE}`)
      .replace(/^# .*: rack run .*$/m, `# The protocol on both hosts: rack run ${stem}.yaml`),
    "deno.json": json({ ...await editorConfig(), tasks: tasksOf(stem, rack) }),
    ".vscode/settings.json": json({ "deno.enable": true }),
    ".vscode/extensions.json": json({ recommendations: ["denoland.vscode-deno"] }),
    ".vscode/launch.json": json(launchOf(stem, rack)),
    "README.md": readmeOf(stem),
  };
}

async function coherenceFiles(stem: string): Promise<Record<string, string>> {
  return {
    [`${stem}.ts`]: await shippedCoherence(".ts", stem),
    [`${stem}.yaml`]: (await shippedCoherence(".yaml", stem))
      .replace(/^# yaml-language-server.*$/m, `${SCHEMA_COMMENT}${SCHEMA_FILE}`),
    // A scenario reads only below its own folder.
    [ACCESSES]: await Deno.readTextFile(projectFile(`scripts/scenarios/${ACCESSES}`)),
    "deno.json": json(await editorConfig()),
    ".vscode/settings.json": json({ "deno.enable": true }),
    ".vscode/extensions.json": json({ recommendations: ["denoland.vscode-deno"] }),
  };
}

async function shippedCoherence(ending: ".ts" | ".yaml", stem: string): Promise<string> {
  const text = await Deno.readTextFile(projectFile(`${TEMPLATES.coherence}${ending}`));
  const name = stem.replaceAll(/_+/g, "-").replace(/-$/, "");
  return text.replaceAll(/(?<=rack .*)scripts\/scenarios\/(?=my_coherence)/g, "")
    .replaceAll("my_coherence", stem).replaceAll("my-coherence", name);
}

async function shipped(path: string, stem: string): Promise<string> {
  const text = await Deno.readTextFile(projectFile(path));
  const camel = stem.replaceAll(/_+([A-Za-z0-9])/g, (_, letter: string) => letter.toUpperCase())
    .replaceAll("_", "");
  // No stem is a reserved word with this ending.
  const name = /protocol$/i.test(camel) ? camel : `${camel}Protocol`;
  return text.replaceAll("my_protocol", stem).replaceAll("myProtocol", name)
    .replaceAll("my-protocol", stem.replaceAll(/_+/g, "-").replace(/-$/, ""));
}

/**
 * By these names editors and `deno check` find the public modules of this clone, which import no
 * package.
 */
async function editorConfig(): Promise<{ readonly imports: Readonly<Record<string, string>> }> {
  const { imports } = JSON.parse(await Deno.readTextFile(projectFile("deno.json"))) as {
    readonly imports: Readonly<Record<string, string>>;
  };
  const doors = Object.entries(imports).filter(([name]) => /^rackmesh(\/|$)/.test(name));
  return { imports: Object.fromEntries(doors.map(([name, at]) => [name, projectFile(at).href])) };
}

function testOf(stem: string): string {
  return `/** What holds of the protocol: deno test --allow-run=deno */
import { rack } from "rackmesh/testing";

const scenario = new URL("${stem}.yaml", import.meta.url);

Deno.test("leaves every record in the SCM of b", async () => {
  const run = await rack(scenario, { set: { records: 3 } }).run();
  const log = run.memory("b").region("log");
  const records = Array.from({ length: 4 }, (_, i) => log[64 * i]);
  if (records.join() !== "1,2,3,0") throw new Error(\`Found records \${records}\\n\${run.text}\`);
});
`;
}

function tasksOf(stem: string, rack: string): Record<string, string> {
  const command = `'${rack.replaceAll("'", "'\\''")}'`;
  return {
    check: `${command} check ${stem}.yaml`,
    run: `${command} run ${stem}.yaml --pack all`,
    test: "deno test --allow-run=deno",
  };
}

function launchOf(stem: string, rack: string): unknown {
  const inspected = { type: "node", address: "127.0.0.1", cwd: "${workspaceFolder}" };
  const args = ["run", `${stem}.yaml`, "--pack", "all", "--inspect-brk"];
  return {
    version: "0.2.0",
    configurations: [
      {
        name: `rack run ${stem}.yaml`,
        ...inspected,
        request: "launch",
        runtimeExecutable: rack,
        runtimeArgs: args,
        attachSimplePort: INSPECTOR_PORT,
        console: "integratedTerminal",
      },
      {
        name: "attach to rack run --pack all --inspect-brk",
        ...inspected,
        request: "attach",
        port: INSPECTOR_PORT,
      },
    ],
  };
}

function readmeOf(stem: string): string {
  const guide = toFileUrl(fromFileUrl(projectFile("scripts/scenarios/OWN_PROTOCOL.md"))).href;
  return `# ${stem}

A protocol for Rackmesh, [how to write one](${guide}).

- \`${stem}.ts\` is the protocol: both sides, in one file. \`${stem}.yaml\` is the rack that it runs on.
- \`rack check ${stem}.yaml\` checks types, and \`rack validate ${stem}.yaml\` all of it; \`rack run ${stem}.yaml --pack all\` runs it.
- \`deno task test\` runs what \`${stem}_test.ts\` demands of it.
- \`rack run ${stem}.yaml --pack all --inspect-brk\` stops in \`${stem}.ts\` for a debugger: in VS Code F5, or chrome://inspect.
- \`rack explore ${stem}.yaml\` cuts the power at every instant, once the protocol says what must hold then.
- \`deno.json\` has the place of the clone of Rackmesh; after it has moved, change the paths there.
`;
}

function json(value: unknown): string {
  return JSON.stringify(value, null, 2) + "\n";
}
