/** Hints over the whole rack: the shipped scenarios, and promises under power failures. */
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_ON_DEMAND,
  IBV_ACCESS_REMOTE_ATOMIC,
  IBV_ACCESS_REMOTE_WRITE,
} from "../../nodes/host/verbs/flags.ts";
import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { MethodName } from "../../fabric/rack/plan/vocabulary.ts";
import coldPages from "../../scripts/scenarios/hints_cold_pages.ts";
import workload from "../../scripts/scenarios/hints_workload.ts";
import ways from "../../scripts/scenarios/hints_ways.ts";
import atomics from "../../scripts/scenarios/hints_atomics.ts";
import hostile, { check } from "../../scripts/scenarios/hints_hostile.ts";
import allReduce from "../../scripts/scenarios/hints_all_reduce.ts";
import manyQueues from "../../scripts/scenarios/hints_many_queues.ts";
import { leadsIn, leadStatistics } from "../../nodes/rnic/hints/state/leads.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import { hintOf } from "../../fabric/wire/roce/hint.ts";
import { opcodeRow } from "../../fabric/wire/roce/opcode.ts";
import { decodePacket, isRefusal, type RocePacket } from "../../fabric/wire/roce/packet.ts";
import { PS_PER_MS } from "../../fabric/base/time.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const SHIPPED = new URL("../../scripts/scenarios/", import.meta.url);

interface Row {
  readonly workload: string;
  readonly stallPs: number;
  readonly heldPs: number;
}

interface Measured extends Row {
  readonly messages: number;
  readonly failed: number;
  readonly latencyPs: { readonly p99: number };
  readonly hintsSent: number;
  readonly hintBytesOut: number;
}

interface Served {
  readonly client: string;
  readonly counters: Readonly<Record<string, number>>;
}

/** Makes a group of hints, and says how that has ended. */
function* makeGroup({ cpu, device }: ProgramContext): Steps<void> {
  const v = device.verbs, pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 2 }));
  const rings = { maxSendWr: 1, maxRecvWr: 1, sqSigAll: true, sendCq: cq, recvCq: cq };
  const made = yield* v.createQp(pd, { type: "ud", hints: "group", ...rings });
  cpu.report("made", { errno: "errno" in made ? made.errno : null });
  // The card's group is its program's.
  yield* cpu.sleep(10 * PS_PER_MS);
}

