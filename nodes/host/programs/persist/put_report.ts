/** Trace lines, audit records and result of a `put`. */
import { machineOf } from "../../../../fabric/rack/plan/names.ts";
import { endsOf } from "../common/ends.ts";
import type { Measured } from "./persist_client.ts";
import { nextRecvs } from "../../verbs/post.ts";
import { promisesPersistence, type Stage } from "./put_methods.ts";
import { outcomeOf, rangesOf, summarize } from "../common/summary.ts";
import { isPersistentWrite } from "../common/persist_protocol.ts";
import type { SendRequest, WorkCompletion } from "../../verbs/objects.ts";
import { LOOKED_AT, PERSISTED, type Put, verifiedOf, WRITTEN } from "./put_messages.ts";

export function tracePosts(put: Put, requests: readonly SendRequest[]): void {
  const { steps } = put.plan;
  const { qp, label: connection } = put.client.connection;
  for (const { opcode, wrId: id = 0, remote } of requests) {
    const wrId = Number(id);
    const step = wrId % 2 === 0 ? steps.post : steps.postSecond!;
    const where = remote === undefined ? "" : ` to VA 0x${remote.va.toString(16)}`;
    const operation = Math.floor(wrId / 2);
    const text = `posts ${opcode} of message ${operation}${where}`;
    const scm = rangeOf(put, operation);
    put.cpu.trace({ step, text, wrId, qpn: qp.qpn, connection, operation, scm });
  }
}

/** Checkers judge promises by these records. */
export function auditStage(put: Put, index: number, stage: Stage): void {
  const { plan, cpu } = put;
  if (stage === plan.writtenBy) cpu.note({ kind: "visible", id: index });
  if (stage !== plan.persistedBy) return;
  cpu.note({ kind: "persistent", id: index, promised: promises(put) });
}

export function auditObject(
  { cpu, options: { name, to }, region: { scmOffset: at }, data }: Put,
  state:
    | { readonly state: "begun" }
    | { readonly state: "asked" | "stored"; readonly complete: boolean },
): void {
  if (cpu.auditing) {
    cpu.note({ kind: "object", name, on: machineOf(to), at, length: data.length, ...state });
  }
}

export interface Stored {
  readonly error: string | undefined;
  readonly stored?: "complete" | "incomplete";
}

/** @returns [from, to) of a message in the responder's SCM. */
export function rangeOf(put: Put, index: number): readonly [from: number, to: number] {
  const { region, options: { messageBytes }, data } = put;
  const from = index * messageBytes;
  return [region.scmOffset + from, region.scmOffset + Math.min(from + messageBytes, data.length)];
}

export function traceRecvs(put: Put, messages: readonly number[]): void {
  const { qp, label: connection } = put.client.connection;
  const step = put.plan.steps.recv ?? "post-recv";
  const recvs = nextRecvs(qp, messages.length);
  for (const [i, operation] of messages.entries()) {
    const text = `posts a RECV for message ${operation}`;
    put.cpu.trace({ step, text, qpn: qp.qpn, connection, operation, recvs: [recvs[i]!] });
  }
}

export function traceStage(
  put: Put,
  index: number,
  { stage, completion }: { readonly stage: Stage; readonly completion: WorkCompletion },
): void {
  const { label: connection } = put.client.connection;
  put.cpu.trace({
    step: put.plan.steps[stage] ?? stage,
    text: `takes the CQE: message ${index} ${meaningOf(put, stage)}`,
    qpn: completion.qpNum,
    connection,
    operation: index,
    ...(stage !== "reply" && { wrId: completion.wrId }),
    ...(isPersistentWrite(put.options.method) && { psn: completion.psn }),
  });
}

function meaningOf(put: Put, stage: Stage): string {
  const { plan } = put;
  if (stage === plan.persistedBy && promises(put)) return "is persistent";
  if (stage === plan.writtenBy) return "is written";
  if (stage === plan.persistedBy) return "is taken for persistent, which nothing promises";
  return "is sent";
}

export function promises(put: Put): boolean {
  return promisesPersistence(put.options.method, put.client.server);
}

export function reportProgress(put: Put): void {
  if (put.persisted < put.reportAt) return;
  const { count, persisted, written, cpu, options } = put;
  put.reportAt = persisted + Math.ceil(count / 100);
  cpu.report("progress", {
    program: "put",
    method: options.method,
    messages: count,
    written,
    confirmed: promises(put) ? persisted : 0,
    atPs: cpu.now,
  });
}

export function resultOf(
  put: Put,
  run: Measured & Stored & { readonly wire?: { readonly frames: number; readonly bytes: number } },
): Record<string, unknown> {
  const { options, count, data, region, client, requests } = put;
  const size = { messageBytes: options.messageBytes, totalBytes: data.length };
  const promised = promises(put);
  return {
    program: "put",
    ...outcomeOf(run.error),
    method: options.method,
    ...endsOf(put.cpu, options.to),
    file: options.file,
    messages: count,
    messageBytes: options.messageBytes,
    bytes: data.length,
    depth: options.depth,
    flow: region.flow,
    policy: client.policy,
    /** True if the last completion means persistence here. */
    promises: promised,
    written: rangesOf(put.flags, WRITTEN, size),
    writtenMessages: put.written,
    confirmed: promised ? rangesOf(put.flags, PERSISTED, size) : [],
    confirmedMessages: promised ? put.persisted : 0,
    unexpected: put.unexpected,
    object: { name: options.name, scmOffset: region.scmOffset, length: data.length },
    /** Undefined where it was not published. */
    stored: run.stored,
    ...(region.withdrawn && { withdrawn: true }),
    requests: { ...requests },
    ...(put.verifying &&
      { verified: verifiedOf(put.verifying, options.level, rangesOf(put.flags, LOOKED_AT, size)) }),
    latencyPs: summarize(put.latency),
    startPs: run.startPs,
    endPs: run.endPs,
    cpuPs: run.cpuPs,
    ...(run.wire && { wire: run.wire }),
  };
}
