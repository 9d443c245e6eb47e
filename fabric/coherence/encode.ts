/**
 * A state of a {@link System} as bytes, and these as a number of 53 bits: the explorer's seen states are
 * a map of numbers. Two states collide with a probability of n² / 2^54: for a million of states 6 in
 * 100 000, and then one is not explored.
 *
 * Values that only grow (versions, lives) are encoded by their relation to those that they are compared
 * with. So a card may begin any number of lives, and the set of states is finite.
 */
import { hashBytes } from "../base/hash.ts";
import type { FarCard, FarLine } from "./far_card.ts";
import { homePlacement } from "./home_card_state.ts";
import { homeState } from "./home_card_table.ts";
import { hostLine } from "./host_agent.ts";
import type { Access } from "./access.ts";
import { BUS_MESSAGES, type BusMessage } from "../wire/host_bus/region_messages.ts";
import type { Data, WireMessage } from "../wire/roce/coherence_messages.ts";
import { COHERENCE_COMMANDS } from "../wire/roce/coherence_eth.ts";
import type { System } from "./system.ts";

const SPACE = new Uint8Array(4096);
let length = 0;
function put(byte: number): void {
  SPACE[length++] = byte;
}

function codes(names: readonly string[]): Readonly<Record<string, number>> {
  return Object.fromEntries(names.map((name, index) => [name, index + 1]));
}
const WIRE = codes(Object.values(COHERENCE_COMMANDS).flat()),
  BUS = codes(Object.keys(BUS_MESSAGES));
const FAR = codes(["I", "S", "E", "M", "IS", "IM", "SM", "MI", "II"]);
const HOST = codes(["none", "S", "X", "busy none", "busy S", "busy X"]);
const PHASE = codes(
  ["idle", "P0", "snooped", "P1", "P2", "P3"].flatMap((
    phase,
  ) => [`${phase} free`, `${phase} owned`]),
);
const DEMAND = codes(["GetS", "GetM", "Put", "Flush", "Purge"]);
const ACCESS = codes(["load", "store", "flush", "own"]);
const RIGHT = codes(["I", "S", "X"]), LLC = codes(["I", "S", "E", "M"]);

/**
 * By far card: its life, lives that home knows, and lives of messages, from the highest one down.
 * Only their order matters, as a new life is above all others.
 */
let lives: (readonly number[])[] = [];

function livesOf({ home, fars, wires }: System): number[][] {
  return fars.map(({ agent, life }, at) => {
    const all = new Set([life, home.lives.get(agent) ?? life, home.lastLives.get(agent) ?? life]);
    const { req = [], snp = [], up = [], down = [] } = wires[at] ?? {};
    for (const queue of [req, snp, up, down]) for (const each of queue) all.add(each.life);
    for (const { message } of home.requests) if (message.agent === agent) all.add(message.life);
    return [...all].sort((a, b) => b - a);
  });
}

/** The rank of a life among those of its card. */
function rankOf(agent: number, life: number): number {
  return lives[agent - 1]?.indexOf(life) ?? 0;
}

/** The state's number. `extra` and `more` are the explorer's additions. */
export function keyOf(system: System, extra: readonly number[], more: number): number {
  const bytes = encode(system, extra);
  bytes[0] = (bytes[0] ?? 0) + more * 16;
  const high = hashBytes(bytes, 0x1234_5678), low = hashBytes(bytes, 0x0bad_cafe);
  return high * 2 ** 21 + (low & 0x1f_ffff);
}

