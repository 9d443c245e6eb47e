/**
 * Hints change times and nothing else: a program ends with the same memory and, per queue, the same completions
 * whether hints are on or off, whichever way they are sent, lost, doubled or late, and whatever pages are taken
 * back when. What a peer makes up changes nothing either.
 */
import { equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../fabric/base/rng.ts";
import { HINT_PLAN, type HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import { WORK_PRESETS } from "../../../fabric/rack/plan/hint_work.ts";
import { PAGE_FAULT_RULES } from "../../../fabric/rack/plan/plan.ts";
import { encodePacket, type RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { HINT_KINDS } from "../../../fabric/wire/roce/hint_eth.ts";
import { hintOf } from "../../../fabric/wire/roce/hint.ts";
import { changed, packetOf } from "../testing/pair_testing.ts";
import { checkSame } from "../testing/program_check_testing.ts";
import { type Fault, withFaults } from "../testing/program_flush_testing.ts";
import { play } from "../testing/program_play_testing.ts";
import { prepare, type Run } from "../testing/program_rig_testing.ts";
import { runFaultless } from "../testing/program_seed_testing.ts";
import { randomProgram } from "../testing/program_testing.ts";
import type { FrameFate } from "../testing/rig_parts_testing.ts";
import { createUd } from "../testing/unreliable_testing.ts";
import { faultsWithinLimits } from "../testing/wire_faults_testing.ts";

const SEEDS = [3, 6, 11, 14, 18, 23];
const US = 1_000_000;

/** Different in everything that a program could notice, were hints more than speed. */
const PLANS: readonly Partial<HintPlan>[] = [
  { batch: 1 },
  { batch: 4, follow: "agreed", waitsPs: { prefetch: 3 * US }, intervalPs: 2 * US },
  { batch: "adaptive", follow: "after-ack", patiencePs: 50 * US, quota: 3 },
];

/** H-07 × H-08: the others. */
const WAYS: readonly (Partial<HintPlan> & { readonly carrier?: true })[] = [
  { encoding: "header", transport: "own", follow: "after-ack", patiencePs: 50 * US },
  { encoding: "payload", transport: "own", batch: 2 },
  { encoding: "flagged", transport: "own", follow: "after-ack", patiencePs: 50 * US },
  { transport: "own", carrier: true },
  { encoding: "header", batch: 1, carrier: true },
  { encoding: "payload", batch: 1, follow: "delay", delayPs: 3 * US, carrier: true },
  { transport: "multicast", follow: "after-ack", patiencePs: 50 * US },
  { transport: "trusted", batch: 2 },
];

interface Wanted {
  readonly seed: number;
  readonly hints: Partial<HintPlan>;
  readonly carrier?: boolean;
  readonly fault: (run: Run) => Fault;
}

/** Plays a program with hints over memory on demand; it must end as without, over pinned memory. */
function played({ seed, hints, fault, carrier = false }: Wanted): Run {
  // A long retry counter: what a page takes to come is no loss of the network.
  const program = { ...randomProgram(seed), timeout: 9 };
  const rule = PAGE_FAULT_RULES[seed % PAGE_FAULT_RULES.length]!;
  const demand = { rng: rngFor(seed, "hints"), takeOneIn: 12, servicePs: 500_000 };
  const entries = 16 + 8 * (seed % 8);
  const run = prepare(program, 0, {
    rule,
    entries,
    demand,
    carrier,
    hints: { ...HINT_PLAN, kinds: HINT_PLAN.kinds | HINT_KINDS.atomic, ...hints },
  });
  if (hints.transport === "multicast" || hints.transport === "trusted") joinGroup(run);
  withFaults(run, fault(run));
  play(run);
  checkSame(run, runFaultless(program));
  return run;
}

/** A queue pair at each end has the hints of all; of the same protection domain, or a trusted one's own. */
function joinGroup({ rig }: Run): void {
  for (const side of [rig.a, rig.b]) {
    const { qpn } = createUd(rig, side, { hints: "group", depth: 4, rqDepth: 4 });
    const reply = rig.command(side, { op: "attach-mcast", qpn, group: 0xe000_0a01 });
    if (reply.status !== "ok") throw new Error(reply.reason);
  }
  rig.run();
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
          carrier: seed % 2 === 1,
          fault: () => (_, { bytes }) =>
            hintOf(packetOf(bytes)) === undefined ? "pass" : FATES[rng.below(FATES.length)]!,
        });
      });
      for (const name of ["hintsSent", "hintPagesAsked", "hintPagesUseful", "hintLinesFetched"]) {
        ok(total(runs, name) > 5, `${name}: ${total(runs, name)}`);
      }
      ok(total(runs, "hintWordsRead") > 0, "no word was read");
      wordsUseful += total(runs, "hintWordsUseful");
      if (hints.follow === "after-ack") {
        for (const name of ["hintsPrepared", "hintsRefused", "hintsUnanswered"]) {
          ok(total(runs, name) > 0, `${name}: ${total(runs, name)}`);
        }
      }
    });
  }

  for (const [name, work] of Object.entries(WORK_PRESETS)) {
    it(`H-09, H-20, H-24: ends as without, whoever does the work: ${name}`, () => {
      const hints = { ...PLANS[name === "firmware" ? 2 : 1]!, work };
      const runs = SEEDS.slice(0, 3).map((seed) => {
        const rng = rngFor(seed, `work/${name}`);
        const fault = () => (_: unknown, { bytes }: { readonly bytes: Uint8Array<ArrayBuffer> }) =>
          hintOf(packetOf(bytes)) !== undefined && rng.below(4) === 0
            ? FATES[rng.below(FATES.length)]!
            : "pass" as const;
        return played({ seed, hints, carrier: seed % 2 === 1, fault });
      });
      ok(total(runs, "hintPagesAsked") > 5, `${total(runs, "hintPagesAsked")} pages`);
      const isOnCore = name === "driver" || name === "hypervisor";
      equal(total(runs, "hintWorkEvents") > 0, isOnCore);
      equal(total(runs, "hintFirmwarePs") > 0, name === "firmware");
    });
  }

  it("of which some have used words that were read ahead", () => ok(wordsUseful > 0));

  for (const [i, { carrier = false, ...hints }] of WAYS.entries()) {
    const name = JSON.stringify({ ...hints, carrier });
    it(`H-07, H-08, H-24: ends as without, by whatever way hints go: ${name}`, () => {
      const runs = SEEDS.map((seed) => {
        const rng = rngFor(seed, `ways/${i}`);
        const isHint = (bytes: Uint8Array<ArrayBuffer>) => {
          const packet = packetOf(bytes);
          return hintOf(packet) !== undefined || packet.bth.reserved7 !== 0;
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
      for (const name of ["hintsSent", "hintsIn"]) {
        // Few packets of a carrier begin while others have work that was not begun.
        ok(
          total(runs, name) > (hints.encoding !== undefined && carrier ? 1 : 5),
          `${name}: ${total(runs, name)}`,
        );
      }
    });
  }

  it("H-24: ends as without, where frames of all kinds are lost, doubled, damaged and late", () => {
    const runs = SEEDS.map((seed) =>
      played({ seed, hints: { batch: 1 }, fault: () => faultsWithinLimits(seed) })
    );
    ok(total(runs, "hintsSent") > 50, `${total(runs, "hintsSent")} hints`);
  });

  it("H-24: a peer that makes hints up changes no byte and no completion", () => {
    const runs = SEEDS.map((seed) => {
      const rng = rngFor(seed, "hostile hints");
      return played({
        seed,
        hints: { batch: 1, quota: 2 },
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