describe("hints in a rack", () => {
  it("H-30: hints_cold_pages.yaml: behind other work a cold message stalls no more", async () => {
    const text = await Deno.readTextFile(new URL("hints_cold_pages.yaml", SHIPPED));
    // A sixteenth of the bytes at a sixteenth of the rate.
    const small = text.replaceAll("1048576", "65536").replaceAll("2097152", "131072")
      .replace("25Gbps", "1562Mbps");
    const rack = new SimulatedRack(small, { programs: { "./hints_cold_pages.ts": coldPages } })
      .run();
    const rows = (host: string) => {
      const found = rack.reported("result", host) as unknown as Row[];
      same(found.map(({ workload }) => workload), ["alone", "behind other work"]);
      return found.map(({ stallPs, heldPs }) => ({ stall: stallPs / 1e6, held: heldPs / 1e6 }));
    };
    const off = rows("off");
    for (const { stall, held } of off) {
      ok(stall > 460, `NSDI'20: 475 us, here ${stall}`);
      equal(held, 0);
    }
    const [alone, behind] = rows("at-once");
    ok(alone!.stall > 0.9 * off[0]!.stall, "a hint right ahead of its request comes too late");
    ok(behind!.stall < 0.1 * off[1]!.stall, `${behind!.stall} us of ${off[1]!.stall} us remain`);
    for (const row of rows("delayed")) {
      ok(row.stall < 1 && row.held === 600, "the wait takes the stall's place");
    }
    // The answer comes when all pages are there, which a longer message need not wait for.
    for (const { stall, held } of rows("after-ack")) {
      ok(held >= stall - 1 && stall > 460, `${stall} us, of which held ${held}`);
    }
    const served = rack.reported("result", "server") as unknown as Served[];
    const clients = ["off", "at-once", "delayed", "after-ack"];
    same(served.map(({ client }) => client), clients.flatMap((client) => [client, client]));
    const counts = (name: string) => served.map(({ counters }) => counters[name]);
    same(counts("hintsIn").slice(0, 2), [0, 0]);
    const late = [0, 0, 1, 0, 0, 0];
    same(counts("hintPagesLate").slice(0, 6), late, "the first page of the message alone");
    ok(counts("hintPagesWasted").every((count) => count === 0));
  });

  it("H-30: a hint the round trip of a page request ahead removes 90 % of the stall of a cold WRITE of 1 MiB", () => {
    const job = "program: ./hints_workload.ts, workload: huge, bytes: 1048576";
    const rack = new SimulatedRack(
      `
name: stall
profile: clx-optane-cx5
defaults: { services: none }
hosts: { server: { pin: false, hints: on }, off: {}, ahead: { hints: { send: 475480ns } } }
programs:
  - { on: server, role: server, clients: 2, ${job} }
  - { on: off, at: 1ms, role: client, ${job} }
  - { on: ahead, at: 9ms, role: client, ${job} }
`,
      { programs: { "./hints_workload.ts": workload } },
    ).run();
    const [off, ahead] = ["off", "ahead"].map((host) => {
      const [told] = rack.reported("result", host) as unknown as Measured[];
      equal(told!.failed, 0);
      return told!.stallPs / 1e6;
    });
    // NSDI'20: 475 us for one page. The driver maps the rest hardly slower than the line brings the bytes.
    ok(off! > 500 && off! < 530, `${off} us without hints`);
    ok(ahead! < 0.1 * off!, `${ahead} us of ${off} us remain`);
    const served = rack.reported("result", "server") as unknown as Served[];
    same(
      served.map(({ counters }) => counters.hintPageRequests),
      [0, 1],
      "one range for 256 pages",
    );
    // Of its pages the last ones came late: one operation, in the class up to 500 us. The warm ones needed nothing.
    const { "server-rnic": card } = rack.simulator.statistics();
    same(leadStatistics(leadsIn(card!)), { "hintLead-late-8": 1 });
  });

  it("H-30: hints_all_reduce.yaml: what a job announces while it computes stalls it no more", async () => {
    const text = await Deno.readTextFile(new URL("hints_all_reduce.yaml", SHIPPED));
    // An eighth of the bytes: chunks of four pages, in pieces of one.
    const small = text.replaceAll("524288", "65536");
    const rack = new SimulatedRack(small, { programs: { "./hints_all_reduce.ts": allReduce } })
      .run();
    const [off, card, told] = ["off", "card", "told"].map((ring) => {
      const [row] = rack.reported("result", `${ring}-0`) as unknown as Measured[];
      const [served] = rack.reported("result", `${ring}-1`) as unknown as Served[];
      equal(served!.client, `${ring}-0`);
      return { ...row!, counters: served!.counters };
    }) as [Measured & Served, Measured & Served, Measured & Served];
    for (const { messages, failed } of [off, card, told]) same([messages, failed], [6, 0]);
    ok(told.stallPs < 0.3 * off.stallPs, `${told.stallPs} ps of ${off.stallPs} ps remain`);
    ok(card.stallPs < off.stallPs, `${card.stallPs} ps, without hints ${off.stallPs} ps`);
    // Three chunks of scratch, and three of the vector.
    equal(told.counters["hintPagesUseful"], 6 * 4);
    same(["hintPagesLate", "hintPagesWasted"].map((name) => told.counters[name]), [0, 0]);
    // The chunk that it sends first, in four pieces.
    equal(told.counters["pageFaults"]! - told.counters["hintPageRequests"]!, 4);
  });

  it("H-30: hints_many_queues.yaml: contexts are read before they are missed", async () => {
    const text = await Deno.readTextFile(new URL("hints_many_queues.yaml", SHIPPED));
    const small = text.replaceAll("queuePairs: 64", "queuePairs: 24").replaceAll("61ms", "31ms")
      .replace("121ms", "61ms").replace("entries: 32", "entries: 16");
    const rack = new SimulatedRack(small, { programs: { "./hints_many_queues.ts": manyQueues } })
      .run();
    const served = rack.reported("result", "server") as unknown as Served[];
    same(served.map(({ client }) => client), ["off", "carrier", "after-ack"]);
    const [off, carrier, afterAck] = served.map(({ counters }) => counters);
    ok(off!.contextMisses! > 80 && off!.hintContextsFetched === 0, JSON.stringify(off));
    for (const hinted of [carrier!, afterAck!]) {
      ok(hinted.contextMisses! < 0.7 * off!.contextMisses!, JSON.stringify(hinted));
      ok(hinted.hintContextsUseful! > 0.9 * hinted.hintContextsFetched!);
    }
  });

  /** The smallest of each kind that shows what the whole one does. */
  const WORKLOADS = {
    small_messages: [["count: 256", "count: 48"], ["depth: 32", "depth: 16"]],
    huge_message: [["8388608", "262144"]],
    storage: [["count: 256", "count: 48"], ["depth: 32", "depth: 16"]],
    rpc: [["count: 64", "count: 16"], ["depth: 32", "depth: 16"]],
  } as const;
  for (const [name, smaller] of Object.entries(WORKLOADS)) {
    it(`H-30: hints_${name}.yaml: faults, failures and the slowest, with and without`, async () => {
      let text = await Deno.readTextFile(new URL(`hints_${name}.yaml`, SHIPPED));
      for (const [from, to] of smaller) text = text.replaceAll(from, to);
      const rack = new SimulatedRack(text, { programs: { "./hints_workload.ts": workload } }).run();
      const served = rack.reported("result", "server") as unknown as Served[];
      const rows = served.map(({ client, counters }) => {
        const [told, ...more] = rack.reported("result", client) as unknown as Measured[];
        same([more, told!.failed], [[], 0]);
        const { latencyPs: { p99 }, hintsSent, messages } = told!;
        const { pageFaults, pageFaultsMerged, hintPageRequests } = counters;
        const faults = pageFaults! + pageFaultsMerged! - hintPageRequests!;
        return { client, p99, hintsSent, messages, faults };
      });
      const [off, ...hinted] = rows;
      equal(off!.client, "off");
      equal(off!.hintsSent, 0);
      ok(off!.faults >= 1);
      for (const { client, hintsSent, p99, faults } of hinted) {
        ok(hintsSent > 0, client);
        ok(faults <= off!.faults, `${client}: ${faults} faults, without hints ${off!.faults}`);
        if (client === "after-ack") equal(faults, 0, "all is there before a request comes");
        if (off!.messages > 1) ok(p99 < 0.7 * off!.p99, `${client}: ${p99} of ${off!.p99}`);
      }
    });
  }

  it("H-09, H-20, H-21, H-30: hints_who.yaml: who does the work decides what hints are worth", async () => {
    const text = await Deno.readTextFile(new URL("hints_who.yaml", SHIPPED));
    const rack = new SimulatedRack(text.replaceAll("count: 64", "count: 24"), {
      programs: { "./hints_workload.ts": workload },
    }).run();
    const rows = new Map(
      ["as-today", "hardware", "firmware", "iommu", "driver", "hypervisor"].map((name) => {
        const [told] = rack.reported("result", name) as unknown as Measured[];
        const [served] = rack.reported("result", `${name}-server`) as unknown as Served[];
        const { latencyPs: { p99 }, failed } = told!;
        equal(failed, 0, name);
        return [name, { p99, ...served!.counters } as Record<string, number>];
      }),
    );
    const of = (counter: string) => [...rows].map(([, counters]) => counters[counter] ?? 0);
    const [today, hardware, firmware, iommu, driver, hypervisor] = of("p99");
    // Firmware that asks for pages takes what the whole of it does today, and its own work besides.
    ok(today! > 460e6 && firmware! > today!, `${today}, ${firmware}`);
    ok(hardware! < today! && iommu! <= hardware! && driver! < today! && hypervisor! > driver!);
    equal(rows.get("iommu")!.hintPagesUseful, 24, "all pages are there in time");
    same(of("hintWorkEvents").map((events) => events > 0), [
      ...[false, false, false, false],
      ...[true, true],
    ]);
    same(of("hintFirmwarePs").map((ps) => ps > 0), [false, false, true, false, false, false]);
  });

  it("H-07, H-08, H-30 (in part), H-31: hints_ways.yaml: each encoding by each transport, to two responders", async () => {
    const text = await Deno.readTextFile(new URL("hints_ways.yaml", SHIPPED));
    const rack = new SimulatedRack(text, { programs: { "./hints_ways.ts": ways } }).run();
    const rows = rack.reports.filter(({ topic }) => topic === "result")
      .map((
        { node: host, value },
      ) => ({ ...value, host } as unknown as Measured & { host: string }));
    const overhead = Object.fromEntries(rows.map((row) => [row.host, row.hintBytesOut]));
    same(Object.keys(overhead), [
      "off",
      ...["opcode-own", "header-own", "payload-own", "flagged-own"],
      ...["opcode-carrier", "header-carrier", "payload-carrier"],
      ...["opcode-multicast", "opcode-trusted"],
      ...["opcode-uc-carrier", "header-uc-carrier", "payload-uc-carrier"],
    ]);
    for (const { host, stallPs, hintsSent } of rows) {
      if (host === "off") ok(stallPs > 460e6 && hintsSent === 0);
      else ok(stallPs < 1e6, `${host}: ${stallPs} ps remain`);
    }
    // What they take of the wire: a datagram more than its own opcode, a header least, READs and WRITEs most.
    const { "opcode-own": opcode, "header-own": header, "payload-own": payload } = overhead;
    equal(payload! - header!, 4 * 6, "the trailers of six hints");
    ok(header! < opcode! && opcode! < overhead["opcode-multicast"]!);
    ok(overhead["opcode-multicast"]! < overhead["flagged-own"]!);
    // [0113]: what a carrier's hints take does not hang on its type.
    for (const encoding of ["opcode", "header", "payload"]) {
      equal(overhead[`${encoding}-uc-carrier`], overhead[`${encoding}-carrier`], encoding);
    }
    // Figure 9: each of two responders has done what concerns it, and nothing for the other.
    const counted = rack.simulator.statistics();
    for (const server of ["server-1-rnic", "server-2-rnic"]) {
      const { hintsUnknownQp, hintsNoAccess, hintPagesWasted, hintPagesUnused } = counted[server]!;
      same([hintsUnknownQp, hintsNoAccess, hintPagesWasted, hintPagesUnused], [0, 0, 0, 0]);
      ok(counted[server]!.hintPagesUseful! >= (rows.length - 1) * 16);
      // Both get the datagrams of both clients, of which there is one for each pair of queue pairs.
      equal(
        counted[server]!.multicastIn,
        2 * (rows.find(({ host }) => host === "opcode-multicast")!.hintsSent),
      );
    }
  });

  it("H-08: a card's trusted group is a privileged program's; an application's is anyone's", () => {
    const makers = ["trusted", "multicast"].map((transport) => `
  ${transport}: { hints: { transport: ${transport} } }`);
    const rack = new SimulatedRack(
      `
name: owners
defaults: { services: none, scm: { size: 4KiB }, dram: 16MiB }
hosts:${makers.join("")}
programs:
  - { on: [trusted, multicast], program: ./group.ts }
  - { on: trusted, program: ./group.ts, at: 1ms, privileged: true }
  - { on: trusted, program: ./group.ts, at: 2ms, privileged: true }
`,
      { programs: { "./group.ts": makeGroup } },
    ).run();
    same(
      ["trusted", "multicast"].map((host) => rack.reported("made", host)),
      [[{ errno: "EPERM" }, { errno: null }, { errno: "EBUSY" }], [{ errno: null }]],
    );
  });

  it("H-30 (in part): hints_atomics.yaml: contended atomics are executed on the chip, and add up", async () => {
    const text = await Deno.readTextFile(new URL("hints_atomics.yaml", SHIPPED));
    const small = text.replaceAll("queuePairs: 8", "queuePairs: 4").replaceAll(
      "rounds: 32",
      "rounds: 4",
    );
    const rack = new SimulatedRack(small, { programs: { "./hints_atomics.ts": atomics } }).run();
    const rate = (host: string, pattern: string) => {
      const found = rack.reported("result", host).find((row) => row!.pattern === pattern);
      return found!.millionsPerSecond as number;
    };
    ok(rate("at-once", "contended") > 4 * rate("off", "contended"));
    ok(rate("stores", "contended") > rate("off", "contended"));
    // A hint that leaves right ahead of a lone atomic comes no sooner than that.
    ok(Math.abs(rate("at-once", "alone") - rate("off", "alone")) < 0.05);
    const rows = rack.reported("result", "server") as unknown as Record<string, number>[];
    equal(rows.length, 4, JSON.stringify(rack.reports));
    let sum = 0;
    for (const { word, atomicsExecuted } of rows) equal(word, sum += atomicsExecuted!);
    const [off, atOnce, delayed, stores] = rows;
    equal(off!.hintWordsRead, 0);
    for (const hinted of [atOnce!, delayed!, stores!]) {
      ok(hinted.hintWordsRead! < 0.3 * hinted.atomicsExecuted!, JSON.stringify(hinted));
    }
    ok(stores!.hintWordsSnooped! > 0 && delayed!.hintWordsLate === 0);
  });

  it("H-23: a core's store meets an atomic whose word is in the card: as without hints, at every instant", () => {
    const spans = ["ddio: on", "ddio: off"].map((ddio) => {
      const [plain, hinted] = ["off", "{ kinds: [atomic], send: 2500ns }"].map((hints) => {
        const rack = new SimulatedRack(
          `
name: store-against-atomic
defaults: { services: none, scm: { size: 4KiB }, dram: 16MiB, hints: ${hints}, ${ddio} }
hosts: { a: {}, b: {} }
programs:
  - { on: b, program: ./race.ts }
  - { on: a, at: 1ms, program: ./race.ts }
`,
          { programs: { "./race.ts": storeAgainstAtomic } },
        ).run();
        const { "b-rnic": card } = rack.simulator.statistics();
        if (hints !== "off") ok(card!.hintWordsUseful! > 50 && card!.hintWordsSnooped! > 10);
        const [found] = rack.reported("result", "b") as unknown as [{ outcomes: string[] }];
        return found.outcomes;
      });
      const kinds = (outcomes: readonly string[]) => [...new Set(outcomes)].sort();
      same(kinds(hinted!), kinds(plain!), ddio);
      return [hinted!, plain!].map((outcomes) =>
        outcomes.filter((each) => each === LOST_STORE).length
      );
    });
    for (const [hinted, plain] of spans) ok(hinted! > 0 && hinted! <= plain! + 1, `${spans}`);
  });

  it("H-24: hints_hostile.yaml: a malicious host changes no byte, no completion, no latency beyond the bound", async () => {
    const text = await Deno.readTextFile(new URL("hints_hostile.yaml", SHIPPED));
    const rack = new SimulatedRack(text, { programs: { "./hints_hostile.ts": hostile } }).run();
    const judged = (reports: typeof rack.reports) =>
      check({ cut: [], at: 0, hosts: {}, notes: [], reports });
    same(judged(rack.reports), []);
    const [attacked] = rack.reported("result", "attacked");
    const counts = attacked as Record<string, number>;
    for (const name of ["hintsNoAccess", "hintsUnknownQp", "hintsOverQuota", "hintPagesAsked"]) {
      ok(counts[name]! >= 8, `${name}: ${counts[name]}`);
    }
    const [mallory] = rack.reported("result", "mallory") as Record<string, number>[];
    ok(mallory!.flood! >= 200 && mallory!.replays! >= 100 && mallory!.lies! >= 300);
    const late = lateness(rack);
    ok(late > 0, "what the tenant is late by is measured");
    // Each thing that is compared is found where it differs.
    const changed = (topic: string, node: string, change: (value: never) => unknown) =>
      judged(
        rack.reports.map((each) =>
          each.topic === topic && each.node === node
            ? { ...each, value: change(each.value as never) as typeof each.value }
            : each
        ),
      );
    const by = (ps: number) => (tenant: { write: number[] }) => ({
      ...tenant,
      write: tenant.write.map((took, i) => i === 5 ? took + ps : took),
    });
    equal(changed("tenant", "beside", by(1e9)).length, 1);
    equal(
      changed("server", "attacked", (server: object) => ({ ...server, memory: "0" })).length,
      1,
    );
    equal(
      changed("tenant", "beside", (tenant: { completions: string[] }) => ({
        ...tenant,
        completions: tenant.completions.slice(1),
      })).length,
      1,
    );
  });

  it("H-24: nor with the default quota, whatever the hints are and whenever they come", async () => {
    const text = await Deno.readTextFile(new URL("hints_hostile.yaml", SHIPPED));
    const cold = text.replaceAll("hints: { quota: 16, quotaTime: 1ms }", "hints: on")
      .replaceAll("bytes: 2097152", "bytes: 16777216").replace("rounds: 200", "rounds: 300");
    for (const seed of [1, 2, 3]) {
      const seeded = cold.replace("seed: 7", `seed: ${seed}`);
      const rack = new SimulatedRack(seeded, { programs: { "./hints_hostile.ts": hostile } }).run();
      const view = { cut: [], at: 0, hosts: {}, notes: [], reports: rack.reports };
      same(check(view), [], `seed ${seed}`);
      const [attacked] = rack.reported("result", "attacked") as Record<string, number>[];
      ok(attacked!.hintPagesAsked! >= 4096, `${attacked!.hintPagesAsked} pages, as the quota is`);
    }
  });

  /** By how much an operation of the tenant beside the attacker is later than without, at most. */
  function lateness(rack: SimulatedRack): number {
    const [beside, alone] = ["beside", "alone"].map((host) =>
      rack.reported("tenant", host)[0] as unknown as { write: number[]; read: number[] }
    );
    return Math.max(
      ...(["write", "read"] as const).flatMap((name) =>
        beside![name].map((took, i) => took - alone![name][i]!)
      ),
    );
  }

  /** By opcode, by a FLUSH behind it, and not at all. */
  const METHODS: readonly MethodName[] = ["persist-opcode", "write-flush", "write-only"];
  for (const [place, method] of METHODS.entries()) {
    it(`H-24: what ${method} promises is in SCM, with hints, whenever power fails`, () => {
      for (const killUs of [0, 2100 + 211 * place, 2800 + 211 * place]) {
        const hints = ["on", "{ batch: adaptive, send: after-ack }", "{ batch: 2, send: 20us }"][
          (place + killUs) % 3
        ]!;
        const host = `pin: false, scm: { size: 4MiB }, hints: ${hints},
          pressure: { at: 300us, every: 60us, times: 60, pages: 3 }`;
        // Its promises are judged when the rack has run.
        const rack = new SimulatedRack(
          `
name: hinted-put
seed: ${killUs + 1}
hosts: { a: { ${host} }, b: { ${host}, ddio: ${place === 0 ? "off" : "on"} } }
programs:
  - { on: a, run: put, to: b, file: data.bin, method: ${method}, size: 4096, depth: 4 }
faults: ${killUs === 0 ? "[]" : `[{ at: ${killUs}us, kill: b }]`}
`,
          { inputs: { "data.bin": Uint8Array.from({ length: 60_000 }, (_, k) => k % 251 + 1) } },
        ).run();
        const { "a-rnic": card } = rack.simulator.statistics();
        ok(card!.hintsSent! > 0, `${hints}: ${card!.hintsSent} hints`);
        if (killUs === 0) equal(rack.reported("program-ended", "a").length, 1);
      }
    });
  }
});

