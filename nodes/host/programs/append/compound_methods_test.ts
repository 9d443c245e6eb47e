import { MEMORIES } from "../../../../fabric/rack/plan/plan.ts";
import { METHODS, UPDATES } from "../../../../fabric/rack/plan/vocabulary.ts";
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { compoundPlan, type CompoundRequest, type CompoundTerms } from "./compound_methods.ts";

const ALL: readonly CompoundTerms[] = METHODS.flatMap((method) =>
  (["read", "cpu", "none"] as const).flatMap((flusher) =>
    MEMORIES.flatMap((receive) =>
      (["persistence", "reception"] as const).flatMap((policy) =>
        UPDATES.map((update): CompoundTerms => ({ method, flusher, receive, policy, update }))
      )
    )
  )
);

function nameOf(terms: CompoundTerms): string {
  return Object.values(terms).join(", ");
}

/** Whether the request itself writes to this part, however it gets there. */
function puts(request: CompoundRequest, part: "record" | "tail"): boolean {
  return /^(write|atomic)/.test(request.opcode) && request.part === part;
}

describe("compoundPlan", () => {
  it("P-31: where the CPU flushes, never has the tail written behind a record that is not flushed", () => {
    for (const terms of ALL) {
      if (terms.flusher !== "cpu" || terms.update !== "ordered") continue;
      const plan = compoundPlan(terms);
      if (!plan!.ordered) continue;
      for (const round of plan!.rounds) {
        const tail = round.findIndex((each) => puts(each, "tail"));
        if (tail < 0 || !round.some((each) => puts(each, "record"))) continue;
        // The standard's way: FLUSH, then the one write that waits for it.
        const before = round.slice(0, tail).map(({ opcode, part }) => `${opcode} ${part}`);
        same([before.at(-1), round[tail]!.opcode], ["flush record", "atomic-write"], nameOf(terms));
      }
    }
  });

  it("P-31: has every update write the record before the tail, but for those that are wrong in that", () => {
    for (const terms of ALL) {
      const requests = compoundPlan(terms)?.rounds.flat();
      if (requests === undefined) continue;
      const record = requests.findIndex((each) => puts(each, "record"));
      const tail = requests.findIndex((each) => puts(each, "tail"));
      if (record < 0 || tail < 0) continue;
      equal(tail < record, terms.update === "tail-first", nameOf(terms));
    }
  });

  it("has four requests at most, and one round trip unless the requester must wait for persistence", () => {
    for (const terms of ALL) {
      const plan = compoundPlan(terms);
      if (plan === undefined) continue;
      ok(plan.rounds.flat().length <= 4, nameOf(terms));
      const needsCpu = terms.method.startsWith("persist-") || terms.method === "write-imm-flush";
      const isEmulated = terms.method === "emulated-flush";
      const waits = terms.update === "ordered" &&
        (isEmulated || (needsCpu && terms.flusher === "cpu"));
      equal(plan.rounds.length, waits ? 2 : 1, nameOf(terms));
    }
  });

  it("P-12 (in part): promises what a put by the method promises", () => {
    for (const terms of ALL) {
      const plan = compoundPlan(terms);
      if (plan === undefined) continue;
      const { method, flusher, receive } = terms;
      const expected = method === "write-only"
        ? flusher === "none"
        : ["write-read", "librpma-apm", "emulated-flush", "write-imm"].includes(method)
        ? flusher !== "cpu"
        : method === "send-read"
        ? flusher !== "cpu" && receive === "scm"
        : true;
      equal(plan.promises, expected, nameOf(terms));
    }
  });

  it("changes nothing but the requests where an update is wrong on purpose", () => {
    for (const terms of ALL) {
      const plan = compoundPlan(terms);
      const right = compoundPlan({ ...terms, update: "ordered" });
      if (plan !== undefined) {
        same({ ...plan, rounds: [] }, { ...right, rounds: [] }, nameOf(terms));
      }
    }
  });
});
