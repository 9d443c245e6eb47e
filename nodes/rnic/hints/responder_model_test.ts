/**
 * The responder's side of hints does, step by step, what its model says (`../testing/hint_responder_model_testing.ts`),
 * whatever comes in whatever order: hints of honest and other peers, pages, lines, contexts and receives that come and
 * go, requests, atomics, resets. All that leaves the card, and all that it keeps, is compared after each step.
 */
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { sameAsModel as same, seeded } from "../../../fabric/base/property_testing.ts";
import { NEVER } from "../../../fabric/base/time.ts";
import { HINT_PLAN, type HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import {
  attachHint,
  attachRange,
  encodeHint,
  type HintEntry,
  type HintMessage,
  hintParts,
} from "../../../fabric/wire/roce/hint.ts";
import { OPCODE, opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { HINT_KINDS, HINT_OPERATIONS } from "../../../fabric/wire/roce/hint_eth.ts";
import { freeKey } from "../dma/memory_region.ts";
import { checkAccess } from "../paging/access.ts";
import { mapPages, raisePageFaults, refusePages, unmapPages } from "../paging/page_requests.ts";
import { dropTable, takeLine } from "../paging/translation_cache.ts";
import { forgetContext } from "../queues/context.ts";
import { createSharedReceiveQueue } from "../queues/shared_receive_queue.ts";
import { COMPARE_SWAP, FETCH_ADD, takePreload } from "../responder/atomic.ts";
import { rights } from "../state/life_cycle.ts";
import { MEMORY_WAITERS, type MemoryWaiter } from "../state/paging_state.ts";
import type { AtomicTask } from "../state/operation.ts";
import {
  applyAttributes,
  enterState,
  type QueuePair,
  resetQueuePair,
} from "../state/queue_pair.ts";
import type { Pause } from "../state/queues.ts";
import { bringUp, HintCard, PAGE } from "../testing/hint_card_testing.ts";
import {
  contextName,
  lineName,
  pageName,
  ResponderModel,
  wordName,
} from "../testing/hint_responder_model_testing.ts";
import { endOf, leaveHints, offerHints, takeWanted } from "./agree.ts";
import { chargeKey, contextKey } from "./charges.ts";
import { endHostWork, workOnHint } from "./do_work.ts";
import { HINTS } from "./extension.ts";
import { takeHints } from "./receive_hint.ts";
import { compareOperands, forgetWord, snoopLine, wordKey } from "./words.ts";
import { commandDoneAt } from "./work.ts";

const US = 1_000_000;
/** Accesses of peers' requests: no other one redeems what hints have brought. */
const PEERS: ReadonlySet<MemoryWaiter> = new Set(["request", "read", "atomic"]);
const KINDS = HINT_KINDS.prefetch | HINT_KINDS.warmUp | HINT_KINDS.atomic | HINT_KINDS.receive;
const BASE: HintPlan = {
  ...{ ...HINT_PLAN, kinds: KINDS, operands: true, quotaPs: 60 * US },
  waitsPs: { prefetch: 3 * US, atomic: 1500, receive: 1 },
};

interface World {
  readonly hints: Partial<HintPlan>;
  readonly plan?: Partial<RnicPlan>;
  readonly carrier?: boolean;
  readonly pathMtu?: 256 | 1024;
}

/** Few lines and contexts have room on the chip. */
const SMALL: Partial<RnicPlan> = {
  translations: { entries: 40, evict: "lru" },
  queueCache: { entries: 6, evict: "oldest", amount: 1 },
};
const WORLDS: Readonly<Record<string, World>> = {
  "small chip, small quota": { hints: { quota: 3 }, plan: SMALL },
  "all fits on the chip, and no more": {
    hints: { quota: 5, transport: "trusted" },
    plan: {
      translations: { entries: 64, evict: "lru" },
      queueCache: { entries: 18, evict: "oldest", amount: 1 },
    },
    carrier: true,
  },
  "of two kinds, asked for": {
    hints: {
      ...{ kinds: HINT_KINDS.warmUp | HINT_KINDS.receive, queuePairs: "asked", operands: false },
    },
    plan: SMALL,
  },
  "carrier, short packets": {
    hints: { quota: 100 },
    ...{ plan: SMALL, carrier: true, pathMtu: 256 },
  },
  "firmware and hardware work": {
    hints: {
      quota: 4,
      work: {
        ...{ parse: "hardware", check: "hardware", decide: "firmware", answer: "firmware" },
        ...{ context: "hardware", atomic: "firmware", receive: "hardware", request: "hardware" },
      },
    },
    plan: SMALL,
  },
  "a core decides": {
    hints: {
      quota: 3,
      work: { parse: "firmware", decide: "driver", request: "driver", answer: "driver" },
    },
    plan: SMALL,
  },
};

/** Regions: two on demand, of which one takes no atomics; a pinned one; one of another domain. */
const PAGES = [20, 12, 10, 4] as const;
const LENGTHS = [0, 8, 64, PAGE, 3 * PAGE, 9 * PAGE] as const;
const OFFSETS = [0, 8, 4, 4088] as const;

/** How a hint comes: as the parts that read packets have it, or in a packet. */
const WAYS = ["opcode", "header", "payload", "range", "group", "packet"] as const;
type Way = "none" | typeof WAYS[number];

/** Each run has acts of one theme, so that what belongs together meets often. */
interface Theme {
  readonly operations: readonly (typeof HINT_OPERATIONS[number])[];
  readonly regions?: readonly number[];
  readonly pages?: number;
  readonly lengths?: readonly number[];
  readonly kinds?: number;
  /** How often a hint comes: as often as a row of needless hints is long, or as answers of one requester may wait. */
  readonly rows?: readonly number[];
  /** The last one of those that are used. */
  readonly queuePairs?: number;
  readonly acts: readonly Act["kind"][];
}

const THEMES: readonly Theme[] = [
  {
    operations: HINT_OPERATIONS,
    acts: [
      ...["hint", "hint", "hint", "words", "request", "request", "map", "map", "take", "line"],
      ...["context", "receives", "time", "life", "wanted", "word", "command", "core"],
    ] as Act["kind"][],
  },
  {
    operations: ["send", "send", "send", "write"],
    acts: ["hint", "hint", "receives", "receives", "receives", "time", "map", "life", "take"],
  },
  {
    ...{ operations: ["fetch-add", "compare-swap", "write"], regions: [2, 2, 0], pages: 1 },
    acts: ["hint", "hint", "words", "word", "word", "word", "word", "time", "map"],
  },
  {
    ...{ operations: ["read", "write"], regions: [0, 0, 1, 2, 4, 5] },
    acts: ["hint", "hint", "hint", "map", "take", "refuse", "request", "request", "time", "wanted"],
  },
  {
    ...{ operations: ["read", "write", "send"], regions: [0, 1, 2] },
    acts: ["hint", "hint", "line", "context", "context", "request", "time", "time", "core"],
  },
  {
    // Rows of needless hints, and what is missed behind them.
    ...{
      operations: ["read", "send"],
      regions: [0, 1],
      pages: 2,
      lengths: [8],
      rows: [1, 7, 8, 9],
      queuePairs: 2,
      kinds: HINT_KINDS.prefetch | HINT_KINDS.receive,
    },
    acts: ["map", "map", "hint", "hint", "hint", "take", "request", "request", "request", "time"],
  },
];

function entryOf(theme: Theme) {
  const { operations, regions, pages = 21, lengths = LENGTHS } = theme;
  return fc.record({
    kinds: theme.kinds === undefined
      ? fc.oneof(fc.constant(KINDS), fc.nat(15))
      : fc.constant(theme.kinds),
    operation: fc.constantFrom(...operations),
    messages: fc.oneof(fc.nat(4), fc.constantFrom(40, 70)),
    sequence: fc.nat(5),
    // The last of them are unknown keys.
    region: regions === undefined
      ? fc.oneof({ weight: 8, arbitrary: fc.nat(2) }, { weight: 1, arbitrary: fc.nat(5) })
      : fc.constantFrom(...regions),
    page: fc.oneof(fc.nat(Math.min(3, pages)), fc.nat(pages)),
    offset: fc.constantFrom(...OFFSETS),
    length: fc.constantFrom(...lengths),
    objects: fc.oneof(
      { weight: 2, arbitrary: fc.constant<number[]>([]) },
      { weight: 1, arbitrary: fc.array(fc.nat(3), { maxLength: 2 }) },
    ),
    part: fc.option(fc.record({ offset: fc.nat(9000), length: fc.nat(9000) }), { nil: undefined }),
    operand: fc.option(fc.nat(2), { nil: undefined }),
  });
}
type Entry = ReturnType<typeof entryOf> extends fc.Arbitrary<infer T> ? T : never;

function hintOf(theme: Theme, qp: fc.Arbitrary<number>) {
  const group = fc.record({
    qp,
    wrong: fc.constantFrom("", "", "", "", "", "", "", "dest", "source"),
    entries: fc.array(entryOf(theme), { maxLength: 4 }),
  });
  return fc.record({
    kind: fc.constant("hint" as const),
    ...{ qp, answer: fc.boolean(), groups: fc.array(group, { minLength: 1, maxLength: 3 }) },
    way: fc.constantFrom<Way>("none", "none", "none", ...WAYS),
    isMalformed: fc.nat(9),
    type: fc.constantFrom("announce", "announce", "announce", "announce", "wanted"),
    repeats: theme.rows !== undefined ? fc.constantFrom(...theme.rows) : fc.oneof(
      { weight: 36, arbitrary: fc.constant(1) },
      { weight: 16, arbitrary: fc.nat(12) },
      { weight: 1, arbitrary: fc.constantFrom(66, 260) },
    ),
  });
}

function othersOf(qp: fc.Arbitrary<number>, { pages = 19 }: Pick<Theme, "pages">) {
  const range = {
    region: fc.nat(1),
    page: fc.oneof(fc.nat(Math.min(3, pages)), fc.nat(pages)),
    count: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 9 })),
  };
  return {
    words: fc.record({
      kind: fc.constant("words" as const),
      ...{ qp, first: fc.nat(3), count: fc.integer({ min: 1, max: 40 }) },
    }),
    request: fc.record({
      kind: fc.constant("request" as const),
      ...{ qp, ...range, write: fc.boolean() },
      region: fc.nat(2),
      by: fc.oneof(
        { weight: 2, arbitrary: fc.constant<MemoryWaiter>("request") },
        { weight: 1, arbitrary: fc.constantFrom(...MEMORY_WAITERS) },
      ),
    }),
    map: fc.record({ kind: fc.constant("map" as const), ...range, write: fc.boolean() }),
    take: fc.record({ kind: fc.constant("take" as const), ...range }),
    refuse: fc.record({ kind: fc.constant("refuse" as const), ...range }),
    line: fc.record({ kind: fc.constant("line" as const) }),
    context: fc.record({
      kind: fc.constant("context" as const),
      ...{ qp, how: fc.constantFrom("come", "go", "there", "coming", "gone", "miss") },
    }),
    receives: fc.record({
      kind: fc.constant("receives" as const),
      ...{ qp, at: fc.array(fc.nat(15), { maxLength: 6 }), used: fc.nat(5) },
      pause: fc.nat(9),
    }),
    time: fc.record({
      kind: fc.constant("time" as const),
      ps: fc.constantFrom(1000, 100_000, 2 * US, 20 * US, 60 * US, 61 * US),
    }),
    life: fc.record({
      kind: fc.constant("life" as const),
      ...{ qp, how: fc.constantFrom("reset", "reset", "error", "drain") },
    }),
    wanted: fc.record({
      kind: fc.constant("wanted" as const),
      ...{ qp, kinds: fc.nat(15), answer: fc.boolean() },
    }),
    word: fc.record({
      kind: fc.constant("word" as const),
      how: fc.constantFrom(
        ...["come", "come", "fail", "snoop", "write", "own", "atomic", "atomic", "hold"],
      ),
      ...{ nth: fc.nat(5), operand: fc.nat(2), sequence: fc.nat(5) },
    }),
    command: fc.record({ kind: fc.constant("command" as const) }),
    core: fc.record({ kind: fc.constant("core" as const), nth: fc.nat(2) }),
  };
}
type Others = ReturnType<typeof othersOf>;
type Made = ReturnType<typeof hintOf> | Others[keyof Others];
type Act = Made extends fc.Arbitrary<infer T> ? T : never;

