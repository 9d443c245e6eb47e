/** What a verified write completes with, and what keeps one from being sent (V-01, V-02, V-04, V-09). */
import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  encodeVerdict,
  VERIFY_BYTES_MAX,
  VERIFY_CHECKS,
  VERIFY_LEVELS,
  VERIFY_STATUS,
} from "../../../fabric/wire/roce/verify_eth.ts";
import { WQE_UNIT_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";
import { WQE_OPCODES } from "../../../fabric/wire/host_bus/wqe_opcode.ts";
import { go, pair, post, statuses } from "../testing/pair_testing.ts";
import { connectUc } from "../testing/unreliable_testing.ts";
import {
  alone,
  answer,
  CHECKED,
  FOREVER,
  frames,
  isAlive,
  MTU,
  postVerified,
  respond,
  sentSince,
  untilSent,
} from "../testing/verify_requester_testing.ts";

const ACK = "RC ACKNOWLEDGE", ANSWER = "RC RDMA READ RESPONSE ONLY";
const {
  written,
  "crc-mismatch": crcMismatch,
  "read-back-differs": readBackDiffers,
  "read-failed": readFailed,
} = VERIFY_STATUS;
const {
  "crc-before": crcBefore,
  compared,
  "crc-after": crcAfter,
  persisted,
  skipped,
} = VERIFY_CHECKS;

describe("the completion of a verified write", () => {
  it("V-01: brings the answer: status and checks, as a success or as VERIFY_ERR", () => {
    const verdicts = [
      { status: written, checks: 0 },
      { status: written, checks: crcBefore | compared | persisted },
      { status: written, checks: crcBefore | skipped },
      { status: crcMismatch, checks: crcBefore },
      { status: readBackDiffers, checks: crcBefore | crcAfter },
      { status: readFailed, checks: crcBefore },
    ];
    const p = alone({ pathMtu: MTU, ...FOREVER, maxRdAtomic: 16 });
    for (const _ of verdicts) postVerified(p, { ...CHECKED, length: 8 });
    const sent = untilSent(p, verdicts.length);
    for (const [i, said] of verdicts.entries()) answer(p, sent[i]!, said);
    p.rig.run();
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    same(
      cqes.map(({ opcode, status, verify, wqeOpcode }) => [opcode, status, verify, wqeOpcode]),
      verdicts.map((said) => [
        "requester",
        said.status === written ? "SUCCESS" : "VERIFY_ERR",
        encodeVerdict(said),
        WQE_OPCODES["write-verify"].code,
      ]),
    );
    equal(isAlive(p), true);
  });

  it("V-01: of a failure comes though nothing was asked for; a success stays silent", () => {
    const p = alone({ pathMtu: MTU, ...FOREVER });
    const positions = [written, crcMismatch, written].map(() =>
      postVerified(p, { ...CHECKED, length: 8, unsignaled: true })
    );
    const sent = untilSent(p, 3);
    for (const [i, status] of [written, crcMismatch, written].entries()) {
      answer(p, sent[i]!, { status });
    }
    p.rig.run();
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    same(cqes.map(({ status, wqeIndex }) => [status, wqeIndex]), [["VERIFY_ERR", positions[1]]]);
    equal(isAlive(p), true);
  });

  it("V-09: names message and place of what was to be persisted, as P-25 has it", () => {
    for (const persist of [true, false]) {
      const p = alone({ pathMtu: MTU, ...FOREVER });
      postVerified(p, { level: "check", persist, length: 2 * MTU, at: 512 });
      const sent = untilSent(p, 2);
      answer(p, sent[1]!, { checks: crcBefore | (persist ? persisted : 0) });
      p.rig.run();
      const [cqe] = p.rig.poll(p.rig.a, p.a.sendCq);
      const named = persist ? [sent[1]!.bth.psn, BigInt(p.to.va + 512)] : [0, 0n];
      same([cqe?.psn, cqe?.va], named);
    }
  });

  it("§3.2: comes in the order of posting, before and behind other work", () => {
    const p = alone({ pathMtu: MTU, ...FOREVER });
    postVerified(p, { ...CHECKED, length: 2 * MTU });
    post(p, "write", { length: 8 });
    post(p, "read", { length: 8, at: 64 });
    postVerified(p, { ...CHECKED, length: 8 });
    const sent = untilSent(p, 5);
    answer(p, sent[1]!);
    respond(p, ACK, sent[2]!);
    respond(p, ANSWER, sent[3]!, { payload: Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8) });
    answer(p, sent[4]!);
    p.rig.run();
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    const { "write-verify": verified, write, read } = WQE_OPCODES;
    const opcodes = [verified, write, read, verified].map(({ code }) => code);
    same(cqes.map(({ wqeOpcode }) => wqeOpcode), opcodes);
    same(p.rig.bytes(p.rig.a, p.from, 64, 8), Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8));
  });
});

