/**
 * Frames inside a switch, as seen at its ports: what it sends on it has received, the same bytes, once to each
 * port at most. It may mark a frame (ECN), drop it, and lose it with its power. What it says for itself (PAUSE,
 * membership reports, routes) is no RoCE and not looked at.
 */
import type { Time } from "../../fabric/base/time.ts";
import { frameOpcode } from "../../fabric/wire/roce/frame_peek.ts";
import { ICRC_BYTES } from "../../fabric/wire/roce/icrc.ts";

/** Taken in, and not yet sent on as often as it may be. */
interface Inside {
  readonly bytes: Uint8Array;
  readonly since: Time;
  /** The port that it came in by, which it does not leave by. */
  readonly from: number;
  /** Those that it has left by. */
  readonly to: number[];
}

/** Where and when a frame passes the switch's end of a cable. */
interface Passing {
  readonly port: number;
  readonly time: Time;
  /** Of the switch. */
  readonly life: number;
}

/** Frames that are remembered: dropped ones stay, and ones for groups that not all ports are in. */
const INSIDE_MAX = 65_536;

/** IPv4's second byte and its checksum are what a mark changes. */
const TRAFFIC_CLASS_AT = 15, CHECKSUM_AT = 24;
const CONGESTION_BITS = 3;

export class SwitchLedger {
  readonly #ports: number;
  /** By ICRC: frames that have the same one are few. */
  readonly #inside = new Map<number, Inside[]>();
  #count = 0;
  /** Some were forgotten, so that the origin of a frame may be unknown. */
  #hasForgotten = false;
  #life = 0;

  constructor(ports: number) {
    this.#ports = ports;
  }

  receive(bytes: Uint8Array, { port, time, life }: Passing): void {
    this.#live(life);
    if (frameOpcode(bytes) < 0 || this.#hasForgotten) return;
    if (this.#count >= INSIDE_MAX) return this.#forgetAll();
    const key = keyOf(bytes);
    const alike = this.#inside.get(key);
    const frame = { bytes, since: time, from: port, to: [] };
    if (alike === undefined) this.#inside.set(key, [frame]);
    else alike.push(frame);
    this.#count++;
  }

  /** @returns whether the switch can have it to send. */
  send(bytes: Uint8Array, { port, time, life }: Passing): boolean {
    this.#live(life);
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

  /** What was inside is gone with the power. */
  #live(life: number): void {
    if (life === this.#life) return;
    this.#life = life;
    this.#inside.clear();
    this.#count = 0;
  }

  #forgetAll(): void {
    this.#hasForgotten = true;
    this.#inside.clear();
  }
}

function isForGroup(bytes: Uint8Array): boolean {
  return (bytes[0]! & 1) === 1;
}

function keyOf(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return view.getUint32(bytes.length - ICRC_BYTES);
}

/** Whether `sent` is `taken`, or that with the mark of congestion. */
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