const acts: fc.Arbitrary<Act[]> = fc.oneof(...THEMES.map((theme) => {
  const qp = fc.nat(theme.queuePairs ?? 7), others = othersOf(qp, theme);
  const one: fc.Arbitrary<Act> = fc.oneof(
    ...theme.acts.map((kind): fc.Arbitrary<Act> =>
      kind === "hint" ? hintOf(theme, qp) : others[kind]
    ),
  );
  return fc.array(one, { minLength: 10, maxLength: 60, size: "max" });
}));

type Hint = Extract<Act, { kind: "hint" }>;

function packetWith(
  { path: { address: sourceAddress }, qpn: destQpn }: QueuePair,
  { opcode = 0, ...its }: Partial<RocePacket> & { readonly opcode?: number },
): RocePacket {
  const bth = { opcode, destQpn, psn: 5, ackReq: true, reserved7: 0, padCount: 0 };
  return { sourceAddress, bth, payload: new Uint8Array(0), ...its } as RocePacket;
}

class Bench {
  readonly card: HintCard;
  readonly model: ResponderModel;
  readonly queuePairs: QueuePair[];
  readonly regions;
  readonly #options;
  /** Not connected with a peer, and not of all queue pairs' protection domain. */
  readonly member: QueuePair;
  #drops = 0;
  #keys = 0;
  #eventsSeen = 0;

