import type { AccessRack } from "../../../fabric/bus/access.ts";
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
  natsUsers,
  natsUsersFiles,
  OWN_SERVICES,
  passwordVariable,
  SECCOMP_FILE,
} from "./compose_file.ts";
import { sha256 } from "../../base/sha256.ts";
import { ownCaptures } from "../../captures/capture_files.ts";
import type { ScenarioSource } from "../../scenarios/scenario_source.ts";
import { prepareOne } from "../bring_up.ts";
import { nativeFiles } from "../native/closure.ts";
import { onlyOne, prepare, type Prepared, type PrepareOptions, runFileOf } from "../prepare.ts";
import {
  CONFIG_MAP_BYTES_MAX,
  kubernetesFolder,
  routeSecrets,
  SECRETS_FILE,
} from "./kubernetes.ts";
import type { EngineOptions } from "./placement.ts";
import { seccompProfile } from "./seccomp.ts";
import {
  CONFIG_BYTES_MAX,
  KEY_SECRET,
  passwordSecret,
  SECRETS_FOLDER,
  stackFiles,
  USERS_SECRET,
} from "./stack_file.ts";

/** What brings the containers up. */
export const FORMATS = ["compose", "stack", "kubernetes"] as const;
export type Format = typeof FORMATS[number];

export interface ComposeOptions {
  readonly format: Format;
  readonly prepare: PrepareOptions;
  readonly signal?: AbortSignal;
  readonly out: string;
  readonly image: string;
  readonly natsImage: string;
  /** Without a message for so long, a process is dead. */
  readonly livenessMs: number;
  readonly trace: boolean;
  /** Every frame, or every step, too, is recorded for a capture. */
  readonly pcap?: boolean;
  readonly perfetto?: boolean;
  readonly stayUp: boolean;
  /** On the loopback interface. */
  readonly consolePort: number;
  /** Hosts whose `put` is left out of a rack that stays up, as it has no input file. */
  readonly onLeftOut?: (hosts: readonly string[]) => void;
}

const NAME_LENGTH = 24;
const ID_BYTES = 3;
const PASSWORD_BYTES = 16, KEY_BYTES = 32;

/** What a file may have that the engine brings to a container; more goes into an image. */
const FILE_BYTES_MAX: Readonly<Record<Format, number>> = {
  compose: Infinity,
  stack: CONFIG_BYTES_MAX,
  kubernetes: CONFIG_MAP_BYTES_MAX,
};

export interface Composed {
  /** The compose project's, stack's or namespace's name, too. */
  readonly run: string;
  /** To be built from the folder `layer`; absent: every file has room otherwise. */
  readonly layerImage?: string;
}

/** Writes the folder. @throws Refusal */
export async function composeRack(
  scenario: ScenarioSource,
  options: ComposeOptions,
): Promise<Composed> {
  const { format, out, image, livenessMs, trace, stayUp } = options;
  const one = stayUp ? (await prepareOne(scenario, options)).prepared : onlyOne(
    await prepare(scenario, { ...options.prepare, signal: options.signal }),
    scenario.path,
  );
  refuseNames(one);
  const setUp = nativeSetUpOf(one);
  if (setUp !== undefined) refuseNative(format);
  const run = `${projectName(one.plan.scenario)}-${randomHex(ID_BYTES)}`;
  refuseManyUsers({ ...one, run }, format);
  const files = setUp && await nativeFiles(one.plan, setUp);
  await makeFolder(out);
  const taken: TakenFiles = { mounted: {}, isLayered: false };
  const inputs = await takeInputs(one, { out, format, taken });
  const native = setUp && await takeNative(setUp, files!, out);
  const directory = IN_CONTAINER.state;
  const runFile = runFileOf({ ...one, inputs, ...(native && { native }) }, {
    run,
    directory,
    elsewhere: one.partitions.map(({ name }) => name),
    livenessMs,
    trace,
    stayUp,
    ...recorded(one, options),
  });
  const runFilePath = await place(new TextEncoder().encode(JSON.stringify(runFile)), {
    ...{ out, format, taken },
    path: RUN_FILE,
  });
  const layerImage = taken.isLayered ? layerImageOf(image, run) : undefined;
  if (layerImage !== undefined) await writeReadable(`${out}/${LAYER}/Dockerfile`, layerText(image));
  await writeFolder({
    ...options,
    runFile,
    label: one.label,
    runFilePath,
    files: taken.mounted,
    ...(layerImage && { layerImage }),
  });
  return { run, ...(layerImage && { layerImage }) };
}

