/**
 * Frames inside a switch, in one life: it has received each frame that it forwards, with the same
 * bytes, and forwards it once to each port at most. It may mark a frame (ECN) or drop it. Its own
 * frames (PAUSE, membership reports, routes) are no RoCE and are not checked.
 */
import { viewOf } from "../../fabric/base/slab.ts";
import type { Time } from "../../fabric/base/time.ts";
import { frameOpcode } from "../../fabric/wire/roce/frame_peek.ts";
import { ICRC_BYTES } from "../../fabric/wire/roce/icrc.ts";

interface Inside {
  readonly bytes: Uint8Array;
  readonly since: Time;
  readonly from: number;
  readonly to: number[];
}

interface Passing {
  readonly port: number;
  readonly time: Time;
}

/** Dropped frames stay, and multicasts that not all ports forward. */
const INSIDE_MAX = 65_536;

/** A congestion mark changes IPv4's second byte and its checksum. */
const TRAFFIC_CLASS_AT = 15, CHECKSUM_AT = 24;
const CONGESTION_BITS = 3;

export class SwitchLedger {
  readonly #ports: number;
  readonly #inside = new Map<number, Inside[]>();
  #count = 0;
  #hasForgotten = false;

  constructor(ports: number) {
    this.#ports = ports;
  }

  receive(bytes: Uint8Array, { port, time }: Passing): void {
    if (frameOpcode(bytes) < 0 || this.#hasForgotten) return;
    if (this.#count >= INSIDE_MAX) {
      this.#hasForgotten = true;
      return this.#inside.clear();
    }
    const key = keyOf(bytes);
    const alike = this.#inside.get(key);
    const frame = { bytes, since: time, from: port, to: [] };
    if (alike === undefined) this.#inside.set(key, [frame]);
    else alike.push(frame);
    this.#count++;
  }

  /** True if the switch has received the frame. */
  send(bytes: Uint8Array, { port, time }: Passing): boolean {
    if (frameOpcode(bytes) < 0 || this.#hasForgotten) return true;
    const key = keyOf(bytes);
    const alike = this.#inside.get(key) ?? [];
    const place = alike.findIndex((each) =>
      each.since <= time && each.from !== port && !each.to.includes(port) &&
      isForwarded(each.bytes, bytes)
    );
    if (place < 0) return false;
    const found = alike[place]!;
    found.to.push(port);
    if (found.to.length < (isForGroup(bytes) ? this.#ports - 1 : 1)) return true;
    alike.splice(place, 1);
    this.#count--;
    if (alike.length === 0) this.#inside.delete(key);
    return true;
  }
}

function isForGroup(bytes: Uint8Array): boolean {
  return (bytes[0]! & 1) === 1;
}

function keyOf(bytes: Uint8Array): number {
  return viewOf(bytes).getUint32(bytes.length - ICRC_BYTES);
}

function isForwarded(taken: Uint8Array, sent: Uint8Array): boolean {
  if (taken === sent) return true;
  if (taken.length !== sent.length) return false;
  const isMarked = taken[TRAFFIC_CLASS_AT] !== sent[TRAFFIC_CLASS_AT];
  if (isMarked && (taken[TRAFFIC_CLASS_AT]! | CONGESTION_BITS) !== sent[TRAFFIC_CLASS_AT]) {
    return false;
  }
  for (let i = taken.length - 1; i >= 0; i--) {
    if (taken[i] === sent[i]) continue;
    const isOfMark = i === TRAFFIC_CLASS_AT || i === CHECKSUM_AT || i === CHECKSUM_AT + 1;
    if (!isMarked || !isOfMark) return false;
  }
  return true;
}
