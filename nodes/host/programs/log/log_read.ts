import { joined } from "../../../../fabric/base/slab.ts";
import type { Steps } from "../../cpu/program.ts";
import { textOption } from "../common/options.ts";
import { isFailure, waitingOptions } from "../persist/persist_client.ts";
import { chooseLog, payloadsOf, readQuorum } from "./layout.ts";
import { hostsOption, quorumOption, recordOption } from "./log_job.ts";
import { RECORD_BYTES } from "./plan.ts";
import { fetchLog, type FoundLog } from "./segments.ts";
import type { ProgramContext } from "../../program_context.ts";

/**
 * The program. Options: `from` (all replicas), `quorum` of the log (a majority), `name` (log),
 * `record` (the log's, else 256 B), `completion`, `attempts` (10), `pauseUs` (200), `idleUs`
 * (5000). Reports `output` (path, bytes: the path is the log's name) and `result`, which has the
 * reason of a failure where too few replicas could be read, or none of them has such a log.
 */
export function* logRead({ cpu, device, options }: ProgramContext): Steps<void> {
  const from = hostsOption(options, "from");
  const enough = readQuorum(from.length, quorumOption(options, from.length));
  const name = textOption(options, "name", "log");
  const fetch = {
    name,
    recordBytes: recordOption(options) ?? RECORD_BYTES,
    ...waitingOptions({ device, options }, 5_000),
  };
  const found: FoundLog[] = [];
  const unread: { host: string; error: string }[] = [];
  const startPs = cpu.now;
  for (const host of from) {
    // Enough replicas were read, or too many failed.
    if (found.length === enough || unread.length > from.length - enough) break;
    const log = yield* fetchLog(device, { ...fetch, from: host });
    if (isFailure(log)) unread.push({ host, error: log.error });
    else found.push(log);
  }
  const report = { program: "log-read", from, name, read: found.length, unread };
  const error = found.length < enough
    ? `only ${found.length} of ${enough} replicas could be read`
    : found.every(({ segments }) => segments.length === 0)
    ? `none of the ${enough} replicas that were read has a log ${name}`
    : undefined;
  if (error !== undefined) {
    cpu.report("result", { ...report, status: "failed", error });
    return;
  }
  const payloads = payloadsOf(chooseLog(found));
  const bytes = joined(payloads);
  cpu.report("output", { path: name, bytes });
  const done = { records: payloads.length, bytes: bytes.length, startPs, endPs: cpu.now };
  cpu.report("result", { ...report, status: "done", ...done });
}
