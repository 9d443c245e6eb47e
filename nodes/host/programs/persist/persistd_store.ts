/**
 * Shared by the servers of a host's cards: SCM's directory, and a lock on it, held while a request
 * is handled.
 */
import { NEVER } from "../../../../fabric/base/time.ts";
import type { Steps } from "../../cpu/program.ts";
import type { ScmDirectory } from "../common/scm_directory.ts";
import type { Device, HostDevices } from "../../verbs/objects.ts";

export interface Store<Server> {
  readonly servers: Server[];
  directory: ScmDirectory | undefined;
  isHeld: boolean;
}

interface Holder {
  readonly cpu: Device["cpu"];
  readonly device: Pick<Device, "devices">;
  readonly store: Store<unknown>;
}

const RELEASED = "persistd-released";

/** The host's devices, the keys, differ in each of its lives. */
const STORES = new WeakMap<HostDevices, Store<never>>();

export function storeOf<Server>({ devices }: Pick<Device, "devices">): Store<Server> {
  const known = devices && STORES.get(devices) as Store<Server> | undefined;
  if (known !== undefined) return known;
  const store: Store<Server> = { servers: [], directory: undefined, isHeld: false };
  if (devices !== undefined) STORES.set(devices, store as Store<never>);
  return store;
}

export function* inTurn(server: Holder, steps: Steps<void>): Steps<void> {
  const { cpu, device: { devices }, store } = server;
  if ((devices?.names.length ?? 1) === 1) return yield* steps;
  while (store.isHeld) yield* cpu.waitSignal(RELEASED, NEVER);
  store.isHeld = true;
  try {
    yield* steps;
  } finally {
    store.isHeld = false;
    cpu.signal(RELEASED);
  }
}
