/**
 * What the servers of a host share, of which each card has one: the directory of objects in SCM, and a lock. A server that
 * handles a request has the directory to itself, as the only one of a host with one card has.
 */
import { NEVER } from "../../../../fabric/base/time.ts";
import type { Steps } from "../../cpu/program.ts";
import type { ScmDirectory } from "../common/scm_directory.ts";
import type { Device, HostDevices } from "../../verbs/objects.ts";

export interface Store<Server> {
  readonly servers: Server[];
  /** Once one of them has opened it. */
  directory: ScmDirectory | undefined;
  isHeld: boolean;
}

/** The server of a card, as far as the lock goes. */
interface Holder {
  readonly cpu: Device["cpu"];
  readonly device: Pick<Device, "devices">;
  readonly store: Store<unknown>;
}

const RELEASED = "persistd-released";

/** By the host's devices, which are others in each of its lives. */
const STORES = new WeakMap<HostDevices, Store<never>>();

/** The store of a device's host. */
export function storeOf<Server>({ devices }: Pick<Device, "devices">): Store<Server> {
  const known = devices && STORES.get(devices) as Store<Server> | undefined;
  if (known !== undefined) return known;
  const store: Store<Server> = { servers: [], directory: undefined, isHeld: false };
  if (devices !== undefined) STORES.set(devices, store as Store<never>);
  return store;
}

/** Does the steps while no other server of the host does any; at once on a host with one card. */
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
