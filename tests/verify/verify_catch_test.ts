/**
 * V-08, cell by cell: which damage each level of a verified write catches, against a WRITE and a READ
 * that the program compares. The table is argued in the comments of {@link CATCHES}; here it is run.
 */
import assert from "node:assert/strict";
import { readsBack, VERIFY_LEVELS } from "../../fabric/wire/roce/verify_eth.ts";
import { describe, it } from "@std/testing/bdd";
import type { FinalReply } from "../../fabric/rack/assembly/run_file.ts";
import { deviceFaultRows } from "../../console/reports/device_fault_report.ts";
import { faultRows } from "../../console/reports/fault_report.ts";
import { isPutResult, type PutResult } from "../../console/checks/survival.ts";
import { countVerified, type VerifiedCounts } from "../../console/checks/verified.ts";
import { contentOf } from "../support/process_rack.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const LEVELS = [...VERIFY_LEVELS, "compare"] as const;
type Level = typeof LEVELS[number];

/** Three packets each at this MTU, the last of them not whole. */
const SIZE = 10_000, MTU = 4096;
const FILE = contentOf(8 * SIZE);

interface Run {
  readonly level: Level;
  readonly faults: readonly string[];
  readonly persist?: boolean;
  readonly host?: string;
  readonly topology?: "star" | "direct";
  /** More options of the `put`. */
  readonly more?: string;
  /** Why the run breaks what the rack promises, where it is to. */
  readonly unsound?: string;
}

interface Done {
  readonly put: PutResult;
  readonly counts: VerifiedCounts;
  /** Hits of all faults. */
  readonly injected: number;
  readonly statistics: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly survived: Uint8Array;
}

function run(of: Run): Done {
  const { level, faults, persist = false, host = "ddio: off", topology = "star", unsound } = of;
  const { more = "rewrites: 3" } = of;
  const method = level === "compare"
    ? persist ? "persist-compare" : "write-compare"
    : persist
    ? "verify-persist"
    : "write-verify";
  const checked = level === "compare" ? "" : `, level: ${level}`;
  const rack = new SimulatedRack(
    `name: verify
seed: 5
fabric: { mtu: ${MTU}, topology: ${topology} }
hosts: { a: {}, b: { ${host}, scm: { size: 1MiB } } }
programs:
  - { on: a, run: put, to: b, method: ${method}${checked}, file: data, size: ${SIZE}, depth: 2, ${more} }
faults: [${faults.join(", ")}]
`,
    { inputs: { data: FILE }, ...(unsound !== undefined && { unsound }) },
  ).run();
  const [put] = rack.reported("result", "a") as readonly unknown[];
  assert.ok(isPutResult(put), JSON.stringify(rack.reported("program-failed")));
  const { scmOffset, length } = put.object;
  const survived = rack.scm.get("b")!.slice(scmOffset, scmOffset + length);
  const counts = countVerified(put, { file: FILE, survived })!;
  const statistics = rack.simulator.statistics();
  const finals = [
    { statistics, linkFaults: rack.simulator.linkFaultCounts() } as unknown as FinalReply,
  ];
  const hits = [
    ...faultRows("", { plan: rack.plan, finals }),
    ...deviceFaultRows("", { plan: rack.plan, finals }),
  ];
  const injected = hits.reduce((sum, { hit }) => sum + (hit ?? 0), 0);
  return { put, counts, injected, statistics, survived };
}

/** What becomes of damaged data: nobody takes it in, it is told before or after it is written, or not. */
type Fate = "resent" | "unwritten" | "caught" | "missed";

/** The packets of the data. */
const onlyData = (level: Level) => level === "compare" ? "RC RDMA WRITE" : "VENDOR WRITE VERIFY";

const flip = (where: string) => () => `{ rnic: b, flip: all, nth: 5, where: ${where} }`;

