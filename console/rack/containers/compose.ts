import {
  type NativeSetUp,
  nativeSetUpOf,
  type RunFile,
} from "../../../fabric/rack/assembly/run_file.ts";
import { Refusal, refusal } from "../../../fabric/rack/plan/problem.ts";
import {
  busUsers,
  composeFile,
  CONSOLE_KEY,
  CONSOLE_PORT,
  IN_CONTAINER,
  NATIVE_FILES,
  natsConfig,
  OWN_SERVICES,
  passwordVariable,
  SECCOMP_FILE,
} from "./compose_file.ts";
import { sha256 } from "../../base/sha256.ts";
import type { ScenarioSource } from "../../scenarios/scenario_source.ts";
import { prepareOne } from "../bring_up.ts";
import { nativeFiles } from "../native/closure.ts";
import { onlyOne, prepare, type Prepared, type PrepareOptions, runFileOf } from "../prepare.ts";
import { seccompProfile } from "./seccomp.ts";

export interface ComposeOptions {
  readonly prepare: PrepareOptions;
  readonly signal?: AbortSignal;
  readonly out: string;
  readonly image: string;
  readonly natsImage: string;
  /** Without a message for so long, a process is dead. */
  readonly livenessMs: number;
  readonly trace: boolean;
  readonly stayUp: boolean;
  /** On the loopback interface. */
  readonly consolePort: number;
  /** Hosts whose `put` is left out of a rack that stays up, as it has no input file. */
  readonly onLeftOut?: (hosts: readonly string[]) => void;
}

const NAME_LENGTH = 24;
const ID_BYTES = 3;
const PASSWORD_BYTES = 16, KEY_BYTES = 32;

/** Writes the folder; returns the run's name, which is the compose project's. @throws Refusal */
export async function composeRack(
  scenario: ScenarioSource,
  options: ComposeOptions,
): Promise<string> {
  const { out, image, natsImage, livenessMs, trace, stayUp, consolePort } = options;
  const one = stayUp ? (await prepareOne(scenario, options)).prepared : onlyOne(
    await prepare(scenario, { ...options.prepare, signal: options.signal }),
    scenario.path,
  );
  refuseNames(one);
  refuseCaptures(one);
  const setUp = nativeSetUpOf(one), files = setUp && await nativeFiles(one.plan, setUp);
  await makeFolder(out);
  const inputs = await takeInputs(one, out);
  const native = setUp && await takeNative(setUp, files!, out);
  const run = `${projectName(one.plan.scenario)}-${randomHex(ID_BYTES)}`;
  const directory = IN_CONTAINER.state;
  const runFile = runFileOf({ ...one, inputs, ...(native && { native }) }, {
    run,
    directory,
    elsewhere: one.partitions.map(({ name }) => name),
    livenessMs,
    trace,
    stayUp,
  });
  const text = composeFile({ runFile, label: one.label, image, natsImage });
  await writeFolder(out, { runFile, text, consolePort });
  return run;
}

/** A compose project may have lower case, digits, `-` and `_`, as a run's name. */
function projectName(scenario: string): string {
  const name = scenario.toLowerCase().replaceAll(/[^a-z0-9_-]/g, "-").slice(0, NAME_LENGTH);
  return name.replace(/^[^a-z0-9]+/, "") || "rack";
}

function refuseNames({ partitions }: Prepared): void {
  for (const { name } of partitions) {
    if (!OWN_SERVICES.includes(name)) continue;
    const found = `A host is called ${name}, as a container of the rack's own is`;
    throw refusal("", { found, expected: `none of ${OWN_SERVICES.join(", ")}` });
  }
}

/** Most containers have no volume from which the report could collect recordings. */
function refuseCaptures({ variant: { capture } }: Prepared): void {
  const asked = Object.keys(capture).filter((key) => capture[key as keyof typeof capture]);
  if (asked.length === 0) return;
  throw refusal("", {
    found: `The scenario asks for captures (${asked.join(", ")}), which containers do not record`,
    expected: "no capture: take them with rack run, whose run is the same to the bit",
  });
}

