/** How many receives are set aside for announced messages (H-21), where several queue pairs have them of one ring. */
import { deepEqual as same, equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { HINT_PLAN } from "../../../fabric/rack/plan/hint_plan.ts";
import type { PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import { type HintMessage, hintParts } from "../../../fabric/wire/roce/hint.ts";
import { HINT_KINDS } from "../../../fabric/wire/roce/hint_eth.ts";
import { OPCODE } from "../../../fabric/wire/roce/opcode.ts";
import { createSrq, createSrqQp, postShared } from "../testing/objects_testing.ts";
import {
  changed,
  coldMemory,
  counter,
  inject,
  packets,
  type Pair,
  post,
  statuses,
} from "../testing/pair_testing.ts";
import type { RigSrq } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import { lock, resumed } from "../testing/space2_testing.ts";

const NS = 1000, US = 1_000_000, LENGTH = 128;

interface Bench extends Pair {
  readonly srq: RigSrq;
  readonly pairs: readonly [Pair, Pair];
}

function plans() {
  const hints = { ...HINT_PLAN };
  return { plans: { a: { hints }, b: { hints } } };
}

/** Two pairs of queue pairs, which share the receives of `b`: so many are posted. */
function sharing(posted: number): Bench {
  const rig = new Rig(plans());
  const { from, to } = coldMemory(rig);
  const srq = createSrq(rig, rig.b, { depth: 256 }), cq = rig.createCq(rig.b);
  const pair = (): Pair => {
    const b = createSrqQp(rig, rig.b, { srq, cq }), a = rig.createQp(rig.a);
    rig.bringUp(rig.a, a, { qpn: b.qpn });
    rig.bringUp(rig.b, b, { qpn: a.qpn });
    return { rig, a, b, from, to };
  };
  const pairs = [pair(), pair()] as const;
  rig.run();
  const p = { ...pairs[0], srq, pairs };
  postReceives(p, posted);
  rig.run();
  return p;
}

function postReceives({ rig, srq, to }: Bench, count: number): void {
  const sges = [{ address: to.va, length: LENGTH, lkey: to.key }];
  for (let i = 0; i < count; i++) postShared(rig, rig.b, { srq, slot: i, sges });
}

/** A hint of `a` comes to `b`, that so many SENDs are coming. */
function announce(p: Pair, messages: number): void {
  const kinds = HINT_KINDS.receive;
  const entries = [{
    kinds,
    operation: "send",
    messages,
    sequence: 0,
    rkey: 0,
    va: 0n,
    length: 0,
    objects: [],
  }] as const;
  const groups = [{ sourceQpn: p.a.qpn, destQpn: p.b.qpn, entries }];
  const about = { kinds, reason: "none", sequence: 1, answer: false } as const;
  const message: HintMessage = { type: "announce", ...about, groups };
  const own = packets(p, "a").find(({ bth, hintEth }) =>
    hintEth !== undefined && bth.destQpn === p.b.qpn
  )!;
  const { hintEth, payload } = hintParts(message);
  const bth = { opcode: OPCODE["VENDOR HINT"], padCount: -payload.length & 3 };
  inject(p, "b", changed(own, { hintEth, payload, bth }));
}

const lookedAt = (p: Pair) => counter(p, "b", "hintReceives");

describe("receives set aside for announced messages", () => {
  it("H-21, H-24: for all queue pairs of a shared ring together no more than for one", () => {
    const p = sharing(120);
    const [first, second] = p.pairs;
    announce(first, 40);
    announce(second, 40);
    p.rig.run();
    equal(lookedAt(p), 64);
    const before = counter(p, "b", "wqeReads");
    for (const pair of [first, second, first]) announce(pair, 40);
    p.rig.run();
    same([lookedAt(p), counter(p, "b", "wqeReads")], [64, before], "there is no room");
  });

  it("H-21: what a queue pair wants that begins anew is wanted no more", () => {
    const p = sharing(120);
    const [first, second] = p.pairs;
    announce(first, 64);
    p.rig.runFor(100 * NS);
    p.rig.modify(p.rig.b, first.b, { state: "reset" });
    announce(second, 64);
    p.rig.run();
    equal(lookedAt(p), 64);
  });

  it("H-21: a count is kept while the shared ring has more, whoever has had what was fetched", () => {
    const p = sharing(40);
    const [first, second] = p.pairs;
    announce(first, 4);
    p.rig.run();
    equal(lookedAt(p), 4);
    // The fetch is begun for the second; the first is served before it.
    announce(second, 8);
    announce(first, 8);
    p.rig.run();
    equal(lookedAt(p), 20);
  });

  it("H-21: a ring that had none is looked at again for the next count", () => {
    const p = sharing(0);
    const [first, second] = p.pairs;
    for (let round = 1; round <= 3; round++) {
      announce(first, 4);
      announce(second, 4);
      p.rig.run();
      equal(lookedAt(p), 8 * (round - 1), "they are not posted");
      postReceives(p, 8);
      p.rig.run();
      announce(first, 4);
      announce(second, 4);
      p.rig.run();
      equal(lookedAt(p), 8 * round);
    }
  });

  it("H-21: and a queue pair's own is, too", () => {
    const rig = new Rig(plans());
    const memory = coldMemory(rig);
    const p = { rig, ...rig.connect({}), ...memory };
    rig.run();
    const { to } = p;
    for (let round = 1; round <= 3; round++) {
      announce(p, 6);
      rig.run();
      equal(lookedAt(p), 6 * (round - 1), "they are not posted");
      const sge = { address: to.va, length: LENGTH, lkey: to.key };
      for (let i = 0; i < 6; i++) rig.recv(rig.b, p.b, [sge], "pointer");
      rig.run();
      announce(p, 6);
      rig.run();
      equal(lookedAt(p), 6 * round);
    }
    // They are where they belong.
    for (let i = 0; i < 18; i++) post(p, "send", { length: 64 });
    rig.ring(rig.a, p.a.sq);
    rig.run();
    same(statuses(p), new Array<string>(18).fill("SUCCESS"));
  });

  it("H-21: a look at the ring that had begun before a count says nothing about that", () => {
    const rig = new Rig(plans());
    const p = { rig, ...rig.connect({}), ...coldMemory(rig) };
    rig.run();
    // The host's answer to the first look is on its way for long.
    const { host } = rig.b, take = host.take.bind(host);
    const late: PcieMessage[] = [];
    host.take = (message) => {
      const answer = take(message);
      if (message.kind !== "memory-read" || late.length > 0) return answer;
      late.push(answer!);
      return undefined;
    };
    announce(p, 2);
    rig.run(() => late.length === 1);
    const sge = { address: p.to.va, length: LENGTH, lkey: p.to.key };
    for (let i = 0; i < 4; i++) rig.recv(rig.b, p.b, [sge]);
    announce(p, 2);
    rig.runFor(US);
    equal(lookedAt(p), 0, "the look is under way");
    rig.toRnic(rig.b, late[0]!);
    rig.run();
    equal(lookedAt(p), 4);
  });

  it("H-21: a count that comes while the ring is paused is lost, and nothing is fetched for it later", () => {
    const p = sharing(8);
    const { srqn } = p.srq;
    lock(p.rig, p.rig.b, srqn);
    announce(p, 4);
    p.rig.runFor(US);
    resumed(p.rig.command(p.rig.b, { op: "unlock-space2", queue: srqn }));
    p.rig.run();
    const looks = ["hintReceives", "wqeReads"].map((name) => counter(p, "b", name));
    // The limit has the ring looked at.
    p.rig.command(p.rig.b, { op: "modify-srq", srqn, limit: 3 });
    p.rig.run();
    same(["hintReceives", "wqeReads"].map((name) => counter(p, "b", name)), looks);
    announce(p, 4);
    p.rig.run();
    equal(lookedAt(p), 4);
  });
});
