/** Several processes explore: what they find is the same for any number of them. */
import { deepStrictEqual as same, match, rejects, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { ifThere } from "../../console/base/files.ts";
import { Explorer, exploreScenario } from "../../console/explore/explore_scenario.ts";
import {
  exploreCell,
  exploreCells,
  type MatrixPlace,
  matrixPlaces,
  matrixScenario,
} from "../../console/explore/matrix.ts";
import {
  EXPLORE_DEFAULTS,
  type ExploreOptions,
  type Verdict,
} from "../../console/explore/types.ts";
import { ExploreMemory } from "../../console/explore/steps/memory.ts";
import { plainly } from "../../console/reports/json.ts";
import { rackOf } from "./explored_rack.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";

/** All of it but wall times, as `rack explore --json` has it. */
function documentOf({ wallMs: _, perSecond: __, ...verdict }: Verdict): unknown {
  return JSON.parse(JSON.stringify(verdict, plainly));
}

/** Explores a rack without own programs: two hosts, and one message. */
async function explored(
  of: Partial<MatrixPlace>,
  { jobs, ...options }: Partial<ExploreOptions> & { readonly jobs: number },
): Promise<Verdict> {
  const { plan } = rackOf(matrixScenario({ ...PLACE, ...of }));
  await using explorer = new Explorer(jobs);
  const rack = { plan, inputs: {}, programs: {} };
  return await explorer.explore(rack, { ...EXPLORE_DEFAULTS, ...options }, () => {});
}

const PLACE: MatrixPlace = {
  ...{ method: "persist-opcode", update: "single", arch: "ddio", ddio: "on", domain: "adr" },
  receiveBuffer: "dram",
};

describe("rack explore --jobs", () => {
  it("comes to one verdict with any number of processes", async () => {
    const cases = [
      [{}, {}, "safe"],
      [{ method: "write-read" }, { claims: true }, "unsafe"],
      [{}, { cut: "each", limit: 40 }, "partial"],
    ] as const;
    for (const [place, options, expected] of cases) {
      const alone = documentOf(await explored(place, { ...options, jobs: 1 }));
      equal((alone as Verdict).verdict, expected);
      const jobs = expected === "safe" ? 3 : 2;
      same(documentOf(await explored(place, { ...options, jobs })), alone);
    }
  });

  it("finds the same counterexample of a protocol of one's own", async () => {
    const documents: unknown[] = [];
    const folder = await Deno.makeTempDir({ prefix: "rackmesh-memory-" });
    for (const [jobs, isKept] of [[1, false], [2, true], [1, true]] as const) {
      const memory = isKept ? new ExploreMemory(`${folder}/found.jsonl`) : undefined;
      const { explored: [found] } = await exploreScenario(
        await readScenario("scripts/scenarios/two_queues.yaml"),
        {
          prepare: { packing: "all" },
          explore: EXPLORE_DEFAULTS,
          jobs,
          ...(memory && { memory }),
        },
      );
      memory?.close();
      documents.push(documentOf(found!.verdict));
      if (found!.faults !== null) {
        await Deno.remove(found!.faults.replace(/\/[^/]*$/, ""), { recursive: true });
      }
    }
    await Deno.remove(folder, { recursive: true });
    equal((documents[0] as Verdict).verdict, "unsafe");
    for (const each of documents) same(each, documents[0]);
  });

  it("comes to the same verdict where it goes on from where another was ended", async () => {
    const folder = await Deno.makeTempDir({ prefix: "rackmesh-memory-" });
    const { plan } = rackOf(matrixScenario(PLACE));
    /** Stopped when its memory has got longer, if that is wanted. */
    const explored = async (path?: string, isCut = false) => {
      const memory = path === undefined ? undefined : new ExploreMemory(path);
      const before = memory?.size;
      const isLonger = () => memory!.size > before!;
      await using explorer = new Explorer(2, memory);
      const rack = { plan, inputs: {}, programs: {} };
      const verdict = await explorer.explore(rack, {
        ...EXPLORE_DEFAULTS,
        stalls: 4,
        ...(isCut && { stopped: isLonger }),
      }, () => {});
      const found = memory?.size;
      memory?.close();
      return { before, found, document: documentOf(verdict) };
    };
    const alone = await explored();
    const path = `${folder}/found.jsonl`;
    const half = await explored(path, true);
    equal((half.document as Verdict).verdict, "partial");
    const again = await explored(path);
    equal(again.before, half.found);
    equal(again.before! > 0 && again.before! < again.found!, true);
    same(again.document, alone.document);
    await Deno.remove(folder, { recursive: true });
  });

  it("ends with what is known when it is stopped", async () => {
    const { plan } = rackOf(matrixScenario(PLACE));
    await using explorer = new Explorer(2);
    let told = 0;
    const { verdict, why, instants } = await explorer.explore(
      { plan, inputs: {}, programs: {} },
      { ...EXPLORE_DEFAULTS, stopped: () => told > 0 },
      () => told++,
    );
    equal(verdict, "partial");
    match(why!, /^it was interrupted after \d+ of about \d+ runs/);
    equal(instants < 100, true);
  });
});

/** The processes of explorers of this one. */
function exploring(): number[] {
  return [...Deno.readDirSync("/proc")].map(({ name }) => Number(name)).filter((pid) => {
    try {
      const status = Deno.readTextFileSync(`/proc/${pid}/status`);
      return status.includes(`PPid:\t${Deno.pid}\n`) &&
        Deno.readTextFileSync(`/proc/${pid}/cmdline`).includes("explore_main.ts");
    } catch {
      // No process, or one that has ended.
      return false;
    }
  });
}

/** Waits until this process has heard that those have ended: some turns after the kernel has let go of them. */
async function goneOf(pids: readonly number[]): Promise<void> {
  while (pids.some((pid) => ifThere(() => Deno.statSync(`/proc/${pid}`)) !== undefined)) {
    await sleep(10);
  }
  for (let turn = 0; turn < 20; turn++) await sleep(5);
}

describe("rack explore: processes that are killed", () => {
  const { plan } = rackOf(matrixScenario(PLACE));
  const rack = { plan, inputs: {}, programs: {} };
  const verdictBy = async (explorer: Explorer) =>
    documentOf(await explorer.explore(rack, EXPLORE_DEFAULTS, () => {}));

  async function alone(): Promise<unknown> {
    await using explorer = new Explorer(1);
    return await verdictBy(explorer);
  }

  it("end the exploration with an error, never with a verdict, and others explore the next rack", async () => {
    await using explorer = new Explorer(2);
    const pids: number[] = [];
    const exploration = explorer.explore(rack, EXPLORE_DEFAULTS, () => {
      if (pids.length > 0) return;
      pids.push(...exploring());
      for (const pid of pids) Deno.kill(pid, "SIGKILL");
    });
    await rejects(exploration, /ended by itself \(SIGKILL\): expected it to answer/);
    await goneOf(pids);
    same(await verdictBy(explorer), await alone());
  });

  it("are replaced where that happens between two racks", async () => {
    await using explorer = new Explorer(2);
    const first = await verdictBy(explorer), pids = exploring();
    equal(pids.length, 2);
    for (const pid of pids) Deno.kill(pid, "SIGKILL");
    await goneOf(pids);
    same(await verdictBy(explorer), first);
    equal(exploring().some((pid) => pids.includes(pid)), false);
  });
});

describe("exploreCells", () => {
  it("explores cells of the matrix as one process does, in their order", async () => {
    const places: MatrixPlace[] = matrixPlaces().slice(0, 3);
    const cells = await Array.fromAsync(exploreCells(places, 2));
    const alone: unknown[] = [];
    for (const place of places) alone.push(await exploreCell(place));
    same(JSON.parse(JSON.stringify(cells, plainly)), JSON.parse(JSON.stringify(alone, plainly)));
  });

  it("asks for the rest alone where it goes on from where another was ended", async () => {
    const folder = await Deno.makeTempDir({ prefix: "rackmesh-memory-" });
    const path = `${folder}/found.jsonl`, places = matrixPlaces().slice(0, 2);
    const crashPoints = async (of: readonly MatrixPlace[]) => {
      const memory = new ExploreMemory(path);
      const cells = await Array.fromAsync(exploreCells(of, 1, memory));
      memory.close();
      return cells.map((cell) => cell.crashPoints);
    };
    const [first] = await crashPoints(places.slice(0, 1));
    const marked = (await Deno.readTextFile(path)).replace(`:${first},`, ":7777777,");
    await Deno.writeTextFile(path, marked);
    const [known, rest] = await crashPoints(places);
    equal(known, 7777777, "what is remembered is not explored again");
    equal(rest! > 0 && rest !== known, true);
    await Deno.remove(folder, { recursive: true });
  });
});
