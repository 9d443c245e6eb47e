/** A replicated log never loses a durable record: any read quorum has it, in its place, byte for byte. */
import type { LogRecord } from "../../fabric/audit.ts";
import {
  chooseLog,
  type LogScan,
  PayloadCount,
  readQuorum,
  scanLog,
  slotBytes,
} from "../../nodes/host/programs/log/layout.ts";
import {
  checkerOf,
  type CheckSteps,
  drained,
  inSteps,
  mostOf,
  type RunRecord,
  type Steps,
} from "./run_record.ts";
import { countOf, type Finding, type NodeTime } from "./finding.ts";

export const replicatedLog = checkerOf({
  name: "durable-records-are-kept",
  promise:
    "Every record that a replicated log confirmed durable is found, whole and in its place, in any " +
    "majority of the replicas.",
  looked: (run) => countOf(durableIn(run), "durable record"),
  subjects: durableIn,
  without: "no log has confirmed a record",
  steps: checkLogs,
});

function* checkLogs(run: RunRecord): CheckSteps {
  const findings: Finding[] = [];
  for (const last of yield* lastNotes(run)) {
    findings.push(...yield* checkLog(run, last));
    if (findings.length >= mostOf(run)) return findings.slice(0, mostOf(run));
  }
  return findings;
}

interface LastNote {
  readonly note: LogRecord;
  readonly at: NodeTime;
}

function durableIn(run: RunRecord): number {
  return drained(lastNotes(run)).reduce((sum, { note }) => sum + note.durable, 0);
}

/** The last note of each log since it was begun has the highest count. */
function* lastNotes({ plan, notes, claims = false }: RunRecord): Steps<LastNote[]> {
  const last = new Map<string, LastNote>();
  const begun = new Map<string, number>();
  yield* inSteps(notes, ({ time, node, note }) => {
    if (note.kind !== "log" || note.anew !== true || !mayBeginAnew(plan, node)) return;
    begun.set(nameOf(note), Math.max(time, begun.get(nameOf(note)) ?? 0));
  });
  yield* inSteps(notes, ({ time, node, note }) => {
    if (note.kind !== "log" || !(note.promised || claims)) return;
    const name = nameOf(note);
    if (time < (begun.get(name) ?? 0)) return;
    const known = last.get(name);
    if (known !== undefined && note.durable < known.note.durable) return;
    last.set(name, { note, at: { node, time } });
  });
  return [...last.values()];
}

function nameOf({ log, replicas }: LogRecord): string {
  return `${log} at ${replicas.map(({ host }) => host).toSorted()}`;
}

/** Without the option a client may not give up what was durable. */
function mayBeginAnew({ nodes }: RunRecord["plan"], node: string): boolean {
  return nodes.some(({ name, kind, config }) =>
    name === node && kind === "host" &&
    config.programs.some(({ run, options }) => run === "log" && options["anew"] === true)
  );
}

function* checkLog(run: RunRecord, { note, at }: LastNote): CheckSteps {
  const { replicas, quorum } = note;
  const scans: Scanned[] = [];
  for (const replica of replicas) {
    yield;
    scans.push({ replica, scan: scanOf(run, note, replica) });
  }
  const findings: Finding[] = [];
  for (const chosen of subsets(scans, readQuorum(replicas.length, quorum))) {
    yield;
    const found = crcOfFirst(note.durable, chosen.map(({ scan }) => scan));
    if (found === note.crc) continue;
    const hosts = chosen.map(({ replica }) => replica.host).join(", ");
    const what = found === undefined ? "not as many" : "not these";
    findings.push({
      text:
        `log ${note.log}: ${note.durable} records were confirmed durable, ${hosts} have ${what}`,
      at,
      ...scmOf(note, shortest(chosen)),
    });
  }
  return findings;
}

interface Scanned {
  readonly replica: LogRecord["replicas"][number];
  readonly scan: LogScan;
}

function shortest(chosen: readonly Scanned[]): LogRecord["replicas"][number] {
  return chosen.reduce((x, y) => y.scan.records.length < x.scan.records.length ? y : x).replica;
}

/** The first of its segments that it has. */
function scmOf(
  { recordBytes, segments }: LogRecord,
  { host, at: [from] }: LogRecord["replicas"][number],
): Pick<Finding, "scm"> {
  const bytes = (segments[0] ?? 0) * slotBytes({ recordBytes });
  return from === undefined || bytes === 0 ? {} : { scm: { host, from, to: from + bytes } };
}

/** A replica that was never reached has none of the log, or none of its later segments. */
function scanOf(
  run: RunRecord,
  { log: name, recordBytes, segments }: LogRecord,
  { host, at }: LogRecord["replicas"][number],
): LogScan {
  const image = run.scm(host);
  if (at.length === 0 || image === undefined) return { claimed: 0, records: [] };
  const size = slotBytes({ recordBytes });
  const parts = at.map((from, i) => image.read(from, from + (segments[i] ?? 0) * size));
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let end = 0;
  for (const part of parts) {
    bytes.set(part, end);
    end += part.length;
  }
  return scanLog({ name, recordBytes, slots: bytes.length / size }, bytes);
}

function crcOfFirst(durable: number, scans: readonly LogScan[]): number | undefined {
  const payloads = new PayloadCount();
  for (const record of chooseLog(scans)) {
    if (payloads.count === durable) break;
    payloads.add(record);
  }
  return payloads.count === durable ? payloads.crc : undefined;
}

function* subsets<Item>(items: readonly Item[], size: number): Generator<Item[]> {
  if (size === 0) yield [];
  for (const [i, item] of items.entries()) {
    if (size === 0) return;
    for (const rest of subsets(items.slice(i + 1), size - 1)) yield [item, ...rest];
  }
}
