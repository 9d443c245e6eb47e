/**
 * `deno run -A scripts/bench/replay.ts MIB`, about 12,500 events a MiB. It prints the replay's
 * first pass (also in CPU seconds of its process), and for instants of the run the time from a
 * question to all answers of a page, in wall ms.
 */
import { statOf } from "../../console/base/process_stat.ts";
import { runScenario } from "../../console/rack/run_scenario.ts";
import { Replay } from "../../console/replay/client.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";

const SHARES = [0.5, 0.9, 0.3, 0.31, 0.7];

async function measure(mib: number, folder: string): Promise<void> {
  const scenario = `${folder}/replay.yaml`;
  await Deno.writeTextFile(
    scenario,
    `name: replay\nhosts: { a: {}, b: { ddio: on, scm: { size: ${2 * mib + 16}MiB } } }\n` +
      `programs: [{ on: a, run: put, to: b, method: write-flush, depth: 16, bytes: ${mib}MiB }]\n`,
  );
  const { run } = await runScenario(await readScenario(scenario), { prepare: { packing: "all" } });
  const before = childrenCpu();
  await (await Replay.open({ run })).close();
  const cpu = childrenCpu() - before, began = performance.now();
  const replay = await Replay.open({ run });
  const firstMs = performance.now() - began;
  const { events, endPs, kept: { residentBytes } } = await replay.timeline();
  const pictures: number[] = [];
  for (const share of SHARES) {
    const at = Math.floor(share * endPs), from = performance.now();
    await replay.snapshot(at);
    const { lost } = await replay.loss(at, ["b"]);
    const first = lost[0]?.from ?? 0;
    await replay.memory(at, { host: "b", from: first, to: first + (64 << 10) });
    await replay.events({ at });
    await replay.operations({ from: at, to: at + 1 });
    pictures.push(performance.now() - from);
  }
  await replay.close();
  const rounded = pictures.map((ms) => ms.toFixed(0)).join(", ");
  const first = `first pass ${(firstMs / 1_000).toFixed(1)} s, ${cpu.toFixed(1)} CPU s`;
  console.log(`${events} events: ${first}, ${residentBytes >> 20} MiB; pictures ${rounded} ms`);
}

function childrenCpu(): number {
  const fields = statOf(Deno.pid)!;
  return (Number(fields[13]) + Number(fields[14])) / 100;
}

if (import.meta.main) {
  const folder = await Deno.makeTempDir({ prefix: "rackmesh-bench-replay-" });
  Deno.env.set("RACKMESH_CACHE", folder);
  try {
    for (const mib of Deno.args.map(Number)) await measure(mib, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
