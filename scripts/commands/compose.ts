/** `rack compose`: writes a folder from which Docker runs the rack, one container per device. */
import type { Command } from "commander";
import { EXIT, type RunFile } from "../../fabric/rack/build/run_file.ts";
import type { Packing } from "../../fabric/rack/build/topology.ts";
import {
  busUsers,
  composeFile,
  IN_CONTAINER,
  type MountedFile,
  natsConfig,
  OWN_SERVICES,
  passwordVariable,
} from "../../console/rack/compose_file.ts";
import { prepare, type Prepared, runFileOf } from "../../console/rack/prepare.ts";
import { programFiles } from "../../console/rack/program_files.ts";
import { ROOT } from "../../console/base/paths.ts";
import { UsageError } from "../../console/rack/failure.ts";
import { print, say } from "../../console/base/output.ts";
import { addVariantOptions, prepareOptions, type RunFlags, whole } from "./run.ts";

interface ComposeFlags extends Omit<RunFlags, "pack"> {
  readonly out: string;
  readonly image: string;
  readonly natsImage: string;
  readonly liveness: string;
  readonly pack: string;
}

const PACKINGS: readonly Packing[] = ["node", "machine"];
/** A sign of life comes every half second; so late may it be on a busy machine. */
const LIVENESS_MS = 5_000;
const NAME_LENGTH = 24;
const ID_BYTES = 3;
const PASSWORD_BYTES = 16;

export function addCompose(program: Command): void {
  addVariantOptions(program.command("compose <scenario>"))
    .description("write a folder from which docker-compose runs the scenario")
    .requiredOption("--out <dir>", "the folder: a new or an empty one")
    .option("--image <name>", "the image built from docker/Dockerfile", "rackmesh:local")
    .option("--nats-image <name>", "with nats-server; may be the same as --image", "nats:2.14")
    .option("--pack <how>", `nodes to containers: ${PACKINGS.join(", ")}`, "node")
    .option("--liveness <ms>", "not heard of for so long is dead", String(LIVENESS_MS))
    .option("--trace", "keep every step of every operation in the containers' volumes")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      "\nExample:\n  rack compose scripts/scenarios/persist_pair.yaml --method persist-opcode --ddio off \\\n" +
        "    --input ./data.bin --out ./rack\n  cd rack && docker-compose run --rm -T report",
    )
    .action(async (scenario: string, flags: ComposeFlags) => {
      Deno.exitCode = await compose(scenario, flags);
    });
}

async function compose(scenario: string, flags: ComposeFlags): Promise<number> {
  const packing = flags.pack as Packing;
  if (!PACKINGS.includes(packing)) {
    throw new UsageError(`--pack is "${flags.pack}": expected one of ${PACKINGS.join(", ")}`);
  }
  const livenessMs = whole("--liveness", flags.liveness, { least: 1_500, most: 3_600_000 });
  const one = onlyRun(await prepare(scenario, prepareOptions(flags, packing)));
  refuseNames(one);
  refuseCaptures(one);
  await makeFolder(flags.out);
  const { inputs, programs, mounts } = await takeFiles(one, flags.out);
  const run = `${projectName(one.plan.scenario)}-${randomHex(ID_BYTES)}`;
  const runFile = runFileOf({ ...one, inputs, programs }, {
    run,
    directory: IN_CONTAINER.state,
    stayUp: false,
    livenessMs,
    trace: flags.trace === true,
    delayMsMax: 0,
  });
  const { image, natsImage } = flags;
  const text = composeFile({ runFile, label: one.label, image, natsImage, programs: mounts });
  await writeFolder(flags.out, { runFile, text });
  if (flags.json) print(JSON.stringify({ run, directory: flags.out, image, natsImage }));
  else say(`${flags.out}: now docker-compose run --rm -T report, then docker-compose down -v`);
  return EXIT.done;
}

/** The run's name is that of the compose project: both allow lower case, digits, `-` and `_`. */
function projectName(scenario: string): string {
  const name = scenario.toLowerCase().replaceAll(/[^a-z0-9_-]/g, "-").slice(0, NAME_LENGTH);
  return name.replace(/^[^a-z0-9]+/, "") || "rack";
}

/** A compose project is one rack: of a scenario that stands for several runs one must be chosen. */
function onlyRun(prepared: readonly Prepared[]): Prepared {
  if (prepared.length === 1) return prepared[0]!;
  throw new UsageError(
    `This scenario stands for ${prepared.length} runs: choose one with --method and --ddio. There are ${
      prepared.map(({ label }) => `"${label}"`).join(", ")
    }`,
  );
}

