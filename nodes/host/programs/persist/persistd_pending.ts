/**
 * Pending messages (`send-read`): stored at their destination when they arrive; no requester waits
 * for that.
 */
import type { Steps } from "../../cpu/program.ts";
import { decodePendingMessage } from "../common/pending_message.ts";
import { dropClient } from "./persistd_client.ts";
import { storingOf } from "./persistd_memory.ts";
import { inRegion } from "./persistd_store.ts";
import type { RingPlace } from "../common/persist_tails.ts";
import { noteApplied, storePendingMessage } from "../common/recv_ring.ts";
import type { ScmObject } from "../common/scm_directory.ts";
import type { Client, Server } from "./persistd_state.ts";

/** The fields that a requester's pending messages must contain, and the address of its READs. */
export function ringPlace({ recvMr, memory }: Client, { generation }: ScmObject): RingPlace {
  const { address: va, rkey } = recvMr;
  return { va, rkey, epoch: memory.ring.epoch, generation };
}

/**
 * Stores a pending message, and records that, before its slot may be reused. A requester that sends
 * an invalid message, or one out of order, is disconnected: the protocol has no error answer.
 */
export function* takePendingMessage(
  server: Server,
  client: Client,
  { at, bytes }: { readonly at: number; readonly bytes: number },
): Steps<void> {
  const { cpu } = server;
  const { memory: { ring }, connection } = client;
  const arrived = decodePendingMessage(cpu.load(at, bytes));
  const isNext = arrived !== undefined && arrived.pending.sequence === ring.applied + 1 &&
    arrived.pending.epoch === ring.epoch;
  if (!isNext) return yield* dropClient(server, client);
  const { id, length, scmOffset } = arrived.pending;
  const range = { va: cpu.scm.address + scmOffset, length };
  if (!inRegion(client, range)) return yield* dropClient(server, client);
  if (cpu.tracing) {
    const { qp: { qpn }, label } = connection;
    const text = `stores ${length} B of deposit ${id} and makes them persistent`;
    const scm = [scmOffset, scmOffset + length] as const;
    cpu.trace({ step: "store-deposit", text, qpn, connection: label, operation: id, scm });
  }
  yield* storePendingMessage(storingOf(server), arrived);
  yield* noteApplied(cpu, ring, arrived.pending.sequence);
}