/** Of the folder, as of a container below `IN_CONTAINER.config`. */
const RUN_FILE = "run.json";
/** Of the folder: the context from which a user builds an image with what is too large otherwise. */
const LAYER = "layer";
const IN_LAYER = "/srv/rackmesh";

interface TakenFiles {
  /** By path in the container, of the folder. */
  readonly mounted: Record<string, string>;
  isLayered: boolean;
}

interface Placing {
  readonly out: string;
  readonly format: Format;
  readonly taken: TakenFiles;
  readonly path: string;
}

/** Puts a file, or the bytes of one, into the folder; returns its path in the container. */
async function place(
  from: string | Uint8Array,
  { out, format, taken, path }: Placing,
): Promise<string> {
  const bytes = typeof from === "string" ? (await Deno.stat(from)).size : from.length;
  const isLayered = bytes > FILE_BYTES_MAX[format];
  const file = isLayered ? `${LAYER}/${path}` : path, to = `${out}/${file}`;
  if (typeof from === "string") await copy(from, to);
  else {
    await Deno.mkdir(folderOf(to), { recursive: true });
    await Deno.writeFile(to, from);
    await Deno.chmod(to, READABLE);
  }
  if (isLayered) {
    taken.isLayered = true;
    return `${IN_LAYER}/${path}`;
  }
  taken.mounted[`${IN_CONTAINER.config}/${path}`] = file;
  return `${IN_CONTAINER.config}/${path}`;
}

function layerText(image: string): string {
  return `# What is too large for the engine to bring to a container. Written by \`rack compose\`.
FROM ${image}
COPY . ${IN_LAYER}
`;
}

/** The image's name with a tag of the run's own. */
function layerImageOf(image: string, run: string): string {
  const plain = image.replace(/@.*$/, "");
  const tag = plain.lastIndexOf(":");
  const isTagged = tag > plain.lastIndexOf("/");
  return isTagged ? `${plain}-${run}` : `${plain}:${run}`;
}

/** Their files are this machine's, and they need a system call that only compose can allow. */
function refuseNative(format: Format): void {
  if (format === "compose") return;
  throw refusal("--format", {
    found:
      `${format} for a scenario with native programs, which need a seccomp profile of their own`,
    expected: "compose",
  });
}

/** A compose project, a stack, a namespace and a run may all have it. */
function projectName(scenario: string): string {
  const name = scenario.toLowerCase().replaceAll(/[^a-z0-9-]/g, "-").slice(0, NAME_LENGTH);
  return name.replace(/^-+/, "") || "rack";
}

function refuseNames({ partitions }: Prepared): void {
  for (const { name } of partitions) {
    if (!OWN_SERVICES.includes(name)) continue;
    const found = `A host is called ${name}, as a container of the rack's own is`;
    throw refusal("", { found, expected: `none of ${OWN_SERVICES.join(", ")}` });
  }
}

