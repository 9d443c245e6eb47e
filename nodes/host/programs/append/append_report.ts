/** Trace lines, audit records and result of an `append`. */
import { machineOf } from "../../../../fabric/rack/plan/names.ts";
import type { Measured } from "../persist/persist_client.ts";
import { type Append, rangeOf, recordOf, tailOf } from "./append_job.ts";
import type { CompoundRequest } from "./compound_methods.ts";
import { outcomeOf, summarize } from "../common/summary.ts";
import type { SendRequest } from "../../verbs/objects.ts";

const RECORD = 0, TAIL = 1;

function recordId(index: number, part: number): number {
  return 2 * index + part;
}

/** Records, before a post, both writes, and that the tail counts earlier records. */
export function auditWrites(append: Append, index: number): void {
  const { cpu, options, plan, region, confirmed } = append;
  const on = machineOf(options.to);
  const at = region.scmOffset + rangeOf(options, index, "record")[0];
  const bytes = recordOf(options, index);
  cpu.note({ kind: "writes", id: recordId(index, RECORD), on, at, bytes });
  const unconfirmed = { length: index + 1 - confirmed };
  const after = Array.from(unconfirmed, (_, i) => recordId(confirmed + i, RECORD));
  const { qp: { qpn: line } } = append.client.connection;
  const bytesOfTail = tailOf(index + 1);
  const tail = { id: recordId(index, TAIL), on, at: region.scmOffset, bytes: bytesOfTail, line };
  const isClaimed = plan.ordered ? {} : { isOrderClaimed: true } as const;
  cpu.note({ kind: "writes", ...tail, after, ...isClaimed });
}

export function auditRound(append: Append, index: number): void {
  const { cpu, plan, updates } = append;
  const posted = plan.rounds[updates[index]!.round - 1]!;
  const has = (part: "record" | "tail") => posted.some((each) => writes(each, part));
  const promised = plan.promises;
  const parts = [...has("record") ? [RECORD] : [], ...has("tail") ? [TAIL] : []];
  for (const id of parts.map((part) => recordId(index, part))) {
    cpu.note({ kind: "visible", id });
    cpu.note({ kind: "persistent", id, promised });
  }
  if (!cpu.tracing) return;
  const { qp: { qpn }, label: connection } = append.client.connection;
  const next = has("tail") ? "the tail counts it" : "the tail may be written";
  const text = `takes the last CQE of the round: record ${index} is confirmed, ${next}`;
  cpu.trace({ step: "round-told", text, qpn, connection, operation: index });
}

function writes({ opcode, part, message }: CompoundRequest, wanted: "record" | "tail"): boolean {
  if (message === "commit") return wanted === "tail";
  if (opcode === "flush" || opcode === "read" || message === "persist-mark") return false;
  return part === wanted || part === "both";
}

export function traceRound(
  append: Append,
  index: number,
  requests: readonly SendRequest[],
): void {
  const { cpu, options, region } = append;
  const { qp: { qpn }, label: connection } = append.client.connection;
  const [from, to] = rangeOf(options, index, "record");
  const scm = [region.scmOffset + from, region.scmOffset + to] as const;
  for (const { opcode, wrId: id = 0, remote } of requests) {
    const wrId = Number(id);
    const where = remote === undefined ? "" : ` to VA 0x${remote.va.toString(16)}`;
    const text = `posts ${opcode} of update ${index}${where}`;
    cpu.trace({ step: "post-round", text, wrId, qpn, connection, operation: index, scm });
  }
}

export function resultOf(
  append: Append,
  { startPs, endPs, cpuPs, error }: Measured,
): Record<string, unknown> {
  const { options, plan, region, client, confirmed } = append;
  return {
    program: "append",
    ...outcomeOf(error),
    ...options,
    flow: region.flow,
    flusher: client.server.flush,
    receive: client.server.receive,
    policy: client.policy,
    /** Guarantees of the method here: b never without a, and confirmed bytes survive. */
    ordered: plan.ordered,
    promises: plan.promises,
    /**
     * The number of durable records; a method without a promise counts confirmed ones separately.
     */
    told: plan.promises ? confirmed : 0,
    claimed: confirmed,
    rounds: append.rounds,
    unexpected: append.unexpected,
    object: { name: options.name, scmOffset: region.scmOffset, length: region.length },
    requests: { ...append.requests },
    latencyPs: summarize(append.latency),
    startPs,
    endPs,
    cpuPs,
  };
}
