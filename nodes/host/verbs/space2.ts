/**
 * Queue information in space 2: the host may change it only through the RNIC: by passing the
 * value to the RNIC, or by its own store under a lock that the RNIC grants and releases. The RNIC
 * refuses violations, with nothing changed.
 */
import { entryAddress } from "../../../fabric/wire/host_bus/queue_placement.ts";
import { perform, verbError } from "./device.ts";
import type { Steps } from "../cpu/program.ts";
import type { Device, VerbError } from "./objects.ts";

/** Bytes of a queue's entry in space 2, from `offset` on. */
export interface Space2Change {
  readonly queue: number;
  readonly offset: number;
  readonly data: Uint8Array<ArrayBuffer>;
}

/** The RNIC writes the bytes. */
export function writeSpace2({ cpu }: Device, change: Space2Change): Steps<VerbError | undefined> {
  return perform(cpu, { op: "write-space2", ...change });
}

/** Takes the lock, stores the bytes, and releases the lock. The RNIC pauses the queue meanwhile. */
export function* storeSpace2(device: Device, change: Space2Change): Steps<VerbError | undefined> {
  const { cpu, state } = device;
  const { queue, offset, data } = change;
  if (!(offset >= 0) || offset + data.length > state.store.bytes[2]) {
    const range = `[${offset}, ${offset + data.length})`;
    return verbError(
      "EINVAL",
      `Bytes ${range} must lie within the entry's ${state.store.bytes[2]}`,
    );
  }
  const wrong = yield* perform(cpu, { op: "lock-space2", queue });
  if (wrong !== undefined) return wrong;
  cpu.store(entryAddress(state.store, state, { queue, space: 2 }) + offset, data);
  yield* cpu.settle();
  return yield* perform(cpu, { op: "unlock-space2", queue });
}