/** Only the user may enter the folder; its files are readable by the user of any container. */
async function makeFolder(path: string): Promise<void> {
  try {
    await Deno.mkdir(path, { recursive: true, mode: 0o700 });
    for await (const { name } of Deno.readDir(path)) {
      const found = `Cannot write to ${path} as there is ${name}`;
      throw refusal("", { found, expected: "an empty folder" });
    }
    await Deno.chmod(path, 0o700);
  } catch (cause) {
    if (cause instanceof Refusal) throw cause;
    throw refusal("", { found: `Cannot write to ${path}: ${(cause as Error).message}`, cause });
  }
}

async function takeInputs(one: Prepared, out: string) {
  const inputs: Record<string, Record<string, string>> = {};
  for (const [host, files] of Object.entries(one.inputs)) {
    const places: Record<string, string> = inputs[host] = {};
    for (const [i, [name, path]] of Object.entries(files).entries()) {
      const file = `${i}-${path.replace(/.*\//, "").replaceAll(/[^\w.-]/g, "_")}`;
      await copy(path, `${out}/inputs/${host}/${file}`);
      places[name] = `${IN_CONTAINER.inputs}/${host}/${file}`;
    }
  }
  return inputs;
}

/** Each file by its own path, below a folder: what is mounted, or becomes an image's. */
async function takeNative(
  native: NativeSetUp,
  taken: ReadonlyMap<string, string>,
  out: string,
): Promise<NativeSetUp> {
  const files: Record<string, string> = {};
  for (const [path, from] of taken) {
    const to = `${out}/${NATIVE_FILES}${path}`;
    const { mode } = await Deno.stat(from);
    await copy(from, to, mode! & 0o111 ? 0o755 : 0o644);
    files[path] = await sha256(await Deno.readFile(to));
  }
  const changed = Object.entries(native.binaries).find(([path, hash]) => files[path] !== hash);
  if (changed !== undefined) {
    const [path] = changed;
    throw refusal("", { found: `${path} has changed just now`, expected: "one that does not" });
  }
  await writeReadable(`${out}/${SECCOMP_FILE}`, seccompProfile());
  return { ...native, runs: IN_CONTAINER.state, files };
}

async function copy(from: string, to: string, mode = 0o644): Promise<void> {
  await Deno.mkdir(to.replace(/\/[^/]*$/, ""), { recursive: true });
  await Deno.copyFile(from, to);
  await Deno.chmod(to, mode);
}

async function writeReadable(path: string, text: string): Promise<void> {
  await Deno.writeTextFile(path, text);
  await Deno.chmod(path, 0o644);
}

async function writeFolder(
  out: string,
  { runFile, text, consolePort }: { runFile: RunFile; text: string; consolePort: number },
): Promise<void> {
  const passwords = busUsers(runFile).map((_, i) =>
    // The server would parse a first digit as a number.
    `${passwordVariable(i)}=p${randomHex(PASSWORD_BYTES)}\n`
  );
  const lines = [
    `COMPOSE_PROJECT_NAME=${runFile.run}\n`,
    `${CONSOLE_PORT}=${consolePort}\n`,
    `${CONSOLE_KEY}=${randomHex(KEY_BYTES)}\n`,
    ...passwords,
  ];
  await Deno.writeTextFile(`${out}/.env`, lines.join(""), { mode: 0o600 });
  for (
    const [name, content] of [
      ["run.json", JSON.stringify(runFile)],
      ["nats.conf", natsConfig(runFile)],
      ["compose.yaml", text],
    ] as const
  ) {
    await writeReadable(`${out}/${name}`, content);
  }
}

function randomHex(bytes: number): string {
  return crypto.getRandomValues(new Uint8Array(bytes)).toHex();
}