describe("checkWork", () => {
  it("V-01: lets as many verified writes out as the peer keeps answers for", () => {
    const p = alone({ pathMtu: MTU, ...FOREVER, maxRdAtomic: 2 });
    for (let i = 0; i < 4; i++) postVerified(p, { ...CHECKED, length: 2 * MTU });
    const sent = untilSent(p, 4);
    same(sentSince(p, 4), []);
    answer(p, sent[1]!);
    same(sentSince(p, 4), ["VERIFY FIRST 4", "VERIFY LAST 5"]);
  });

  it("V-01: where the peer keeps none, it is no operation of the queue pair", () => {
    const p = alone({ ...FOREVER, maxRdAtomic: 0 });
    postVerified(p, { ...CHECKED, length: 8 });
    go(p);
    same(statuses(p), ["LOC_QP_OP_ERR"]);
  });

  it("V-04 (in part): a level that is none is no operation", () => {
    const p = alone(FOREVER);
    const position = postVerified(p, { ...CHECKED, length: 8 });
    const level = p.a.sq.address + position * WQE_UNIT_BYTES + 32;
    equal(p.rig.a.host.memory[level], VERIFY_LEVELS.indexOf(CHECKED.level));
    p.rig.a.host.memory[level] = VERIFY_LEVELS.length;
    go(p);
    same(statuses(p), ["LOC_QP_OP_ERR"]);
    equal(frames(p), 0);
  });

  it("V-01: a fence behind it waits for its answer", () => {
    const p = alone({ pathMtu: MTU, ...FOREVER });
    postVerified(p, { ...CHECKED, length: 8 });
    post(p, "write", { length: 8, fence: true });
    const sent = untilSent(p, 1);
    same(sentSince(p, 1), []);
    answer(p, sent[0]!);
    same(sentSince(p, 1), ["WRITE ONLY 1"]);
  });

  it("V-02: refuses what is too long to be checked; without a check any length goes", () => {
    for (const level of VERIFY_LEVELS) {
      const p = alone({ pathMtu: 4096, ...FOREVER }, { memoryBytes: 1 << 23 });
      const length = VERIFY_BYTES_MAX + 1;
      const from = p.rig.register(p.rig.a, { length, va: 0x2_0000_0000 });
      const sges = [{ address: from.va, length, lkey: from.key }];
      postVerified(p, { level, persist: false, sges });
      go(p);
      same(statuses(p), level === "none" ? [] : ["LOC_LEN_ERR"], level);
      equal(frames(p) > 0, level === "none");
    }
  });

  it("V-06 (in part): does not exist on an unreliable connection", () => {
    const rc = pair();
    const p = { ...rc, ...connectUc(rc.rig) };
    postVerified(p, { ...CHECKED, length: 8 });
    go(p);
    same(statuses(p), ["LOC_QP_OP_ERR"]);
    equal(frames(p), 0);
  });

  it("§3.2: a key that does not hold is found before anything is sent", () => {
    const p = alone({ ...FOREVER });
    const sges = [{ address: p.from.va, length: 8, lkey: p.from.key + 1 }];
    postVerified(p, { ...CHECKED, sges });
    go(p);
    same(statuses(p), ["LOC_PROT_ERR"]);
    equal(frames(p), 0);
  });
});

describe("noteSend", () => {
  it("V-04: tells the steps of figure 5 or 6, by what the level looks at", () => {
    const stepsOf = (level: typeof VERIFY_LEVELS[number]) => {
      const p = alone({ pathMtu: MTU, ...FOREVER });
      p.rig.tracing = true;
      postVerified(p, { level, persist: false, length: 2 * MTU });
      const sent = untilSent(p, 2);
      answer(p, sent[1]!);
      p.rig.run();
      return p.rig.traces.map(({ step }) => step.step).filter((step) => /^4[56]/.test(step));
    };
    same(VERIFY_LEVELS.map(stepsOf), [
      ["4502", "4505"],
      ["4502", "4505"],
      ["4602", "4608"],
      ["4602", "4608"],
      ["4602", "4608"],
      ["4602", "4608"],
    ]);
  });
});
