/** (v) The README's main job as a user starts it: as processes against one process, in turns. */
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { commandFlags, LARGE_HEAP } from "../../console/base/v8_flags.ts";
import { say } from "../commands/output.ts";
import { type Figure, type Measured, median } from "./figure.ts";

const PACKINGS = ["node", "machine", "all"] as const;
type Packing = typeof PACKINGS[number];

/** `seq 200000 | head -c 1M`. */
function input(): Uint8Array {
  const lines = Array.from({ length: 200_000 }, (_, i) => `${i + 1}\n`).join("");
  return new TextEncoder().encode(lines).subarray(0, 2 ** 20);
}

/** Wall seconds from the start of the command to its end, and the digest. */
async function job(file: string, packing: Packing): Promise<{ seconds: number; digest: string }> {
  const began = performance.now();
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      ...commandFlags(...LARGE_HEAP),
      fromFileUrl(projectFile("scripts/rack.ts")),
      "run",
      fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml")),
      ...["--input", file, "--pack", packing, "--json"],
    ],
    stdin: "null",
  }).output();
  const seconds = (performance.now() - began) / 1_000;
  if (!success) throw new Error(`The main job failed: ${new TextDecoder().decode(stderr)}`);
  return { seconds, digest: JSON.parse(new TextDecoder().decode(stdout)).digest };
}

/** Each packing in turn, a few times over. @throws Error where digests differ. */
export async function measureMainJob({ quick }: Measured): Promise<Figure[]> {
  const folder = await Deno.makeTempDir({ prefix: "rackmesh-bench-" });
  const seconds: Record<Packing, number[]> = { node: [], machine: [], all: [] };
  const digests = new Set<string>();
  try {
    const file = `${folder}/FILE`;
    await Deno.writeFile(file, input());
    for (let i = 0; i < (quick ? 1 : 5); i++) {
      for (const packing of PACKINGS) {
        say(`main job, --pack ${packing}, run ${i + 1}`);
        const ran = await job(file, packing);
        seconds[packing].push(ran.seconds);
        digests.add(ran.digest);
      }
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
  if (digests.size !== 1) throw new Error(`Packings differ: ${[...digests].join(", ")}`);
  const over = (packing: Packing) => seconds[packing].map((each, i) => each / seconds.all[i]!);
  const figure = (what: string, values: number[], unit: string, value?: number): Figure => ({
    ...{ group: "v", what, unit, values },
    ...(value !== undefined && { target: { is: "at most", value } }),
  });
  say(`digest ${[...digests][0]}; ${median(seconds.all).toFixed(2)} s in one process`);
  return [
    figure("main job, 16 variants, --pack all", seconds.all, "s"),
    figure("the same, each device its own process", seconds.node, "s", 11),
    figure("the one over the other", over("node"), "×", 4),
    figure("the same, host and card in one process, over --pack all", over("machine"), "×", 3.3),
  ];
}
