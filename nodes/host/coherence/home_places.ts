/**
 * The places of a home's regions in its memory: their lines, and the virtual addresses that plain
 * accesses must not use.
 */
import { fail } from "../../../fabric/base/assert.ts";
import {
  directoryBytes,
  SCM_BASE,
  type SharedRegion,
} from "../../../fabric/rack/plan/shared_region.ts";
import { AddressFault, type AddressMap } from "../memory/address_map.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";

/** Virtual addresses [from, to) of a region, with its directory in SCM. */
interface Place {
  readonly region: SharedRegion;
  readonly from: number;
  readonly to: number;
}

export interface RegionLine {
  readonly region: SharedRegion;
  readonly line: number;
}

export class HomePlaces {
  readonly #places: readonly Place[];

  /** Regions in DRAM take the memory that the plan has for them before all other allocations. */
  constructor(regions: readonly SharedRegion[], map: AddressMap) {
    this.#places = regions.map((region) => placeOf(map, region));
  }

  get regions(): SharedRegion[] {
    return this.#places.map(({ region }) => region);
  }

  get isEmpty(): boolean {
    return this.#places.length === 0;
  }

  at(number: number): RegionLine | undefined {
    const address = number * LINE_BYTES;
    for (const { region } of this.#places) {
      const line = (address - region.address) / LINE_BYTES;
      if (line >= 0 && address < region.address + region.bytes) return { region, line };
    }
    return undefined;
  }

  /** @throws AddressFault where a plain access would touch a region: its lines may be elsewhere (decision 1). */
  refusePlain(address: number, length: number): void {
    for (const { region, from, to } of this.#places) {
      if (address >= to || address + length <= from) continue;
      const where = `${length} B at 0x${address.toString(16)}`;
      throw new AddressFault(
        `Cannot access ${where} by plain instructions: they are of region ${region.name}, whose ` +
          `lines other hosts may have: expected const r = yield* cpu.region("${region.name}"), ` +
          `then yield* r.load or r.store at ${Math.max(0, address - from)}`,
      );
    }
  }
}

function placeOf(map: AddressMap, region: SharedRegion): Place {
  const { memory, address, bytes } = region;
  if (memory === "scm") {
    const from = map.scm.address + address - SCM_BASE;
    return { region, from, to: from + bytes + directoryBytes(region) };
  }
  const buffer = map.allocateContiguous(bytes);
  if (buffer.pages[0] !== address) fail(`Region ${region.name} is not where the plan has it`);
  return { region, from: buffer.address, to: buffer.address + bytes };
}
