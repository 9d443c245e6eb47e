/** `deno task soak` (README). */
import { Command } from "commander";
import { formatTime } from "../../fabric/base/time.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { type Rng, rngFor } from "../../fabric/base/rng.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { explain } from "../../console/rack/failure.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { tableText } from "../../console/reports/table.ts";
import { interruptedCode, onInterrupt } from "../commands/interrupt.ts";
import { whole } from "../commands/options.ts";
import { print, say } from "../commands/output.ts";
import { drawStep, transfer } from "./disturbances.ts";
import { soakFullDisk } from "./full_disk.ts";
import { soakKills } from "./kills.ts";
import { Ledger } from "./ledger.ts";
import { LiveRack } from "./live_rack.ts";
import { type Findings, getAll, type Orders, type SoakRun } from "./orders.ts";
import { SoakPages } from "./pages.ts";
import { type FlatRow, Samples } from "./samples.ts";

interface Flags {
  readonly minutes: string;
  readonly seed: string;
  readonly steps?: string;
  readonly transfers?: string;
  readonly kills?: string;
  readonly pages?: string;
  readonly json?: true;
}

interface Report {
  readonly seed: number;
  readonly minutes: number;
  readonly counts: Readonly<Record<string, number>>;
  readonly objects: number;
  readonly flat: readonly FlatRow[];
  readonly skipped: readonly string[];
  readonly failures: readonly string[];
}

const SCENARIO = fromFileUrl(projectFile("scripts/soak/scenario.yaml"));
const SAY_MS = 30_000, SAMPLE_MS = 2_000, FULL_DISK_FIRST_MS = 60_000, FULL_DISK_MS = 5 * 60_000;
const FAILURES_MOST = 20;