  constructor({ hints, plan, carrier = false, pathMtu = 1024 }: World) {
    const card = new HintCard({ ...plan, hints: { ...BASE, ...hints } });
    this.card = card;
    const va = (i: number) => 0x1_0000_0000 * (i + 1);
    const frames = (i: number, count: number) =>
      Array.from({ length: count }, (_, page) => this.frame(i, page));
    const objects = [0, 2 * PAGE + 8, 9 * PAGE].map((at, i) => (
      { nameHigh: 7, nameLow: i, va: va(0) + at, length: 100 + 3000 * i }
    ));
    this.regions = [
      card.register({ va: va(0), pages: PAGES[0] }, { objects }),
      card.register({ va: va(1), pages: PAGES[1], offset: 40 }, {
        access: ACCESS.localWrite | ACCESS.remoteRead | ACCESS.remoteWrite,
      }),
      card.register({ va: va(2), pages: PAGES[2] }, { frames: frames(2, PAGES[2]) }),
      card.register({ va: va(3), pages: PAGES[3] }, { pd: 2, frames: frames(3, PAGES[3]) }),
    ];
    const srq = createSharedReceiveQueue(99, {
      ...{ ring: { address: 0, units: 64 }, stride: 64, pd: 1 },
    });
    const ends = [
      { qpn: 20, address: 9, destQpn: 40, hints: carrier ? "carrier" as const : "on" as const },
      { qpn: 21, address: 9, destQpn: 41 },
      { qpn: 22, address: 8, destQpn: 40, hints: "on" as const },
      { qpn: 23, address: 9, destQpn: 43, hints: "off" as const },
      { qpn: 24, address: 8, destQpn: 44, srq },
      { qpn: 25, address: 8, destQpn: 45, srq, type: "uc" as const },
      { qpn: 26, address: 7, destQpn: 46, accessFlags: ACCESS.remoteRead },
      { qpn: 27, address: 9, destQpn: 47, pd: 2, hints: "on" as const },
    ];
    this.#options = ends.map((each) => ({ ...each, pathMtu }));
    this.queuePairs = this.#options.map((each) => card.connect(each));
    this.member = card.connect({ qpn: 30, address: 0, destQpn: 0, type: "ud", hints: "group" });
    applyAttributes(this.member, { qKey: 7 });
    if (carrier) card.hints.carriers.set(9, this.queuePairs[0]!);
    this.model = new ResponderModel(card, this.regions);
  }