/** Devices record; who attaches has the captures. A scenario's own place is none of a container's. */
function recorded(
  { variant: { capture } }: Prepared,
  { pcap = false, perfetto = false }: Pick<ComposeOptions, "pcap" | "perfetto">,
): Pick<RunFile, "observe" | "captures"> {
  const isOf = (asked: boolean, named: unknown) => asked || (named ?? false) !== false;
  const scope = isOf(perfetto, capture.perfetto)
    ? "all"
    : isOf(pcap, capture.pcap)
    ? "frames"
    : undefined;
  return scope === undefined
    ? {}
    : { observe: scope, captures: ownCaptures(scope, IN_CONTAINER.state) };
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

async function takeInputs(one: Prepared, placing: Omit<Placing, "path">) {
  const inputs: Record<string, Record<string, string>> = {};
  for (const [host, files] of Object.entries(one.inputs)) {
    const places: Record<string, string> = inputs[host] = {};
    for (const [i, [name, from]] of Object.entries(files).entries()) {
      const file = `${i}-${from.replace(/.*\//, "").replaceAll(/[^\w.-]/g, "_")}`;
      places[name] = await place(from, { ...placing, path: `inputs/${host}/${file}` });
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

const READABLE = 0o644, OWN = 0o600;

function folderOf(path: string): string {
  return path.replace(/\/[^/]*$/, "");
}

async function copy(from: string, to: string, mode = READABLE): Promise<void> {
  await Deno.mkdir(folderOf(to), { recursive: true });
  await Deno.copyFile(from, to);
  await Deno.chmod(to, mode);
}

async function writeReadable(path: string, text: string): Promise<void> {
  await Deno.writeTextFile(path, text);
  await Deno.chmod(path, READABLE);
}

type FolderOptions =
  & Omit<EngineOptions, "consolePort">
  & Pick<ComposeOptions, "format" | "out" | "consolePort">;

async function writeFolder(options: FolderOptions): Promise<void> {
  const { format, out, runFile } = options;
  const users = busUsers(runFile), key = randomHex(KEY_BYTES);
  const passwords = newPasswords(runFile);
  const variables = Object.fromEntries(
    users.map((user, i) => [passwordVariable(i), passwords.get(user)!]),
  );
  switch (format) {
    case "compose": {
      await writeAll(out, {
        "nats.conf": natsConfig(runFile),
        "compose.yaml": composeFile(options),
      });
      return await writeVariables(`${out}/.env`, {
        COMPOSE_PROJECT_NAME: runFile.run,
        ...parallelLimit(runFile),
        [CONSOLE_PORT]: String(options.consolePort),
        [CONSOLE_KEY]: key,
        ...variables,
      });
    }
    case "stack": {
      const natsUsersText = natsUsers(runFile, passwords);
      await writeAll(out, Object.fromEntries(stackFiles(options)));
      const secrets = {
        [USERS_SECRET]: natsUsersText,
        [KEY_SECRET]: key,
        ...Object.fromEntries(
          users.map((user) => [passwordSecret(runFile, user), passwords.get(user)!]),
        ),
      };
      await Deno.mkdir(`${out}/${SECRETS_FOLDER}`, { mode: 0o700 });
      for (const [name, text] of Object.entries(secrets)) {
        await Deno.writeTextFile(`${out}/${SECRETS_FOLDER}/${name}`, text, { mode: OWN });
      }
      return;
    }
    case "kubernetes": {
      await writeAll(out, Object.fromEntries(kubernetesFolder(options)));
      return await writeVariables(`${out}/${SECRETS_FILE}`, {
        [CONSOLE_KEY]: key,
        ...routeSecrets(newPassword()),
        ...variables,
      });
    }
  }
}

/** A stack has them in one file; Kubernetes in several, of which each has room for one user at least. */
function refuseManyUsers(rack: AccessRack, format: Format): void {
  const most = FILE_BYTES_MAX[format];
  if (format === "compose") return;
  if (format === "kubernetes" && natsUsersFiles(rack, most) !== undefined) return;
  const { length } = new TextEncoder().encode(natsUsers(rack, newPasswords(rack)));
  if (format === "stack" && length <= most) return;
  const what = format === "stack" ? `${length} B of users` : "a user with more rights";
  throw refusal("--format", {
    found: `${format}, which takes ${most} B, for ${what} of nats-server`,
    expected: "fewer containers (--pack machine, fewer hosts), or a nats-server of your own: " +
      "rack nats-config, rack up --nats --elsewhere, rack node",
  });
}

/** docker-compose 1.29 waits for itself where there are more services than it starts at once (64). */
const COMPOSE_PARALLEL = 64, PARALLEL_MORE = 16;

function parallelLimit({ partitions }: RunFile): Record<string, string> {
  const services = partitions.length + OWN_SERVICES.length;
  if (services <= COMPOSE_PARALLEL) return {};
  return { COMPOSE_PARALLEL_LIMIT: String(services + PARALLEL_MORE) };
}

async function writeAll(out: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(files)) await writeReadable(`${out}/${name}`, text);
}

async function writeVariables(
  path: string,
  variables: Readonly<Record<string, string>>,
): Promise<void> {
  const lines = Object.entries(variables).map(([name, value]) => `${name}=${value}\n`);
  await Deno.writeTextFile(path, lines.join(""), { mode: OWN });
}

function newPasswords(rack: AccessRack): Map<string, string> {
  return new Map(busUsers(rack).map((user) => [user, newPassword()]));
}

/** nats-server would parse a first digit as a number. */
function newPassword(): string {
  return `p${randomHex(PASSWORD_BYTES)}`;
}

function randomHex(bytes: number): string {
  return crypto.getRandomValues(new Uint8Array(bytes)).toHex();
}