/** An atomic found 5 and left 6, and nothing is left of a store of 100: it came between read and write. */
const LOST_STORE = "5 -> 6";
const ROUNDS = 120, ROUND_PS = 20e6, GRID_PS = 50e3;
/** When round 0 begins, by the clock of both. */
const RACE_AT = 2e9;

/**
 * `a` adds 1 to a word of `b` that holds 5, `b` stores 100 there: in each round that much later behind the post.
 * `b` reports what the atomic has found and what is left, round by round.
 */
function* storeAgainstAtomic({ cpu, device }: ProgramContext): Steps<void> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 256 }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4, sqSigAll: true };
  const buffer = cpu.allocate(64);
  const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  const mr = v.must(yield* v.regMr(pd, buffer, { access }));
  const word = (value: number) => Uint8Array.of(value, 0, 0, 0, 0, 0, 0, 0);
  if (cpu.host === "a") {
    const connection = yield* v.connect(device, { to: "b", service: "race", qp });
    if (v.refused(connection)) throw new Error(connection.reason);
    const place = new DataView(connection.privateData.buffer, connection.privateData.byteOffset);
    const va = Number(place.getBigUint64(0)), rkey = place.getUint32(8);
    for (let round = 0; round < ROUNDS; round++) {
      yield* cpu.sleep(RACE_AT + round * ROUND_PS - cpu.now);
      const atomic = { swapAdd: 1n, compare: 0n };
      const sges = [v.sge(mr, 0, 8)], remote = { va, rkey };
      v.must(yield* v.postSend(connection.qp, { opcode: "fetch-add", sges, remote, atomic }));
      yield* v.waitCompletion(cq);
      // What it has found, for `b` to look at.
      const found = { va: va + 8, rkey };
      v.must(yield* v.postSend(connection.qp, { opcode: "write", sges, remote: found }));
      yield* v.waitCompletion(cq);
    }
    return;
  }
  const place = new DataView(new ArrayBuffer(16));
  place.setBigUint64(0, BigInt(mr.address));
  place.setUint32(8, mr.rkey);
  const listener = v.must(v.listen(device, "race"));
  const event = yield* v.waitEvent(listener);
  if (event?.kind !== "request") throw new Error("A request was expected");
  v.must(
    yield* v.accept(listener, event.request, { qp, privateData: new Uint8Array(place.buffer) }),
  );
  const outcomes: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    cpu.store(buffer.address, word(5));
    yield* cpu.sleep(RACE_AT + round * ROUND_PS + round * GRID_PS - cpu.now);
    cpu.store(buffer.address, word(100));
    yield* cpu.sleep(RACE_AT + round * ROUND_PS + 15e6 - cpu.now);
    const left = cpu.load(buffer.address, 1)[0], found = cpu.load(buffer.address + 8, 1)[0];
    outcomes.push(`${found} -> ${left}`);
  }
  cpu.report("result", { outcomes });
}
/** The document's queue pairs of figures 7 and 8 [0164, 0165]: their responders, by its numbers. */
const FIGURES = {
  7: { b: [11, 21], c: [12, 22], carriers: [] },
  8: { b: [11, 21], c: [12, 22], carriers: [101, 102] },
} as const;
const ELEMENTS = 3, BUSY_BYTES = 1 << 18;

