/**
 * `timekeeper_main.ts RUN_FILE [LANES_FILE]`; with a file of lanes it keeps other racks' time, too
 * (`lanes.ts`). It writes the number of its starts (`timekeeper.term`), power failures added to the
 * plan (`planned.jsonl`), why the run cannot be replayed (`inexact.jsonl`), failures, returns and
 * cable orders (`faults.jsonl`), ordered programs (`orders.jsonl`, `orders/`), and at its end the
 * state that a replay has to equal (`clock.json`).
 */
import { filesVerb, planUsers, planVerb, USERS } from "../bus/access.ts";
import type { Bus, Subscription } from "../bus/bus.ts";
import { serveFiles } from "../files/file_service.ts";
import { filesIn, filesOfPlan } from "../files/served_files.ts";
import { answerCensus } from "./census.ts";
import { answerLanes, type Lane, type LanesFile } from "../lanes.ts";
import { exitWith, runOnBus } from "../process.ts";
import { EXIT } from "../base/exit.ts";
import { RESUMING_FILE, type RunFile } from "../rack/assembly/run_file.ts";
import { crossings } from "../rack/plan/lookahead.ts";
import type { FaultPlan } from "../rack/plan/plan.ts";
import { ClockService } from "./clock_service.ts";
import { formatTime } from "../base/time.ts";
import {
  type ClockEnd,
  type MemberStatus,
  orderFromLine,
  orderOnRecord,
  type OrdersBefore,
  type Recorded,
  type RecordedOrder,
} from "./record.ts";
import {
  append,
  appendLine,
  appendText,
  readIfThere,
  readLines,
  RECORD_FILES,
  recorded,
} from "./record_file.ts";

async function main(runFilePath: string, lanesPath: string | undefined): Promise<void> {
  const set = lanesPath === undefined ? undefined : readJson<LanesFile>(lanesPath);
  const file = readJson<RunFile>(runFilePath);
  const name = USERS.timekeeper;
  await runOnBus({ run: set?.run ?? file.run, name, title: "The timekeeper" }, (bus) => {
    const start = (file: RunFile) => startClock(file, { bus, isLane: set !== undefined });
    return answerLanes(bus, {
      first: { run: file.run, lane: start(file) },
      set,
      name,
      open: (path) => Promise.resolve(start(readJson(path))),
      onFatal: exitWith,
    });
  });
}

function readJson<T>(path: string): T {
  return JSON.parse(Deno.readTextFileSync(path));
}

function startClock(
  file: RunFile,
  { bus, isLane }: { readonly bus: Bus; readonly isLane: boolean },
): Lane {
  const { run, directory, partitions, stayUp, livenessMs, resumed, pausedAtStart = false } = file;
  const term = nextTerm(`${directory}/timekeeper.term`);
  const recordFile = `${directory}/faults.jsonl`;
  const plannedFile = `${directory}/planned.jsonl`;
  const orders = new OrderRecord(directory);
  const inexactFile = `${directory}/inexact.jsonl`;
  const faults = [...file.plan.faults, ...readLines<FaultPlan>(plannedFile)];
  const print = isLane
    ? (text: string) => appendText(`${directory}/logs/timekeeper.log`, text)
    : console.error;
  const service = new ClockService({
    run,
    bus,
    plan: { ...file.plan, faults: faults.sort((x, y) => x.at - y.at) },
    partitions,
    crossings: crossings(file.plan, partitions),
    term,
    paused: pausedAtStart && term === 0,
    recorded: readLines<Recorded>(recordFile),
    orders: orders.read(),
    ...(resumed && { ordersFrom: resumed.ordersFrom }),
    ...(resumed && isThere(`${directory}/${RESUMING_FILE}`) && { holdAt: resumed.at }),
    inexact: readLines<string>(inexactFile).length > 0,
    stayUp,
    livenessMs,
    wallMs: () => performance.now(),
    onRecord: (fault) => appendLine(recordFile, fault),
    onPlanned: (fault) => appendLine(plannedFile, fault),
    onAccepted: (order, before) => orders.accept(order, before),
    onOrdered: (order) => orders.add(order),
    onInexact: (why) => appendLine(inexactFile, why),
    onFinished: ({ digest, virtualPs, events, reason }) =>
      print(`finished (${reason}): ${formatTime(virtualPs)}, ${events} events, digest ${digest}`),
    onTheWay: (end) => leave(`${directory}/clock.json`, end),
    onStopped: (end) => leave(`${directory}/clock.json`, end),
    onSilence: (text) => print(text),
    onStall: (why) => print(stallText(why)),
  });
  const serving = serve(file, bus);
  return {
    close() {
      for (const each of serving) each.close();
      service.stop();
    },
  };
}

/** The plan to those that start from it, and the record. */
function serve(file: RunFile, bus: Bus): Subscription[] {
  const { run, directory, partitions, plan, elsewhere = [] } = file;
  const record = filesIn(directory, RECORD_FILES), planFiles = filesOfPlan(file);
  return [
    ...planUsers(file).map((user) =>
      serveFiles(bus, { run, verb: planVerb(user), files: () => planFiles(user) })
    ),
    serveFiles(bus, { run, verb: filesVerb(USERS.timekeeper), files: () => record }),
    answerCensus(bus, { run, scenario: plan.scenario, partitions: partitions.length, elsewhere }),
  ];
}

