/**
 * /dev/infiniband/rdma_cm as a native program has it: descriptors ("channels") and numbered ids over
 * the ids of the host's connection manager, as Linux's `ucma.c` keeps them. librdmacm moves its queue
 * pairs itself, so the host's ids have none.
 *
 * All ids of a process have one event channel at the host; an event goes to the descriptor that its
 * id belongs to when it is taken, so an id that migrates takes its waiting events with it.
 */
import type { CmDevice } from "../cm/gsi.ts";
import { type EventRoute, hasCmEvent, type RdmaCmEvent, takeCmEvent } from "../cm/rdma_event.ts";
import {
  rdmaCreateEventChannel,
  rdmaDestroyId,
  type RdmaEventChannel,
  type RdmaId,
} from "../cm/rdma_id.ts";
import type { Steps } from "../cpu/program.ts";
import type { Cpu } from "../cpu/program.ts";
import type { OpenDevice } from "../open_device.ts";
import { verbError } from "../verbs/errors.ts";
import type { VerbError } from "../verbs/objects.ts";

/** `ucma_context`. */
export interface NativeId {
  readonly number: number;
  readonly channel: RdmaEventChannel;
  readonly rdma: RdmaId;
  /** Ids of the host's other cards: one that listens on no address listens on all. */
  readonly others: RdmaId[];
  /** The library's word for it; 0 until it accepts: such an id's events end unseen. */
  uid: number;
  /** The descriptor. */
  file: number;
  /** AF_INET or AF_INET6, as the program has named an address. */
  family: number;
  /** Bound to no address: it has no device until a peer's is known. */
  isWild: boolean;
  /** Events that the program has got. */
  reported: number;
}

/** `ucma_multicast`. */
export interface Membership {
  readonly number: number;
  readonly uid: number;
  readonly id: NativeId;
  readonly group: number;
  reported: number;
}

/** An event for the program: `to` counts it, of a request the listening id. */
export interface NativeCmEvent {
  readonly event: RdmaCmEvent;
  readonly id: NativeId;
  readonly to: NativeId;
  readonly membership?: Membership;
}

const AF_INET = 2;

export class RdmaCm {
  readonly #device: OpenDevice;
  #channel: RdmaEventChannel | undefined;
  readonly #files = new Set<number>();
  readonly #ids = new Map<number, NativeId>();
  readonly #byRdma = new Map<RdmaId, NativeId>();
  readonly #memberships = new Map<number, Membership>();
  #nextFile = 1;

  /** @param device of the program's main thread. */
  constructor(device: OpenDevice) {
    this.#device = device;
  }

  /** What a thread waits for that wants an event of any descriptor. */
  get signal(): string {
    return this.channel.signal;
  }

  get channel(): RdmaEventChannel {
    return this.#channel ??= rdmaCreateEventChannel(this.#device);
  }

  openFile(): number {
    const file = this.#nextFile++;
    this.#files.add(file);
    return file;
  }

  isOpen(file: number): boolean {
    return this.#files.has(file);
  }

  /** Closes a descriptor: its ids end, as `ucma_close` ends them. */
  *closeFile(file: number, cpu: Cpu): Steps<void> {
    this.#files.delete(file);
    for (const id of [...this.#ids.values()]) {
      if (id.file === file) yield* this.destroy(this.on(id, cpu));
    }
  }

  add(rdma: RdmaId, { file, uid }: Pick<NativeId, "file" | "uid">): NativeId {
    const id: NativeId = {
      number: free(this.#ids),
      channel: this.channel,
      rdma,
      others: [],
      uid,
      file,
      family: AF_INET,
      isWild: true,
      reported: 0,
    };
    this.#ids.set(id.number, id);
    this.#byRdma.set(rdma, id);
    return id;
  }

  /** A further id of the host that stands for this one. */
  join(id: NativeId, other: RdmaId): void {
    id.others.push(other);
    this.#byRdma.set(other, id);
  }

  /** The id of a number, bound to the core of the thread that uses it. */
  get(number: number, cpu: Cpu): NativeId | VerbError {
    const id = this.#ids.get(number);
    if (id === undefined) return verbError("ENOENT", `There is no id of number ${number}`);
    return this.on(id, cpu);
  }

  /** Threads of a process share its ids, and each pays for its own work. */
  on(id: NativeId, cpu: Cpu): NativeId {
    for (const rdma of [id.rdma, ...id.others]) rdma.device = deviceOnCore(rdma.device, cpu);
    return id;
  }

  /** @returns the number of its events that the program has got. */
  *destroy(id: NativeId): Steps<number> {
    this.#ids.delete(id.number);
    for (const membership of this.#memberships.values()) {
      if (membership.id === id) this.leave(membership);
    }
    for (const rdma of [id.rdma, ...id.others]) {
      this.#byRdma.delete(rdma);
      yield* rdmaDestroyId(rdma);
    }
    return id.reported;
  }

  enter(id: NativeId, { uid, group }: Pick<Membership, "uid" | "group">): Membership {
    const membership = { number: free(this.#memberships), uid, id, group, reported: 0 };
    this.#memberships.set(membership.number, membership);
    this.channel.byEndpoint.set(membership, id.rdma);
    const event = { kind: "ready", of: membership, event: "MULTICAST_JOIN" } as const;
    this.channel.events.push({ ...event, status: 0, reason: "" });
    id.rdma.device.cpu.signal(this.signal);
    return membership;
  }

  membership(number: number): Membership | VerbError {
    return this.#memberships.get(number) ??
      verbError("ENOENT", `There is no membership of number ${number}`);
  }

  leave(membership: Membership): void {
    this.#memberships.delete(membership.number);
    this.channel.byEndpoint.delete(membership);
  }

  /** Whether the descriptor has an event; undefined: there is no such descriptor. */
  hasEvent(file: number): boolean | undefined {
    return this.#files.has(file) ? hasCmEvent(this.channel, this.#route(file)) : undefined;
  }

  /** The descriptor's oldest event. */
  take(file: number): NativeCmEvent | undefined {
    const event = takeCmEvent(this.channel, this.#route(file));
    if (event === undefined) return undefined;
    const to = this.#byRdma.get(event.listenId ?? event.id)!;
    to.reported++;
    if (event.listenId === undefined) {
      const membership = event.of as Membership | undefined;
      if (membership !== undefined) membership.reported++;
      return { event, id: to, to, ...(membership && { membership }) };
    }
    const id = this.add(event.id, { file, uid: 0 });
    id.family = to.family;
    id.isWild = false;
    return { event, id, to };
  }

  #route(file: number): EventRoute {
    return (rdma) => {
      const id = this.#byRdma.get(rdma);
      // As `ucma_event_handler`: what comes before the program has named the id is not shown.
      if (id === undefined || id.uid === 0) return "drop";
      return id.file === file ? "take" : "leave";
    };
  }
}

/** The lowest number that is free: librdmacm has a table of 65536. */
function free(known: ReadonlyMap<number, unknown>): number {
  for (let number = 0;; number++) if (!known.has(number)) return number;
}

function deviceOnCore(device: CmDevice, cpu: Cpu): CmDevice {
  const own = cpu.at?.(device.cpu.rnic ?? 0) ?? cpu;
  return device.cpu === own ? device : { ...device, cpu: own };
}