async function soak(flags: Flags): Promise<void> {
  const seed = whole("--seed", flags.seed, { least: 0, most: Number.MAX_SAFE_INTEGER });
  const minutes = minutesOf(flags.minutes);
  const number = (name: string, text: string) => whole(name, text, { least: 1, most: 1_000_000 });
  const transfers = flags.transfers && number("--transfers", flags.transfers);
  const steps = flags.steps && number("--steps", flags.steps);
  const pages = flags.pages === undefined ? 0 : number("--pages", flags.pages);
  const kills = flags.kills && number("--kills", flags.kills);
  const signal = onInterrupt("taking the rack down");
  say(`seed ${seed}`);
  const directory = await Deno.makeTempDir({ prefix: "rackmesh-soak-" });
  const began = performance.now();
  const findings: Findings = { counts: {}, failures: [] };
  const run = { seed, directory, findings, signal };
  try {
    const rest = kills ? await soakKills(run, kills) : await soakRack(run, {
      ms: minutes * 60_000,
      steps: steps || Infinity,
      transfers: transfers || undefined,
      pages,
    });
    const took = (performance.now() - began) / 60_000;
    tell({ seed, minutes: Number(took.toFixed(1)), ...findings, ...rest }, flags.json === true);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

function minutesOf(text: string): number {
  const minutes = Number(text);
  if (minutes > 0 && minutes <= 60 * 24 * 30) return minutes;
  throw refusal("--minutes", { found: `"${text}"`, expected: "a number > 0" });
}

type Rest = Pick<Report, "flat" | "objects" | "skipped">;

/**
 * @param options.transfers only so many of them, and nothing else. @param options.pages look at the
 * rack.
 */
async function soakRack(
  { seed, directory, findings, signal }: SoakRun,
  { ms, steps, transfers, pages }: {
    readonly ms: number;
    readonly steps: number;
    readonly transfers: number | undefined;
    readonly pages: number;
  },
): Promise<Rest> {
  const cache = `${directory}/cache`;
  await Deno.mkdir(cache);
  Deno.env.set("RACKMESH_CACHE", cache);
  const rack = await LiveRack.up(cache, SCENARIO);
  const { counts, failures } = findings;
  const orders: Orders = { rack, ledger: new Ledger(), findings, directory };
  const samples = new Samples(), skipped: string[] = [];
  const done = () => (counts["puts"] ?? 0) + (counts["gets"] ?? 0) + (counts["lists"] ?? 0);
  const { id: run } = rack.link.rack;
  let watching: SoakPages | undefined;
  const began = performance.now();
  let disks = 0, saidAt = began, sampledAt = 0, diskAt = began + FULL_DISK_FIRST_MS;
  const isOver = () =>
    signal.aborted || failures.length >= FAILURES_MOST ||
    (transfers === undefined ? performance.now() - began >= ms : done() >= transfers);
  try {
    if (pages > 0) watching = await SoakPages.open({ cache, run, count: pages, failures });
    for (let number = 0; number < steps && !isOver(); number++) {
      const rng = rngFor(seed, `step ${number}`);
      const step = transfers === undefined ? drawStep(rng) : { name: "transfer", run: inLanes };
      if (transfers === undefined) counts[step.name] = (counts[step.name] ?? 0) + 1;
      const known = failures.length;
      await step.run(orders, rng);
      for (const failure of failures.slice(known)) say(`FAIL ${failure}`);
      const now = performance.now();
      if (now - sampledAt > SAMPLE_MS) {
        sampledAt = now;
        await samples.take(rack, done());
        await watching?.sample(samples, done());
      }
      if (transfers === undefined && now >= diskAt) {
        diskAt = now + FULL_DISK_MS;
        const skip = await soakFullDisk(directory, { findings, rng, round: disks++ });
        if (skip !== undefined && !skipped.includes(skip)) skipped.push(skip);
      }
      if (now - saidAt > SAY_MS) {
        saidAt = now;
        const { now: virtual } = await rack.link.control.status();
        say(
          `${((now - began) / 60_000).toFixed(1)} min, ${done()} transfers, ${
            formatTime(virtual)
          } of virtual time, ${samples.residentMb().toFixed(0)} MB, ${failures.length} failures`,
        );
      }
    }
    if (!signal.aborted) await getAll(orders);
  } catch (error) {
    failures.push(`the soak ended at ${explain(error).message}`);
  } finally {
    failures.push(...await watching?.end() ?? []);
    const wrong = await rack.down();
    if (wrong !== undefined) failures.push(wrong);
  }
  return { objects: orders.ledger.size, flat: samples.rows(), skipped };
}

const LANES = 4;

async function inLanes(orders: Orders, rng: Rng): Promise<void> {
  const seeds = Array.from({ length: LANES }, () => rng.next());
  await Promise.all(
    seeds.map((seed, lane) => transfer(orders, rngFor(seed, "lane"), lane)),
  );
}

function tell(report: Report, isJson: boolean): void {
  const failures = [
    ...report.failures,
    ...report.flat.filter(({ isFlat }) => !isFlat).map(({ name, what, first, last }) =>
      `${name}: ${what} grew from ${first.toFixed(1)} to ${last.toFixed(1)}`
    ),
  ];
  if (isJson) print(JSON.stringify({ ...report, failures }));
  else printReport(report, failures);
  if (failures.length > 0) Deno.exitCode = EXIT.failed;
}

function printReport(
  { seed, minutes, counts, objects, flat, skipped }: Report,
  failures: string[],
) {
  print(
    `${minutes} min, seed ${seed}: ${
      Object.entries(counts).map(([what, n]) => `${n} ${what}`).join(", ")
    }`,
  );
  if (objects > 0) print(`${objects} confirmed objects are there`);
  if (flat.length > 0) {
    print(tableText([
      { title: "process", value: ({ name }) => name },
      { title: "what", value: ({ what }) => what },
      {
        title: "first quarter",
        value: ({ first }) => first,
        text: ({ first }) => first.toFixed(1),
      },
      { title: "last quarter", value: ({ last }) => last, text: ({ last }) => last.toFixed(1) },
      {
        title: "B a transfer",
        value: ({ perTransfer }) => perTransfer,
        text: ({ what, perTransfer }) =>
          what === "resident MB" ? (perTransfer * 1e6).toFixed(0) : "",
      },
    ], flat));
  }
  for (const word of skipped) print(`skipped: ${word}`);
  for (const failure of failures) print(`FAIL ${failure}`);
  if (failures.length > 0) return print("FAIL");
  const memory = flat.length > 0 ? "memory flat, " : "";
  print(`ok   nothing lost, no hang, ${memory}nothing left`);
  if (objects > 0 && flat.length === 0) print("memory: too few samples to tell");
}

const command = new Command("soak")
  .description("Keeps a rack up under random orders, kills and starts, and judges it.")
  .option("--minutes <n>", "how long", "60")
  .option("--seed <n>", "of what is done, and in which order", "7")
  .option("--steps <n>", "at most so many steps")
  .option("--transfers <n>", "instead: so many transfers and nothing else")
  .option(
    "--kills <n>",
    "instead: kill nats-server and timekeeper so many times each, in runs whose digest is known",
  )
  .option("--pages <n>", "so many pages of a console look at the rack meanwhile")
  .option("--json", "one JSON document on stdout")
  .addHelpText(
    "after",
    "\nExit codes: 0 it held; 1 something was lost, hung, grew or was left.\n" +
      "\nExample:\n  deno task soak --minutes 5 --seed 3",
  )
  .action(soak);

try {
  await command.parseAsync(Deno.args, { from: "user" });
} catch (error) {
  const { message, code } = explain(error);
  say(message);
  Deno.exitCode = code;
}
Deno.exit(interruptedCode() ?? Deno.exitCode);