/** A run of a figure. */
interface FigureRun {
  readonly number: keyof typeof FIGURES;
  /** The responders' regions. */
  readonly memory: Map<string, { readonly va: number; readonly rkey: number }>;
  /** By the number at the requester: the document's number, and that at the responder. */
  readonly figure: Map<number, { readonly each: number; readonly peerQpn: number }>;
}

function* serveFigure({ memory }: FigureRun, { cpu, device }: ProgramContext): Steps<void> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND;
  const mr = v.must(yield* v.regMr(pd, cpu.allocate(2 * BUSY_BYTES), { access }));
  memory.set(cpu.host, { va: mr.address, rkey: mr.rkey });
  const listener = v.must(v.listen(device, "figure"));
  for (;;) {
    const event = yield* v.waitEvent(listener);
    if (event?.kind !== "request") continue;
    const hints = event.request.privateData[0]! > 100 ? "carrier" : "on";
    const caps = { maxSendWr: 8, maxRecvWr: 8, sqSigAll: true, hints } as const;
    const qp = { pd, sendCq: cq, recvCq: cq, ...caps };
    yield* v.accept(listener, event.request, { qp });
  }
}

function* askByFigure(
  { memory, figure, number }: FigureRun,
  { cpu, device }: ProgramContext,
): Steps<void> {
  const { b, c, carriers } = FIGURES[number];
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 64 }));
  const mr = v.must(
    yield* v.regMr(pd, cpu.allocate(BUSY_BYTES), { access: IBV_ACCESS_LOCAL_WRITE }),
  );
  const made = [];
  // The last one keeps the line busy, so that the others' work waits for its turn.
  for (const each of [...b, ...c, ...carriers, 99]) {
    const to = (c as readonly number[]).includes(each) || each === 102 ? "c" : "b";
    const hints = each > 100 ? "carrier" : each === 99 ? "off" : "on";
    const caps = { maxSendWr: 8, maxRecvWr: 8, sqSigAll: true, hints } as const;
    const qp = { pd, sendCq: cq, recvCq: cq, ...caps };
    const privateData = Uint8Array.of(each);
    const connection = yield* v.connect(device, { to, service: "figure", qp, privateData });
    if (v.refused(connection)) throw new Error(connection.reason);
    if (cpu.host === "a") {
      figure.set(connection.qp.qpn, { each, peerQpn: connection.peer.qpn });
    }
    made.push({ each, to, qp: connection.qp });
  }
  const write = (to: string, at: number, length: number) => ({
    opcode: "write" as const,
    sges: [{ ...v.sge(mr), length }],
    remote: { ...memory.get(to)!, va: memory.get(to)!.va + at },
  });
  v.must(yield* v.postSend(made.at(-1)!.qp, write("b", BUSY_BYTES, BUSY_BYTES)));
  yield* cpu.sleep(10_000_000);
  for (const { each, to, qp } of made) {
    if (each >= 99) continue;
    for (let i = 0; i < ELEMENTS; i++) v.must(yield* v.postSend(qp, write(to, i * 4096, 64)));
  }
  for (let done = 0; done < 1 + 4 * ELEMENTS;) {
    for (const { status } of yield* v.waitCompletion(cq)) {
      equal(status, "SUCCESS");
      done++;
    }
  }
  cpu.report("figure", "done");
}

