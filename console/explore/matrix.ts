/**
 * Every method on every kind of responder, each explored. The confirmation of a method is judged as
 * a promise, so each unsafe cell has a counterexample.
 */
import type { TimedRecord } from "../../fabric/audit.ts";
import { DOMAIN_NAMES, type PersistenceDomain } from "../../fabric/rack/plan/persistence_domain.ts";
import { type Architecture, MEMORIES, type Memory } from "../../fabric/rack/plan/plan.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { type MethodName, METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { resultsInOrder } from "../base/at_once.ts";
import { WorkerPool } from "../rack/own/worker_pool.ts";
import { columnsOf, tableText } from "../reports/table.ts";
import { explore } from "./explore.ts";
import { MIXED_METHODS, mixedWrites } from "./mixed_writes.ts";
import { runRack } from "./rerun.ts";
import { type ExploreMemory, nameOfRack } from "./steps/memory.ts";
import { type Counterexample, EXPLORE_DEFAULTS, type ExploredRack } from "./types.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";

/**
 * One record; a record and the tail that counts it: never the tail without the record; plain WRITEs and
 * behind them a message by the method, which is taken to cover them (P-31); an object that replaces
 * another one, complete as soon as the method claims it.
 */
const MATRIX_UPDATES = ["single", "compound", "mixed", "replaced"] as const;
const ARCHITECTURES = ["ddio", "ddio+ns"] as const;
const DDIOS = ["off", "on"] as const;

export interface MatrixPlace {
  readonly method: MethodName;
  readonly update: typeof MATRIX_UPDATES[number];
  readonly arch: Architecture;
  readonly ddio: "off" | "on";
  readonly domain: PersistenceDomain;
  readonly receiveBuffer: Memory;
  /** Absent: PCIe. The rules are the same. */
  readonly attach?: "coherent";
}

export interface MatrixCell extends MatrixPlace {
  readonly safe: boolean;
  readonly crashPoints: number;
  readonly counterexample: Counterexample | null;
}

function updatesOf(method: MethodName): readonly MatrixPlace["update"][] {
  const isMixed = MIXED_METHODS.some((each) => each === method);
  return MATRIX_UPDATES.filter((update) => update !== "mixed" || isMixed);
}

function receiveBuffersOf(
  method: MethodName,
  update: MatrixPlace["update"],
): readonly MatrixPlace["receiveBuffer"][] {
  return update === "replaced" && method !== "send-read" ? ["dram"] : MEMORIES;
}

export function matrixPlaces(): MatrixPlace[] {
  return METHODS.flatMap((method) =>
    updatesOf(method).flatMap((update) =>
      DOMAIN_NAMES.flatMap((domain) =>
        ARCHITECTURES.flatMap((arch) =>
          DDIOS.flatMap((ddio) =>
            receiveBuffersOf(method, update).map((receiveBuffer): MatrixPlace => ({
              method,
              update,
              arch,
              ddio,
              domain,
              receiveBuffer,
            }))
          )
        )
      )
    )
  );
}

const MIXED = "./mixed_writes.ts";
/** More than a block of the medium, and no whole number of cache lines. */
const MESSAGE_BYTES = 300;

/** Two hosts, one message, two updates or a mixture, nothing else. */
export function matrixScenario(place: MatrixPlace): string {
  const { method, update, arch, ddio, domain, receiveBuffer, attach = "pcie" } = place;
  // A core that polls has stored a SEND's data before the READ behind it is answered; the promise of the READ alone
  // shows where the core is woken.
  const completion = method === "send-read" ? "interrupt" : "poll";
  const host = `attach: ${attach}, architecture: ${arch}, ddio: ${ddio}, domain: ${domain}, ` +
    `receive: ${receiveBuffer}, completion: ${completion}`;
  const sizes = {
    single: `run: put, bytes: ${MESSAGE_BYTES}, size: ${MESSAGE_BYTES}, depth: 1`,
    compound: `run: append, records: 2, size: ${MESSAGE_BYTES}, depth: 1`,
    mixed: `program: ${MIXED}`,
    replaced:
      `run: put, bytes: ${MESSAGE_BYTES + 50}, size: 200, depth: 2, name: x, claims: true, ` +
      "at: 1ms",
  };
  const before =
    `  - { on: a, to: b, run: put, bytes: ${MESSAGE_BYTES}, name: x, method: send-flush }`;
  return [
    "name: matrix",
    "seed: 7",
    "profile: clx-optane-cx5",
    "defaults: { dram: 16MiB, scm: { size: 256KiB } }",
    "hosts:",
    // No program uses its service: without it each of a place's many runs begins sooner.
    "  a: { services: none }",
    `  b: { ${host} }`,
    "programs:",
    ...(update === "replaced" ? [before] : []),
    `  - { on: a, to: b, method: ${method}, ${sizes[update]} }`,
  ].join("\n") + "\n";
}

