/** Verbs to memory of a shared region's home: its host exposes a part of SCM, another one connects and learns where it is. */
import assert from "node:assert/strict";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import { refused } from "../../nodes/host/cm/connection.ts";
import { must } from "../../nodes/host/verbs/errors.ts";
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_ATOMIC,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
} from "../../nodes/host/verbs/flags.ts";
import type { Cq, Mr, Pd, Qp } from "../../nodes/host/verbs/objects.ts";

const ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
  IBV_ACCESS_REMOTE_ATOMIC;
const SERVICE = "verbs", DEPTH = 32;

function ends(pd: Pd, cq: Cq) {
  return { pd, sendCq: cq, recvCq: cq, maxSendWr: DEPTH, maxRecvWr: DEPTH };
}

/** Exposes bytes of SCM, and accepts one connection. */
export function* exposeScm(
  { cpu, device }: ProgramContext,
  place: { readonly offset: number; readonly length: number },
): Steps<{ readonly qp: Qp; readonly mr: Mr }> {
  const { allocPd, createCq, regMr, listen, waitEvent, accept } = device.verbs;
  const pd = allocPd(device), cq = must(yield* createCq(device, { entries: 64 }));
  const mr = must(yield* regMr(pd, cpu.scm, { ...place, access: ACCESS }));
  const listener = must(listen(device, SERVICE));
  const event = yield* waitEvent(listener);
  assert.ok(event?.kind === "request");
  const privateData = new Uint8Array(new BigUint64Array([mr.address, mr.rkey].map(BigInt)).buffer);
  const made = yield* accept(listener, event.request, { qp: ends(pd, cq), privateData });
  assert.ok(!refused(made));
  return { qp: made.qp, mr };
}

/** Connects to host a, which exposes memory. `mr` is 4 KiB of its own; `remote` begins where a's memory does. */
export function* connectToHome({ cpu, device }: ProgramContext): Steps<{
  readonly qp: Qp;
  readonly cq: Cq;
  readonly mr: Mr;
  readonly remote: { readonly va: number; readonly rkey: number };
}> {
  const { allocPd, createCq, regMr, connect } = device.verbs;
  const pd = allocPd(device), cq = must(yield* createCq(device, { entries: 64 }));
  const mr = must(yield* regMr(pd, cpu.allocate(4096), { access: ACCESS }));
  const made = yield* connect(device, { to: "a", service: SERVICE, qp: ends(pd, cq) });
  assert.ok(!refused(made));
  const [va, rkey] = new BigUint64Array(made.privateData.slice(0, 16).buffer);
  return { qp: made.qp, cq, mr, remote: { va: Number(va), rkey: Number(rkey) } };
}
