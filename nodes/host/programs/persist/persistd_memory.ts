/**
 * The memory of `persistd`'s requesters: buffers for their SENDs and for its answers. A later
 * requester of the same sizes reuses it.
 */
import { regMr } from "../../verbs/memory_region.ts";
import type { Steps } from "../../cpu/program.ts";
import { PENDING_MESSAGE_BYTES } from "../common/pending_message.ts";
import { allocate, isFailure } from "./persist_client.ts";
import {
  CONTROL_BYTES,
  HEADER_BYTES,
  NAMES_BYTES,
  slotsFor,
  type Terms,
} from "../common/persist_protocol.ts";
import {
  beginEpoch,
  createRing,
  findRings,
  type RecvRing,
  replay,
  ringInDram,
  slotBytesFor,
  type Storing,
} from "../common/recv_ring.ts";
import type { Mr, Pd, VerbError } from "../../verbs/objects.ts";
import type { ClientMemory, Server } from "./persistd_state.ts";

/** Writes bytes into SCM; they are persistent when this returns. */
export function* storePersistent(
  { cpu, copy }: Pick<Server, "cpu" | "copy">,
  va: number,
  bytes: Uint8Array,
): Steps<void> {
  if (copy === "nt-store") return yield* cpu.ntStore(va, bytes);
  cpu.store(va, bytes);
  yield* cpu.flush(va, bytes.length);
}

/** How pending messages are stored. */
export function storingOf(server: Server): Storing {
  const { cpu } = server;
  const directory = server.directory!;
  return { cpu, directory, store: (va, bytes) => storePersistent(server, va, bytes) };
}

/** Undefined where no memory, or no room for completions, is left for such a requester. */
export function* memoryFor(server: Server, terms: Terms): Steps<ClientMemory | undefined> {
  const slots = slotsFor(terms.depth);
  if (2 * slots > server.roomLeft) return undefined;
  const inScm = server.terms.receive === "scm";
  const wanted = bytesOfRecv(terms);
  const recvBytes = inScm ? slotBytesFor(wanted) : wanted;
  const memory = takeFree(server, { slots, recvBytes }) ??
    (inScm
      ? yield* ringMemory(server, { slots, slotBytes: recvBytes })
      : dramMemory(server, { slots, recvBytes }));
  if (memory !== undefined) yield* beginEpoch(server.cpu, memory.ring);
  return memory;
}

/** Maximum bytes of such a requester's SEND. */
function bytesOfRecv({ method, messageBytes }: Terms): number {
  if (method === "send-flush") return Math.max(CONTROL_BYTES, HEADER_BYTES + messageBytes);
  if (method === "send-read") return Math.max(CONTROL_BYTES, PENDING_MESSAGE_BYTES + messageBytes);
  return CONTROL_BYTES;
}

function takeFree(
  { freeMemory }: Server,
  wanted: { readonly slots: number; readonly recvBytes: number },
): ClientMemory | undefined {
  const free = freeMemory.findIndex(({ slots, recvBytes }) =>
    slots === wanted.slots && recvBytes === wanted.recvBytes
  );
  return free < 0 ? undefined : freeMemory.splice(free, 1)[0];
}

function dramMemory(
  { cpu }: Server,
  sizes: { readonly slots: number; readonly recvBytes: number },
): ClientMemory | undefined {
  const recvBuffer = allocate(cpu, sizes.slots * sizes.recvBytes);
  const sendBuffer = sendBufferFor(cpu, sizes.slots);
  if (isFailure(recvBuffer) || isFailure(sendBuffer)) return undefined;
  const { slots, recvBytes } = sizes;
  const ring = ringInDram(recvBuffer, { slots, slotBytes: recvBytes });
  return { recvBuffer, sendBuffer, slots, recvBytes, ring };
}

function sendBufferFor(cpu: Server["cpu"], slots: number) {
  return allocate(cpu, slots * CONTROL_BYTES + NAMES_BYTES);
}

function* ringMemory(
  { cpu, directory }: Server,
  sizes: { readonly slots: number; readonly slotBytes: number },
): Steps<ClientMemory | undefined> {
  const ring = yield* createRing(cpu, directory!, sizes);
  return ring && memoryOf(cpu, ring);
}

function memoryOf(cpu: Server["cpu"], ring: RecvRing): ClientMemory | undefined {
  const { slots, slotBytes: recvBytes } = ring;
  const sendBuffer = sendBufferFor(cpu, slots);
  if (isFailure(sendBuffer)) return undefined;
  return { recvBuffer: cpu.scm, sendBuffer, slots, recvBytes, ring };
}

/**
 * A requester of pending messages READs its receive buffers, which flushes its SENDs into memory
 * (P-10).
 */
export function regRecvs(
  pd: Pd,
  { recvBuffer, ring }: ClientMemory,
  method: Terms["method"],
): Steps<Mr | VerbError> {
  const access = method === "send-read"
    ? ["localWrite", "remoteRead"] as const
    : ["localWrite"] as const;
  const { first, slots, slotBytes } = ring;
  const offset = first - recvBuffer.address;
  return regMr(pd, recvBuffer, { access, offset, length: slots * slotBytes });
}

/**
 * The requester is gone: its pending messages are stored, as they may have been confirmed. Messages
 * that still arrive were not confirmed, and must not be stored later over newer data.
 */
export function* freeMemory(
  server: Server,
  { memory, method }: { readonly memory: ClientMemory; readonly method: Terms["method"] },
): Steps<void> {
  if (method === "send-read") {
    yield* replay(storingOf(server), memory.ring);
    yield* beginEpoch(server.cpu, memory.ring);
  }
  server.freeMemory.push(memory);
}

/** After a boot, before the first request: stores the pending messages of an earlier life. */
export function* recover(server: Server): Steps<void> {
  const rings = findRings(server.cpu, server.directory!);
  let deposits = 0;
  for (const ring of rings) {
    deposits += yield* replay(storingOf(server), ring);
    const memory = memoryOf(server.cpu, ring);
    if (memory !== undefined) server.freeMemory.push(memory);
  }
  if (deposits > 0) server.cpu.report("recovered", { deposits, rings: rings.length });
}
