/**
 * A pair of 32-bit lanes for each node's events in order, combined by name, so that packing has no
 * effect.
 */
import type { Event } from "./event_queue.ts";
import type { Input } from "../node.ts";
import { hashMessage, hashPlain } from "./message_hash.ts";

/** Plain numbers, so that it can be reported and resumed. */
export interface NodeDigest {
  high: number;
  low: number;
  events: number;
}

export function emptyDigest(): NodeDigest {
  return { high: 0x6a09e667, low: 0xbb67ae85 | 0, events: 0 };
}

export function digestEvent(digest: NodeDigest, event: Event): void {
  const time = event.time;
  mix(digest, time >>> 0, Math.floor(time / 2 ** 32));
  mix(digest, (event.kind << 24) ^ event.source, event.counter);
  mix(digest, inputHash(event.input), event.targetLife);
  digest.events++;
}

/** Two crossed multiply-rotate lanes (the mixer of MurmurHash3_x86_64's halves). */
function mix(digest: NodeDigest, x: number, y: number): void {
  let high = digest.high ^ Math.imul(x, 0xcc9e2d51);
  let low = digest.low ^ Math.imul(y, 0x1b873593);
  high = (Math.imul((high << 13) | (high >>> 19), 5) + low + 0xe6546b64) | 0;
  low = (Math.imul((low << 15) | (low >>> 17), 9) + high + 0x561ccd1b) | 0;
  digest.high = high ^ (high >>> 16);
  digest.low = low ^ (low >>> 15);
}

function inputHash(input: Input): number {
  switch (input.kind) {
    case "message":
      return hashMessage(input.message) ^ Math.imul(input.port + 1, 0x85ebca6b) ^
        (input.tailPs | 0);
    case "link":
      return (input.port << 1) | (input.up ? 1 : 0);
    case "run":
      return hashPlain(input.program);
    case "writeback":
      return Math.imul(input.from, 0x85ebca6b) ^ input.to ^
        (input.data === undefined ? 0 : textHash(input.data));
    case "wake":
    case "power":
      return 0;
  }
}

/** FNV-1a over UTF-16 units: for short texts only. */
function textHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash;
}

const hex = (lane: number) => (lane >>> 0).toString(16).padStart(8, "0");

/** 16 hexadecimal digits. */
export function digestText(digest: NodeDigest): string {
  return hex(digest.high) + hex(digest.low);
}

export function rackDigest(nodes: ReadonlyArray<readonly [name: string, digest: string]>): string {
  const digest = emptyDigest();
  for (const [name, text] of [...nodes].sort(([x], [y]) => (x < y ? -1 : x > y ? 1 : 0))) {
    mix(digest, textHash(name), textHash(text));
    mix(digest, parseInt(text.slice(0, 8), 16) | 0, parseInt(text.slice(8), 16) | 0);
  }
  return digestText(digest);
}
