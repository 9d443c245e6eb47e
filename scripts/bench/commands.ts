import { type Packing, PACKINGS } from "../../fabric/rack/assembly/topology.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { rackProcessArgs } from "../../console/base/v8_flags.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { say } from "../commands/output.ts";
import { type Figure, type Measured, median } from "./figure.ts";

const PAIR = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));

function input(): Uint8Array {
  const lines = Array.from({ length: 200_000 }, (_, i) => `${i + 1}\n`).join("");
  return new TextEncoder().encode(lines).subarray(0, 2 ** 20);
}

async function withInput<T>(measure: (file: string) => Promise<T>): Promise<T> {
  const folder = await Deno.makeTempDir({ prefix: "rackmesh-bench-" });
  try {
    const file = `${folder}/FILE`;
    await Deno.writeFile(file, input());
    return await measure(file);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

interface Ran {
  readonly seconds: number;
  readonly code: number;
  readonly document: string;
}

/** Of `rack`, or of another module. @throws Error where it prints no document. */
async function rack(words: readonly string[], module = "scripts/rack.ts"): Promise<Ran> {
  const began = performance.now();
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: rackProcessArgs(module, [...words, "--json"]),
    stdin: "null",
  }).output();
  const seconds = (performance.now() - began) / 1_000;
  if (code > EXIT.unclear || stdout.length === 0) {
    throw new Error(`rack ${words[0]} failed: ${new TextDecoder().decode(stderr)}`);
  }
  return { seconds, code, document: new TextDecoder().decode(stdout) };
}

/** (v) Each packing in turn, a few times over. @throws Error where digests differ. */
export function measureMainJob({ quick }: Measured): Promise<Figure[]> {
  return withInput(async (file) => {
    const seconds: Record<Packing, number[]> = { node: [], machine: [], all: [] };
    const digests = new Set<string>();
    for (let i = 0; i < (quick ? 1 : 5); i++) {
      for (const packing of PACKINGS) {
        say(`main job, --pack ${packing}, run ${i + 1}`);
        // With several processes each compiles the code again: (w) has that.
        const jobs = packing === "all" ? ["--jobs", "1"] : [];
        const ran = await rack(["run", PAIR, "--input", file, "--pack", packing, ...jobs]);
        if (ran.code !== EXIT.done) throw new Error(`The main job ended with ${ran.code}`);
        seconds[packing].push(ran.seconds);
        digests.add(JSON.parse(ran.document).digest);
      }
    }
    if (digests.size !== 1) throw new Error(`Packings differ: ${[...digests].join(", ")}`);
    say(`digest ${[...digests][0]}; ${median(seconds.all).toFixed(2)} s in one process`);
    return mainJobFigures(seconds);
  });
}

function mainJobFigures(seconds: Readonly<Record<Packing, readonly number[]>>): Figure[] {
  const over = (packing: Packing) => seconds[packing].map((each, i) => each / seconds.all[i]!);
  const figure = (
    what: string,
    values: readonly number[],
    unit: string,
    most?: number,
  ): Figure => ({
    ...{ group: "v", what, unit, values },
    ...(most !== undefined && { target: { is: "at most", value: most } }),
  });
  return [
    figure("main job, 16 variants, in one process", seconds.all, "s"),
    figure("the same, each device its own process", seconds.node, "s", 11),
    figure("the one over the other", over("node"), "×", 4),
    figure("the same, host and card in one process, over it", over("machine"), "×", 3.3),
  ];
}

const JOBS = [1, 2] as const;

/** Without `--jobs`. It may end with the code of an unsafe verdict. */
interface Compared {
  readonly what: string;
  readonly words: readonly string[];
  readonly module?: string;
  readonly inCommon?: (document: string) => string;
  readonly isAllOfWorkers: boolean;
}

function commandsOf(file: string): readonly Compared[] {
  const explore = ["explore", PAIR, "--method", "persist-opcode", "--ddio", "on"];
  const sweep = ["--vary", "depth=1,2,4,8", "--vary", "ddio=on,off"];
  const all = (what: string, words: readonly string[]) => ({ what, words, isAllOfWorkers: true });
  return [
    all("rack explore, 4 writes of 4 KiB, DDIO on", explore),
    all("rack explore --matrix, all cells", ["explore", "--matrix"]),
    all("rack sweep, 8 combinations", ["sweep", PAIR, "--input", file, ...sweep]),
    all("rack run --pack all, 16 variants", ["run", PAIR, "--input", file, "--pack", "all"]),
    {
      ...all("deno task seeds, 4 seeds", ["--seeds", "4", "--from", "1"]),
      module: "scripts/check/seeds.ts",
    },
    {
      what: "rack chaos, 6 rounds",
      words: ["chaos", PAIR, "--seed", "7", "--rounds", "6", "--for", "10m"],
      // Where actions hit follows from the machine, and so do digests.
      inCommon: heldIn,
      // Racks are processes, up one after the other; only their replays are the workers'.
      isAllOfWorkers: false,
    },
  ];
}

function heldIn(document: string): string {
  const { rounds, held, broken } = JSON.parse(document);
  return JSON.stringify({ rounds, held, broken });
}

const APART: ReadonlySet<string> = new Set([
  ...["wallMs", "perSecond", "run", "directory", "command", "faults", "input", "residentBytes"],
]);

function withoutApart(document: string): string {
  return JSON.stringify(JSON.parse(document), (name, value) => APART.has(name) ? undefined : value);
}

/** (w) The gain by the second core. @throws Error where results differ. */
export function measureJobs({ quick }: Measured): Promise<Figure[]> {
  return withInput(async (file) => {
    const figures: Figure[] = [];
    for (const command of commandsOf(file)) {
      const ratios: number[] = [];
      for (let i = 0; i < (quick ? 1 : 3); i++) ratios.push(await oneOverTwo(command));
      figures.push({
        group: "w",
        what: `${command.what}: one process over two`,
        unit: "×",
        values: ratios,
        ...(command.isAllOfWorkers && { target: { is: "at least", value: 1.8 } }),
      });
    }
    return figures;
  });
}

async function oneOverTwo(
  { what, words, module, inCommon = withoutApart }: Compared,
): Promise<number> {
  const seconds: number[] = [], found = new Set<string>();
  for (const jobs of JOBS) {
    say(`${what}, --jobs ${jobs}`);
    const ran = await rack([...words, "--jobs", `${jobs}`], module);
    seconds.push(ran.seconds);
    found.add(`${ran.code} ${inCommon(ran.document)}`);
  }
  if (found.size !== 1) throw new Error(`${what}: two processes find something else`);
  return seconds[0]! / seconds[1]!;
}
