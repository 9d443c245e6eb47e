/**
 * `deno task doc [FOLDER]`: the API reference of `rackmesh`, `rackmesh/testing`, and the functions
 * of `device.verbs`, below the cache or in a folder outside the tree.
 */
import { resolve } from "node:path";
import { assert } from "../fabric/base/assert.ts";
import { refusal } from "../fabric/rack/plan/problem.ts";
import { RackError } from "../console/base/rack_error.ts";
import { type Verbs, verbs } from "../nodes/host/open_device.ts";
import { cacheFolder, projectFile, ROOT } from "../console/base/paths.ts";

interface Entry {
  readonly file: string;
  readonly text: string;
  readonly import: (names: string) => string;
}

const MODULES = ["nodes/host/open_device.ts", "nodes/host/verbs", "nodes/host/cm"];
/** Deno writes it on top; its absence marks a folder of other content. */
const MARK = "all_symbols.html";

async function verbsModule(): Promise<string> {
  const left = new Map<unknown, string>(Object.entries(verbs).map(([name, verb]) => [verb, name]));
  const lines: string[] = [];
  for (const url of MODULES.flatMap(modulesBelow)) {
    const names = Object.values(await import(url.href)).flatMap((each) => left.get(each) ?? []);
    if (names.length === 0) continue;
    lines.push(`export { ${names.join(", ")} } from ${JSON.stringify(url.href)};\n`);
    for (const name of names) left.delete(verbs[name as keyof Verbs]);
  }
  assert(left.size === 0, `No module exports ${[...left.values()].join(", ")}`);
  return `/**\n * The functions of \`device.verbs\`.\n * @module\n */\n${lines.join("")}`;
}

function modulesBelow(path: string): URL[] {
  if (path.endsWith(".ts")) return /_test(ing)?\.ts$/.test(path) ? [] : [projectFile(path)];
  const entries = [...Deno.readDirSync(projectFile(path))].sort((x, y) => x.name < y.name ? -1 : 1);
  return entries.filter(({ name, isDirectory }) => isDirectory || name.endsWith(".ts"))
    .flatMap(({ name }) => modulesBelow(`${path}/${name}`));
}

async function entries(): Promise<Entry[]> {
  const door = (name: string, file: string, path: string): Entry => ({
    file,
    text: `/**\n * What a protocol of one's own imports as \`${name}\`.\n * @module\n */\n` +
      `export * from ${JSON.stringify(projectFile(path).href)};\n`,
    import: (names) => `import { ${names} } from "${name}"`,
  });
  return [
    door("rackmesh", "rackmesh.ts", "nodes/protocol.ts"),
    door("rackmesh/testing", "rackmesh_testing.ts", "console/testing.ts"),
    {
      file: "verbs.ts",
      text: await verbsModule(),
      import: (names) => `const { ${names} } = device.verbs`,
    },
  ];
}

export async function writeEntries(folder: string): Promise<string[]> {
  const all = await entries(), files = all.map(({ file }) => `${folder}/${file}`);
  await Promise.all(all.map(({ text }, i) => Deno.writeTextFile(files[i]!, text)));
  return files;
}

/** @throws Refusal for a folder of the tree, or one with other content. */
function folderFor(args: readonly string[]): string {
  if (args.length > 1) {
    const found = `there are ${args.length} arguments`;
    throw refusal("", { found, expected: "one at most, the folder for the pages" });
  }
  const folder = args[0] === undefined ? cacheFolder("doc") : resolve(args[0]);
  if (`${folder}/`.startsWith(`${ROOT}/`)) {
    throw refusal("", { found: `${folder} is in the tree`, expected: "a folder outside it" });
  }
  const names = namesIn(folder);
  if (names.length > 0 && !names.includes(MARK)) {
    const expected = "a new folder, an empty one, or one that deno task doc has written";
    throw refusal("", { found: `${folder} holds ${names[0]}`, expected });
  }
  return folder;
}

function namesIn(folder: string): string[] {
  try {
    return [...Deno.readDirSync(folder)].map(({ name }) => name);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    const expected = "a folder that can be read";
    throw refusal("", { found: (error as Error).message, expected, cause: error });
  }
}

/** Deno shows how to import from the module's own file, which no protocol does. */
function withRealImports(page: string, { file, import: says }: Entry): string {
  const pattern = `import \\{ (?:type )?(\\w+) \\} from (&quot;|")${RegExp.escape(file)}\\2`;
  return page.replaceAll(new RegExp(pattern, "g"), (whole, name, quote) => {
    const type = whole.includes("{ type ") ? "type " : "";
    return says(`${type}${name}`).replaceAll('"', quote);
  });
}

async function rewrite(folder: string): Promise<void> {
  for (const entry of await entries()) {
    const names = `${folder}/${entry.file}/~`;
    for (const { name, isFile } of Deno.readDirSync(names)) {
      if (!isFile) continue;
      const page = await Deno.readTextFile(`${names}/${name}`);
      await Deno.writeTextFile(`${names}/${name}`, withRealImports(page, entry));
    }
  }
}

export async function writeReference(folder: string): Promise<string> {
  const build = await Deno.makeTempDir({ prefix: "rackmesh-doc-" });
  try {
    await Deno.mkdir(folder, { recursive: true });
    const files = await writeEntries(build);
    const { success, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["doc", "--quiet", "--html", "--name=rackmesh", `--output=${folder}`, ...files],
      cwd: build,
      stdout: "null",
    }).output();
    if (!success) throw new RackError(`deno doc: ${new TextDecoder().decode(stderr).trim()}`);
    await rewrite(folder);
    return `${folder}/index.html`;
  } finally {
    await Deno.remove(build, { recursive: true });
  }
}

if (import.meta.main) {
  try {
    console.log(await writeReference(folderFor(Deno.args)));
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    console.error(`Cannot write the reference: ${error.message}`);
    Deno.exit(error instanceof RackError ? 70 : 64);
  }
}
