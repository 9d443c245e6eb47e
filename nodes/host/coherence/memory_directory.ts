/**
 * The directory of a region in SCM (decision 7, `directory: memory`): an entry for each line,
 * behind the region's lines, with the state of home's card's copy. It survives home's power
 * failure: a line that was lent exclusively, or is poison, is poison in the next life.
 *
 * [choice] A processor keeps two bits among the line's check bits, which each write of the line
 * includes. Here each change is accepted by the iMC, durable at once, past a full queue;
 * `regionDirectoryWrites` counts the writes that hardware would have, too.
 */
import { LOST } from "../../../fabric/wire/roce/coherence_messages.ts";
import type { HostLine } from "../../../fabric/coherence/host_agent_table.ts";
import {
  DIRECTORY_CONTENT,
  DIRECTORY_ENTRY_BYTES,
  directoryAt,
  directoryBytes,
  SCM_BASE,
  type SharedRegion,
} from "../../../fabric/rack/plan/shared_region.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { MemorySystem } from "../memory/memory_system.ts";

const { none: NONE, shared: SHARED, poison: POISON } = DIRECTORY_CONTENT;

interface Entry {
  readonly content: number;
  readonly isLent: boolean;
}

interface Table {
  readonly region: SharedRegion;
  readonly entries: Uint8Array;
}

export class MemoryDirectory {
  readonly #memory: MemorySystem;
  readonly #tables: readonly Table[];

  constructor(memory: MemorySystem, regions: readonly SharedRegion[]) {
    this.#memory = memory;
    this.#tables = regions.filter((region) => directoryBytes(region) > 0).map((region) => {
      const table = { region, entries: new Uint8Array(directoryBytes(region)) };
      this.#read(table);
      return table;
    });
  }

  #read({ region, entries }: Table): void {
    const { physical, llc } = this.#memory, from = directoryAt(region, 0);
    for (let address = from; address < from + entries.length; address += LINE_BYTES) {
      // A card's journal may have left its bytes in the LLC.
      if (llc.find(physical.lineOf(address)) < 0) continue;
      this.#memory.cleanLine(address);
      this.#memory.dropLine(address);
    }
    physical.read(from, entries);
  }

  changed(line: number, before: HostLine, after: HostLine): void {
    if (this.#tables.length === 0 || isSame(entryOf(before), entryOf(after))) return;
    const address = line * LINE_BYTES;
    const table = this.#tables.find(({ region }) =>
      address >= region.address && address < region.address + region.bytes
    );
    if (table !== undefined) this.#put(table, line - firstOf(table.region), entryOf(after));
  }

  /**
   * Lines whose last content memory does not have, by the directory that an earlier life of home,
   * and its card's journal under `wsp`, have left.
   */
  staleLines(): number[] {
    for (const table of this.#tables) this.#read(table);
    return this.#tables.flatMap(({ region, entries }) =>
      linesOf(region).filter((line) => {
        const { content, isLent } = readEntry(entries, line - firstOf(region));
        return isLent || content === POISON;
      })
    );
  }

  /** Starts with no line lent, and with these lines as poison. */
  restart(stale: readonly number[]): void {
    for (const table of this.#tables) {
      const { region, entries } = table;
      for (const line of linesOf(region)) {
        const index = line - firstOf(region);
        const entry = { content: stale.includes(line) ? POISON : NONE, isLent: false };
        if (!isSame(readEntry(entries, index), entry)) this.#put(table, index, entry);
      }
    }
  }

  #put({ region, entries }: Table, index: number, { content, isLent }: Entry): void {
    const at = index * DIRECTORY_ENTRY_BYTES, bytes = Uint8Array.of(content, isLent ? 1 : 0);
    entries.set(bytes, at);
    const { physical, durable } = this.#memory;
    const from = at - at % LINE_BYTES, offset = directoryAt(region, 0) - SCM_BASE;
    physical.scmImc.acceptEvicted(offset + from, entries.slice(from, from + LINE_BYTES), 1);
    durable.add(offset + at, bytes);
  }
}

function entryOf({ phase, memory }: HostLine): Entry {
  const content = memory === LOST ? POISON : phase.endsWith("S") ? SHARED : NONE;
  return { content, isLent: phase.endsWith("X") };
}

function readEntry(entries: Uint8Array, index: number): Entry {
  const at = index * DIRECTORY_ENTRY_BYTES;
  return { content: entries[at]!, isLent: entries[at + 1] !== 0 };
}

function isSame(one: Entry, other: Entry): boolean {
  return one.content === other.content && one.isLent === other.isLent;
}

function firstOf({ address }: SharedRegion): number {
  return address / LINE_BYTES;
}

function linesOf(region: SharedRegion): number[] {
  return Array.from({ length: region.bytes / LINE_BYTES }, (_, i) => firstOf(region) + i);
}