/** Against a full disk, in a rack that is up for weeks. */
const CONTENT_MOST = 2 ** 30;

/** An accepted order has its room reserved, even if the disk fills up later. */
class OrderRecord {
  readonly #file: string;
  readonly #folder: string;
  readonly #rooms = new Map<number, { readonly at: number; readonly length: number }>();
  readonly #settled: string;
  #bytes = 0;

  constructor(directory: string) {
    this.#file = `${directory}/orders.jsonl`;
    this.#folder = `${directory}/orders`;
    this.#settled = `${directory}/orders.settled`;
  }

  read(): RecordedOrder[] {
    const { at, bytes } = JSON.parse(readIfThere(this.#settled) || NOTHING_SETTLED) as Settled;
    this.#bytes = bytes;
    return readLines<{ contentBytes?: number }>(this.#file, at).map((line) => {
      this.#bytes += line.contentBytes ?? 0;
      return orderFromLine(line, (counter) => Deno.readFileSync(`${this.#folder}/${counter}`));
    });
  }

  /**
   * @param before state of all earlier orders. @returns false beyond {@link CONTENT_MOST}. @throws
   * RecordError
   */
  accept(order: RecordedOrder, before: OrdersBefore): boolean {
    if (before === "done") this.#settle();
    const most = Number.MAX_SAFE_INTEGER;
    const { line, content } = orderOnRecord({ ...order, at: most, incarnation: most });
    if (this.#bytes + (content?.length ?? 0) > CONTENT_MOST) return false;
    if (content !== undefined) this.#keep(order.counter, content);
    this.#bytes += content?.length ?? 0;
    const { length } = new TextEncoder().encode(JSON.stringify(line));
    this.#rooms.set(order.counter, { at: append(this.#file, " ".repeat(length)), length });
    return true;
  }

  /** In one piece. @throws RecordError */
  add(order: RecordedOrder): void {
    const room = this.#rooms.get(order.counter);
    if (room === undefined) return;
    this.#rooms.delete(order.counter);
    const text = new TextEncoder().encode(JSON.stringify(orderOnRecord(order).line));
    const line = new Uint8Array(room.length).fill(BLANK);
    line.set(text);
    recorded(this.#file, () => {
      using file = Deno.openSync(this.#file, { write: true });
      file.seekSync(room.at, Deno.SeekMode.Start);
      file.writeSync(line);
    });
  }

  #settle(): void {
    const settled: Settled = { at: sizeIfThere(this.#file), bytes: this.#bytes };
    leave(this.#settled, settled);
  }

  #keep(counter: number, content: Uint8Array): void {
    const path = `${this.#folder}/${counter}`;
    recorded(path, () => {
      Deno.mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      try {
        Deno.writeFileSync(path, content, { mode: 0o600 });
      } catch (error) {
        Deno.removeSync(path);
        throw error;
      }
    });
  }
}

const BLANK = 0x20;

interface Settled {
  readonly at: number;
  readonly bytes: number;
}

const NOTHING_SETTLED = '{"at":0,"bytes":0}';

function nextTerm(path: string): number {
  const term = Number(readIfThere(path));
  recorded(path, () => replaceFile(path, String(term + 1)));
  return term;
}

const unwritten = new Set<string>();

function leave(path: string, value: ClockEnd | Settled): void {
  try {
    replaceFile(path, JSON.stringify(value));
    unwritten.delete(path);
  } catch (error) {
    // A full disk: a replay has less to compare, a next timekeeper more to read. Reported once.
    if (!unwritten.has(path)) console.error(`Cannot write ${path}: ${(error as Error).message}`);
    unwritten.add(path);
  }
}

function replaceFile(path: string, text: string): void {
  Deno.writeTextFileSync(`${path}.next`, text, { mode: 0o600 });
  Deno.renameSync(`${path}.next`, path);
}

function isThere(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

function sizeIfThere(path: string): number {
  try {
    return Deno.statSync(path).size;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return 0;
    throw error;
  }
}

function stallText(why: readonly MemberStatus[]): string {
  const rows = why.map(({ partition, status, sinceMs, next, heldBy }) =>
    `  ${partition}: ${status} for ${Math.round(sinceMs)} ms, next event ${formatTime(next)}` +
    (heldBy === "" ? "" : `, held by ${heldBy}`)
  );
  return `Time is not moving:\n${rows.join("\n")}`;
}

if (import.meta.main) {
  const [runFile, lanesFile] = Deno.args;
  if (runFile === undefined) {
    console.error("Usage: timekeeper_main.ts RUN_FILE [LANES_FILE]");
    Deno.exit(EXIT.usage);
  }
  try {
    await main(runFile, lanesFile);
  } catch (error) {
    exitWith(error);
  }
}
