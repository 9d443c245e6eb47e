/** (w) Commands with one process and with two, in turns, each as a user starts it: what the second core brings. */
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { commandFlags, LARGE_HEAP } from "../../console/base/v8_flags.ts";
import { say } from "../commands/output.ts";
import type { Figure, Measured } from "./figure.ts";

const JOBS = [1, 2] as const;

/** A scenario of the repository. */
function shipped(name: string): string {
  return fromFileUrl(projectFile(`scripts/scenarios/${name}`));
}

/** Command lines without `--jobs`, by what they measure. They may end with the code of an unsafe verdict. */
function commandsOf(input: string): readonly (readonly [what: string, words: readonly string[]])[] {
  const pair = shipped("persist_pair.yaml");
  const explore = ["explore", pair, "--method", "persist-opcode", "--ddio", "on"];
  const sweep = ["--vary", "depth=1,2,4,8", "--vary", "ddio=on,off"];
  return [
    ["rack explore, 4 writes of 4 KiB, DDIO on", explore],
    ["rack explore --matrix, all cells", ["explore", "--matrix"]],
    ["rack sweep, 8 combinations", ["sweep", pair, "--input", input, ...sweep]],
    ["rack run --pack all, 16 variants", ["run", pair, "--input", input, "--pack", "all"]],
  ];
}

/** Wall seconds of a command, and its document without what differs from run to run. */
async function timed(words: readonly string[]): Promise<{ seconds: number; document: string }> {
  const began = performance.now();
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      ...commandFlags(...LARGE_HEAP),
      fromFileUrl(projectFile("scripts/rack.ts")),
      ...words,
      "--json",
    ],
    stdin: "null",
  }).output();
  const seconds = (performance.now() - began) / 1_000;
  if (code > 2) throw new Error(`${words[0]} failed: ${new TextDecoder().decode(stderr)}`);
  return { seconds, document: plain(JSON.parse(new TextDecoder().decode(stdout))) };
}

const APART: ReadonlySet<string> = new Set([
  ...["wallMs", "perSecond", "run", "directory", "command", "faults", "input", "residentBytes"],
]);

function plain(document: unknown): string {
  return JSON.stringify(document, (name, value) => APART.has(name) ? undefined : value);
}

/** @throws Error where one process and two find something else. */
export async function measureJobs({ quick }: Measured): Promise<Figure[]> {
  const folder = await Deno.makeTempDir({ prefix: "rackmesh-bench-" });
  try {
    const input = `${folder}/FILE`;
    await Deno.writeFile(input, new Uint8Array(2 ** 20).map((_, i) => 1 + i % 251));
    const figures: Figure[] = [];
    for (const [what, words] of commandsOf(input)) {
      const ratios: number[] = [];
      for (let i = 0; i < (quick ? 1 : 3); i++) {
        const seconds: number[] = [], documents = new Set<string>();
        for (const jobs of JOBS) {
          say(`${what}, --jobs ${jobs}, run ${i + 1}`);
          const ran = await timed([...words, "--jobs", `${jobs}`]);
          seconds.push(ran.seconds);
          documents.add(ran.document);
        }
        if (documents.size !== 1) throw new Error(`${what}: two processes find something else`);
        ratios.push(seconds[0]! / seconds[1]!);
      }
      figures.push({
        group: "w",
        what: `${what}: one process over two`,
        unit: "×",
        values: ratios,
        target: { is: "at least", value: 1.8 },
      });
    }
    return figures;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
