/** Unfinished programs that serve others need not end; waits that cannot end are described. */
import type { Source } from "./cpu/program.ts";
import type { Cq } from "./verbs/objects.ts";
import type { CmDevice } from "./cm/gsi.ts";
import { CQE_BYTES } from "../../fabric/wire/host_bus/cqe.ts";

/**
 * True if a program waits for connection requests, or for messages of its clients: a completion of receives, with no
 * completion of its own requests outstanding.
 * @param program its name with its number; threads have their program's listeners.
 */
export function servesClients(
  { state, cm }: CmDevice,
  { program, sources }: { readonly program: string; readonly sources: readonly Source[] },
): boolean {
  const own = [...cm.agent.listeners.values()].filter((listener) =>
    programOf(listener.program) === programOf(program)
  );
  if (own.length === 0) return false;
  return sources.some((source) => {
    if (source.kind === "signal") return own.some(({ signal }) => signal === source.name);
    const queuePairs = [...state.queuePairs.values()];
    const clients = queuePairs.filter(({ recvCq }) => isWaitFor(source, recvCq));
    return clients.length > 0 &&
      !queuePairs.some(({ sq, sendCq }) =>
        isWaitFor(source, sendCq) && sq.requests > sq.unsignaled
      );
  });
}

/**
 * A wait for a completion that was not asked for: none of the outstanding requests is signaled. Undefined where one is,
 * where a receive may complete, and where the wait has another source.
 */
export function waitsUnasked(
  { state }: Pick<CmDevice, "state">,
  sources: readonly Source[],
): string | undefined {
  const all = [...state.queuePairs.values()];
  const gone = new Set(all.map(({ sendCq }) => sendCq.place.goneSignal));
  if (sources.some((source) => source.kind === "signal" && !gone.has(source.name))) {
    return undefined;
  }
  const sending = all.filter(({ sendCq, sq }) =>
    sq.requests > 0 && sources.some((source) => isWaitFor(source, sendCq))
  );
  const mayReceive = all.some(({ recvCq, rq, srq }) =>
    (srq !== undefined || rq.requests > 0) && sources.some((source) => isWaitFor(source, recvCq))
  );
  if (sending.length === 0 || mayReceive) return undefined;
  if (sending.some(({ sq }) => sq.requests > sq.unsignaled)) return undefined;
  const count = sending.reduce((sum, { sq }) => sum + sq.requests, 0);
  const names = sending.map(({ qpn }) => qpn).join(", ");
  return `none of the ${count} requests posted since asks for one (queue pair ${names}): ` +
    "IBV_SEND_SIGNALED in sendFlags, or sqSigAll of the queue pair";
}

/**
 * A wait for the interrupt of completion queues of which none is armed: completions make no event. Undefined for
 * another wait.
 */
export function waitsUnarmed(
  { state }: Pick<CmDevice, "state">,
  sources: readonly Source[],
): string | undefined {
  const cqs = [...state.completionQueues.values()].filter((cq) =>
    sources.some((source) => source.kind === "interrupt" && isWaitFor(source, cq))
  );
  if (cqs.length === 0 || cqs.some(({ place }) => place.armed !== "no")) return undefined;
  const names = cqs.map(({ cqn }) => cqn).join(", ");
  return `completion queue ${names} is not armed (expected reqNotifyCq, once for each event)`;
}

/** `mine.ts#2/worker` is a thread of `mine.ts#2`. */
export function programOf(name: string): string {
  return /^.*?#\d+/.exec(name)?.[0] ?? name;
}

function isWaitFor(source: Source, cq: Cq): boolean {
  switch (source.kind) {
    case "memory":
      return source.address >= cq.address && source.address < cq.address + cq.entries * CQE_BYTES;
    case "interrupt":
      return source.vector === cq.vector;
    case "signal":
      return false;
  }
}
