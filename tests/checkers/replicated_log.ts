/**
 * A replicated log never loses a record that it told durable: any replicas of which as many are left as
 * one has to read give it back, in its place, byte for byte.
 */
import type { LogNote } from "../../fabric/note.ts";
import {
  chooseLog,
  logBytes,
  type LogScan,
  PayloadCount,
  readQuorum,
  scanLog,
} from "../../nodes/host/programs/log/layout.ts";
import { type Checker, countOf, type Finding, type RunRecord } from "./run_record.ts";

export const replicatedLog: Checker = {
  name: "durable-records-are-kept",
  promise:
    "Every record that a replicated log told durable is found, whole and in its place, by whoever reads " +
    "any majority of the replicas.",
  looked: (run) => {
    let durable = 0;
    for (const note of lastNotes(run)) durable += note.durable;
    return countOf(durable, "durable record");
  },
  check: (run) => lastNotes(run).flatMap((note) => checkLog(run, note)),
};

/** What was told last, and so most, of each log. */
function lastNotes({ notes, claims = false }: RunRecord): LogNote[] {
  const last = new Map<string, LogNote>();
  for (const { note } of notes) {
    if (note.kind !== "log" || !(note.promised || claims)) continue;
    const known = last.get(note.log);
    if (known === undefined || note.durable >= known.durable) last.set(note.log, note);
  }
  return [...last.values()];
}

function checkLog(run: RunRecord, note: LogNote): Finding[] {
  const { replicas, quorum } = note;
  const scans = replicas.map((replica) => ({
    host: replica.host,
    scan: scanOf(run, note, replica),
  }));
  const findings: Finding[] = [];
  for (const chosen of subsets(scans, readQuorum(replicas.length, quorum))) {
    const found = crcOfFirst(note.durable, chosen.map(({ scan }) => scan));
    if (found === note.crc) continue;
    const hosts = chosen.map(({ host }) => host).join(", ");
    const what = found === undefined ? "not as many" : "not these";
    findings.push({
      text: `log ${note.log}: ${note.durable} records were told durable, ${hosts} have ${what}`,
    });
  }
  return findings;
}

/** A replica that was never reached has none of the log. */
function scanOf(
  run: RunRecord,
  { log: name, recordBytes, slots }: LogNote,
  { host, at }: LogNote["replicas"][number],
): LogScan {
  const image = at === null ? undefined : run.scm(host);
  if (at === null || image === undefined) return { claimed: 0, records: [] };
  const shape = { name, recordBytes, slots };
  return scanLog(shape, image.read(at, at + logBytes(shape)));
}

/** CRC of so many first payloads of the log that these replicas make; undefined: it has fewer. */
function crcOfFirst(durable: number, scans: readonly LogScan[]): number | undefined {
  const payloads = new PayloadCount();
  for (const record of chooseLog(scans)) {
    if (payloads.count === durable) break;
    payloads.add(record);
  }
  return payloads.count === durable ? payloads.crc : undefined;
}

/** All choices of `size` of the items. */
function* subsets<Item>(items: readonly Item[], size: number): Generator<Item[]> {
  if (size === 0) yield [];
  for (const [i, item] of items.entries()) {
    if (size === 0) return;
    for (const rest of subsets(items.slice(i + 1), size - 1)) yield [item, ...rest];
  }
}
