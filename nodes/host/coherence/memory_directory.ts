/**
 * The directory of a region in SCM (decision 7, `directory: memory`): a byte for each line, behind the region's lines,
 * which says what home's card has of it. It outlasts home's power failure: what was lent exclusively, or is poison, is
 * poison in the next life.
 *
 * [choice] A processor keeps two bits among the line's check bits, which content takes along. Here each change is
 * accepted by the iMC, durable at once, past a full queue; `regionDirectoryWrites` counts those that hardware has.
 */
import { LOST } from "../../../fabric/coherence/messages.ts";
import type { HostLine } from "../../../fabric/coherence/host_agent_table.ts";
import {
  DIRECTORY_ENTRY,
  directoryAt,
  directoryBytes,
  SCM_BASE,
  type SharedRegion,
} from "../../../fabric/rack/plan/shared_region.ts";
import { LINE_BYTES } from "../memory/llc.ts";
import type { MemorySystem } from "../memory/memory_system.ts";

const { none: NONE, shared: SHARED, stale: STALE } = DIRECTORY_ENTRY;

/** The entries of a region: as memory has them. */
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
    const { physical, llc } = this.#memory, from = directoryAt(region);
    for (let address = from; address < from + entries.length; address += LINE_BYTES) {
      // What a card's journal has brought back may be in the LLC.
      if (llc.find(physical.lineOf(address)) < 0) continue;
      this.#memory.cleanLine(address);
      this.#memory.dropLine(address);
    }
    physical.read(from, entries);
  }

  /** A line has changed. */
  changed(line: number, before: HostLine, after: HostLine): void {
    if (this.#tables.length === 0 || entryOf(before) === entryOf(after)) return;
    const address = line * LINE_BYTES;
    const table = this.#tables.find(({ region }) =>
      address >= region.address && address < region.address + region.bytes
    );
    if (table !== undefined) this.#put(table, line - firstOf(table.region), entryOf(after));
  }

  /**
   * As an earlier life of home has left it, and its card's journal under `wsp`: lines whose last content memory does
   * not have.
   */
  staleLines(): number[] {
    for (const table of this.#tables) this.#read(table);
    return this.#tables.flatMap(({ region, entries }) =>
      linesOf(region).filter((line) => entries[line - firstOf(region)] === STALE)
    );
  }

  /** Nothing is lent any more, and these lines are poison. */
  restart(stale: readonly number[]): void {
    for (const table of this.#tables) {
      const { region, entries } = table;
      for (const line of linesOf(region)) {
        const index = line - firstOf(region), entry = stale.includes(line) ? STALE : NONE;
        if (entries[index] !== entry) this.#put(table, index, entry);
      }
    }
  }

  #put({ region, entries }: Table, index: number, entry: number): void {
    entries[index] = entry;
    const { physical, durable } = this.#memory;
    const from = index - index % LINE_BYTES, offset = directoryAt(region) - SCM_BASE;
    physical.scmImc.acceptEvicted(offset + from, entries.slice(from, from + LINE_BYTES), 1);
    durable.add(offset + index, Uint8Array.of(entry));
  }
}

function entryOf({ phase, memory }: HostLine): number {
  if (phase.endsWith("X") || memory === LOST) return STALE;
  return phase.endsWith("S") ? SHARED : NONE;
}

function firstOf({ address }: SharedRegion): number {
  return address / LINE_BYTES;
}

function linesOf(region: SharedRegion): number[] {
  return Array.from({ length: region.bytes / LINE_BYTES }, (_, i) => firstOf(region) + i);
}
