/** (x) Checks at the end of a run, by its length: each is to take at most n log n of it. */
import type { AuditRecord, TimedRecord } from "../../fabric/audit.ts";
import { makePlan } from "../../fabric/rack/build/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { CHECKERS } from "../../console/checks/all.ts";
import { livesOf } from "../../console/checks/lives.ts";
import type { RunRecord } from "../../console/checks/run_record.ts";
import type { Figure, Measured } from "./figure.ts";

const RECORD_BYTES = 64, TAIL = 0, FIRST = 64, OUTSTANDING = 4;
const REGION_BYTES = 1 << 20, REGION_AT = 1 << 25;

/**
 * A run of a log without promises: records one behind the other, each with an update of one tail that comes after it
 * (P-04), and as many stores of a far host to a shared region in SCM, each flushed.
 */
export function appendedRecord(records: number): RunRecord {
  const text = "name: checks\nseed: 1\nhosts: { a: {}, b: { scm: { size: 64MiB } } }\n";
  const plan = makePlan(variants(parseScenario(text, "checks.yaml"))[0]!);
  const image = new Uint8Array(1 << 26), words = new DataView(image.buffer);
  const notes: TimedRecord[] = [];
  const note = (each: AuditRecord) =>
    void notes.push({ time: 1_000 * notes.length, node: "a", by: "a/0/append#0", note: each });
  const region = { region: "shared", offset: 0, length: 8 };
  note({
    ...{ kind: "region", region: "shared", home: "b", bytes: REGION_BYTES, at: REGION_AT },
    ...{ answerWithinPs: 1e9, homeWaitPs: 0 },
  });
  for (let i = 0; i < records; i++) {
    const at = FIRST + i * RECORD_BYTES, bytes = new Uint8Array(RECORD_BYTES).fill(1 + i % 250);
    const tail = new Uint8Array(8);
    new DataView(tail.buffer).setUint32(0, i + 1);
    note({ kind: "writes", id: 2 * i, on: "b", at, bytes });
    note({ kind: "posted", queue: "send", qpn: 17, wqe: i % 128, wrId: i, signaled: true });
    note({ kind: "writes", id: 2 * i + 1, on: "b", at: TAIL, bytes: tail, after: [2 * i] });
    const done = i - OUTSTANDING;
    if (done >= 0) {
      note({
        ...{ kind: "completed", queue: "send", qpn: 17, wqe: done % 128, wrId: done },
        status: "SUCCESS",
      });
      note({ kind: "visible", id: 2 * done });
      note({ kind: "visible", id: 2 * done + 1 });
    }
    const offset = 8 * (i % (REGION_BYTES / 8)), own = { ...region, offset };
    const line = Math.floor(offset / 64);
    if (offset % 64 === 0) {
      note({ kind: "line-state", region: "shared", line, cache: "llc", state: "M" });
    }
    note({ kind: "access", id: 2 * i, ...own, op: "store", bytes: tail });
    note({ kind: "accessed", id: 2 * i, result: "done" });
    note({ kind: "access", id: 2 * i + 1, ...own, op: "flush" });
    note({ kind: "accessed", id: 2 * i + 1, result: "done" });
    image.set(bytes, at);
    image.set(tail, REGION_AT + offset);
  }
  words.setUint32(TAIL, records);
  return {
    plan,
    lives: livesOf(plan, []),
    reports: [],
    notes,
    scm: (host) => host === "b" ? { read: (from, to) => image.slice(from, to) } : undefined,
  };
}

export function measureChecks({ quick }: Measured): Figure[] {
  const sizes = quick ? [1_000, 10_000] : [1_000, 10_000, 100_000];
  const costs = sizes.map((records) => {
    const values = Array.from({ length: 3 }, () => {
      const run = appendedRecord(records), began = performance.now();
      for (const { name, check, looked } of CHECKERS) {
        looked(run);
        const [found] = check(run);
        if (found !== undefined) throw new Error(`${name}: ${found.text}`);
      }
      return performance.now() - began;
    });
    return { records, values };
  });
  const first = costs[0]!, last = costs.at(-1)!;
  const growth = last.records * Math.log(last.records) / (first.records * Math.log(first.records));
  return [
    ...costs.map(({ records, values }): Figure => ({
      group: "x",
      what: `every check of ${records} records of a log, and as many stores`,
      unit: "ms",
      values,
    })),
    {
      group: "x",
      what: "the most over the least, by n log n",
      unit: "×",
      values: last.values.map((ms, i) => ms / first.values[i]! / growth),
      target: { is: "at most", value: 1.5 },
    },
  ];
}
