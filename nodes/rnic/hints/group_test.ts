/** H-08, figure 9: one UD queue pair sends all hints to all responders, each of which picks out what concerns it. */
import { deepEqual as same, equal, ok, throws } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { HINT_PLAN, type HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import { type HintMessage, hintOf } from "../../../fabric/wire/roce/hint.ts";
import { opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import {
  coldMemory,
  counter,
  EVERY_ACCESS,
  go,
  inject,
  packetOf,
  type Pair,
  post,
  statuses,
} from "../testing/pair_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import { createUd, packetsFrom } from "../testing/unreliable_testing.ts";

const PAGE = 4096, GROUP = 0xe000_0a01, QPS = 4;

interface Options {
  readonly a?: Partial<HintPlan>;
  readonly b?: Partial<HintPlan>;
  /** Protection domains of the group's queue pairs; the others' is 1. */
  readonly pd?: number;
  readonly qKey?: number;
  readonly mtu?: 256 | 1024;
  /** Of the queue pairs that the hints are about. */
  readonly pathMtu?: 256 | 1024;
}

/** Queue pairs whose target memory is on demand, and at each end one in the group of hints. */
function grouped({ a = {}, b = {}, pd = 1, qKey = 7, mtu = 1024, pathMtu = mtu }: Options = {}) {
  const plan = { ...HINT_PLAN, transport: "multicast" as const };
  const rig = new Rig({
    plans: {
      a: { mtu, hints: { ...plan, ...a } },
      b: { hints: { ...plan, ...b }, pageFault: "pause", mtu },
    },
  });
  const { from, to } = coldMemory(rig);
  const members = [rig.a, rig.b].map((side, i) => {
    const qp = createUd(rig, side, {
      hints: "group",
      privileged: true,
      pd,
      qKey: i === 0 ? 7 : qKey,
    });
    equal(rig.command(side, { op: "attach-mcast", qpn: qp.qpn, group: GROUP }).status, "ok");
    return qp;
  });
  const attributes = { accessFlags: EVERY_ACCESS, timeout: 9, pathMtu };
  const pairs = Array.from(
    { length: QPS },
    (): Pair => ({ rig, ...rig.connect({ attributes }), from, to }),
  );
  rig.run();
  return { rig, members, pairs, p: pairs[0]! };
}

function writeAll(pairs: readonly Pair[], each = 1): void {
  for (const [i, p] of pairs.entries()) {
    for (let k = 0; k < each; k++) post(p, "write", { at: (i + k * QPS) * PAGE, length: 64 });
  }
  for (const p of pairs) p.rig.ring(p.rig.a, p.a.sq);
  pairs[0]!.rig.run();
}

/** A list of 50 WRITEs of each queue pair: what follows its long message has time to be looked at. */
function writeLists(pairs: readonly Pair[]): void {
  for (const p of pairs) {
    post(p, "write", { length: 4 * PAGE });
    for (let i = 1; i < 50; i++) post(p, "write", { at: i * 512, length: 8, signaled: i === 49 });
    p.rig.ring(p.rig.a, p.a.sq);
  }
  pairs[0]!.rig.run();
}

const announced = (p: Pair): { packet: RocePacket; message: HintMessage }[] =>
  packets(p, "a").flatMap((packet) => {
    const message = hintOf(packet);
    return message?.type === "announce" ? [{ packet, message }] : [];
  });

/** Reports of the group's members are no packets of RoCE. */
const packets = ({ rig }: Pair, from: "a" | "b") => packetsFrom(rig, from);

const isWhole = ({ rig, from, to }: Pair, count = QPS) =>
  Array.from({ length: count }, (_, i) => i * PAGE).every((at) =>
    rig.bytes(rig.b, to, at, 64).toHex() === rig.bytes(rig.a, from, at, 64).toHex()
  );

function succeed(pairs: readonly Pair[], each = 1): void {
  for (const p of pairs) same(statuses(p), new Array<string>(each).fill("SUCCESS"));
}

describe("H-08: a group has the hints for all peers (figure 9)", () => {
  it("H-08, H-31: figure 9: datagrams to the group have the hints of all queue pairs", () => {
    const { pairs, p, members } = grouped();
    writeAll(pairs);
    succeed(pairs);
    ok(isWhole(p));
    const sent = announced(p);
    for (const { packet } of sent) {
      equal(opcodeRow(packet.bth.opcode)!.name, "UD SEND ONLY");
      equal(packet.destinationAddress >>> 0, GROUP);
      equal(packet.deth!.sourceQpn, members[0]!.qpn);
    }
    const groups = sent.flatMap(({ message }) => message.groups);
    same(
      groups.map(({ sourceQpn, destQpn }) => `${sourceQpn} ${destQpn}`).sort(),
      pairs.map(({ a, b }) => `${a.qpn} ${b.qpn}`).sort(),
    );
    equal(counter(p, "b", "hintPagesAsked"), QPS);
    same(sent.map(({ packet }) => packet.bth.psn), sent.map((_, i) => i));
    equal(counter(p, "b", "rnrNaksOut"), 0, "no receive is taken");
  });

  it("H-08, H-22: by queue pair, of which each is answered by unicast, hints get rare", () => {
    const { pairs, p } = grouped({ a: { batch: 1 } });
    const [first, second] = pairs as [Pair, Pair];
    const hinted = (each: Pair, count: number) =>
      Array.from({ length: count }, () => {
        const before = announced(p).length;
        post(each, "write", { length: 64 });
        each.rig.ring(each.rig.a, each.a.sq);
        each.rig.run();
        return announced(p).length > before ? "h" : "-";
      }).join("");
    writeAll(pairs);
    equal(hinted(first, 8), "hhhhhhhh");
    equal(hinted(first, 6), "-h---h");
    equal(hinted(second, 1), "h", "its context may not be there");
    equal(hinted(second, 8), "-------h", "which it is, and all else has been for long");
  });

  it("H-08: a hint to a group that is longer than one datagram is several", () => {
    const sizes = ([256, 1024] as const).map((mtu) => {
      const { pairs, p } = grouped({ a: { depth: 64, batch: 12 }, mtu });
      writeLists(pairs);
      succeed(pairs, 2);
      const groups = announced(p).flatMap(({ message }) => [message.groups]);
      ok(groups.some(({ length }) => length > 1), "one is about several queue pairs");
      const elements = groups.flat().reduce((sum, { entries }) => sum + entries.length, 0);
      equal(elements, QPS * 50, "each element once");
      return Math.max(...announced(p).map(({ packet }) => packet.payload.length));
    });
    ok(sizes[0]! <= 256 && sizes[1]! > 256, `${sizes}`);
  });

  it("H-06, H-22: of several datagrams each queue pair waits for answers to those about itself alone", () => {
    const { pairs, p } = grouped({
      a: { depth: 64, batch: 12, follow: "after-ack" },
      mtu: 256,
    });
    writeLists(pairs);
    succeed(pairs, 2);
    const about = announced(p).map(({ message }) => message.groups.map((each) => each.sourceQpn));
    ok(about.some((qpns, i) => i > 0 && qpns.some((qpn) => !about[i - 1]!.includes(qpn))));
    equal(counter(p, "a", "hintsUnanswered"), 0);
  });

  it("H-08: what is about a queue pair in error is ignored, as what is about another card's", () => {
    const { pairs, p, rig } = grouped();
    rig.modify(rig.b, pairs[0]!.b, { state: "err" });
    writeAll(pairs);
    succeed(pairs.slice(1));
    const about = announced(p).flatMap(({ message }) => message.groups);
    ok(about.some(({ sourceQpn }) => sourceQpn === pairs[0]!.a.qpn));
    same([counter(p, "b", "hintsUnknownQp"), counter(p, "b", "hintsIn")], [0, QPS - 1]);
  });

  it("H-22: each queue pair is answered for itself, by unicast", () => {
    const { pairs, p } = grouped({ a: { follow: "after-ack" } });
    writeAll(pairs);
    succeed(pairs);
    ok(isWhole(p));
    equal(counter(p, "a", "hintsPrepared"), QPS);
    equal(counter(p, "a", "hintsUnanswered"), 0);
    equal(counter(p, "b", "pageStallPs"), 0);
    const answers = packets(p, "b").filter((packet) => hintOf(packet)?.type === "prepared");
    same(
      answers.map(({ bth, destinationAddress }) => [bth.destQpn, destinationAddress]).sort(),
      pairs.map(({ a }) => [a.qpn, p.rig.a.plan.address]).sort(),
    );
  });

  it("H-22: each queue pair's answer has the reasons of its own elements", () => {
    const { pairs, p } = grouped({ a: { follow: "after-ack" }, b: { quota: 2 } });
    writeAll(pairs);
    succeed(pairs);
    ok(isWhole(p));
    const answers = packets(p, "b").flatMap((packet) => {
      const message = hintOf(packet);
      return message?.type === "refused" ? [{ packet, message }] : [];
    });
    equal(answers.length, QPS - 2);
    for (const { packet: { bth, destinationAddress }, message: { reason, groups } } of answers) {
      const pair = pairs.find(({ a }) => a.qpn === bth.destQpn)!;
      same([reason, destinationAddress], ["quota", p.rig.a.plan.address]);
      same(
        groups.map(({ sourceQpn, destQpn, entries }) => [sourceQpn, destQpn, entries.length]),
        [[pair.a.qpn, pair.b.qpn, 1]],
      );
    }
    same(
      ["hintsPrepared", "hintsRefused", "hintsUnanswered"].map((name) => counter(p, "a", name)),
      [
        2,
        QPS - 2,
        0,
      ],
    );
  });

  it("H-22: what a datagram has room for, and an answer has not, is answered by several", () => {
    const a = { depth: 64, batch: 40, follow: "after-ack" } as const;
    const { p, rig } = grouped({ a, b: { quota: 1 }, pathMtu: 256 });
    // What follows a long message has time to come to the chip.
    post(p, "write", { length: 4 * PAGE });
    const last = 48;
    for (let i = 1; i <= last; i++) {
      post(p, "write", { at: i % 8 * PAGE, length: 8, signaled: i === last });
    }
    rig.ring(rig.a, p.a.sq);
    rig.run();
    succeed([p], 2);
    const answers = packets(p, "b").filter((packet) => hintOf(packet)?.type === "refused");
    const parts = new Map<number, boolean[]>();
    for (const packet of answers) {
      const { sequence, answer, reason } = hintOf(packet)!;
      equal(reason, "quota");
      ok(packet.payload.length <= 256, `${packet.payload.length} B`);
      parts.set(sequence, [...parts.get(sequence) ?? [], answer]);
    }
    ok([...parts.values()].some(({ length }) => length > 2), "one is answered by several");
    // Another one follows each but the last.
    for (const each of parts.values()) same(each, each.map((_, i) => i < each.length - 1));
    equal(counter(p, "a", "hintsRefused"), parts.size);
    equal(counter(p, "a", "hintsUnanswered"), 0);
  });

  it("H-06: silence of a group, whose members have another Q_Key, ends with the patience", () => {
    const { pairs, p } = grouped({ a: { follow: "after-ack", patiencePs: 50e6 }, qKey: 8 });
    writeAll(pairs);
    succeed(pairs);
    equal(counter(p, "b", "drop-q-key"), announced(p).length);
    equal(counter(p, "a", "hintsUnanswered"), QPS);
  });

  it("H-08: one that leaves another group than that has hints on, and none when it leaves this one", () => {
    const { pairs, p, members } = grouped();
    const { rig } = p, [own] = members, other = GROUP + 1;
    const act = (op: "attach-mcast" | "detach-mcast", group: number) =>
      equal(rig.command(rig.a, { op, qpn: own!.qpn, group }).status, "ok");
    // It is a member of both: the hints go to the one that came last.
    act("attach-mcast", other);
    act("detach-mcast", GROUP);
    const groups = () => announced(p).map(({ packet }) => packet.destinationAddress);
    writeAll(pairs);
    ok(groups().length > 0);
    same(new Set(groups()), new Set([other]));
    const before = announced(p).filter(({ packet }) => packet.destinationAddress === other).length;
    act("detach-mcast", other);
    writeAll(pairs);
    same(groups().filter((group) => group === other).length, before);
    for (const each of pairs) same(statuses(each).length, 2);
  });

  it("H-08: an application's group has the hints of its protection domain alone, at both ends", () => {
    const foreign = grouped({ pd: 2 });
    writeAll(foreign.pairs);
    succeed(foreign.pairs);
    ok(announced(foreign.p).length > 0);
    ok(announced(foreign.p).every(({ packet }) => packet.deth === undefined), "each its own");
    // A requester that trusts its group, a responder that does not.
    const half = grouped({ a: { transport: "trusted" }, pd: 2 });
    writeAll(half.pairs);
    succeed(half.pairs);
    ok(announced(half.p).every(({ packet }) => packet.deth !== undefined));
    equal(counter(half.p, "b", "hintPagesAsked"), 0);
  });

  it("H-08: the whole card's belongs to one trusted owner", () => {
    const trusted = { transport: "trusted" } as const;
    const { pairs, p, rig } = grouped({ a: trusted, b: trusted, pd: 2 });
    writeAll(pairs);
    succeed(pairs);
    ok(announced(p).every(({ packet }) => packet.deth !== undefined));
    equal(counter(p, "b", "hintPagesAsked"), QPS);
    const ud = (privileged: boolean) =>
      createUd(rig, rig.a, { hints: "group", pd: 3, ...(privileged && { privileged }) });
    throws(() => ud(true), /EBUSY.*has the hints of the whole card/, "a second one");
    throws(() => ud(false), /EPERM.*those of a privileged program: this one is not/);
    // It is the card that trusts: an application's group takes no privilege.
    const application = grouped().rig;
    createUd(application, application.b, { hints: "group" });
    throws(() => rig.createQp(rig.a, { hints: "group" }), /EINVAL.*by a queue pair of type ud/);
  });

  it("H-08, H-24: what is of others, of closed queue pairs or made up is passed over", () => {
    const { pairs, p, rig, members } = grouped();
    writeAll(pairs);
    succeed(pairs);
    const counters = () => {
      const all = Object.entries(rig.b.rnic.statistics()).filter(([name]) => /^hint/.test(name));
      return Object.fromEntries(all);
    };
    const before = counters(), said = packets(p, "b").length;
    const { packet, message } = announced(p)[0]!;
    // The same again from another card, whose queue pairs may have the same numbers.
    inject(p, "b", { ...packet, sourceAddress: packet.sourceAddress + 9 });
    rig.run();
    same(counters(), before);
    for (const { b } of pairs) rig.command(rig.b, { op: "destroy-qp", qpn: b.qpn });
    inject(p, "b", packet);
    const magic = packet.payload.slice();
    magic[0] = 0;
    inject(p, "b", { ...packet, payload: magic });
    rig.run();
    same(counters(), { ...before, hintsMalformed: 1 }, "nothing is learnt from it");
    equal(packets(p, "b").length, said, "and not answered");
    ok(message.groups.length > 0 && members.length === 2);
  });

  it("H-08, H-24: keys that all members can read open nothing to those who are not meant", () => {
    const { pairs, p, rig } = grouped();
    writeAll(pairs);
    const { rkey, va } = announced(p)[0]!.message.groups[0]!.entries[0]!;
    const attributes = { accessFlags: EVERY_ACCESS, timeout: 9 };
    const stranger = { ...p, ...rig.connect({ pd: 2, attributes }) };
    rig.run();
    const own = rig.register(rig.a, {
      length: PAGE,
      access: EVERY_ACCESS,
      pd: 2,
      va: 0x5_0000_0000,
    });
    const sges = [{ address: own.va, length: 64, lkey: own.key }];
    post(stranger, "read", { sges, remote: { va, rkey } });
    go(stranger);
    equal(statuses(stranger)[0], "REM_ACCESS_ERR");
  });

  it("H-24: datagrams that are lost, doubled and late end as without", () => {
    for (const follow of ["at-once", "after-ack"] as const) {
      const { pairs, p, rig } = grouped({ a: { batch: 1, follow, patiencePs: 60e6 } });
      let count = 0;
      rig.fate = (_, { bytes }) => {
        if (hintOf(packetOf(bytes)) === undefined) return "pass";
        return (["drop", "twice", { delayPs: 90e6 }, { againPs: 40e6 }] as const)[count++ % 4]!;
      };
      writeAll(pairs, 2);
      succeed(pairs, 2);
      ok(isWhole(p, 2 * QPS));
    }
  });
});
