/** State of `persistd`, and buffers of requesters; later ones of the same sizes reuse them. */
import { IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ } from "../../verbs/flags.ts";
import type { Time } from "../../../../fabric/base/time.ts";
import type { Connection } from "../../cm/connection.ts";
import type { CmDevice } from "../../cm/gsi.ts";
import type { Listener } from "../../cm/listen.ts";
import type { Buffer } from "../../memory/address_map.ts";
import { regMr } from "../../verbs/memory_region.ts";
import type { Cpu, Steps } from "../../cpu/program.ts";
import {
  CONTROL_BYTES,
  HEADER_BYTES,
  NAMES_BYTES,
  PENDING_MESSAGE_BYTES,
  type ServerTerms,
  slotsFor,
  type Terms,
} from "../common/persist_protocol.ts";
import { allocated, failed } from "../../verbs/device.ts";
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
import {
  abandonReplacement,
  dropReplacements,
  type Entry,
  type ScmDirectory,
} from "../common/scm_directory.ts";
import type { Cq, Mr, Pd, VerbError } from "../../verbs/objects.ts";
import type { Store } from "./persistd_store.ts";
import type { Workers } from "./persistd_workers.ts";

export interface ClientMemory {
  readonly recvBuffer: Buffer;
  readonly sendBuffer: Buffer;
  readonly ring: RecvRing;
}

export interface Client {
  readonly connection: Connection;
  readonly terms: Terms;
  readonly memory: ClientMemory;
  readonly recvMr: Mr;
  readonly sendMr: Mr;
  region: Mr | undefined;
  replacement: Entry | undefined;
  serving: { readonly object: string; readonly workPs: Time } | undefined;
  readonly emptied: number[];
  nextSend: number;
  isProbed: boolean;
  gone: boolean;
}

export interface Server {
  readonly device: CmDevice;
  readonly cpu: Cpu;
  readonly listener: Listener;
  readonly terms: ServerTerms;
  /** The completion queue's capacity limits clients. */
  readonly room: number;
  readonly copy: "nt-store" | "flush";
  readonly clients: Map<number, Client>;
  directory: ScmDirectory | undefined;
  pd: Pd;
  cq: Cq | undefined;
  roomLeft: number;
  freeMemory: ClientMemory[];
  readonly store: Store<Server>;
  readonly workers: Workers;
}

/** The bytes are persistent when this returns. */
export function* storePersistent(
  { cpu, copy }: Pick<Server, "cpu" | "copy">,
  va: number,
  bytes: Uint8Array,
): Steps<void> {
  if (copy === "nt-store") return yield* cpu.ntStore(va, bytes);
  cpu.store(va, bytes);
  yield* cpu.flush(va, bytes.length);
}

export function storingOf(server: Server): Storing {
  const { cpu } = server;
  const directory = server.directory!;
  return { cpu, directory, store: (va, bytes) => storePersistent(server, va, bytes) };
}

/** @returns undefined without memory, or without room for completions. */
export function* memoryFor(server: Server, terms: Terms): Steps<ClientMemory | undefined> {
  const { cpu } = server;
  const slots = slotsFor(terms.depth);
  if (2 * slots > server.roomLeft) return undefined;
  const inScm = server.terms.receive === "scm";
  const wanted = bytesOfRecv(terms);
  const slotBytes = inScm ? slotBytesFor(wanted) : wanted;
  const free = server.freeMemory.findIndex(({ ring }) =>
    ring.slots === slots && ring.slotBytes === slotBytes
  );
  let memory = free < 0 ? undefined : server.freeMemory.splice(free, 1)[0];
  if (memory === undefined && inScm) {
    const ring = yield* createRing(cpu, server.directory!, { slots, slotBytes });
    memory = ring && memoryOf(cpu, cpu.scm, ring);
  } else if (memory === undefined) {
    // Buffers of other sizes would accumulate.
    for (const { recvBuffer, sendBuffer } of server.freeMemory.splice(0)) {
      cpu.free(recvBuffer);
      cpu.free(sendBuffer);
    }
    const buffer = allocated(() => cpu.allocate(slots * slotBytes));
    if (failed(buffer)) return undefined;
    memory = memoryOf(cpu, buffer, ringInDram(buffer, { slots, slotBytes }));
    if (memory === undefined) cpu.free(buffer);
  }
  if (memory !== undefined) yield* beginEpoch(cpu, memory.ring);
  return memory;
}

function bytesOfRecv({ method, messageBytes }: Terms): number {
  if (method === "send-flush") return Math.max(CONTROL_BYTES, HEADER_BYTES + messageBytes);
  if (method === "send-read") return Math.max(CONTROL_BYTES, PENDING_MESSAGE_BYTES + messageBytes);
  return CONTROL_BYTES;
}

function memoryOf(cpu: Cpu, recvBuffer: Buffer, ring: RecvRing): ClientMemory | undefined {
  const sendBuffer = allocated(() => cpu.allocate(ring.slots * CONTROL_BYTES + NAMES_BYTES));
  return failed(sendBuffer) ? undefined : { recvBuffer, sendBuffer, ring };
}

/** A requester with pending messages READs its receive buffers, to flush its SENDs (P-10). */
export function regRecvs(
  pd: Pd,
  { recvBuffer, ring }: ClientMemory,
  method: Terms["method"],
): Steps<Mr | VerbError> {
  const access = method === "send-read"
    ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ
    : IBV_ACCESS_LOCAL_WRITE;
  const { first, slots, slotBytes } = ring;
  const offset = first - recvBuffer.address;
  return regMr(pd, recvBuffer, { access, offset, length: slots * slotBytes });
}

/**
 * Pending messages of a requester that is gone may have been confirmed, and are stored. Later ones
 * were not, and must not overwrite newer data. An unpublished replacement is dropped.
 */
export function* freeMemory(server: Server, client: Client): Steps<void> {
  const { memory, terms: { method } } = client;
  if (method === "send-read") {
    yield* replay(storingOf(server), memory.ring);
    yield* beginEpoch(server.cpu, memory.ring);
  }
  server.freeMemory.push(memory);
  yield* abandon(server, client);
}

export function* abandon({ cpu, directory }: Server, client: Client): Steps<void> {
  const { replacement } = client;
  client.replacement = undefined;
  if (replacement !== undefined) yield* abandonReplacement(cpu, directory!, replacement);
}

/**
 * After a boot, before the first request: ends pending messages and replacements of an earlier
 * life.
 */
export function* recover(server: Server): Steps<void> {
  const rings = findRings(server.cpu, server.directory!);
  let deposits = 0;
  for (const ring of rings) {
    deposits += yield* replay(storingOf(server), ring);
    const memory = memoryOf(server.cpu, server.cpu.scm, ring);
    if (memory !== undefined) server.freeMemory.push(memory);
  }
  yield* dropReplacements(server.cpu, server.directory!);
  if (deposits > 0) server.cpu.report("recovered", { deposits, rings: rings.length });
}
