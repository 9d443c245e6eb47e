/**
 * Whole-system persistence (domain `wsp`): what the bus has taken survives a power failure of the host, so
 * nothing has to be flushed and every completion promises persistence. P-41 at many instants, with DDIO
 * off and on; and what becomes of it without the card's journal.
 */
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import {
  firstLoss,
  isPutResult,
  type Loss,
  type PutResult,
} from "../../console/checks/survival.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const FILE = "data.bin";
/** Not whole lines, and larger than what the IIO lets pass at once. */
const CONTENT = Uint8Array.from({ length: 40_000 }, (_, i) => (i * 197 + (i >> 8) * 31) % 251 + 1);
const METHODS = ["write-only", "write-read", "write-flush", "persist-opcode", "persist-address"];
const INSTANTS = 10;

interface Run {
  readonly method: string;
  readonly ddio: "off" | "on";
  readonly domain?: string;
  readonly faults?: string;
  readonly change?: (plan: RackPlan) => RackPlan;
  readonly unsound?: string;
}

function put({ method, ddio, domain = "wsp", faults = "[]", ...rest }: Run): SimulatedRack {
  return new SimulatedRack(
    `
name: flush-on-fail
seed: 5
hosts: { a: {}, b: { ddio: ${ddio}, domain: ${domain}, scm: { size: 1MiB } } }
programs:
  - { on: a, run: put, to: b, file: ${FILE}, method: ${method}, size: 1000, depth: 8 }
faults: ${faults}
`,
    { inputs: { [FILE]: CONTENT }, ...rest },
  ).run();
}

function resultOf(rack: SimulatedRack): PutResult {
  const [result] = (rack.reported("result", "a") as unknown[]).filter(isPutResult);
  ok(result !== undefined, JSON.stringify(rack.reported("program-failed")));
  return result;
}

function lossOf(rack: SimulatedRack): Loss | undefined {
  const result = resultOf(rack);
  const { scmOffset, length } = result.object;
  return firstLoss(result, CONTENT, rack.scm.get("b")!.subarray(scmOffset, scmOffset + length));
}

/** Instants over a run that nothing disturbs, of the bus transfers as of the pauses between. */
function instantsOf(run: Run): Time[] {
  const { startPs, endPs } = resultOf(put(run));
  const step = Math.floor((endPs - startPs) / (INSTANTS + 1));
  return Array.from({ length: INSTANTS }, (_, i) => startPs + (i + 1) * step + 131 * i);
}

describe("domain wsp", () => {
  for (const ddio of ["off", "on"] as const) {
    for (const method of METHODS) {
      it(`P-01, P-41: ${method}, DDIO ${ddio}: every completion promises, and what it promises survives`, () => {
        let confirmed = 0;
        for (const at of instantsOf({ method, ddio })) {
          const rack = put({ method, ddio, faults: `[{ at: ${at}ps, kill: b }]` });
          const result = resultOf(rack);
          equal(result.promises, true);
          equal(lossOf(rack), undefined, `killed at ${at} ps`);
          confirmed += result.confirmedMessages;
        }
        ok(confirmed > 0, "there was something to be lost");
      });

      it(`P-05, P-41: ${method}, DDIO ${ddio}: the host that is back has all of it`, () => {
        for (const at of instantsOf({ method, ddio }).filter((_, i) => i % 4 === 0)) {
          const back = at + 3 * PS_PER_US;
          const faults = `[{ at: ${at}ps, kill: b }, { at: ${back}ps, start: b }]`;
          const rack = put({ method, ddio, faults });
          same(rack.reported("held", "b-rnic").at(-1), { host: "b", writes: [] });
          equal(lossOf(rack), undefined, `killed at ${at} ps`);
        }
      });
    }
  }

  it("P-24, P-26: neither an LSB read nor the CPU flushes: there is nothing to be flushed", () => {
    for (const ddio of ["off", "on"] as const) {
      const rack = put({ method: "persist-opcode", ddio });
      const { lsbReads, recvPersisted, persistAcksOut } = rack.simulator.statistics()["b-rnic"]!;
      same([lsbReads, recvPersisted, persistAcksOut], [0, 0, 40]);
      equal(resultOf(rack).confirmedMessages, 40);
    }
  });

  it("P-41: without the card's journal something that was promised is lost", () => {
    const change = (plan: RackPlan): RackPlan => ({
      ...plan,
      nodes: plan.nodes.map((node) => {
        if (node.kind !== "rnic") return node;
        const { flushOnFail: _, ...config } = node.config;
        return { ...node, config };
      }),
    });
    const unsound = "what is lost is the point";
    const run = { method: "write-only", ddio: "off", unsound } as const;
    const losses = instantsOf(run).map((at) =>
      lossOf(put({ ...run, change, faults: `[{ at: ${at}ps, kill: b }]` }))
    );
    ok(losses.some((loss) => loss !== undefined), "else the journal would not be needed");
  });

  it("P-05: cards of hosts with a narrower domain hold nothing", () => {
    for (const domain of ["adr", "eadr"]) {
      const [at] = instantsOf({ method: "write-only", ddio: "on", domain });
      const faults = `[{ at: ${at}ps, kill: b }]`;
      const rack = put({ method: "write-only", ddio: "on", domain, faults });
      same(rack.reported("held"), []);
    }
  });
});