/** The rack, what card `a` has sent, and how many announcements that and the other requester's have. */
function runFigure(of: FigureRun) {
  const sent: RocePacket[] = [];
  let announcedByBoth = 0;
  const rack = new SimulatedRack(
    `
name: figure
defaults: { services: none, hints: on, fault: pause }
fabric: { rate: 1Gbps }
hosts: { a: {}, b: {}, c: {}, d: {} }
programs: [{ on: [b, c], run: ./server.ts, service: true }, { on: [a, d], run: ./client.ts, at: 200us }]
`,
    {
      programs: {
        "./server.ts": (context) => serveFigure(of, context),
        "./client.ts": (context) => askByFigure(of, context),
      },
      observer: {
        scope: "wire",
        see(seen) {
          if (seen.kind !== "sent" || seen.frame === undefined) return;
          const packet = decodePacket(seen.frame);
          const { name, kind } = rack.plan.nodes[seen.node]!;
          if (isRefusal(packet) || kind !== "rnic") return;
          if (hintOf(packet)?.type === "announce") announcedByBoth++;
          if (name === "a-rnic") sent.push(packet);
        },
        commit: () => {},
      },
    },
  );
  rack.run();
  return { rack, sent, announcedByBoth };
}

describe("a requester with two responders [0108, 0109, 0164, 0165]", () => {
  for (const number of [7, 8] as const) {
    const { b, c } = FIGURES[number];

    it(`H-05, H-08, H-31: figure ${number}: all hints of a batch leave before its first element`, () => {
      const memory: FigureRun["memory"] = new Map(), figure: FigureRun["figure"] = new Map();
      const { rack, sent, announcedByBoth } = runFigure({ number, memory, figure });
      same(rack.reported("program-failed"), []);
      same(rack.reported("figure"), ["done", "done"]);
      const hints = sent.flatMap((packet, at) => {
        const message = hintOf(packet);
        if (message?.type !== "announce") return [];
        const { bth: { destQpn } } = packet;
        return message.groups.map((group) => ({
          at,
          destQpn,
          group,
          ...figure.get(group.sourceQpn)!,
        }));
      });
      for (const each of [...b, ...c]) {
        const own = hints.filter((hint) => hint.each === each);
        equal(
          own.reduce((sum, { group }) => sum + group.entries.length, 0),
          ELEMENTS,
          `QP ${each}`,
        );
        // By itself (figure 7), or by the management queue pair of its responder (figure 8).
        const by = number === 7 ? each : (b as readonly number[]).includes(each) ? 101 : 102;
        const { peerQpn } = [...figure.values()].find((one) => one.each === by)!;
        same([...new Set(own.map(({ destQpn }) => destQpn))], [peerQpn], `QP ${each}`);
      }
      // Of the work that waited, none of it begins before the hints of all of it have left.
      const isElement = ({ bth, reth }: RocePacket) =>
        opcodeRow(bth.opcode)!.operation === "write" && reth?.length === 64;
      const firstAt = sent.findIndex(isElement);
      const before = hints.filter(({ at }) => at < firstAt);
      same([...new Set(before.map(({ each }) => each))].sort(), [...b, ...c].sort());
      // A second requester does the same at the same time: its hints are told apart by the sender.
      const cards = Object.values(rack.simulator.statistics());
      const total = (name: string) => cards.reduce((sum, card) => sum + (card[name] ?? 0), 0);
      equal(total("hintsIn"), announcedByBoth);
      equal(total("hintElements"), 2 * 4 * ELEMENTS);
      same(["hintsUnknownQp", "hintsNoAccess", "hintsOverQuota"].map(total), [0, 0, 0]);
    });
  }
});
