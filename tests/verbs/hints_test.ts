/** Hints over the whole rack: the shipped scenarios, and promises under power failures. */
import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { MethodName } from "../../fabric/rack/plan/vocabulary.ts";
import coldPages from "../../scripts/scenarios/hints_cold_pages.ts";
import hostile, { check } from "../../scripts/scenarios/hints_hostile.ts";
import manyQueues from "../../scripts/scenarios/hints_many_queues.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const SHIPPED = new URL("../../scripts/scenarios/", import.meta.url);

interface Row {
  readonly behind: number;
  readonly warm: number;
  readonly stall: number;
  readonly held: number;
}

describe("hints in a rack", () => {
  it("H-30 (in part): hints_cold_pages.yaml: behind other work a cold message stalls no more", async () => {
    const text = await Deno.readTextFile(new URL("hints_cold_pages.yaml", SHIPPED));
    // A sixteenth of the bytes at a sixteenth of the rate.
    const small = text.replaceAll("1048576", "65536").replaceAll("2097152", "131072")
      .replace("25Gbps", "1562Mbps");
    const rack = new SimulatedRack(small, { programs: { "./hints_cold_pages.ts": coldPages } })
      .run();
    const rows = (host: string) => {
      const found = rack.reported("result", host).filter((row) => "behind" in row!);
      equal(found.length, 2, JSON.stringify(rack.reports));
      return found as unknown as [Row, Row];
    };
    const off = rows("off");
    for (const { stall, held } of off) {
      ok(stall > 460, `NSDI'20: 475 us, here ${stall}`);
      equal(held, 0);
    }
    const [alone, behind] = rows("at-once");
    ok(alone.stall > 0.9 * off[0].stall, "a hint right ahead of its request comes too late");
    ok(behind.stall < 0.1 * off[1].stall, `${behind.stall} us of ${off[1].stall} us remain`);
    for (const row of rows("delayed")) {
      ok(row.stall < 1 && row.held === 600, "the wait takes the stall's place");
    }
    // The answer comes when all pages are there, which the message need not wait for.
    for (const [i, { stall, held }] of rows("after-ack").entries()) {
      ok(held >= stall - 1 && stall >= off[i]!.stall - 10, `${stall} us, of which held ${held}`);
    }
    const counted = Object.fromEntries(
      rack.reported("result", "server").map((row) => [row!.client as string, row!]),
    );
    same(Object.keys(counted), ["off", "at-once", "delayed", "after-ack"]);
    equal(counted["off"]!.hintsIn, 0);
    equal(counted["at-once"]!.hintPagesLate, 1, "the first page of the message alone");
    equal(counted["delayed"]!.hintPagesLate, 0);
    for (const { hintPagesWasted } of Object.values(counted)) equal(hintPagesWasted, 0);
  });

  it("H-30 (in part): hints_many_queues.yaml: contexts are read before they are missed", async () => {
    const text = await Deno.readTextFile(new URL("hints_many_queues.yaml", SHIPPED));
    const small = text.replaceAll("queuePairs: 64", "queuePairs: 24").replaceAll("61ms", "31ms")
      .replace("121ms", "61ms").replace("entries: 32", "entries: 16");
    const rack = new SimulatedRack(small, { programs: { "./hints_many_queues.ts": manyQueues } })
      .run();
    const [off, carrier, afterAck, ...others] = rack.reported("result", "server") as unknown as {
      readonly client: string;
      readonly contextMisses: number;
      readonly hintContextsFetched: number;
      readonly hintContextsUseful: number;
    }[];
    same([off!.client, carrier!.client, afterAck!.client, others.length], [
      "off",
      "carrier",
      "after-ack",
      0,
    ]);
    ok(off!.contextMisses > 80 && off!.hintContextsFetched === 0, JSON.stringify(off));
    for (const hinted of [carrier!, afterAck!]) {
      ok(hinted.contextMisses < 0.7 * off!.contextMisses, JSON.stringify(hinted));
      ok(hinted.hintContextsUseful > 0.9 * hinted.hintContextsFetched);
    }
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
    // The page requests of one quota stand behind each other, and are answered before the next one's are asked for.
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
