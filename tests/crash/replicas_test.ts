/** Power failures in racks of several hosts: what the explorer knows of those that live on, and of replicas. */
import { deepStrictEqual as same, match, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import twoQueues, {
  check as checkTwoQueues,
  recover as recoverTwoQueues,
} from "../../scripts/scenarios/two_queues.ts";
import { faultsWith, PostCrashRuns, victimOf } from "../../console/explore/post_crash_run.ts";
import { explore } from "../../console/explore/explore.ts";
import { instantsOf } from "../../console/explore/instants.ts";
import { Pages } from "../../console/explore/history.ts";
import { recordOf } from "../../console/explore/survivors.ts";
import { judgeLogs } from "../../console/explore/log_judge.ts";
import { runRack } from "../../console/explore/rerun.ts";
import { EXPLORE_DEFAULTS, type ExploredRack } from "../../console/explore/types.ts";
import { rackOf } from "./explored_rack.ts";

/** Three replicas, of which one is away for a while. */
function logRack(of: { readonly method: string; readonly ddio: "on" | "off" }): ExploredRack {
  return rackOf(`
name: replicas
seed: 7
defaults: { ddio: ${of.ddio}, dram: 16MiB, scm: { size: 256KiB } }
hosts: { a: {}, b: {}, c: {}, d: {} }
programs:
  - { on: a, run: log, to: [b, c, d], bytes: 4KiB, record: 1KiB, depth: 2, method: ${of.method}, restart: true }
faults: [{ at: 230us, kill: c }, { at: 300us, start: c }]
`);
}

/** The log of `two_queues.yaml`, its tail on a queue pair of its own, on a server that loses nothing it was sent. */
function queuesRack(tail: "own" | "same"): ExploredRack {
  const program = "./two_queues.ts";
  const client = "role: client, to: b, records: 2, bytes: 4096";
  return rackOf(
    `
name: two-queues
seed: 7
defaults:
  services: none
  scm: { size: 1MiB, regions: { log: { at: 0, size: 64KiB } } }
hosts: { a: {}, b: { domain: wsp } }
programs:
  - { on: b, program: ${program}, role: server, bytes: 4096 }
  - { on: a, at: 100us, program: ${program}, ${client}, tail: ${tail} }
`,
    {
      [program]: { program: twoQueues, recover: recoverTwoQueues, check: checkTwoQueues },
    },
  );
}

describe("the crash explorer, of several hosts", () => {
  it("P-05: knows the survivors' notes and memory after a second power failure from one run for many instants", () => {
    const rack = logRack({ method: "persist-opcode", ddio: "off" });
    const recording = runRack(rack, { histories: true });
    const victim = victimOf(rack.plan, "b");
    const runs = new PostCrashRuns(rack, { recording, victim }, { histories: true, keep: 0 });
    const instants = instantsOf(recording, { victims: [victim], runs });
    for (const at of instants.filter((_, i) => i % 7 === 0)) {
      const faults = faultsWith(rack.plan.faults, { hosts: ["b"], at });
      const killed = runRack(rack, { faults, histories: true });
      const { run, reports, notes } = runs.at(at);
      const isOthers = ({ node }: { node: string }) => node !== "b" && node !== "b-rnic";
      same(reports, killed.reports.filter(isOthers), `reports, cut at ${at}`);
      same(notes, killed.notes.filter(isOthers), `notes, cut at ${at}`);
      for (const host of ["a", "c", "d"]) {
        const difference = run.scm.get(host)!.firstDifference(killed.scm.get(host)!);
        equal(difference, undefined, `SCM of ${host}, cut at ${at}`);
        same(run.histories.get(host)?.entries, killed.histories.get(host)?.entries);
      }
    }
    ok(runs.count < instants.length / 7);
  });

  it("P-41: reads a replicated log from the replica that was cut, too", async () => {
    const rack = logRack({ method: "persist-opcode", ddio: "off" });
    const { verdict, counterexample, exhaustive } = await explore(rack, {
      ...EXPLORE_DEFAULTS,
      cut: { host: "b" },
    });
    equal(verdict, "safe", counterexample?.found);
    equal(exhaustive, true);
  });

  it("P-41: finds that what is left of the replicas is not what was confirmed durable", () => {
    const run = runRack(logRack({ method: "persist-opcode", ddio: "off" }));
    const record = recordOf(run, false);
    const stateOf = (host: string, image = run.scm.get(host)!) => ({
      host,
      image,
      cells: { in: () => [] },
    });
    equal(judgeLogs(record, ["b", "c", "d"].map((host) => stateOf(host))).finding, undefined);
    const empty = ["b", "c"].map((host) => stateOf(host, new Pages()));
    const { finding } = judgeLogs(record, empty);
    match(finding!.text, /records were confirmed durable, b, c have not as many/);
  });

  it("P-05: wsp: finds what a card keeps out of order, and has it again from what the card says", async () => {
    const options = { ...EXPLORE_DEFAULTS, cut: { host: "b" } } as const;
    const { verdict, counterexample } = await explore(queuesRack("own"), options);
    equal(verdict, "unsafe");
    equal(counterexample?.found, "the tail counts record 0, which is not whole");
    // No program spoke of its writes: the card's are named.
    ok(counterexample?.places.some(({ by, survived }) => by === "b-rnic" && !survived));
    equal((await explore(queuesRack("same"), options)).verdict, "safe");
  });

  it("is partial where a scenario's end cuts off reports of the survivors", async () => {
    const rack = logRack({ method: "persist-opcode", ddio: "off" });
    const { endPs } = runRack(rack);
    // The run itself is over by then, but not one in which a replica is waited for.
    const ended = { ...rack, plan: { ...rack.plan, until: endPs + 1 } };
    equal(runRack(ended).isCutOff, false);
    const { verdict, why } = await explore(ended, {
      ...EXPLORE_DEFAULTS,
      cut: { host: "b" },
      from: 250e6,
      until: 251e6,
    });
    equal(verdict, "partial");
    ok(why?.includes("`until`"), why);
  });
});
