/**
 * Speed against another checkout (README): `deno run -A scripts/bench/against.ts FOLDER
 * [put|many|packets|local|remote] [PROCESSES]`.
 */
import { rngFor } from "../../fabric/base/rng.ts";
import { NEVER, PS_PER_US } from "../../fabric/base/time.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { scenarioText } from "./bench_rack.ts";
import { accessOften, rateScenario } from "./shared.ts";
import { cpuMs } from "./traffic_rack.ts";

const SEED = 7;
/** Runs that are left out while V8 compiles, and runs that count. */
const PROCESSES = 12, WARM_UPS = 6, RUNS = 16;
const SLICE_PS = 100 * PS_PER_US;
/** A shorter slice is the end of a run. */
const LEAST_EVENTS = 200;

const LOADS: Readonly<Record<string, string>> = {
  put: scenarioText({
    hosts: 2,
    writers: 1,
    seed: SEED,
    load: { writes: 4_000, bytes: 64, depth: 16 },
  }),
  many: scenarioText({
    hosts: 64,
    writers: 64,
    seed: SEED,
    load: { writes: 100, bytes: 64, depth: 16 },
  }),
  packets: `
name: packets
seed: ${SEED}
profile: clx-optane-cx5
hosts: { h01..h08: { dram: 1GiB, services: none } }
programs:
  - { on: all, run: sink, bytes: 65536 }
  - { on: all, program: ./traffic.ts, to: next, at: 200us, qps: 1, bytes: 65536, messages: 64, depth: 4,
      pathMtu: 1024, startPs: 1200000000 }
`,
  local: rateScenario("local", 10_000, SEED),
  remote: rateScenario("remote", 10_000, SEED),
};

interface Found {
  readonly logSpeed: number;
  readonly digests: readonly string[];
}

async function compare(folders: readonly string[], load: string, process: number): Promise<Found> {
  const text = LOADS[load]!;
  const makers = await Promise.all(folders.map(async (folder) => {
    const url = new URL("scripts/bench/bench_rack.ts", folder).href;
    const { planOf, simulatorOf } = await import(url) as typeof import("./bench_rack.ts");
    const { traffic } = await import(
      new URL("scripts/bench/traffic.ts", folder).href
    ) as typeof import("./traffic.ts");
    const own = {
      "./often.ts": () => ({ program: accessOften }),
      "./traffic.ts": () => ({ program: traffic }),
    };
    const plan = planOf(text);
    return () => simulatorOf(plan, () => {}, { own });
  }));
  const rng = rngFor(SEED, `against/${process}`);
  const ratios: number[] = [];
  let digests: string[] = [];
  for (let run = -WARM_UPS; run < RUNS; run++) {
    const racks = makers.map((make) => make());
    for (let until = 0;;) {
      const next = Math.min(...racks.map((rack) => rack.next));
      if (next === NEVER) break;
      until = Math.max(until, next) + SLICE_PS;
      const costs = [0, 0];
      let least = Infinity;
      for (const which of rng.below(2) === 0 ? [0, 1] : [1, 0]) {
        const began = cpuMs(), events = racks[which]!.run(until);
        costs[which] = (cpuMs() - began) / events;
        least = Math.min(least, events);
      }
      if (run >= 0 && least >= LEAST_EVENTS) ratios.push(Math.log(costs[1]! / costs[0]!));
    }
    digests = racks.map(({ digest }) => digest);
  }
  ratios.sort((x, y) => x - y);
  const middle = ratios.slice(Math.floor(ratios.length / 5), Math.ceil(4 * ratios.length / 5));
  return { logSpeed: mean(middle), digests };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** The order in which checkouts are loaded changes from one process to the next. */
async function inProcess(folders: readonly string[], load: string, process: number) {
  const isTurned = process % 2 === 1;
  const turned = isTurned ? folders.toReversed() : folders;
  const { code, stdout } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--no-prompt", "--cached-only", "--allow-all", "--no-check"],
      ...["--config", new URL("../../deno.json", import.meta.url).pathname],
      "--v8-flags=--min-semi-space-size=32,--max-semi-space-size=32",
      ...[import.meta.url, "--one", String(process), load, ...turned],
    ],
    stderr: "inherit",
  }).output();
  if (code !== 0) Deno.exit(EXIT.failed);
  const { logSpeed, digests } = JSON.parse(new TextDecoder().decode(stdout)) as Found;
  return { logSpeed: isTurned ? -logSpeed : logSpeed, isSame: digests[0] === digests[1] };
}

async function main([folder, load = "put", count = String(PROCESSES)]: readonly string[]) {
  const processes = Number(count);
  const isRight = folder !== undefined && Object.hasOwn(LOADS, load) &&
    Number.isInteger(processes) && processes >= 2;
  if (!isRight) {
    console.error(
      `found ${Deno.args.join(" ") || "no argument"}: expected FOLDER [${
        Object.keys(LOADS).join("|")
      }] ` +
        `[PROCESSES], two processes or more`,
    );
    Deno.exit(EXIT.usage);
  }
  const there = new URL(`${folder.replace(/\/*$/, "")}/`, `file://${Deno.cwd()}/`).href;
  const here = new URL("../../", import.meta.url).href;
  const logs: number[] = [];
  let isSame = true;
  for (let process = 0; process < processes; process++) {
    const found = await inProcess([here, there], load, process);
    logs.push(found.logSpeed);
    isSame &&= found.isSame;
    console.error(`process ${process + 1}: ${Math.exp(found.logSpeed).toFixed(4)}`);
  }
  const middle = mean(logs);
  const variance = mean(logs.map((log) => (log - middle) ** 2)) * processes / (processes - 1);
  const error = 200 * Math.sqrt(variance / processes);
  const digests = isSame ? "the same digest" : "other digests";
  console.log(
    `${load}: events/s here over there ${Math.exp(middle).toFixed(4)} ± ${error.toFixed(1)} %, ` +
      `${processes} processes, ${digests}`,
  );
}

if (import.meta.main) {
  if (Deno.args[0] === "--one") {
    const [, process, load, ...folders] = Deno.args;
    console.log(JSON.stringify(await compare(folders, load!, Number(process))));
  } else await main(Deno.args);
}
