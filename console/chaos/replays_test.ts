import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { prepare } from "../rack/prepare.ts";
import type { ReplayAnswer, ReplayJob } from "./replay.ts";
import { RoundReplays, withReplay } from "./replays.ts";
import type { PlayedRound, RoundResult } from "./round.ts";
import { readScenario } from "../scenarios/scenario_source.ts";

const HOSTS = "name: brief\nhosts: { a: {}, b: {} }\n";
const PUT = `${HOSTS}programs: [{ on: a, run: put, to: b, method: persist-opcode, bytes: 4096 }]\n`;
/** Its replay is under way until it is ended. */
const LONG = `${HOSTS}programs:
  - { on: b, run: perftest-server }
  - { on: a, run: perftest, to: b, test: ib_write_lat, iterations: 10000000 }
`;

const PLAYED: RoundResult = {
  blows: [],
  findings: [],
  untold: "it was not replayed",
  replay: "missing",
  replayShows: null,
  digest: "0123456789abcdef",
  fired: ["kill nats"],
  wallMs: 1_000,
};
const FOUND = { check: "survives-what-was-reported", text: "a byte is gone" };

describe("withReplay", () => {
  const answer = (came: ReplayAnswer["came"], shows: boolean | null = null) => {
    return { came, shows, wallMs: 200 };
  };

  it("holds where the replay has come to the digest of the round", () => {
    const result = withReplay(PLAYED, answer({ digest: "0123456789abcdef" }));
    same(result, { ...PLAYED, untold: null, replay: "same", wallMs: 1_200 });
  });

  it("has a finding where it has come to another one, or to no end", () => {
    const other = withReplay(PLAYED, answer({ digest: "fedcba9876543210" }));
    const text = "one process: fedcba9876543210, processes: 0123456789abcdef";
    same(other.findings, [{ check: "replays", text }]);
    const endless = withReplay(PLAYED, answer({ endless: "No end after 5 ms" }));
    same(endless.findings, [{ check: "replays", text: "No end after 5 ms" }]);
    same([other.replay, endless.replay], ["different", "different"]);
    same([other.untold, endless.untold], [null, null]);
  });

  it("keeps what was found when the round was played, and says whether the replay shows it", () => {
    const played = { ...PLAYED, findings: [FOUND] };
    const result = withReplay(played, answer({ digest: "0123456789abcdef" }, true));
    same(result.findings, [FOUND]);
    equal(result.replayShows, true);
  });
});

describe("RoundReplays", () => {
  async function withJob<T>(
    scenario: string,
    work: (job: ReplayJob, directory: string) => Promise<T>,
  ): Promise<T> {
    const directory = await Deno.makeTempDir({ prefix: "rackmesh-replays-" });
    try {
      const file = `${directory}/brief.yaml`;
      await Deno.writeTextFile(file, scenario);
      const [one] = await prepare(await readScenario(file), { packing: "all" });
      const run = { run: "replay", directory: `${directory}/replay` };
      return await work({ one: one!, run, check: "notes", limitMs: 600_000 }, directory);
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  }

  const round = (again: ReplayJob | undefined, more: Partial<RoundResult> = {}): PlayedRound => {
    return { result: { ...PLAYED, ...more }, again };
  };

  it("comes to the same in this process and in another one", async () => {
    await withJob(PUT, async (job, directory) => {
      // Each has a folder of its own: SCM files outlive a rack.
      const inFolder = (name: string) => {
        return { ...job, run: { ...job.run, directory: `${directory}/${name}` } };
      };
      const results: RoundResult[] = [];
      for (const processes of [0, 1]) {
        await using replays = new RoundReplays({ processes, directory });
        const ended = await replays.of(round(inFolder(`of-${processes}`)), 0);
        results.push({ ...ended, wallMs: 0 });
      }
      const [here, there] = results;
      same(there, here);
      const digest = /^one process: (\w{16})/.exec(here!.findings[0]!.text)![1]!;
      await using replays = new RoundReplays({ processes: 1, directory });
      const held = await replays.of(round(inFolder("again"), { digest }), 0);
      same([held.replay, held.replayShows, held.untold], ["same", false, null]);
      const late = await replays.of(round({ ...inFolder("late"), limitMs: 0 }), 0);
      equal(late.replay, "different");
    });
  });

  it("leaves a round as it was played that nothing replays", async () => {
    await using replays = new RoundReplays({ processes: 1, directory: "none" });
    const inexact = { untold: null, replay: "inexact" } as const;
    same(await replays.of(round(undefined, inexact), 0), { ...PLAYED, ...inexact });
  });

  it("does not hold where the replay is interrupted, in this process or in another one", async () => {
    await withJob(LONG, async (job, directory) => {
      for (const processes of [0, 1]) {
        const ending = new AbortController(), { signal } = ending;
        await using replays = new RoundReplays({ processes, directory, signal });
        const replaying = replays.of(round(job, { findings: [FOUND] }), 0);
        setTimeout(() => ending.abort(), 300);
        same(await replaying, { ...PLAYED, findings: [FOUND] });
      }
    });
  });

  it("does not hold where its process is killed, and the next one has another", async () => {
    await withJob(LONG, async (job, directory) => {
      await using replays = new RoundReplays({ processes: 1, directory });
      const replaying = replays.of(round(job), 0);
      let pids: number[] = [];
      while (pids.length === 0) {
        await sleep(20);
        pids = replaysIn(directory);
      }
      for (const pid of pids) Deno.kill(pid, "SIGKILL");
      const lost = await replaying;
      equal(lost.replay, "missing");
      ok(/ended by itself \(SIGKILL\)/.test(lost.untold!), lost.untold!);
      const next = await replays.of(round({ ...job, limitMs: 0 }), 0);
      equal(next.replay, "different");
    });
  });
});

/** Processes that replay rounds of a campaign in this folder. */
function replaysIn(directory: string): number[] {
  return [...Deno.readDirSync("/proc")].flatMap(({ name }) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const line = Deno.readTextFileSync(`/proc/${name}/cmdline`);
      return /chaos\/replay_main\.ts/.test(line) && line.includes(directory) ? [Number(name)] : [];
    } catch {
      // It has ended meanwhile.
      return [];
    }
  });
}
