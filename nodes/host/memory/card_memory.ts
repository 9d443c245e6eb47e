/**
 * The card's memory as cores reach it (Q-03, `store: device`): a window of the BAR. A store is
 * posted: each part within a line of 64 B is a message. A load is a message and its answer. The
 * card enforces Q-04: it knows programs by numbers, as by PASIDs, and refuses by an error message.
 */
import { copyOf } from "../../../fabric/base/slab.ts";
import type { AccessError, RegisterWrite } from "../../../fabric/wire/host_bus/pcie.ts";
import {
  inCardMemory,
  type StampedPointer,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import { breachText } from "../../../fabric/wire/host_bus/queue_rules.ts";
import { AddressFault } from "./address_map.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { QueueGuard } from "./queue_guard.ts";

export class CardMemory {
  stores = 0;
  loads = 0;
  refused = 0;
  readonly #guard: QueueGuard;
  readonly #programs: string[] = [];
  /** the newest pointer that the host has stored, by queue. */
  readonly #pointers = new Map<number, StampedPointer>();

  constructor(guard: QueueGuard) {
    this.#guard = guard;
  }

  holds(address: number): boolean {
    return inCardMemory(address, 0);
  }

  numberOf(program: string): number {
    const known = this.#programs.indexOf(program);
    return known >= 0 ? known : this.#programs.push(program) - 1;
  }

  /** @throws AddressFault where it leaves the window. */
  store(address: number, bytes: Uint8Array, program: string): RegisterWrite[] {
    this.#check(address, bytes.length);
    const by = this.numberOf(program);
    const messages: RegisterWrite[] = [];
    for (let done = 0; done < bytes.length;) {
      const offset = address + done;
      const part = Math.min(LINE_BYTES - offset % LINE_BYTES, bytes.length - done);
      const data = copyOf(bytes.subarray(done, done + part));
      messages.push({ kind: "register-write", offset, data, by });
      this.#notePointer(offset, data);
      done += part;
    }
    this.stores += messages.length;
    return messages;
  }

  load(address: number, length: number): void {
    this.#check(address, length);
    this.loads++;
  }

  pointerOf(queue: number): StampedPointer | undefined {
    return this.#pointers.get(queue);
  }

  refusal(message: AccessError): { readonly program: string; readonly error: AddressFault } {
    this.refused++;
    const { by, holder, ...breach } = message;
    const program = this.#programs[by]!;
    const holderName = holder === undefined ? undefined : this.#programs[holder];
    return {
      program,
      error: new AddressFault(breachText({ ...breach, holder: holderName }, program)),
    };
  }

  #check(address: number, length: number): void {
    if (inCardMemory(address, length)) return;
    throw new AddressFault(
      `Cannot reach ${length} B at 0x${address.toString(16)}: they leave the card's memory`,
    );
  }

  #notePointer(address: number, data: Uint8Array): void {
    for (const { space, queue } of this.#guard.parts(address, data.length)) {
      const place = this.#guard.pointerPlace(queue)!;
      const at = place.address - address;
      if (space !== 3 || at < 0 || at + place.length > data.length) continue;
      this.#pointers.set(queue, this.#guard.pointerIn(data.subarray(at)));
    }
  }
}
