/** Reads a replicated log back: the payloads of its records, from as many replicas as it takes. */
import type { ProgramContext, Steps } from "../../program.ts";
import { fetchObject } from "../get.ts";
import { countOption, microsecondsOption, textOption } from "../options.ts";
import { isFailure } from "../persist_client.ts";
import {
  chooseLog,
  logBytes,
  type LogScan,
  payloadsOf,
  readQuorum,
  scanLog,
  slotBytes,
} from "./layout.ts";
import { hostsOption } from "./log_options.ts";

/**
 * The program. Options: `from` (the replicas), `quorum` of the log (most of them), `name` (log),
 * `record` (256 B), `attempts` (10), `pauseUs` (200), `idleUs` (5000). Reports `output` (path, bytes:
 * the path is the log's name) and `result`.
 */
export function* logRead({ cpu, device, options }: ProgramContext): Steps<void> {
  const from = hostsOption(options, "from");
  const otherwise = Math.floor(from.length / 2) + 1;
  const quorum = countOption(options, "quorum", { least: 1, otherwise });
  const name = textOption(options, "name", "log");
  const recordBytes = countOption(options, "record", { least: 1, otherwise: 256 });
  const enough = readQuorum(from.length, quorum);
  const scans: LogScan[] = [];
  const unread: { host: string; error: string }[] = [];
  const startPs = cpu.now;
  for (const host of from) {
    if (scans.length === enough) break;
    const bytes = yield* fetchObject(device, {
      from: host,
      name,
      messageBytes: 4096,
      depth: 8,
      mode: device.state.completion,
      attempts: countOption(options, "attempts", { least: 1, otherwise: 10 }),
      pausePs: microsecondsOption(options, "pauseUs", 200),
      idlePs: microsecondsOption(options, "idleUs", 5_000),
    });
    if (isFailure(bytes)) {
      if (!bytes.error.endsWith("not-found")) unread.push({ host, error: bytes.error });
      else scans.push({ claimed: 0, records: [] });
      continue;
    }
    const slots = Math.floor(bytes.length / slotBytes({ recordBytes }));
    const shape = { name, recordBytes, slots };
    const isOurs = bytes.length === logBytes(shape);
    scans.push(isOurs ? scanLog(shape, bytes) : { claimed: 0, records: [] });
  }
  const report = { program: "log-read", from, name, read: scans.length, unread };
  if (scans.length < enough) {
    const error = `only ${scans.length} of ${enough} replicas could be read`;
    cpu.report("result", { ...report, status: "failed", error });
    return;
  }
  const payloads = payloadsOf(chooseLog(scans));
  const bytes = new Uint8Array(payloads.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const payload of payloads) {
    bytes.set(payload, at);
    at += payload.length;
  }
  cpu.report("output", { path: name, bytes });
  const done = { records: payloads.length, bytes: bytes.length, startPs, endPs: cpu.now };
  cpu.report("result", { ...report, status: "done", ...done });
}