const CATCHES: readonly {
  readonly fault: string;
  /** More options of the `put`; those of `write-compare` have none of them. */
  readonly more?: string;
  readonly item: (level: Level) => string;
  /** By {@link LEVELS}. */
  readonly fates: readonly Fate[];
}[] = [
  {
    // The end-to-end CRC of every packet sees it; the retry brings the data again.
    fault: "the wire, ICRC stale",
    item: (level) => `{ link: a-rnic->tor, corrupt: all, nth: 5, only: "${onlyData(level)}" }`,
    fates: ["resent", "resent", "resent", "resent", "resent", "resent", "resent"],
  },
  {
    // Whoever made the ICRC anew over the damage knows nothing of the data's own CRC (V-02).
    fault: "the wire, ICRC made anew",
    item: (level) =>
      `{ link: a-rnic->tor, corrupt: all, past: icrc, nth: 5, only: "${onlyData(level)}" }`,
    fates: ["missed", "unwritten", "unwritten", "unwritten", "missed", "caught", "caught"],
  },
  {
    // The card computes its CRC of what it got; only the program's own memory tells (V-02, V-08).
    fault: "the sender's bus",
    item: () => "{ rnic: a, flip: all, nth: 5, where: fetch }",
    fates: ["missed", "missed", "missed", "missed", "missed", "missed", "caught"],
  },
  {
    // The program's own CRC is of what is in its memory, and goes with the request.
    fault: "the sender's bus, with the program's CRC",
    more: "crc: program",
    item: () => "{ rnic: a, flip: all, nth: 5, where: fetch }",
    fates: ["missed", "unwritten", "unwritten", "unwritten", "missed", "caught", "caught"],
  },
  {
    fault: "the card's buffer before the check",
    item: flip("buffer"),
    fates: ["missed", "unwritten", "unwritten", "unwritten", "missed", "caught", "caught"],
  },
  {
    // `verify` compares memory with the same damaged buffer; the sender's CRC is what tells (V-03).
    fault: "the card's buffer after the check",
    item: flip("checked"),
    fates: ["missed", "missed", "missed", "caught", "missed", "caught", "caught"],
  },
  {
    fault: "the bus to memory",
    item: flip("bus"),
    fates: ["missed", "missed", "caught", "caught", "caught", "caught", "caught"],
  },
];

/** Damage that did not last, as its message was written again: injected = caught + missed + masked. */
function maskedOf(injected: number, { caught, missed }: VerifiedCounts): number {
  return injected - caught - (missed ?? 0);
}

function judge(fate: Fate, { put, counts, injected, statistics, survived }: Done): void {
  assert.equal(put.status, "done", put.error);
  assert.equal(injected, 1, "the fault has struck once");
  assert.equal(counts.missed, fate === "missed" ? 1 : 0);
  const isCaught = fate === "unwritten" || fate === "caught";
  assert.equal(counts.caught, isCaught ? 1 : 0);
  assert.equal(counts.rewrites, counts.caught);
  assert.equal(maskedOf(injected, counts), fate === "resent" ? 1 : 0);
  if (fate !== "missed") assert.deepEqual(survived, FILE);
  const { verified } = put;
  if (isCaught) {
    const how = fate === "unwritten" ? "crc-mismatch" : "read-back-differs";
    assert.equal(verified!.caught[how], 1);
  }
  const { verifyCrcFailures, verifyReadBackFailures } = statistics["b-rnic"]!;
  if (verified!.level !== "compare") {
    assert.equal(verifyCrcFailures, fate === "unwritten" ? 1 : 0);
    assert.equal(verifyReadBackFailures, fate === "caught" ? 1 : 0);
  }
}

/** Missed damage is what a checker of the rack has to complain of. */
function unsoundOf(fate: Fate): Pick<Run, "unsound"> {
  return fate === "missed" ? { unsound: "damage that no check sees is in memory" } : {};
}

