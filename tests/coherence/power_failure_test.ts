/**
 * C-10: the power of a host or of a card fails, on either side, or a cable is cut, at instants at which something
 * happens to a line: survivors are answered within the bound, find no old data in silence, and are told what is lost
 * by range. Judged by `console/checks`.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { FaultPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import type { RunRecord } from "../../console/checks/run_record.ts";
import { answered } from "../../console/checks/shared/answered.ts";
import { singleWriter } from "../../console/checks/shared/single_writer.ts";
import { findingsOfShared, recordOfShared, type SharedOf, sharedRack } from "./shared_rack.ts";

/** Instants of an undisturbed run that are tried for each fault: few in CI, each at which a line changes in a campaign. */
const INSTANTS = Deno.env.get("RACKMESH_COHERENCE") === "whole" ? Infinity : 6;
/** How long a machine stays without power, and a cable cut: longer than the lease of 20 µs, and shorter. */
const OFF_PS = [10, 70] as const;

const ONE_ENTRY = ", remoteCache: 1, localCache: 1, slots: 1, entries: 1, writeBacks: 1";

type Strike = (at: Time, offPs: Time | null) => (plan: RackPlan) => RackPlan;

function power(...nodes: string[]): Strike {
  return (at, offPs) => (plan) => {
    const kills = nodes.map((node): FaultPlan => ({ at, action: "kill", node }));
    const starts = offPs === null
      ? []
      : nodes.map((node): FaultPlan => ({ at: at + offPs, action: "start", node }));
    return { ...plan, faults: [...plan.faults, ...kills, ...starts] };
  };
}

function cut(card: string): Strike {
  return (at, offPs) => (plan) => {
    const cable = plan.cables.findIndex(({ kind, a, b }) =>
      kind === "network" && (a.node === card || b.node === card)
    );
    assert.ok(cable >= 0);
    const fault = { cable, direction: "both" } as const;
    return {
      ...plan,
      linkFaults: [
        { ...fault, id: 0, action: "cut", at },
        ...offPs === null ? [] : [{ ...fault, id: 1, action: "heal", at: at + offPs } as const],
      ],
    };
  };
}

const STRIKES: Readonly<Record<string, Strike>> = {
  "the home host": power("a"),
  "home's card": power("a-rnic"),
  "home with its card": power("a", "a-rnic"),
  "a far host": power("b"),
  "a far card": power("b-rnic"),
  "the far card's cable": cut("b-rnic"),
  "home's cable": cut("a-rnic"),
};

/** Instants at which states of lines change, spread over the run. */
function instantsOf({ notes }: RunRecord): Time[] {
  const all = notes.flatMap(({ time, note }) => note.kind === "line-state" ? [time] : []);
  const count = Math.min(INSTANTS, all.length);
  assert.ok(count >= 6);
  return Array.from({ length: count }, (_, i) => {
    const at = all[Math.floor((i + 0.5) * all.length / count)]!;
    // Before, at, and after what happens.
    return at + i % 3 - 1;
  });
}

function tried(of: SharedOf, strike: Strike): { wrong: string[]; lost: number; runs: number } {
  const rack = sharedRack(of);
  const wrong: string[] = [];
  let lost = 0, runs = 0;
  for (const [i, at] of instantsOf(recordOfShared(rack)).entries()) {
    // Each length with each of the instants around a change.
    const offUs = [...OFF_PS, null][(i + Math.floor(i / 3)) % 3]!;
    const offPs = offUs === null ? null : offUs * PS_PER_US;
    const record = recordOfShared(rack, strike(at, offPs)(rack.plan));
    runs++;
    lost += record.notes.filter(({ note }) => note.kind === "region-lost").length;
    wrong.push(...findingsOfShared(record).map((text) => `at ${at} ps, off ${offUs} µs: ${text}`));
  }
  return { wrong, lost, runs };
}

describe("C-09: without a fault", () => {
  for (const placement of ["remote", "local"] as const) {
    it(`C-09: hosts that access the same lines of a rack keep every promise, copies kept ${placement}`, () => {
      for (const more of ["", ONE_ENTRY]) {
        const record = recordOfShared(sharedRack({ seed: 3, placement, more, accesses: 80 }));
        assert.deepEqual(findingsOfShared(record), []);
        assert.equal(answered.subjects(record), 3 * 80);
        assert.ok(singleWriter.subjects(record) > 100);
      }
    });
  }
});

describe("C-10: power failures of a rack with a shared region", () => {
  for (const placement of ["remote", "local"] as const) {
    for (const [what, strike] of Object.entries(STRIKES)) {
      it(`C-10: ${what}, copies kept ${placement}: survivors are answered, and told what is lost`, () => {
        const { wrong, runs } = tried({ seed: 7, placement, accesses: 40 }, strike);
        assert.ok(runs >= 6);
        assert.deepEqual(wrong, []);
      });
    }
  }

  it("tables of one entry each", () => {
    for (const strike of Object.values(STRIKES)) {
      assert.deepEqual(tried({ seed: 9, accesses: 20, more: ONE_ENTRY }, strike).wrong, []);
    }
  });

  it("loses what only a card had, and says so", () => {
    const { wrong, lost } = tried({ seed: 7, accesses: 40 }, power("b-rnic"));
    assert.deepEqual(wrong, []);
    assert.ok(lost > 0);
  });
});
