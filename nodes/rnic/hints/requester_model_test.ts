/**
 * The requester's side of hints does, step by step, what its model says (`../testing/hint_requester_model_testing.ts`):
 * by each way and encoding, whatever is posted, begun, answered, not answered, sent again or begun anew.
 */
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { sameAsModel as same, seeded } from "../../../fabric/base/property_testing.ts";
import { HINT_PLAN, type HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import {
  encodeHint,
  type HintEntry,
  type HintGroup,
  type HintMessage,
} from "../../../fabric/wire/roce/hint.ts";
import { HINT_KINDS, HINT_REASONS } from "../../../fabric/wire/roce/hint_eth.ts";
import { opcodeFor, type RequestOperation } from "../../../fabric/wire/roce/opcode.ts";
import { schedule } from "../state/device.ts";
import { rights } from "../state/life_cycle.ts";
import { createWork } from "../state/outstanding_wqe.ts";
import { packetsOf } from "../state/psn.ts";
import { enterState, type QueuePair, resetQueuePair } from "../state/queue_pair.ts";
import {
  addWork,
  completeOldest,
  goBackTo,
  passFrame,
  passWork,
  startWork,
} from "../state/requester_changes.ts";
import { bringUp, type Connection, HintCard, PAGE } from "../testing/hint_card_testing.ts";
import { RequesterModel } from "../testing/hint_requester_model_testing.ts";
import { endOf, leaveHints, offerHints, takeWanted } from "./agree.ts";
import { announceAgain } from "./back_off.ts";
import { sendOwnHint } from "./commands.ts";
import { endHostWork } from "./do_work.ts";
import { HINTS } from "./extension.ts";
import { mayFollowHint, takeAnswer } from "./hold.ts";
import { lookAhead, rideAlong } from "./look_ahead.ts";

const US = 1_000_000;
const KINDS = HINT_KINDS.prefetch | HINT_KINDS.warmUp | HINT_KINDS.atomic | HINT_KINDS.receive;
const BASE: HintPlan = {
  ...{ ...HINT_PLAN, kinds: KINDS, operands: true, patiencePs: 20 * US },
  ...{ depth: 8, batch: 3, waitsPs: { warmUp: 1500, receive: 5 * 10 ** 15 } },
};

interface World extends Partial<HintPlan> {
  readonly carrier?: "rc" | "uc";
  readonly group?: boolean;
  readonly pathMtu?: 256 | 1024;
}

const WORLDS: readonly World[] = [
  { transport: "own" },
  { transport: "own", follow: "after-ack", batch: "adaptive", pathMtu: 256 },
  { transport: "own", follow: "agreed", intervalPs: 2 * US },
  { transport: "own", follow: "agreed" },
  { transport: "own", batch: "adaptive", depth: 32, queuePairs: "asked", operands: false },
  { transport: "own", encoding: "flagged", follow: "after-ack", batch: 2 },
  { transport: "own", encoding: "header", batch: 4, follow: "delay", delayPs: US },
  { transport: "own", encoding: "payload", follow: "after-ack", backOff: "off" },
  { carrier: "rc", follow: "after-ack" },
  { carrier: "uc", batch: 1, pathMtu: 256, follow: "delay", delayPs: US },
  { carrier: "rc", encoding: "header", follow: "after-ack" },
  { group: true, transport: "multicast", follow: "after-ack", batch: 2 },
  { group: true, transport: "trusted", batch: "adaptive", follow: "agreed" },
  { transport: "own", work: { look: "hardware", build: "firmware", send: "firmware" }, batch: 2 },
  { group: true, transport: "trusted", work: { look: "hardware", build: "os" }, follow: "delay" },
  { carrier: "rc", work: { build: "driver" }, follow: "after-ack", intervalPs: US },
];

const OPCODES = [
  ...["write", "write", "read", "send", "send", "fetch-add", "compare-swap"],
  ...["atomic-write", "nop", "write-verify", "flush", "write-persistence"],
] as SendWqe["opcode"][];

const wqe = fc.record({
  opcode: fc.constantFrom(...OPCODES),
  key: fc.nat(2),
  at: fc.nat(3),
  length: fc.constantFrom(0, 8, 64, 900, 3000),
  units: fc.integer({ min: 1, max: 3 }),
  objects: fc.oneof(fc.constant<number[]>([]), fc.array(fc.nat(9), { maxLength: 20 })),
  hasParts: fc.boolean(),
  isBad: fc.nat(15),
});
type Wqe = typeof wqe extends fc.Arbitrary<infer T> ? T : never;

const qp = fc.nat(5);
const ACTS = {
  post: fc.record({
    kind: fc.constant("post" as const),
    ...{ qp, wqes: fc.array(wqe, { minLength: 1, maxLength: 10 }), repeats: fc.nat(8) },
    more: fc.boolean(),
  }),
  few: fc.record({
    kind: fc.constant("post" as const),
    ...{ qp, wqes: fc.array(wqe, { minLength: 1, maxLength: 2 }), repeats: fc.nat(1) },
    more: fc.boolean(),
  }),
  turns: fc.record({ kind: fc.constant("turns" as const), count: fc.nat(6) }),
  wanted: fc.record({
    kind: fc.constant("wanted" as const),
    ...{ qp, kinds: fc.oneof(fc.constant(15), fc.nat(15)), answer: fc.boolean() },
    reason: fc.constantFrom("not-wanted" as const, "not-wanted" as const, "none" as const),
    waits: fc.array(
      fc.tuple(fc.constantFrom(1, 2, 4, 8, 3, 0), fc.constantFrom(500, 3000, 10 ** 8)),
      {
        maxLength: 3,
      },
    ),
    missed: fc.nat(4),
  }),
  answer: fc.record({
    kind: fc.constant("answer" as const),
    ...{ nth: fc.nat(4), isPrepared: fc.boolean(), reason: fc.constantFrom(...HINT_REASONS) },
    ...{ answer: fc.nat(4), wrong: fc.nat(9), kinds: fc.nat(15) },
    // Which of the queue pairs and regions of the hint are named as needless.
    needless: fc.constantFrom("all", "all", "all", "keys", "some", "none"),
  }),
  again: fc.record({ kind: fc.constant("again" as const), qp, back: fc.nat(3) }),
  complete: fc.record({ kind: fc.constant("complete" as const), qp, count: fc.nat(5) }),
  time: fc.record({
    kind: fc.constant("time" as const),
    ps: fc.constantFrom(500, 200_000, US, 3 * US, 21 * US, 101 * US),
  }),
  life: fc.record({
    kind: fc.constant("life" as const),
    ...{ qp, how: fc.constantFrom("reset", "reset", "error", "drain") },
  }),
  needless: fc.record({
    kind: fc.constant("needless" as const),
    ...{ qp, keys: fc.array(fc.nat(2), { maxLength: 3 }), isQueuePair: fc.boolean() },
    isOther: fc.nat(7),
  }),
  own: fc.record({ kind: fc.constant("own" as const), qp: fc.nat(7), bytes: fc.nat(40) }),
  core: fc.record({ kind: fc.constant("core" as const), nth: fc.nat(2) }),
};
type Act = (typeof ACTS)[keyof typeof ACTS] extends fc.Arbitrary<infer T> ? T : never;
type Kind = keyof typeof ACTS;

const THEMES: readonly (readonly Kind[])[] = [
  [
    ...["post", "post", "turns", "turns", "turns", "wanted", "answer", "answer", "again"] as Kind[],
    ...["complete", "time", "time", "life", "own", "core"] as Kind[],
  ],
  ["post", "turns", "turns", "answer", "answer", "answer", "complete", "time", "core"],
  ["post", "turns", "turns", "turns", "time", "time", "core", "complete"],
  [
    ...[
      "needless",
      "needless",
      "few",
      "few",
      "few",
      "turns",
      "turns",
      "answer",
      "answer",
    ] as Kind[],
    ...["answer", "again", "wanted", "complete", "time"] as Kind[],
  ],
  ["turns", "post", "time", "wanted", "own", "life"],
];
const acts: fc.Arbitrary<Act[]> = fc.oneof(...THEMES.map((kinds) => {
  const one: fc.Arbitrary<Act> = fc.oneof(...kinds.map((kind): fc.Arbitrary<Act> => ACTS[kind]));
  return fc.array(one, { minLength: 15, maxLength: 60, size: "max" });
}));

class Bench {
  readonly card: HintCard;
  readonly model: RequesterModel;
  readonly queuePairs: QueuePair[];
  readonly #options: Connection[];
  readonly #announced: { readonly by: QueuePair; readonly message: HintMessage }[] = [];

  constructor({ carrier, group = false, pathMtu = 1024, ...hints }: World) {
    const card = new HintCard({
      hints: { ...BASE, ...hints },
      queueCache: { entries: 8, evict: "oldest", amount: 1 },
    });
    this.card = card;
    const ends: Connection[] = [
      { qpn: 20, address: 9, destQpn: 40, hints: "on" },
      { qpn: 21, address: 9, destQpn: 41, hints: "on" },
      { qpn: 22, address: 8, destQpn: 40, type: "uc", hints: "on" },
      { qpn: 23, address: 9, destQpn: 43 },
      { qpn: 24, address: 8, destQpn: 44, hints: "off" },
      {
        ...{ qpn: 25, address: 9, destQpn: 45, type: carrier ?? "rc" },
        ...{ hints: carrier ? "carrier" : "on", encoding: hints.encoding ?? "opcode", pd: 2 },
      },
    ];
    this.#options = ends.map((each) => ({ ...each, pathMtu }));
    this.queuePairs = this.#options.map((each) => card.connect(each));
    if (group) {
      const member = card.connect({ qpn: 30, address: 0, destQpn: 0, type: "ud", hints: "group" });
      card.hints.groups.set(member, { address: 0xe000_0001, nextPsn: 0 });
    }
    this.model = new RequesterModel(card);
    for (const qp of this.queuePairs) this.#offer(qp);
    HINTS.step(card.device);
    this.model.step();
    same(card.takeSent(), this.model.sent, "what is asked");
    this.model.begin();
    for (const [i, qp] of this.queuePairs.entries()) {
      if (i !== 3) this.#hearWanted(qp, { kinds: 15, answer: false, reason: "none", groups: [] });
    }
    this.compare();
  }

  #offer(qp: QueuePair): void {
    const { card: { device, hints }, model } = this;
    if (qp.hints === "carrier") hints.carriers.set(qp.path.address, qp);
    model.offer(qp);
    offerHints(device, hints, qp);
  }

  #hearWanted(qp: QueuePair, about: Pick<HintMessage, "kinds" | "answer" | "reason" | "groups">) {
    const { card: { device, hints }, model } = this;
    if (!rights(qp.state).takesRequests) return;
    const message: HintMessage = { type: "wanted", sequence: 1, ...about };
    model.hearWanted(qp, message);
    const end = endOf(hints, qp);
    if (end !== undefined) takeWanted(device, { hints, qp, end }, message);
  }

  #post(qp: QueuePair, { opcode, key, at, length, units, objects, hasParts, isBad }: Wqe): void {
    const { work } = qp.requester;
    if (work.length >= 64) return;
    const isSend = opcode === "send", isWord = opcode === "fetch-add" || opcode === "compare-swap";
    const bytes = isWord || opcode === "atomic-write" ? 8 : opcode === "flush" ? 0 : length;
    const { position = -1 } = work.at(work.end - 1) ?? {};
    const names = isSend || hasParts ? objects.slice(0, 5) : objects;
    const given: SendWqe = {
      ...{ opcode, index: 0, qpn: qp.qpn, signaled: true, solicited: false, fence: false },
      ...{ immediate: 0, sges: [{ address: 0, length: bytes, lkey: 1 }] },
      ...(!isSend && opcode !== "nop" && {
        remote: { va: BigInt(0x1000 + (isWord ? 8 : 4) * at), rkey: 256 * (key + 1) },
      }),
      ...(isWord && { atomic: { swapAdd: BigInt(at), compare: BigInt(key) } }),
      ...(!isSend && names.length > 0 && { objects: names.map(BigInt) }),
      ...(!isSend && !isWord && hasParts && names.length > 0 && {
        parts: names.map(() => ({ offset: at, length: PAGE })),
      }),
    };
    // At the ring's end positions begin anew.
    const made = createWork(given, (position + units) % 24);
    if (isBad === 0) made.failure = "lkey-unknown";
    addWork(qp, made);
  }

  /** A queue pair's turn, as the scheduling module gives it. */
  #turn(): void {
    const { card: { device }, model } = this;
    const qp = device.roundRobin.shift();
    same(model.line.shift(), qp, "whose turn it is");
    if (qp === undefined) return;
    qp.scheduled = false;
    Object.assign(device.turn, { of: qp, isWanted: false });
    model.turnOf = qp;
    model.isTurnWanted = false;
    const hasBegun = this.#beginNext(qp);
    same(device.turn.isWanted, model.isTurnWanted, "is scheduled again");
    const goesOn = hasBegun || device.turn.isWanted;
    device.turn.of = undefined;
    model.turnOf = undefined;
    if (!goesOn) return;
    schedule(device, qp);
    model.schedule(qp);
  }

  #beginNext(qp: QueuePair): boolean {
    const { card: { device, hints }, model } = this, { requester } = qp;
    model.lookAhead(qp);
    lookAhead(device, hints, qp);
    const work = requester.work.at(requester.cursor);
    if (!rights(qp.state).startsWork || work === undefined || work.failure !== undefined) {
      return false;
    }
    if (!work.started) {
      const may = model.mayFollow(qp, requester.cursor);
      same(mayFollowHint(device, hints, { qp, number: requester.cursor }), may, "may begin");
      if (!may) return false;
      // As where there was no room for it.
      same(mayFollowHint(device, hints, { qp, number: requester.cursor }), true, "asked again");
      const { wire } = work.plan;
      work.packets = wire === "none" ? 0 : packetsOf(work.length, qp.attributes.pathMtu);
      startWork(qp, work);
    }
    const { wire, answered, streams } = work.plan;
    if (wire === "none") passWork(qp);
    else {
      const before = requester.cursor;
      while (requester.cursor === before) {
        const isOnly = work.packets === 1 || (answered && !streams);
        const index = requester.cursorPacket;
        const position = isOnly
          ? "only"
          : index === 0
          ? "first"
          : index === work.packets - 1
          ? "last"
          : "middle";
        const { persistOpcode: persistence, types } = work.plan;
        if (types.includes(qp.type)) {
          const service = qp.type, operation = wire as RequestOperation;
          const row = opcodeFor({ service, operation, persistence }, position);
          const left = work.length - index * qp.attributes.pathMtu;
          const payloadBytes = row.payload === 0 ? 0 : Math.min(qp.attributes.pathMtu, left);
          const its = { operation: row.operation, isVendor: row.vendor, payloadBytes };
          const expected = model.rideAlong(qp, its);
          same(rideAlong(device, hints, { qp, row, payloadBytes }), expected, "in a packet");
          if (expected !== undefined) this.#announced.push({ by: qp, message: expected.message });
        }
        passFrame(qp, work);
      }
    }
    return true;
  }

  do(act: Act): void {
    const { card, model } = this, { device, hints } = card;
    const of = "qp" in act ? this.queuePairs[act.qp] : undefined;
    switch (act.kind) {
      case "post":
        if (!rights(of!.state).startsWork) return;
        for (let i = 0; i <= act.repeats; i++) {
          for (const each of act.wqes) this.#post(of!, i === 0 ? each : { ...each, objects: [] });
        }
        of!.sq.mayHaveMore = act.more;
        of!.sq.busy = act.more && act.repeats % 2 === 0;
        schedule(device, of!);
        model.schedule(of!);
        break;
      case "turns":
        for (let i = 0; i <= act.count; i++) this.#turn();
        break;
      case "wanted": {
        const { qpn: sourceQpn, attributes: { destQpn } } = of!, { waits, missed } = act;
        const none = { messages: 0, sequence: 0, va: 0n, objects: [], operation: "read" as const };
        const entries = waits.map(([kinds, length]): HintEntry => (
          { ...none, kinds, length, rkey: kinds === 0 ? 256 : 0 }
        ));
        const groups: HintGroup[] = [{ sourceQpn, destQpn, entries }];
        if (waits.length === 0) groups.length = 0;
        if (missed === 0) groups.push({ sourceQpn, destQpn, entries: [] });
        const { kinds, answer, reason } = act;
        this.#hearWanted(of!, { kinds, answer, reason, groups });
        break;
      }
      case "answer":
        return this.#answer(act);
      case "needless": {
        // Unasked, as a peer may name them at any time.
        if (!rights(of!.state).takesRequests || endOf(hints, of!) === undefined) return;
        model.endOf(of!);
        const ends = { sourceQpn: of!.qpn, destQpn: of!.attributes.destQpn };
        if (act.isOther === 0) ends.destQpn++;
        const none = { messages: 0, sequence: 0, va: 0n, objects: [], length: 0, kinds: 0 };
        const entries = act.keys.map((key): HintEntry => (
          { ...none, operation: "read", rkey: 256 * (key + 1) }
        ));
        const message: HintMessage = {
          ...{ type: "prepared", kinds: 0, reason: "none", sequence: 2 ** 31, answer: false },
          groups: [
            ...entries.length > 0 ? [{ ...ends, entries }] : [],
            ...act.isQueuePair ? [{ ...ends, entries: [] }] : [],
          ],
        };
        model.answer(of!, message);
        takeAnswer(device, { hints, qp: of!, end: endOf(hints, of!)! }, message);
        break;
      }
      case "again": {
        const { requester } = of!;
        const started = requester.work.values().filter((each) => each.started && each.packets > 0);
        const work = started.toArray().at(-1 - act.back);
        if (work !== undefined) goBackTo(of!, work.firstPsn);
        model.sentAgain(of!);
        announceAgain(hints, of!);
        break;
      }
      case "complete":
        for (let i = 0; i < act.count; i++) {
          if (of!.requester.work.first < of!.requester.cursor) completeOldest(of!);
        }
        break;
      case "time":
        card.at(device.now + act.ps);
        break;
      case "life":
        if (act.how === "error") enterState(of!, "err");
        else if (act.how === "drain") (of as { state: string }).state = "sqd";
        else {
          resetQueuePair(of!);
          leaveHints(hints, of!);
          model.ends.delete(of!);
          bringUp(of!, this.#options[act.qp]!);
          this.#offer(of!);
        }
        break;
      case "own": {
        const qpn = of?.qpn ?? 99;
        const isHint = act.bytes > 3;
        const entry: HintEntry = {
          ...{ kinds: 1, operation: "read", messages: 1, sequence: 0, rkey: 5, length: 1 },
          ...{ va: 0n, objects: [] },
        };
        const message: HintMessage = {
          ...{ type: "announce", kinds: 1, reason: "none", sequence: 3, answer: false },
          groups: [{
            ...{ sourceQpn: 1, destQpn: 2 },
            entries: Array.from({ length: act.bytes }, () => entry),
          }],
        };
        const bytes = isHint ? encodeHint(message) : new Uint8Array(act.bytes);
        const isSent = model.own(of, isHint ? message : undefined);
        same(sendOwnHint(device, { op: "send-hint", qpn, message: bytes }).status === "ok", isSent);
        break;
      }
      case "core": {
        const id = [...model.work.atCores.keys()][act.nth] ?? 1000;
        const waiting = model.work.atCores.get(id);
        model.work.atCores.delete(id);
        waiting?.effect.apply();
        same(endHostWork(device, id), waiting !== undefined);
        break;
      }
    }
  }

  #answer(
    { nth, isPrepared, reason, answer, wrong, kinds, needless }: Extract<Act, { kind: "answer" }>,
  ): void {
    const { card: { device, hints }, model } = this;
    const place = Math.max(0, this.#announced.length - 1 - nth);
    const of = this.#announced[place];
    if (of === undefined) return;
    if (answer > 0) this.#announced.splice(place, 1);
    const by = wrong === 0 ? this.queuePairs[nth]! : of.by;
    if (!rights(by.state).takesRequests || endOf(hints, by) === undefined) return;
    model.endOf(by);
    const named = of.message.groups.flatMap((group, i): HintGroup[] => {
      if (needless === "none" || (needless === "some" && i > 0)) return [];
      const entries = group.entries.flatMap((each): HintEntry[] =>
        each.operation === "send" ? [] : [{ ...each, kinds: 0 }]
      );
      const isQueuePair = needless === "all";
      const destQpn = wrong === 1 ? 77 : group.destQpn;
      return [
        ...entries.length > 0 ? [{ ...group, destQpn, entries }] : [],
        ...isQueuePair ? [{ ...group, destQpn, entries: [] }] : [],
      ];
    });
    const message: HintMessage = {
      type: isPrepared ? "prepared" : "refused",
      ...{ kinds, sequence: of.message.sequence + (wrong === 2 ? 1 : 0) },
      ...{ reason: isPrepared ? "none" : reason, answer: answer === 0 },
      groups: isPrepared ? named : of.message.groups,
    };
    model.answer(by, message);
    takeAnswer(device, { hints, qp: by, end: endOf(hints, by)! }, message);
  }

  step(act: Act): void {
    const { card, model } = this;
    model.begin();
    card.bus.length = 0;
    this.do(act);
    model.step();
    HINTS.step(card.device);
    this.compare();
  }

  compare(): void {
    const { card, model } = this, { device, hints } = card;
    const sent = card.takeSent();
    same(sent, model.sent, "what is sent");
    for (const { by, message, range, psn, to } of sent) {
      const qp = device.queuePairs.get(by)!;
      if (range !== undefined) {
        const { operation, rkey, va, length, answer } = range;
        const isWrite = operation === "write";
        const entry: HintEntry = {
          ...{ kinds: 1, operation: isWrite ? "write" : "read", messages: 1, sequence: psn, rkey },
          ...{ va, length, objects: [] },
        };
        const ends = { sourceQpn: by, destQpn: qp.attributes.destQpn };
        const groups = [{ ...ends, entries: [entry] }];
        const about = { kinds: 1, reason: "none", sequence: psn, answer, groups } as const;
        this.#announced.push({ by: qp, message: { type: "announce", ...about } });
      } else if (message?.type === "announce") {
        for (const group of message.groups) {
          const own = device.queuePairs.get(group.sourceQpn)!;
          this.#announced.push({ by: to === undefined ? qp : own, message });
          if (to === undefined) break;
        }
      }
    }
    const events = card.bus.flatMap((message) =>
      message.kind === "event" && message.event.type === "HINT_WORK" ? [message.event] : []
    ).map(({ id, job, elements }) => ({ id, job, elements }));
    same(events, model.work.events, "events for cores");
    same(
      device.roundRobin.values().toArray().map(({ qpn }) => qpn),
      model.line.map(({ qpn }) => qpn),
    );
    same(HINTS.wakeAt(device), model.wakeAt, "when it wakes");
    for (const [qp, its] of model.ends) {
      const end = hints.ends.get(qp)!, { batches, refusedKeys: _, ...found } = end;
      const { batches: expected, begun: permitted, questions: asked, psn: nextPsn, ...others } =
        its;
      same({ ...found }, { ...others, permitted, asked, nextPsn }, `the part of QP ${qp.qpn}`);
      same(
        batches.map(({ carrier, leads, probes, held, ...each }) => (
          { ...each, by: carrier.qpn, isFirst: leads, isProbe: probes, isHeld: held }
        )),
        expected.map(({ by, ...each }) => ({ ...each, by: by.qpn })),
        `batches of QP ${qp.qpn}`,
      );
      same(HINTS.upcalls.unitsAhead(hints, qp), model.unitsAhead(qp), "units ahead");
    }
    same(hints.ends.size, model.ends.size);
    same(
      [...hints.quiet.peers].map((
        [address, { scopes, ...its }],
      ) => [address, its, [...scopes.keys()]]),
      [...model.quiet].map(([address, { scopes, ...its }]) => [address, its, [...scopes]]),
      "peers of which hints are rare",
    );
    const size = [...model.quiet.values()].reduce((sum, { scopes }) => sum + scopes.size, 0);
    same(hints.quiet.size, size);
    const found = Object.entries(HINTS.statistics(device, "report")).filter(([, value]) =>
      value !== 0
    );
    const counted = new Map([
      ...model.counters,
      ...Object.entries(hints.work ? model.work.counters : {}),
    ]);
    for (const [name, value] of counted) if (value === 0) counted.delete(name);
    same(Object.fromEntries(found.sort()), Object.fromEntries([...counted].sort()), "counters");
  }
}

describe("the requester's side of hints does what its model says (H-01 to H-09, H-22)", () => {
  for (const world of WORLDS) {
    it(JSON.stringify(world), () => {
      fc.assert(
        fc.property(acts, (all) => {
          const bench = new Bench(world);
          for (const each of all) bench.step(each);
        }),
        seeded({ numRuns: 60 }),
      );
    });
  }
});
