/** What both cards say of hints (document 001_, figure 6), line by line. */
import { deepEqual as same, equal, match, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { HINT_PLAN } from "../../../fabric/rack/plan/hint_plan.ts";
import { coldMemory, EVERY_ACCESS, go, type Pair, post, recvs } from "../testing/pair_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import { connectUc } from "../testing/unreliable_testing.ts";
import { psnAdd } from "../state/psn.ts";

const PAGE = 4096, PATH_MTU = 1024;

/** A pair of which both cards take part in hints, and whose target memory is on demand. */
function cold(type: "rc" | "uc" = "rc"): Pair {
  const hints = { ...HINT_PLAN, follow: "delay" as const, delayPs: 100 * PS_PER_US };
  const plan = { hints, pageFault: "pause" as const };
  const rig = new Rig({ plans: { a: plan, b: plan } });
  const memory = coldMemory(rig);
  const attributes = { accessFlags: EVERY_ACCESS, pathMtu: PATH_MTU } as const;
  const ends = type === "uc" ? connectUc(rig, attributes) : rig.connect({ attributes });
  rig.run();
  rig.tracing = true;
  return { rig, ...ends, ...memory };
}

function said({ rig }: Pair, word: string) {
  return rig.traces.flatMap(({ step }) => step.step === word ? [step] : []);
}

describe("a hint's ladder", () => {
  it("H-20: of pages that are away it has ranges, and no page between them that is there", () => {
    const p = cold();
    post(p, "write", { at: PAGE, length: 64 });
    go(p);
    p.rig.traces.length = 0;
    post(p, "write", { length: 3 * PAGE });
    go(p);
    const decided = said(p, "hint-decision").map(({ pages }) => pages);
    same(decided, [[p.to.key, 0, 1], [p.to.key, 2, 3]]);
    match(said(p, "hint-decision")[0]!.text, /: page 0 of rkey 0x\w+ is away, and brought in$/);
  });

  it("H-21: of a receive that is set aside it has the pages that are away, and none that are there", () => {
    const p = cold();
    for (const pages of [[p.to.key, 4, 5], undefined]) {
      p.rig.traces.length = 0;
      recvs(p, 1);
      p.rig.run();
      post(p, "send", { length: 64 });
      go(p);
      const [ahead, ...others] = said(p, "receive-ahead");
      same([ahead!.pages, others], [pages, []]);
    }
  });

  it("H-03: SENDs of several packets that are counted have all of their PSNs, where these are known", () => {
    const p = cold();
    recvs(p, 2);
    p.rig.run();
    // Of 3 packets each.
    for (let i = 0; i < 2; i++) post(p, "send", { length: 2 * PATH_MTU + 1 });
    go(p);
    const [out, ...others] = said(p, "hint-out"), [into] = said(p, "hint-in");
    equal(others.length, 0);
    equal(out!.lastPsn, psnAdd(out!.psn!, 5));
    same([into!.psn, into!.lastPsn], [out!.psn, psnAdd(out!.psn!, 1)]);
  });

  it("UC's requests have one, too: each line names the connection and the request's PSN", () => {
    const p = cold("uc");
    post(p, "write", { length: 64 });
    go(p);
    const [begun] = p.rig.traces.filter(({ step }) => step.wqe !== undefined);
    const { psn, connection } = begun!.step;
    ok(connection !== undefined);
    for (const word of ["hint-out", "hint-in", "hint-decision"]) {
      same(said(p, word).map((line) => [line.psn, line.connection]), [[psn, connection]], word);
    }
  });
});
