/** The cores' end of the bus to a card. */
import { type Outputs, PORTS } from "../../../fabric/node.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { PcieMessage, RegisterWrite } from "../../../fabric/wire/host_bus/pcie.ts";
import type { RnicCommand, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { type CoherentAgent, coherentForm } from "../memory/coherent_agent.ts";
import type { CardMemory } from "../memory/card_memory.ts";
import type { MemorySystem } from "../memory/memory_system.ts";
import { newestPointer } from "../memory/newest_pointer.ts";
import type { QueueGuard } from "../memory/queue_guard.ts";

export const NO_DEVICE: RnicReply = {
  status: "error",
  errno: "EINVAL",
  reason: "Cannot reach the RNIC: the bus link is down",
};

export interface BusHost {
  readonly now: Time;
  readonly processingPs: Time;
  readonly out: Outputs;
  readonly memory: MemorySystem;
}

export interface BusCard {
  readonly index: number;
  readonly guard: QueueGuard;
  readonly cardMemory: CardMemory | undefined;
  readonly agent: CoherentAgent | undefined;
}

/** More than the commands and loads of a run, so that cards have different numbers. */
const NUMBERS_SPAN = 2 ** 40;

export class HostBus {
  registerWrites = 0;
  commands = 0;
  readonly #host: BusHost;
  readonly #card: BusCard;
  readonly #pointers: Parameters<typeof newestPointer>[0];
  readonly #port: number;
  readonly #numbers: number;
  #isUp = true;
  #cards = 0;
  #loads = 0;

  constructor(host: BusHost, card: BusCard) {
    this.#host = host;
    this.#card = card;
    this.#pointers = { memory: host.memory, guard: card.guard, cardMemory: card.cardMemory };
    this.#port = PORTS.hostBus + card.index;
    this.#numbers = card.index * NUMBERS_SPAN;
  }

  isOwn(id: number): boolean {
    return id >= this.#numbers && id < this.#numbers + NUMBERS_SPAN;
  }

  get card(): number | undefined {
    return this.#isUp ? this.#cards : undefined;
  }

  /** @returns whether the state has changed. */
  setUp(isUp: boolean): boolean {
    if (isUp === this.#isUp) return false;
    this.#isUp = isUp;
    if (isUp) this.#cards++;
    return true;
  }

  /** The message leaves `afterPs` later than `processingPs` from now. */
  send(message: PcieMessage, afterPs: Time = 0): void {
    const { out, now, processingPs } = this.#host;
    const form = this.#card.agent === undefined ? message : coherentForm(message);
    out.send(this.#port, form, now + processingPs + afterPs);
  }

  sendRegister(offset: number, data: Uint8Array<ArrayBuffer>): void {
    this.registerWrites++;
    const stored = newestPointer(this.#pointers, offset, data);
    this.send({ kind: "register-write", offset, data, ...(stored !== undefined && { stored }) });
  }

  sendStore(store: RegisterWrite): void {
    this.send(store);
  }

  /**
   * @returns the load's id; undefined without a device.
   */
  sendLoad(offset: number, length: number): number | undefined {
    if (!this.#isUp) return undefined;
    const tag = this.#numbers + this.#loads++;
    this.send({ kind: "register-read", tag, offset, length });
    return tag;
  }

  /** @returns the command's id, or an error reply without a device. */
  sendCommand(command: RnicCommand): number | RnicReply {
    if (!this.#isUp) return NO_DEVICE;
    const id = this.#numbers + this.commands++;
    this.send({ kind: "command", id, command });
    return id;
  }
}