function rackOf(place: MatrixPlace): ExploredRack {
  const [variant] = variants(parseScenario(matrixScenario(place), "matrix.yaml"));
  const own = { [MIXED]: () => ({ program: mixedWrites }) };
  return { plan: makePlan(variant!), inputs: {}, own };
}

/** Explores one place: the power of its responder. @throws Error where not all of it was seen. */
export async function exploreCell(place: MatrixPlace): Promise<MatrixCell> {
  const rack = rackOf(place);
  const { notes } = runRack(rack);
  const isFirst = place.update === "replaced"
    ? ({ note }: TimedRecord) => note.kind === "object" && note.state === "stored"
    : ({ note }: TimedRecord) => note.kind === "writes";
  const first = notes.find(isFirst);
  if (first === undefined) throw new Error(`Nothing is written at ${JSON.stringify(place)}`);
  // A replaced object must only be whole, whatever its writes claim.
  const claims = place.update !== "replaced";
  const options = { ...EXPLORE_DEFAULTS, cut: { host: "b" }, claims, from: first.time };
  const verdict = await explore(rack, options);
  const { crashPoints, counterexample } = verdict;
  const isVacuous = !notes.some(({ note }) => note.kind === "persistent");
  if ((verdict.verdict !== "safe" && verdict.verdict !== "unsafe") || isVacuous) {
    throw new Error(
      `${JSON.stringify(place)} was not explored: ${verdict.why ?? "nothing was confirmed"}`,
    );
  }
  return { ...place, safe: verdict.verdict === "safe", crashPoints, counterexample };
}

/**
 * The cells of these places, in their order, each as soon as it and those before it are explored.
 * @param jobs processes at a time; with one the cells are explored in this process.
 * @param memory has the cells that a matrix which was ended has explored.
 * @throws Error where a cell was not explored whole.
 */
export async function* exploreCells(
  places: readonly MatrixPlace[],
  jobs: number,
  memory?: ExploreMemory,
): AsyncGenerator<MatrixCell, void> {
  if (jobs === 1) {
    for (const place of places) {
      await sleep(0);
      yield await rememberedCell(place, () => exploreCell(place), memory);
    }
    return;
  }
  await using pool = new WorkerPool({
    module: "console/explore/matrix_main.ts",
    programs: ["the matrix"],
  });
  yield* resultsInOrder(places, {
    atOnce: jobs,
    work: (place, _, lane) =>
      rememberedCell(place, () => pool.ask<MatrixCell>(lane, place), memory),
  });
}

async function rememberedCell(
  place: MatrixPlace,
  find: () => Promise<MatrixCell>,
  memory: ExploreMemory | undefined,
): Promise<MatrixCell> {
  if (memory === undefined) return await find();
  const name = `cell ${await nameOfRack(place)}`;
  const known = memory.recall<MatrixCell>(name);
  if (known !== undefined) return known;
  const found = await find();
  memory.keep(name, found);
  return found;
}

/** The cells as a table: a row for each kind of responder, a column for each method. */
export function matrixText(cells: readonly MatrixCell[]): string {
  const methods = METHODS.filter((method) => cells.some((cell) => cell.method === method));
  const rows = Map.groupBy(cells, rowKey);
  return tableText(
    columnsOf<readonly MatrixCell[]>(
      ...ROW_TITLES.map(([title, value]) => ({
        title,
        value: ([cell]: readonly MatrixCell[]) => value(cell!),
      })),
      ...methods.map((method) => ({
        title: method,
        value: (own: readonly MatrixCell[]) => {
          const cell = own.find((each) => each.method === method);
          return cell === undefined ? "" : cell.safe ? "safe" : "UNSAFE";
        },
      })),
    ),
    [...rows.values()],
  );
}

const ROW_TITLES = [
  ["update", ({ update }: MatrixPlace) => update],
  ["domain", ({ domain }: MatrixPlace) => domain],
  ["arch", ({ arch }: MatrixPlace) => arch],
  ["ddio", ({ ddio }: MatrixPlace) => ddio],
  ["receive", ({ receiveBuffer }: MatrixPlace) => receiveBuffer],
] as const;

function rowKey(place: MatrixPlace): string {
  return ROW_TITLES.map(([, value]) => value(place)).join(" ");
}