describe("V-08: a bit that is turned over", () => {
  for (const { fault, item, fates, more } of CATCHES) {
    for (const [i, level] of LEVELS.entries()) {
      const fate = fates[i]!;
      for (const persist of level === "compare" ? [false] : [false, true]) {
        const with_ = persist ? `V-09: ${level} and persisted` : level;
        it(`V-08, V-02, V-03: on ${fault}: ${with_}: ${fate}`, () => {
          const options = more === undefined || level === "compare" ? {} : { more };
          judge(
            fate,
            run({ level, persist, faults: [item(level)], ...unsoundOf(fate), ...options }),
          );
        });
      }
    }
  }

  it("V-07, V-08: over a cable without a switch it is caught as well", () => {
    const item =
      `{ link: a-rnic->b-rnic, corrupt: all, past: icrc, nth: 5, only: "VENDOR WRITE VERIFY" }`;
    judge("unwritten", run({ level: "check", topology: "direct", faults: [item] }));
  });

  it("V-08, V-10: of many, each is caught or missed, and the counts add up", () => {
    for (const level of LEVELS) {
      const faults = ["buffer", "checked", "bus"].map((where) =>
        `{ rnic: b, flip: 4%, where: ${where} }`
      );
      const more = "rewrites: 20";
      const done = run({ level, faults, more, unsound: "levels below verify-crc miss some" });
      const { counts, injected, put } = done;
      assert.equal(put.status, "done", put.error);
      assert.ok(injected >= 3, `${level}: ${injected}`);
      const masked = maskedOf(injected, counts);
      assert.ok(masked >= 0 && masked < injected, `${level}: ${JSON.stringify(counts)}`);
      const isThorough = ["verify-crc", "crc-after", "compare"].includes(level);
      if (isThorough) assert.equal(counts.missed, 0, level);
      if (level === "none") assert.equal(counts.caught, 0);
      const comparesBuffer = level === "verify" || level === "read-back";
      assert.equal(counts.overlooked === 0, !comparesBuffer || counts.missed === 0, level);
    }
  });
});

describe("V-08: a cell of SCM that is stuck", () => {
  /** A bit of the object that the file wants to be 0. */
  function stuckItem(): string {
    const { put } = run({ level: "none", faults: [] });
    const at = FILE.findIndex((byte, i) => i > SIZE && (byte & 8) === 0);
    return `{ scm: b, stuck: ${put.object.scmOffset + at}, bit: 3, value: 1 }`;
  }

  const FLOWS = [
    { host: "ddio: off", persist: false, name: "flow 1" },
    { host: "ddio: off", persist: true, name: "flow 1, persisted" },
    {
      host: "ddio: on, architecture: ddio+ns",
      persist: true,
      name: "flow 1 by no-snoop, persisted",
    },
    { host: "ddio: on", persist: true, name: "flow 2, persisted" },
  ];
  for (const { name, ...flow } of FLOWS) {
    for (const level of LEVELS) {
      // A comparison's READ comes after the flush, the CPU's in flow 2, too.
      const isSeen = level === "compare" || readsBack(level);
      it(`V-08, V-09: ${name}: ${level}: ${isSeen ? "caught" : "missed"}`, () => {
        // Seen or not, the memory is what it is.
        const unsound = "the cell's damage is in memory";
        const { put, counts } = run({ level, ...flow, faults: [stuckItem()], unsound });
        if (isSeen) {
          assert.match(put.error!, /^verify: message 1: read-back-differs$/);
          assert.equal(counts.caught, 4, "the write and three rewrites: it does not heal");
          assert.equal(counts.missed, 0);
        } else {
          assert.equal(put.status, "done");
          assert.deepEqual([counts.caught, counts.missed], [0, 1]);
        }
      });
    }
  }

  for (const level of LEVELS) {
    it(`V-08: DDIO on, not persisted: ${level}: the LLC stands before the cell`, () => {
      const { put, counts } = run({ level, host: "ddio: on", faults: [stuckItem()] });
      assert.equal(put.status, "done", put.error);
      assert.deepEqual([counts.caught, counts.missed], [0, null]);
    });
  }
});