function refuseNames({ partitions }: Prepared): void {
  for (const { name } of partitions) {
    if (!OWN_SERVICES.includes(name)) continue;
    throw new UsageError(
      `A host is called ${name}, as a container of the rack's own is: expected none of ${
        OWN_SERVICES.join(", ")
      }`,
    );
  }
}

/** What is recorded for a capture would have to be gathered from volumes of containers that have none. */
function refuseCaptures({ variant: { capture } }: Prepared): void {
  const asked = Object.keys(capture).filter((key) => capture[key as keyof typeof capture]);
  if (asked.length === 0) return;
  throw new UsageError(
    `The scenario asks for captures (${asked.join(", ")}), which containers do not record: leave ` +
      "capture: out, and take them with rack run, whose run is the same to the bit",
  );
}

/** The folder is the user's alone; what is in it may be read by whatever user a container has. */
async function makeFolder(path: string): Promise<void> {
  try {
    await Deno.mkdir(path, { recursive: true, mode: 0o700 });
    for await (const { name } of Deno.readDir(path)) {
      throw new UsageError(`Cannot write to ${path} as there is ${name}: expected an empty folder`);
    }
    await Deno.chmod(path, 0o700);
  } catch (cause) {
    if (cause instanceof UsageError) throw cause;
    throw new UsageError(`Cannot write to ${path}: ${(cause as Error).message}`, { cause });
  }
}

interface Taken {
  readonly inputs: Record<string, Record<string, string>>;
  readonly programs: Record<string, string>;
  readonly mounts: readonly MountedFile[];
}

/** Copies inputs and programs into the folder. @returns where they are in a container. */
async function takeFiles(one: Prepared, out: string): Promise<Taken> {
  const inputs: Record<string, Record<string, string>> = {};
  for (const [host, files] of Object.entries(one.inputs)) {
    const places: Record<string, string> = inputs[host] = {};
    for (const [i, [name, path]] of Object.entries(files).entries()) {
      const file = `${i}-${path.replace(/.*\//, "").replaceAll(/[^\w.-]/g, "_")}`;
      await copy(path, `${out}/inputs/${host}/${file}`);
      places[name] = `${IN_CONTAINER.inputs}/${host}/${file}`;
    }
  }
  const programs: Record<string, string> = {};
  const mounts: MountedFile[] = [];
  for (const [i, [name, path]] of Object.entries(one.programs).entries()) {
    const taken = await takeProgram(path, { out, to: `programs/${i}` });
    programs[name] = taken[0]!.to;
    mounts.push(...taken);
  }
  return { inputs, programs, mounts };
}

/** @returns the program's files as they are mounted, itself first. */
async function takeProgram(
  path: string,
  { out, to }: { out: string; to: string },
): Promise<MountedFile[]> {
  const { folder, files, inProject } = await programFiles(path);
  // One of this project's folder keeps its place, as what it imports of the project is in the image.
  const place = inProject
    ? `${IN_CONTAINER.project}${folder.slice(ROOT.length)}`
    : `${IN_CONTAINER.programs}${to.slice(to.indexOf("/"))}`;
  const mounts: MountedFile[] = [];
  for (const file of files) {
    await copy(`${folder}/${file}`, `${out}/${to}/${file}`);
    mounts.push({ from: `./${to}/${file}`, to: `${place}/${file}` });
  }
  return mounts;
}

async function copy(from: string, to: string): Promise<void> {
  await Deno.mkdir(to.replace(/\/[^/]*$/, ""), { recursive: true });
  await Deno.copyFile(from, to);
  await Deno.chmod(to, 0o644);
}

async function writeFolder(
  out: string,
  { runFile, text }: { runFile: RunFile; text: string },
): Promise<void> {
  const passwords = busUsers(runFile).map((_, i) =>
    // A letter first: the server would read digits as a number.
    `${passwordVariable(i)}=p${randomHex(PASSWORD_BYTES)}\n`
  );
  await Deno.writeTextFile(
    `${out}/.env`,
    `COMPOSE_PROJECT_NAME=${runFile.run}\n${passwords.join("")}`,
    { mode: 0o600 },
  );
  for (
    const [name, content] of [
      ["run.json", JSON.stringify(runFile)],
      ["nats.conf", natsConfig(runFile)],
      ["compose.yaml", text],
    ] as const
  ) {
    await Deno.writeTextFile(`${out}/${name}`, content);
    await Deno.chmod(`${out}/${name}`, 0o644);
  }
}

function randomHex(bytes: number): string {
  return crypto.getRandomValues(new Uint8Array(bytes)).toHex();
}
