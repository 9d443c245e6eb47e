/**
 * Hints change times and nothing else: a program ends with the same memory and, per queue, the same completions
 * whether hints are on or off, whichever way they are sent, lost, doubled or late, and whatever pages are taken
 * back when. What a peer makes up changes nothing either.
 */
import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PORTS } from "../../../fabric/node.ts";
import { rngFor } from "../../../fabric/base/rng.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { HINT_PLAN, type HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import { WORK_PRESETS } from "../../../fabric/rack/plan/hint_work.ts";
import { PAGE_FAULT_RULES } from "../../../fabric/rack/plan/plan.ts";
import { encodePacket, type RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { HINT_KINDS } from "../../../fabric/wire/roce/hint_eth.ts";
import {
  HINT_FORM_BITS,
  type HintMessage,
  hintOf,
  hintParts,
} from "../../../fabric/wire/roce/hint.ts";
import { changed, packetOf } from "../testing/pair_testing.ts";
import { checkAfterPowerFailure, checkSame } from "../testing/program_check_testing.ts";
import { type Fault, withFaults } from "../testing/program_flush_testing.ts";
import { play } from "../testing/program_play_testing.ts";
import { prepare, type Run } from "../testing/program_rig_testing.ts";
import { runFaultless } from "../testing/program_seed_testing.ts";
import { randomProgram, VERBS } from "../testing/program_testing.ts";
import type { FrameFate } from "../testing/rig_parts_testing.ts";
import { connectUc, createUd } from "../testing/unreliable_testing.ts";
import { faultsWithinLimits } from "../testing/wire_faults_testing.ts";

const SEEDS = [3, 6, 11, 14, 18, 23];
const US = 1_000_000;

/** Different in everything that a program could notice, were hints more than speed. */
const PLANS: readonly Partial<HintPlan>[] = [
  { batch: 1, operands: true },
  { batch: 4, follow: "agreed", waitsPs: { prefetch: 3 * US }, intervalPs: 2 * US },
  { batch: "adaptive", follow: "after-ack", patiencePs: 50 * US, quota: 3 },
];

/** What hints bring in (H-04, H-21), by the counter that tells of it. */
const BROUGHT = {
  prefetch: "hintPagesUseful",
  warmUp: "hintLinesUseful",
  contexts: "hintContextsFetched",
  receive: "hintReceives",
  atomic: "hintWordsRead",
} as const;
type Brought = keyof typeof BROUGHT;
const ALL_BUT_CONTEXTS: readonly Brought[] = ["prefetch", "warmUp", "receive", "atomic"];

/** What a hint is in. */
type Form = "opcode" | "datagram" | "header" | "payload" | "range";

interface Way extends Partial<HintPlan> {
  readonly carrier?: "rc" | "uc";
  readonly form: Form;
  /** All that it brings in with these seeds. */
  readonly brings: readonly Brought[];
}

/** H-07 × H-08: the others. */
const WAYS: readonly Way[] = [
  {
    ...{ encoding: "header", transport: "own", follow: "after-ack", patiencePs: 50 * US },
    ...{ form: "header", brings: ALL_BUT_CONTEXTS },
  },
  {
    ...{ encoding: "payload", transport: "own", batch: 2 },
    ...{ form: "payload", brings: ALL_BUT_CONTEXTS },
  },
  {
    ...{ encoding: "flagged", transport: "own", follow: "after-ack", patiencePs: 50 * US },
    ...{ form: "range", brings: ["prefetch"] },
  },
  { transport: "own", carrier: "rc", form: "opcode", brings: ALL_BUT_CONTEXTS },
  {
    ...{ encoding: "header", batch: 1, carrier: "rc" },
    // Few packets of a carrier begin while others have work that was not begun.
    ...{ form: "header", brings: ["prefetch", "warmUp", "atomic"] },
  },
  {
    ...{ encoding: "payload", batch: 1, follow: "delay", delayPs: 3 * US, carrier: "rc" },
    ...{ form: "payload", brings: ["prefetch", "warmUp", "atomic"] },
  },
  {
    ...{ transport: "multicast", follow: "after-ack", patiencePs: 50 * US },
    ...{ form: "datagram", brings: [...ALL_BUT_CONTEXTS, "contexts"] },
  },
  {
    ...{ transport: "trusted", batch: 2 },
    ...{ form: "datagram", brings: [...ALL_BUT_CONTEXTS, "contexts"] },
  },
  {
    ...{ follow: "after-ack", patiencePs: 50 * US, carrier: "uc" },
    // What it loses is not sent again.
    ...{ form: "opcode", brings: ["prefetch", "warmUp", "receive"] },
  },
];

interface Wanted {
  readonly seed: number;
  readonly hints: Partial<HintPlan>;
  /** The first pair of queue pairs, which is RC, or a UC pair of its own, has the hints of all. */
  readonly carrier?: "rc" | "uc" | undefined;
  readonly fault: (run: Run) => Fault;
}

/** Plays a program with hints over memory on demand; it must end as without, over pinned memory. */
function played({ seed, hints, fault, carrier }: Wanted): Run {
  // A long retry counter: what a page takes to come is no loss of the network.
  const program = { ...randomProgram(seed), timeout: 9 };
  const rule = PAGE_FAULT_RULES[seed % PAGE_FAULT_RULES.length]!;
  const demand = { rng: rngFor(seed, "hints"), takeOneIn: 12, servicePs: 500_000 };
  const entries = 16 + 8 * (seed % 8);
  const run = prepare(program, 0, {
    rule,
    entries,
    demand,
    carrier: carrier === "rc",
    hints: { ...HINT_PLAN, kinds: HINT_PLAN.kinds | HINT_KINDS.atomic, ...hints },
  });
  if (carrier === "uc") {
    connectUc(run.rig, {}, { hints: "carrier", depth: 4, rqDepth: 4 });
    run.rig.run();
  }
  if (hints.transport === "multicast" || hints.transport === "trusted") joinGroup(run);
  withFaults(run, fault(run));
  play(run);
  checkSame(run, runFaultless(program));
  return run;
}

/** A queue pair at each end has the hints of all; of the same protection domain, or a trusted one's own. */
function joinGroup({ rig }: Run): void {
  for (const side of [rig.a, rig.b]) {
    const { qpn } = createUd(rig, side, {
      hints: "group",
      privileged: true,
      depth: 4,
      rqDepth: 4,
    });
    const reply = rig.command(side, { op: "attach-mcast", qpn, group: 0xe000_0a01 });
    if (reply.status !== "ok") throw new Error(reply.reason);
  }
  rig.run();
}

/** In the middle of what power fails. */
const MIDDLES = ["hint", "page request", "word"] as const;
type Middle = typeof MIDDLES[number];
const KILL_SEEDS = [3, 6, 11, 14, 18];

/** Plays a program with hints until a machine has no power, and to its end. @returns whether it came to that. */
function killed(
  seed: number,
  { middle, dead }: { readonly middle: Middle; readonly dead: "a" | "b" },
): boolean {
  const rng = rngFor(seed, `killed/${middle}/${dead}`);
  // Announced atomics are few in a program of all verbs.
  const verbs = middle === "word" ? ["fetch-add", "write", "flush"] as const : VERBS;
  const program = { ...randomProgram(seed, verbs), timeout: 9 };
  const demand = { rng: rngFor(seed, "hints"), takeOneIn: 12, servicePs: 500_000 };
  const run = prepare(program, 0, {
    rule: PAGE_FAULT_RULES[seed % PAGE_FAULT_RULES.length]!,
    entries: middle === "word" ? 1024 : 16 + 8 * (seed % 8),
    // A word is read ahead where its page is there.
    ...(middle !== "word" && { demand }),
    carrier: seed % 2 === 1,
    hints: {
      ...HINT_PLAN,
      kinds: HINT_PLAN.kinds | HINT_KINDS.atomic,
      batch: 2,
      follow: seed % 3 === 0 ? "after-ack" : "at-once",
      patiencePs: 50 * US,
    },
  });
  const { rig } = run;
  const counted = middle === "hint"
    ? "hintsIn"
    : middle === "page request"
    ? "hintPageRequests"
    : "hintWordsRead";
  const nth = 1 + rng.below(middle === "word" ? 2 : 5);
  let at: Time | undefined, isDead = false;
  withFaults(run, () => {
    if (isDead) return "pass";
    const count = Math.max(...[rig.a, rig.b].map(({ rnic }) => rnic.statistics()[counted] ?? 0));
    // Until the page or word has come, or its request.
    if (count >= nth) at ??= rig.now + rng.below(3 * US);
    if (at === undefined || rig.now < at) return "pass";
    isDead = true;
    rig.link(rig[dead], PORTS.rnicBus, false);
    return "pass";
  });
  play(run);
  if (isDead) checkAfterPowerFailure(run, dead);
  return isDead;
}

/** The form of an announcement; undefined of a frame that has none. */
function formOf(bytes: Uint8Array<ArrayBuffer>): Form | undefined {
  const packet = packetOf(bytes);
  const message = hintOf(packet);
  if (message?.type === "announce") return packet.deth === undefined ? "opcode" : "datagram";
  return FORMS[packet.bth.reserved7 & ((1 << HINT_FORM_BITS) - 1)];
}

const FORMS: readonly (Form | undefined)[] = [undefined, "header", "payload", "range"];

/** H-04, H-21: each of these was brought in. */
function checkBrought(runs: readonly Run[], brings: readonly Brought[]): void {
  const idle = brings.filter((each) => total(runs, BROUGHT[each]) === 0);
  same(idle, [], `brought nothing in: ${idle.join(", ")}`);
}

function total(runs: readonly Run[], counter: string): number {
  return runs.flatMap(({ rig }) => [rig.a, rig.b])
    .reduce((sum, { rnic }) => sum + (rnic.statistics()[counter] ?? 0), 0);
}

/** What may happen to a hint on its way. */
const FATES: readonly FrameFate[] = [
  "pass",
  "drop",
  "twice",
  { delayPs: 30 * US },
  { againPs: 200 * US },
];

describe("any program of verbs, with hints", () => {
  // One in some programs: announced atomics are few, and cores store beside them.
  let wordsUseful = 0;
  for (const [i, hints] of PLANS.entries()) {
    it(`H-24: ends as without: hints ${JSON.stringify(hints)}`, () => {
      const runs = SEEDS.map((seed) => {
        const rng = rngFor(seed, `hints/${i}`);
        return played({
          seed,
          hints,
          // Every other program has one queue pair carry the hints of all.
          carrier: seed % 2 === 1 ? "rc" : undefined,
          fault: () => (_, { bytes }) =>
            hintOf(packetOf(bytes)) === undefined ? "pass" : FATES[rng.below(FATES.length)]!,
        });
      });
      for (const name of ["hintsSent", "hintPagesAsked", "hintPagesUseful", "hintLinesFetched"]) {
        ok(total(runs, name) > 5, `${name}: ${total(runs, name)}`);
      }
      checkBrought(runs, ALL_BUT_CONTEXTS);
      wordsUseful += total(runs, "hintWordsUseful");
      if (hints.follow === "after-ack") {
        for (const name of ["hintsPrepared", "hintsRefused", "hintsUnanswered"]) {
          ok(total(runs, name) > 0, `${name}: ${total(runs, name)}`);
        }
      }
    });
  }

  for (const [name, work] of Object.entries(WORK_PRESETS)) {
    it(`H-09, H-20, H-24: ends as without, wherever the work is done: ${name}`, () => {
      const hints = { ...PLANS[name === "firmware" ? 2 : 1]!, work };
      const runs = SEEDS.slice(0, 3).map((seed) => {
        const rng = rngFor(seed, `work/${name}`);
        const fault = () => (_: unknown, { bytes }: { readonly bytes: Uint8Array<ArrayBuffer> }) =>
          hintOf(packetOf(bytes)) !== undefined && rng.below(4) === 0
            ? FATES[rng.below(FATES.length)]!
            : "pass" as const;
        return played({ seed, hints, carrier: seed % 2 === 1 ? "rc" : undefined, fault });
      });
      ok(total(runs, "hintPagesAsked") > 5, `${total(runs, "hintPagesAsked")} pages`);
      const isOnCore = name === "driver" || name === "hypervisor";
      equal(total(runs, "hintWorkEvents") > 0, isOnCore);
      equal(total(runs, "hintFirmwarePs") > 0, name === "firmware");
    });
  }

  for (const [i, { carrier, form, brings, ...hints }] of WAYS.entries()) {
    const name = JSON.stringify({ ...hints, carrier });
    it(`H-07, H-08, H-24: ends as without, by whatever way hints go: ${name}`, () => {
      const forms = new Set<Form>();
      const runs = SEEDS.map((seed) => {
        const rng = rngFor(seed, `ways/${i}`);
        const isHint = (bytes: Uint8Array<ArrayBuffer>) => {
          const its = formOf(bytes);
          if (its !== undefined) forms.add(its);
          return its !== undefined || hintOf(packetOf(bytes)) !== undefined;
        };
        return played({
          seed,
          hints,
          carrier,
          // A request that is lost with its hint is sent again.
          fault: () => (_, { bytes }) =>
            isHint(bytes) && rng.below(4) === 0 ? FATES[rng.below(FATES.length)]! : "pass",
        });
      });
      same([...forms], [form], "what hints are in");
      checkBrought(runs, brings);
      wordsUseful += total(runs, "hintWordsUseful");
      for (const name of ["hintsSent", "hintsIn"]) {
        ok(
          total(runs, name) > (hints.encoding !== undefined && carrier !== undefined ? 1 : 5),
          `${name}: ${total(runs, name)}`,
        );
      }
    });
  }

  it("of which some have used words that were read ahead", () => ok(wordsUseful > 3));

  it("H-02, H-24: ends as without, where the peer says of all hints that they were needless", () => {
    // Of these some have work that is posted behind such an answer.
    const runs = [...SEEDS, ...Array.from({ length: 24 }, (_, i) => 2 + i)].map((seed) => {
      const announced = new Map<string, HintMessage["groups"]>();
      return played({
        seed,
        hints: { batch: 1, follow: "after-ack", patiencePs: 50 * US },
        fault: () => (from, { bytes }) => {
          const packet = packetOf(bytes), message = hintOf(packet);
          if (message?.type === "announce") {
            announced.set(`${from}/${message.sequence}`, message.groups);
          }
          if (message?.type !== "prepared") return "pass";
          const about = announced.get(`${from === "a" ? "b" : "a"}/${message.sequence}`)!;
          // All regions, and all queue pairs with untagged messages.
          const groups = about.flatMap((group) => {
            const entries = group.entries.flatMap(({ operation, ...entry }) =>
              operation === "send" ? [] : [{ ...entry, operation: "read" as const, kinds: 0 }]
            );
            return [{ ...group, entries }, { ...group, entries: [] }];
          });
          const { hintEth, payload } = hintParts({ ...message, groups });
          const bth = { padCount: -payload.length & 3 };
          return { replaceBy: encodePacket(changed(packet, { hintEth, payload, bth })) };
        },
      });
    });
    for (const name of ["hintBatchesPassedOver", "hintsPrepared", "hintPagesUseful"]) {
      ok(total(runs, name) > 3, `${name}: ${total(runs, name)}`);
    }
  });

  it("H-24: ends as without, where frames of all kinds are lost, doubled, damaged and late", () => {
    const runs = SEEDS.map((seed) =>
      played({ seed, hints: { batch: 1 }, fault: () => faultsWithinLimits(seed) })
    );
    ok(total(runs, "hintsSent") > 50, `${total(runs, "hintsSent")} hints`);
  });

  it("H-23, H-24: power fails in the middle of hints, preloaded atomics and page requests: what is told holds", () => {
    const met = new Map<Middle, number>();
    for (const seed of KILL_SEEDS) {
      for (const middle of MIDDLES) {
        for (const dead of ["a", "b"] as const) {
          if (killed(seed, { middle, dead })) met.set(middle, (met.get(middle) ?? 0) + 1);
        }
      }
    }
    for (const middle of MIDDLES) ok((met.get(middle) ?? 0) > 3, `${middle}: ${met.get(middle)}`);
  });

  it("H-24: a peer that makes hints up changes no byte and no completion", () => {
    const runs = SEEDS.map((seed) => {
      const rng = rngFor(seed, "hostile hints");
      return played({
        seed,
        hints: { batch: 1, quota: 2, operands: true },
        fault: () => (_, { bytes }) => hostile(bytes, rng),
      });
    });
    for (const name of ["hintsMalformed", "hintsNoAccess", "hintsUnknownQp", "hintsOverQuota"]) {
      ok(total(runs, name) > 1, `${name}: ${total(runs, name)}`);
    }
  });
});

/** Three of four hints have some bytes of its own choice; the frame is whole, so that the card believes it. */
function hostile(bytes: Uint8Array<ArrayBuffer>, rng: ReturnType<typeof rngFor>): FrameFate {
  const packet: RocePacket = packetOf(bytes);
  const message = hintOf(packet);
  if (message === undefined || rng.below(4) === 0) return "pass";
  const payload = packet.payload.slice();
  const hintEth = { ...packet.hintEth! };
  const kind = rng.below(4);
  if (kind === 0) {
    // Anywhere: numbers of queue pairs, keys, addresses, lengths, counts.
    for (let i = 0; i <= rng.below(4) && payload.length > 0; i++) {
      payload[rng.below(payload.length)] = rng.below(256);
    }
  } else if (kind === 1) {
    hintEth.type = rng.below(6);
    hintEth.reason = rng.below(7);
    hintEth.kinds = rng.below(256);
  } else if (kind === 2) {
    hintEth.sequence = rng.below(64);
    hintEth.answer = rng.below(2) === 0;
    hintEth.kinds = rng.below(256);
  } else if (payload.length >= 32) {
    // The longest range from there, to be written.
    new DataView(payload.buffer).setUint32(8 + 12, 1 << rng.below(31));
    payload[8 + 1] = 1;
  }
  return { replaceBy: encodePacket(changed(packet, { hintEth, payload })) };
}