function encode(system: System, extra: readonly number[]): Uint8Array {
  length = 0;
  const { host, home, fars, wires, size } = system;
  lives = livesOf(system);
  for (let line = 0; line < size.lines; line++) {
    const { phase, llc, cached, memory, queued } = hostLine(host, line);
    put(HOST[phase] ?? 0);
    put(LLC[llc] ?? 0);
    put(llc === "I" ? 9 : codeOf(cached));
    put(codeOf(memory));
    put(queued === null ? 0 : BUS[queued] ?? 0);
  }
  accesses(host.waiting);
  for (const [line, copy] of home.lines) {
    put(line);
    put(PHASE[homeState(copy)] ?? 0);
    put((RIGHT[copy.right] ?? 0) * 2 + (copy.dirty ? 1 : 0));
    put(copy.sharers);
    put(copy.owner + 1);
    put(copy.waiting);
    put(copy.snoop === null ? 0 : copy.snoop.kind === "SnpInv" ? 1 : 2);
    put(copy.phase === "idle" ? 0 : 1);
    put(codeOf(copy.data));
    const { serving } = copy;
    put(serving === null ? 0 : DEMAND[serving.kind] ?? 0);
    if (serving === null) continue;
    put(serving.agent + 1);
    put(system.home.lives.get(serving.agent) === serving.life ? 1 : 0);
  }
  put(0xff);
  card(system, home.local);
  for (const { message, isBegun, access, range } of home.requests) {
    put(message.agent * 4 + (isBegun ? 2 : 0) + (access === null ? 0 : 1));
    wire(system, message);
    if (range === undefined) continue;
    put(range.isLost ? 1 : 0);
    for (const line of range.left) put(line * 2);
    for (const line of range.open) put(line * 2 + 1);
  }
  put(0xfd);
  for (const line of home.purges) put(line);
  put(homePlacement(home, 0).place === "local" ? 0xfc : 0xfb);
  for (const [at, each] of fars.entries()) {
    card(system, each);
    const known = home.lives.get(each.agent);
    put(known === undefined ? 9 : rankOf(each.agent, known));
    put(rankOf(each.agent, home.lastLives.get(each.agent) ?? each.life));
    put(rankOf(each.agent, each.life));
    put(each.homeLife === home.life ? 1 : 0);
    const queues = wires[at];
    if (queues === undefined) continue;
    put((queues.isCut ? 1 : 0) + (queues.isDoomed ? 2 : 0) + (queues.isOff ? 4 : 0));
    for (const queue of [queues.req, queues.snp, queues.up, queues.down]) {
      for (const message of queue) wire(system, message);
      put(0xfa);
    }
  }
  put(system.outage === null ? 0 : system.outage === "card" ? 1 : 2);
  bus(system.toHost, size.lines);
  bus(system.toHome, size.lines);
  for (const each of extra) put(each);
  return SPACE.subarray(0, length);
}

function codeOf(data: Data | undefined): number {
  return typeof data === "number" ? data + 1 : data === undefined ? 0 : 5;
}

function accesses(list: readonly Access[]): void {
  for (const access of list) one(access);
  put(0xf9);
}

function one({ kind, line, lines = 1, change, passes }: Access): void {
  put((ACCESS[kind] ?? 0) + (change === "full" ? 8 : 0) + (passes ? 16 : 0) + (lines > 1 ? 32 : 0));
  put(line);
}

function card(system: System, { lines, waiting, active, isUp, ...rest }: FarCard): void {
  const copies: [number, FarLine][] = [...lines];
  // Only a cache that has a choice of what to evict depends on the order.
  if (copies.length > 1 && rest.size.lines >= system.size.lines) copies.sort(([a], [b]) => a - b);
  for (const [line, { state, data }] of copies) {
    put(line * 16 + (FAR[state] ?? 0));
    // A requested line comes with its data.
    put(/^I[SM]$|^II$/.test(state) ? 0 : codeOf(data));
  }
  put(isUp ? 0xf8 : 0xf7);
  for (const [, access] of [...active].sort(([a], [b]) => a - b)) one(access);
  put(0xf6);
  accesses(waiting);
  const believed = rest.placements.get(0), now = homePlacement(system.home, 0);
  put((believed?.place === "local" ? 1 : 0) + ((believed?.version ?? 0) === now.version ? 2 : 0));
}

function wire(
  { home }: System,
  { kind, line, agent, life, homeLife, data, change, placement }: WireMessage,
): void {
  put(WIRE[kind] ?? 0);
  put(line * 8 + codeOf(data));
  put(change === undefined ? 0 : change === "full" ? 1 : 2);
  if (placement !== undefined) {
    put(
      (placement.place === "local" ? 1 : 0) +
        (placement.version === homePlacement(home, line).version ? 2 : 0),
    );
  }
  const isHomes = homeLife === home.life ? 16 : homeLife === 0 ? 8 : 0;
  put(rankOf(agent, life) + 1 + isHomes);
}

/** Encodes only the order that links keep: that of a line. */
function bus(queue: readonly BusMessage[], lines: number): void {
  for (let line = 0; line < lines; line++) {
    for (const message of queue) {
      if (message.line !== line) continue;
      put(BUS[message.kind] ?? 0);
      put(codeOf(message.data));
    }
    put(0xf5);
  }
}
