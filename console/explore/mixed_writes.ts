/**
 * A requester of the matrix (P-31): plain WRITEs to distant places, then one message by a method,
 * on one queue pair. The method's confirmation counts for all.
 */
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_FLUSH_PERSISTENT,
  IBV_SEND_SIGNALED,
} from "../../nodes/host/verbs/flags.ts";
import { flagsFor } from "../../nodes/host/programs/common/send_flags.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { postSend, sge } from "../../nodes/host/verbs/post.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { madeUpBytes } from "../../nodes/host/programs/common/made_up.ts";
import {
  type Failure,
  isFailure,
  makeRegions,
  nextCompletions,
  openClient,
  openObject,
  type PersistClient,
  received,
  type Region,
} from "../../nodes/host/programs/persist/persist_client.ts";
import {
  encodeMessage,
  HEADER_BYTES,
  immediateOf,
  type Method,
  type Terms,
} from "../../nodes/host/programs/common/persist_protocol.ts";
import {
  announcesWrites,
  type MethodPlan,
  methodPlan,
} from "../../nodes/host/programs/persist/put_methods.ts";
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import type { Mr, SendRequest } from "../../nodes/host/verbs/objects.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";

/** The plan here: one completion at persistence. */
const planOf = (method: Method) => methodPlan(method, { flush: "cpu", policy: "persistence" });

/** An object that is written by SENDs takes no WRITE. */
export const MIXED_METHODS: readonly Method[] = METHODS.filter((method) =>
  planOf(method).first !== "send"
);

/** Each write lies in a place of its own, not on a line's bounds. */
const WRITES = 4, PLACE_BYTES = 1024, AT = 24, BYTES = 100;
const LAST = WRITES - 1;
const LAST_IMMEDIATE = immediateOf({ message: LAST, isHead: false });
/** Areas of the requester's memory: a mark that is sent, the data behind it, and a byte for a READ. */
const SLOT_BYTES = 256, DATA_AT = HEADER_BYTES, READ_AT = SLOT_BYTES - 1;

/** Options: `to`, `method`. */
export function* mixedWrites({ cpu, device, options }: ProgramContext): Steps<void> {
  const { to, method } = options as { readonly to: string; readonly method: Method };
  const client = sound(
    yield* openClient(device, {
      to,
      terms: { method, policy: "persistence", depth: WRITES, ...sizesOf(method) },
      mode: "poll",
      attempts: 10,
      pausePs: 200 * PS_PER_US,
      idlePs: 50_000 * PS_PER_US,
    }),
  );
  const region = sound(yield* openObject(client, { name: "mixed", length: WRITES * PLACE_BYTES }));
  const access = IBV_ACCESS_LOCAL_WRITE;
  const [slots] = sound(yield* makeRegions(client.pd, [{ bytes: WRITES * SLOT_BYTES, access }]));
  const requests: SendRequest[] = [];
  for (let id = 0; id < WRITES; id++) {
    const bytes = madeUpBytes(BYTES, `mixed/${id}`);
    const at = region.scmOffset + id * PLACE_BYTES + AT;
    if (cpu.auditing) cpu.note({ kind: "writes", id, on: to, at, bytes });
    cpu.store(slots!.address + id * SLOT_BYTES + DATA_AT, bytes);
    if (id < LAST) requests.push(unsignaledOf(writeOf(region, slots!, id)));
  }
  requests.push(...lastOf(method, { cpu, region, slots: slots! }));
  yield* cpu.settle();
  const refusal = yield* postSend(client.connection.qp, requests);
  if (refusal !== undefined || !(yield* isConfirmed(client, method))) return;
  for (let id = 0; id < WRITES; id++) {
    cpu.note({ kind: "visible", id });
    cpu.note({ kind: "persistent", id, promised: false });
  }
}

/** Of a WRITE WITH IMMEDIATE, the whole place of a write. */
function sizesOf(method: Method): Pick<Terms, "messageBytes"> {
  return { messageBytes: announcesWrites(method) ? PLACE_BYTES : BYTES };
}

function sound<T>(answer: T | Failure): T {
  if (isFailure(answer)) throw new Error(answer.error);
  return answer;
}

function writeOf(region: Region, slots: Mr, id: number): SendRequest {
  return {
    opcode: "write",
    sendFlags: flagsFor(BYTES),
    sges: [sge(slots, id * SLOT_BYTES + DATA_AT, BYTES)],
    remote: placeOf(region, id),
  };
}

function unsignaledOf(request: SendRequest): SendRequest {
  return { ...request, sendFlags: (request.sendFlags ?? 0) & ~IBV_SEND_SIGNALED };
}

function placeOf({ va, rkey }: Region, id: number): { readonly va: number; readonly rkey: number } {
  return { va: va + id * PLACE_BYTES + AT, rkey };
}

/** The last write by the method, whose second request, if there is one, is posted with it. */
function lastOf(
  method: Method,
  { cpu, region, slots }: { cpu: ProgramContext["cpu"]; region: Region; slots: Mr },
): SendRequest[] {
  const { first, second } = planOf(method);
  const immediate = announcesWrites(method) && { immediate: LAST_IMMEDIATE };
  const write = { ...writeOf(region, slots, LAST), opcode: first, ...immediate };
  if (second === undefined) return [write];
  return [unsignaledOf(write), secondOf(second, { cpu, region, slots })];
}

function secondOf(
  second: NonNullable<MethodPlan["second"]>,
  { cpu, region, slots }: { cpu: ProgramContext["cpu"]; region: Region; slots: Mr },
): SendRequest {
  const remote = placeOf(region, LAST), slot = LAST * SLOT_BYTES, sendFlags = IBV_SEND_SIGNALED;
  switch (second) {
    case "read":
    case "compare":
      return { opcode: "read", sendFlags, sges: [sge(slots, slot + READ_AT, 1)], remote };
    case "flush": {
      const range = { selectivity: "range", length: BYTES } as const;
      const flush = { placement: IBV_FLUSH_PERSISTENT, ...range };
      return { opcode: "flush", sendFlags, remote, flush };
    }
    case "send": {
      const mark = encodeMessage({ type: "persist-mark", id: LAST, va: remote.va, length: BYTES });
      cpu.store(slots.address + slot, mark);
      const sges = [sge(slots, slot, mark.length)];
      return { opcode: "send", sendFlags: flagsFor(mark.length), sges };
    }
  }
}

function* isConfirmed(client: PersistClient, method: Method): Steps<boolean> {
  for (;;) {
    const completions = yield* nextCompletions(client);
    if (isFailure(completions)) return false;
    for (const completion of completions) {
      if (completion.status !== "SUCCESS") return false;
      if (planOf(method).persistedBy !== "reply") return true;
      if (completion.opcode !== "recv") continue;
      return received(client, completion)?.type === "flushed";
    }
  }
}