  frame(region: number, page: number): number {
    return 0x100_0000 * (region + 1) + page * PAGE;
  }

  #entry({ region, page, offset, objects, part, operand, operation, ...its }: Entry) {
    const its2 = this.regions[region];
    const isAtomic = operation === "fetch-add" || operation === "compare-swap";
    const entry: HintEntry = {
      ...its,
      ...{ operation, length: isAtomic && its.length > 0 ? 8 : its.length },
      rkey: its2?.key ?? (region === 4 ? 0 : 0xdead),
      va: BigInt((its2?.va ?? 0) + page * PAGE + offset),
      objects: objects.map((name) => (7n << 32n) + BigInt(name)),
      ...(part !== undefined && !isAtomic && operation !== "send" &&
        { parts: objects.map(() => part) }),
      ...(operand !== undefined && isAtomic && {
        operands: { swapAdd: BigInt(operand), compare: BigInt(operand >> 1) },
      }),
    };
    return entry;
  }

  #hint(by: QueuePair, message: HintMessage): void {
    const { card: { device, hints }, model } = this;
    const requester = by.path.address;
    if (!rights(by.state).takesRequests) return;
    model.announce(by, requester, message);
    const end = endOf(hints, by);
    if (end !== undefined) workOnHint(device, { hints, qp: by, end }, { message, requester });
  }

  /** A packet with the hint comes, and is looked at before all else. */
  #receive(
    by: QueuePair,
    message: HintMessage,
    { way, isMalformed }: Pick<Hint, "way" | "isMalformed">,
  ) {
    const { card: { device, hints }, model } = this, requester = by.path.address;
    if (way === "none" || !rights(by.state).takesRequests) return this.#hint(by, message);
    const isBad = isMalformed === 0;
    if (way === "group") return this.#receiveByGroup(by, message, isBad);
    if (way === "opcode") {
      const { hintEth, payload } = hintParts(message);
      const header = isBad ? { ...hintEth, magic: 1 } : hintEth;
      const packet = packetWith(by, { hintEth: header, payload });
      const isPart = model.endOf(by) !== undefined;
      if (!isPart) this.#drops++;
      else if (isBad) model.count("hintsMalformed");
      else if (message.type === "announce") model.announce(by, requester, message);
      else model.hearWanted(by, message);
      const row = opcodeRow(OPCODE[by.type === "rc" ? "VENDOR HINT" : "VENDOR UC HINT"])!;
      const given = { packet, row, head: new Uint8Array(0) };
      return same(takeHints(device, hints, { qp: by, given }), undefined, "nothing is left");
    }
    const [operation] = message.groups.flatMap(({ entries }) => entries);
    const isWrite = operation?.operation !== "read";
    const row = opcodeRow(OPCODE[isWrite ? "RC RDMA WRITE ONLY" : "RC RDMA READ REQUEST"])!;
    const { va = 0n, rkey = 0, length = 0 } = operation ?? {};
    const payload = way === "range" ? new Uint8Array(0) : new Uint8Array([1, 2, 3, 4]);
    const reth = { va, rkey, length: payload.length };
    const plain = packetWith(by, { opcode: row.code, payload, reth });
    let packet = plain, isTaken = false;
    if (way === "header" || way === "payload") {
      packet = attachHint(plain, { form: way, message });
      if (isBad) packet = { ...packet, payload: packet.payload.slice(way === "header" ? 0 : 5, 9) };
    } else if (way === "range") {
      packet = attachRange(plain, Math.max(1, length));
      if (isBad) packet = { ...packet, reth: { ...reth, length: 1 } };
      isTaken = true;
    }
    const has = way !== "packet", isPart = has && model.endOf(by) !== undefined;
    if (has && isPart && isBad) model.count("hintsMalformed");
    else if (has && isPart && way === "range") {
      model.range(by, requester, packet.bth, {
        operation: isWrite ? "write" : "read",
        va,
        rkey,
        length,
      });
    } else if (has && isPart && message.type === "announce") model.announce(by, requester, message);
    const given = { packet, row, head: new Uint8Array(0) };
    const left = takeHints(device, hints, { qp: by, given });
    const isGone = isPart && has && (isBad || isTaken);
    const expected = isGone ? undefined : isPart && has ? plain.payload : packet.payload;
    same(left?.packet.payload, expected, "what is left of the packet");
    same(
      left?.packet.bth.reserved7,
      isGone ? undefined : isPart ? 0 : packet.bth.reserved7,
      "flags",
    );
  }

  /** A datagram to the card's member of a group concerns the queue pairs that it names, each for itself. */
  #receiveByGroup(by: QueuePair, message: HintMessage, isBad: boolean): void {
    const { card: { device, hints }, model } = this, sourceAddress = by.path.address;
    const bytes = encodeHint(message), { member } = this;
    const isKeyWrong = isBad && message.answer;
    const packet = packetWith(by, {
      payload: isBad && !isKeyWrong ? bytes.slice(1) : bytes,
      deth: { qKey: isKeyWrong ? 8 : 7, sourceQpn: 1, reserved: 0 },
    });
    if (isKeyWrong) this.#keys++;
    else if (isBad) model.count("hintsMalformed");
    for (const group of isBad || message.type !== "announce" ? [] : message.groups) {
      const qp = device.queuePairs.get(group.destQpn);
      const isIn = qp !== undefined && (hints.plan.transport === "trusted" || qp.pd === member.pd);
      if (!isIn || qp.path.address !== sourceAddress) continue;
      if (qp.attributes.destQpn !== group.sourceQpn || !rights(qp.state).takesRequests) continue;
      model.announce(qp, sourceAddress, { ...message, groups: [group] });
    }
    const row = opcodeRow(OPCODE["UD SEND ONLY"])!;
    const given = { packet, row, head: new Uint8Array(0) };
    same(takeHints(device, hints, { qp: member, given }), undefined, "nothing is left");
  }

  do(act: Act): void {
    const { card, model, regions } = this, { device, hints } = card;
    const by = "qp" in act ? this.queuePairs[act.qp]! : undefined;
    const first = "page" in act ? act.page : 0;
    const region = "region" in act ? regions[act.region]! : regions[0]!;
    const count = "count" in act ? Math.min(act.count, region.table.pages.length - first) : 0;
    switch (act.kind) {
      case "hint": {
        const groups = act.groups.map(({ qp, wrong, entries }) => {
          const { qpn, attributes: { destQpn } } = this
            .queuePairs[by!.hints === "carrier" ? qp : act.qp]!;
          return {
            destQpn: wrong === "dest" ? 77 : qpn,
            sourceQpn: wrong === "source" ? 77 : destQpn,
            entries: entries.map((each) => this.#entry(each)),
          };
        });
        const type = act.type as "announce" | "wanted";
        const about = { kinds: KINDS, reason: "none", sequence: 5, answer: act.answer } as const;
        for (let i = 0; i < act.repeats; i++) {
          // What is no announcement comes in a packet alone.
          const isPlain = act.way === "none" || act.way === "range";
          const message: HintMessage = { ...about, type: isPlain ? "announce" : type, groups };
          this.#receive(by!, message, act);
        }
        break;
      }
      case "words": {
        const { qpn, attributes: { destQpn } } = by!, { va, key: rkey } = regions[2]!;
        const entries = Array.from({ length: act.count }, (_, i): HintEntry => ({
          ...{ kinds: HINT_KINDS.atomic, operation: "fetch-add", messages: 1, sequence: i, rkey },
          ...{ va: BigInt(va + 1000 * act.first + 8 * i), length: 8, objects: [] },
        }));
        const about = { type: "announce", kinds: KINDS, reason: "none", sequence: 6 } as const;
        const groups = [{ destQpn: qpn, sourceQpn: destQpn, entries }];
        this.#hint(by!, { ...about, answer: true, groups });
        break;
      }
      case "request": {
        if (count <= 0) return;
        const last = first + count - 1;
        const { by: kind } = act;
        const number = device.paging.admitted.size > 0;
        const isAdmitted = number &&
          [...device.paging.admitted.values()].some((wait) =>
            wait.qp === by && wait.kind === kind && wait.life === by!.life
          );
        const rightsNeeded = act.write ? 2 : 1, isPeers = PEERS.has(kind);
        model.request(by!, [{ region, first, last }], {
          ...{ rights: rightsNeeded, isAdmitted, isPeers },
        });
        const from = region.pageBase + first * PAGE;
        const start = Math.max(region.va, from);
        const segments = [{ region, va: start, length: from + count * PAGE - start }];
        const access = { segments, offset: 0, length: segments[0]!.length, write: act.write };
        checkAccess(device, access, { kind, qp: by! });
        this.#eventsSeen = device.pageEvents.end;
        break;
      }
      case "map":
        if (count <= 0) return;
        mapPages(device, region, {
          ...{ first, writable: act.write },
          pages: Array.from({ length: count }, (_, i) => this.frame(act.region, first + i)),
        });
        break;
      case "take":
        if (count > 0) unmapPages(device, region, { first, count });
        break;
      case "refuse":
        if (count > 0) refusePages(device, region, { first, count });
        break;
      case "line": {
        const [fill] = device.paging.fills.values();
        if (fill === undefined) return;
        model.lineCame(regions.find(({ table }) => table === fill.table)!, fill.line);
        takeLine(device, { fill }, undefined);
        break;
      }
      case "context": {
        const queue = by!.srq === undefined ? by!.rqQueue : by!.sqQueue;
        if (act.how === "come") {
          forgetContext(device, queue);
          card.cache(queue);
        } else if (act.how === "go") device.cache.remove(queue);
        else if (act.how === "miss") {
          model.miss(by!, []);
          HINTS.upcalls.noteMiss(hints, by!, []);
        } else {
          const found = act.how as "there" | "coming" | "gone";
          model.needContext(queue, found);
          HINTS.upcalls.redeemContext(hints, { queue, now: device.now }, found);
        }
        break;
      }
      case "receives": {
        const ring = by!.srq ?? by!.rq, { key, va } = regions[0]!;
        for (let i = 0; i < act.used && ring.fetched.length > 0; i++) ring.fetched.shift();
        const queue = by!.srq?.srqn ?? by!.rqQueue;
        if (act.pause === 0) device.pauses.set(queue, {} as Pause);
        if (act.pause > 1) device.pauses.delete(queue);
        if (!ring.busy) break;
        ring.busy = false;
        device.loads.delete(queue);
        const known = device.cache.find(queue);
        if (known !== undefined) known.pins = 0;
        ring.ahead.isEmpty = act.at.length === 0;
        for (const page of act.at) {
          const sges = page === 15
            ? [{ lkey: 0xbad, address: va, length: 8 }]
            : [{ lkey: key, address: va + page * PAGE + 4000, length: 200 }];
          ring.fetched.push({ position: 0, sges });
        }
        break;
      }
      case "time":
        card.at(device.now + act.ps);
        break;
      case "life":
        if (act.how === "error") enterState(by!, "err");
        else if (act.how === "drain") (by as { state: string }).state = "sqd";
        else this.#beginAnew(act.qp);
        break;
      case "wanted": {
        if (!rights(by!.state).takesRequests) return;
        const { kinds, answer } = act;
        const about = { type: "wanted", reason: "none", sequence: 0, groups: [] } as const;
        const message: HintMessage = { ...about, kinds, answer };
        model.hearWanted(by!, message);
        const end = endOf(hints, by!);
        if (end !== undefined) takeWanted(device, { hints, qp: by!, end }, message);
        break;
      }
      case "word":
        return this.#word(act);
      case "command": {
        const { commandPs } = device.timing;
        const expected = hints.plan.work === undefined
          ? device.now + commandPs
          : model.work.command(device.now, commandPs);
        same(commandDoneAt(device), expected);
        break;
      }
      case "core": {
        const ids = [...model.work.atCores.keys()];
        const id = ids[act.nth] ?? 1000;
        const isKnown = model.endOnCore(id);
        same(endHostWork(device, id), isKnown);
        break;
      }
    }
  }

  #beginAnew(place: number): void {
    const { card, model } = this, { device, hints } = card, qp = this.queuePairs[place]!;
    resetQueuePair(qp);
    leaveHints(hints, qp);
    model.ends.delete(qp);
    bringUp(qp, this.#options[place]!);
    if (model.endOf(qp) !== undefined) model.tell(qp, { answer: true });
    offerHints(device, hints, qp);
  }

  #word({ how, nth, operand, sequence }: Extract<Act, { kind: "word" }>): void {
    const { card: { device, hints }, model } = this;
    const all = [...hints.words.values()];
    const word = all[nth % Math.max(1, all.length)];
    const its = word && model.words.get(word.address);
    if (how === "hold") {
      const { pages } = this.regions[2]!.table, address = pages[0]! + 8 * nth;
      if (!device.atomicWords.delete(address)) device.atomicWords.set(address, undefined!);
      return;
    }
    if (word === undefined || its === undefined) return;
    const { address } = word;
    if (how === "come" || how === "fail") {
      if (word.state !== "coming") return;
      if (how === "fail") model.forgetWord(its);
      else its.state = "here";
      takePreload(device, word, how === "fail" ? undefined : new Uint8Array(8));
    } else if (how === "snoop") {
      const line = address - address % 64 + 64 * (operand - 1);
      for (const each of [...model.words.values()]) {
        const isIn = each.address >= line && each.address < line + 64;
        if (isIn && each.state !== "behind") model.voidWord(each, "hintWordsSnooped");
      }
      snoopLine(hints, line);
    } else if (how === "write" || how === "own") {
      const write = {
        ...{ address: address - 8 + 8 * operand, length: 1 + 7 * (sequence % 3) },
        keepsWord: how === "own",
      };
      const behind = [];
      for (const each of [...model.words.values()]) {
        const end = write.address + write.length;
        if (each.address >= end || each.address + 8 <= write.address) continue;
        if (each.state === "behind") behind.push(each);
        else if (how === "write" || each.address !== write.address) {
          model.voidWord(each, "hintWordsOverwritten");
        }
      }
      for (const each of behind) model.readWord(each);
      HINTS.upcalls.wordsOverwritten(device, hints, write);
    } else if (word.state === "here") {
      const qp = this.queuePairs[sequence % 3]!;
      const operands = { swapAdd: BigInt(operand), compare: 1n };
      const rule = nth % 2 === 0 ? FETCH_ADD : COMPARE_SWAP;
      const task = { ...operands, rule } as AtomicTask;
      model.atomic(its, { qp, psn: sequence, operands, compares: rule.compares });
      compareOperands(hints, word, { qp, psn: sequence, task });
      word.used = true;
      if (--word.uses <= 0) forgetWord(hints, word);
    }
  }

  /** Ends a region's life: nothing is asked for it any more. */
  deregister(): void {
    const { card: { device }, regions } = this, region = regions[1]!;
    region.alive = false;
    freeKey(device.regions, region.key);
    dropTable(device, region.table);
  }

  step(act: Act): void {
    const { card, model } = this, { device } = card;
    model.begin();
    card.bus.length = 0;
    this.#eventsSeen = device.pageEvents.end;
    const before = {
      lines: new Set(device.paging.fills.keys()),
      contexts: new Set(device.contextWaits.keys()),
    };
    this.do(act);
    model.step();
    HINTS.step(device);
    this.#compare(act, before);
    raisePageFaults(device);
  }

  #compare(act: Act, before: { lines: Set<number>; contexts: Set<number> }): void {
    const { card, model, regions } = this, { device } = card;
    const { paging } = device;
    same(card.takeSent(), model.sent, "what is sent");
    const requests = device.pageEvents.values().toArray().slice(
      this.#eventsSeen - device.pageEvents.first,
    ).map(({ event: { key, first, count, ahead, write }, hint }) => (
      { key, first, count: count + ahead, write, hintsOf: hint!.hintsOf, isAtOnce: false }
    ));
    const raised = card.bus.flatMap((message) =>
      message.kind === "event" && message.event.type === "PAGE_FAULT" ? [message.event] : []
    ).map(({ key, first, count, ahead, write, hintsOf }) => (
      { key, first, count: count + ahead, write, hintsOf, isAtOnce: true }
    ));
    same([...requests, ...raised], [...model.requests], "page requests");
    const drops = ["vendor-operation", "q-key"] as const;
    same(drops.map((each) => device.drops.get(each) ?? 0), [this.#drops, this.#keys], "drops");
    const events = card.bus.flatMap((message) =>
      message.kind === "event" && message.event.type === "HINT_WORK" ? [message.event] : []
    ).map(({ id, job, elements }) => ({ id, job, elements }));
    same(events, model.work.events, "events for cores");
    for (const region of regions) {
      for (const [page, { asked }] of region.table.demand?.entries() ?? []) {
        const expected = model.asked.get(pageName(region, page));
        if (expected !== undefined) same(asked, expected, `${pageName(region, page)} is asked for`);
      }
    }
    const lines = paging.fills.entries().filter(([key]) => !before.lines.has(key)).map(([, fill]) =>
      lineName(regions.find(({ table }) => table === fill.table)!, fill.line)
    ).toArray();
    if (act.kind !== "request") same(new Set(lines), new Set(model.lines), "lines that are read");
    const contexts = [...device.contextWaits.keys()].filter((each) => !before.contexts.has(each));
    same(new Set(contexts), new Set(model.contexts), "contexts that are read");
    const read = card.bus.filter((message) => message.kind === "memory-read" && message.tracked);
    const waiting = device.dma.responder.waiting.length;
    same(read.length + waiting >= model.wordsRead, true, "words that are read");
    this.#compareKept();
    same(HINTS.wakeAt(device), model.work.wakeAt ?? NEVER, "when it wakes");
  }

  #compareKept(): void {
    const { card: { device, hints }, model, regions } = this;
    const names = new Map<number, string>();
    for (const region of regions) {
      for (const page of region.table.pages.keys()) {
        names.set(chargeKey(region.table, "page", page), pageName(region, page));
        names.set(chargeKey(region.table, "line", page), lineName(region, page));
      }
    }
    for (const { sqQueue, rqQueue } of this.queuePairs) {
      for (const queue of [sqQueue, rqQueue]) names.set(contextKey(queue), contextName(queue));
    }
    for (const { address } of hints.words.values()) names.set(wordKey(address), wordName(address));
    const fetches = [...hints.charges.values()].map(({ key, kind, requester, position, until }) => (
      { name: names.get(key), kind, requester, position, until }
    ));
    const expected = [...model.fetches.values()].map((
      { name, kind, requester, position, until },
    ) => (
      { name, kind, requester, position, until }
    ));
    same(fetches, expected, "what counts against quotas");
    same(
      [...hints.words.values()].map(({ address, state, uses, used, announced }) => (
        { address, state, uses, used, told: announced.length }
      )),
      [...model.words.values()].map(({ address, state, uses, used, told }) => (
        { address, state, uses, used, told: told.length }
      )),
      "words on the chip",
    );
    same(
      [...hints.receiving].map((
        [{ qpn }, { wanted, readyAt, reason, pages, isFetching, ring }],
      ) => (
        {
          qpn,
          wanted,
          readyAt,
          reason,
          pages: pages.length,
          isFetching,
          ring: ring.wanted,
          looked: ring.looked,
        }
      )),
      [...model.aheads].map(([qp, { wanted, readyAt, reason, pages, hasLooked }]) => {
        const ring = model.rings.get((qp.srq ?? qp.rq).ahead) ?? { wanted: 0, looked: 0 };
        const its = { wanted, readyAt, reason, pages: pages.length, isFetching: hasLooked };
        return { qpn: qp.qpn, ...its, ring: ring.wanted, looked: ring.looked };
      }),
      "receives that are set aside",
    );
    same(
      hints.preparing.map(({ sequence, elements }) => [sequence, elements.length]),
      model.preparing.map(({ sequence, elements }) => [sequence, elements.length]),
      "hints that are not answered",
    );
    const peers = [...hints.hinting.peers].map(([address, { scopes, ...its }]) => (
      { address, ...its, scopes: [...scopes] }
    ));
    const expectedPeers = [...model.peers].map(([address, { scopes, ...its }]) => (
      { address, ...its, scopes: [...scopes] }
    ));
    same(peers, expectedPeers, "what is remembered of needless hints");
    same(
      [...hints.ends].map(([{ qpn }, { life, agreed, told, refusedKeys, nextPsn }]) => (
        { qpn, life, agreed, told, guesses: refusedKeys, psn: nextPsn }
      )),
      [...model.ends].map(([{ qpn }, { life, agreed, told, guesses, psn }]) => (
        { qpn, life, agreed, told, guesses, psn }
      )),
      "queue pairs' parts",
    );
    const statistics = HINTS.statistics(device, "report");
    const { kinds, operands, work } = hints.plan;
    const has = [(kinds & HINT_KINDS.atomic) !== 0, operands, work !== undefined];
    const kept = ["hintWordsRead", "hintOperandsSame", "hintsOverrun"];
    same(kept.map((name) => name in statistics), has, "counters of what the card does");
    const ofReports = Object.keys(HINTS.statistics(device, "program")).filter((name) =>
      name.startsWith("hintLead")
    );
    same(ofReports, [], "counters of reports alone");
    const counted = new Map([
      ...model.counters,
      ...Object.entries(hints.work ? model.work.counters : {}),
    ]);
    for (const [outcome, counts] of Object.entries(model.leads)) {
      for (const [place, value] of counts.entries()) {
        counted.set(`hintLead-${outcome}-${place}`, value);
      }
    }
    const pages = model.fetches.values().filter(({ kind }) => kind === "page").toArray().length;
    counted.set("hintPagesUnused", pages);
    for (const [name, value] of counted) if (value === 0) counted.delete(name);
    const found = Object.entries(statistics).filter(([, value]) => value !== 0);
    same(Object.fromEntries(found.sort()), Object.fromEntries([...counted].sort()), "counters");
  }
}

describe("the responder's side of hints does what its model says (H-20 to H-24, H-30)", () => {
  for (const [name, world] of Object.entries(WORLDS)) {
    it(name, () => {
      fc.assert(
        fc.property(acts, (all) => {
          const bench = new Bench(world);
          for (const each of all) bench.step(each);
        }),
        seeded({ numRuns: 100 }),
      );
    });
  }
});
