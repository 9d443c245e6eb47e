/**
 * nats-server and the timekeeper are killed again and again while racks run. Each run has to end,
 * with the digest of the undisturbed run.
 */
import { rngFor } from "../../fabric/base/rng.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { findProcesses } from "../../console/rack/process_table.ts";
import { say } from "../commands/output.ts";
import { kill } from "./disturbances.ts";
import { rackCommand } from "./live_rack.ts";
import { count, type SoakRun } from "./orders.ts";

const SCENARIO = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
const METHODS = ["write-read", "send-flush", "persist-opcode", "persist-address"];
const FILE_BYTES = 256 * 1024;
const BUSY = 2;
/** In one run; then it is left alone until it ends. */
const KILLS_EACH = 25;
/** Some come at once, most when the rack has gone on. */
const SOON_MS = 250, LATER_MS = 1_200;
/** Without a bus for ten seconds a process gives up, as it should. */
const BROKER_MS = 2_500;
const RUN_MS = 600_000;
const LOOK_AGAIN_MS = 20;
const VICTIMS = ["nats", "timekeeper"] as const;

export async function soakKills(
  { seed, directory, findings, signal }: SoakRun,
  each: number,
) {
  const { counts, failures } = findings;
  const busy = Array.from(
    { length: BUSY },
    () =>
      new Deno.Command(Deno.execPath(), { args: ["eval", "while (true);"], stdin: "null" }).spawn(),
  );
  const input = `${directory}/data.bin`;
  const content = rngFor(seed, "kills/file");
  await Deno.writeFile(input, Uint8Array.from({ length: FILE_BYTES }, () => content.below(256)));
  const digests = new Map<string, string>();
  const left = () => VICTIMS.map((name) => each - (counts[`kills of ${name}`] ?? 0));
  try {
    for (let round = 0; Math.max(...left()) > 0 && !signal.aborted; round++) {
      const rng = rngFor(seed, `kills/${round}`);
      const method = METHODS[rng.below(METHODS.length)]!;
      const choices = ["--input", input, "--method", method, "--ddio", "off", "--depth", "1"];
      const words = ["run", SCENARIO, ...choices, "--json"];
      if (!digests.has(method)) {
        const { code, stdout, stderr } = await rackCommand([...words, "--pack", "all"], {
          cache: `${directory}/plain`,
          limitMs: RUN_MS,
          signal,
        });
        if (signal.aborted) break;
        if (code !== 0) throw new Error(`The undisturbed run ended with code ${code}: ${stderr}`);
        digests.set(method, JSON.parse(stdout).digest);
      }
      const cache = `${directory}/killed`;
      let isOver = false, brokerAt = -BROKER_MS;
      const running = rackCommand([...words, "--delay", "2"], { cache, limitMs: RUN_MS, signal })
        .finally(() => isOver = true);
      const wanted = new Map(VICTIMS.map((name, i) => [name, Math.min(KILLS_EACH, left()[i]!)]));
      while (!isOver && !signal.aborted && [...wanted.values()].some((n) => n > 0)) {
        await sleep(rng.below(4) === 0 ? rng.below(SOON_MS) : SOON_MS + rng.below(LATER_MS));
        const isSoon = performance.now() - brokerAt < BROKER_MS;
        const among = VICTIMS.filter((name) =>
          wanted.get(name)! > 0 && !(name === "nats" && isSoon)
        );
        if (among.length === 0) continue;
        const name = among[rng.below(among.length)]!;
        while (!isOver && !signal.aborted) {
          const found = findProcesses(`${cache}/runs`).find(({ kind }) => kind === name);
          if (found !== undefined && kill(found.pid)) {
            if (name === "nats") brokerAt = performance.now();
            wanted.set(name, wanted.get(name)! - 1);
            count(findings, `kills of ${name}`);
            break;
          }
          await sleep(LOOK_AGAIN_MS);
        }
      }
      const { code, stdout, stderr, isHung } = await running;
      const known = failures.length;
      if (signal.aborted) break;
      count(findings, "runs");
      const what = `run ${round} (${method})`;
      if (isHung) failures.push(`${what} did not end: ${stderr}`);
      else if (code !== 0) failures.push(`${what} ended with code ${code}: ${stderr}`);
      else if (JSON.parse(stdout).digest !== digests.get(method)) {
        failures.push(`${what} has another digest than the undisturbed one`);
      } else count(findings, "equal digests");
      const gone = findProcesses(`${cache}/runs`);
      if (gone.length > 0) failures.push(`${what} left ${gone.length} processes`);
      for (const { pid } of gone) kill(pid);
      for (const failure of failures.slice(known)) say(`FAIL ${failure}`);
      if (failures.length > known) say(await startsOfBroker(`${cache}/runs`));
      say(
        `${what}: ${
          VICTIMS.map((name) => `${counts[`kills of ${name}`] ?? 0} ${name}`).join(", ")
        } ` +
          `killed, ${failures.length} failures`,
      );
    }
  } finally {
    for (const process of busy) {
      process.kill("SIGKILL");
      await process.status;
    }
  }
  return { flat: [], objects: 0, skipped: [] };
}

/** An outage of ten seconds ends a run. */
async function startsOfBroker(runs: string): Promise<string> {
  const latest = [...Deno.readDirSync(runs)].map(({ name }) => name).toSorted().at(-1);
  const log = await Deno.readTextFile(`${runs}/${latest}/nats-server.log`).catch(() => "");
  return log.split("\n").filter((line) => /Starting|ready/.test(line)).slice(-8).join("\n");
}
