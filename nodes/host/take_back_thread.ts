/** The driver's thread that takes back RNIC objects and memory of ended programs. */
import type { Processor } from "./cpu/processor.ts";
import type { Steps } from "./cpu/program.ts";
import type { AddressMap } from "./memory/address_map.ts";
import { programOf } from "./serving.ts";
import type { OpenDevice } from "./open_device.ts";

interface Devices {
  readonly ready: readonly OpenDevice[];
  readonly away: readonly OpenDevice[];
}

export interface TakeBackParts {
  readonly map: AddressMap;
  readonly owners: Map<number, string>;
  readonly processor: Processor;
  /**
   * @returns whether no object is left.
   */
  readonly takeBack: (device: OpenDevice, program: string) => Steps<boolean>;
  readonly isReady: () => boolean;
  /**
   * Runs a thread of the driver with the devices of present cards, and the open devices of absent ones.
   * @param onEnd called whether it returns or fails.
   */
  readonly run: (steps: (devices: Devices) => Steps<void>, onEnd: () => void) => void;
}

export class TakeBackThread {
  readonly #parts: TakeBackParts;
  #isRunning = false;
  readonly #leaving = new Set<string>();

  constructor(parts: TakeBackParts) {
    this.#parts = parts;
  }

  /** @param name the program's, or its thread's. */
  leave(name: string): void {
    this.#leaving.add(programOf(name));
  }

  start(): void {
    if (this.#isRunning || !this.#parts.isReady()) return;
    const ended = [...this.#leaving].filter((program) => this.#hasEnded(program));
    if (ended.length === 0) return;
    this.#isRunning = true;
    this.#parts.run((devices) => this.#steps(devices, ended), () => {
      this.#isRunning = false;
      // A program that could not be taken back is tried again with the next.
      const isMore = [...this.#leaving].some((each) =>
        !ended.includes(each) && this.#hasEnded(each)
      );
      if (isMore) this.start();
    });
  }

  #hasEnded(program: string): boolean {
    for (const name of this.#parts.processor.names) if (programOf(name) === program) return false;
    return true;
  }

  *#steps({ ready, away }: Devices, ended: readonly string[]): Steps<void> {
    const { owners, map, takeBack } = this.#parts;
    for (const program of ended) {
      let isTaken = !away.some((device) => hasUsed(device, program));
      for (const device of ready) isTaken = (yield* takeBack(device, program)) && isTaken;
      if (!isTaken) continue;
      this.#leaving.delete(program);
      for (const [address, owner] of owners) {
        if (programOf(owner) !== program) continue;
        map.free({ address });
        owners.delete(address);
      }
    }
  }
}

function hasUsed({ state, cm: { agent } }: OpenDevice, program: string): boolean {
  for (const name of state.contexts.values()) if (programOf(name) === program) return true;
  // An id reaches a card by its address, too.
  for (const channel of agent.channels) if (programOf(channel.program) === program) return true;
  return false;
}
