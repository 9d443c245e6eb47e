/**
 * IOMMU: a card, each with a domain of its own, reaches only pages that its driver has mapped. One IOTLB serves all; a
 * miss costs a walk of the page table. Devices use physical addresses: the IOMMU adds isolation and cost.
 *
 * Source of both numbers: Neugebauer et al., SIGCOMM'18: an access that misses takes 227 to 294 ns
 * more, and misses begin where a window exceeds 256 KiB, 64 pages of 4 KiB.
 */
import type { Time } from "../../../fabric/base/time.ts";
import { DRAM_PAGE_BYTES, SCM_BASE } from "./address_map.ts";
import { pagesOf } from "./page_table.ts";

const DOMAIN_SPAN = 2 ** 48;

export class Iommu {
  hits = 0;
  misses = 0;
  faults = 0;
  readonly #entries: number;
  readonly #missPs: Time;
  readonly #scmPageBytes: number;
  readonly #mapped = new Map<number, number>();
  readonly #iotlb = new Set<number>();

  constructor(options: {
    readonly iotlb: number;
    readonly missPs: Time;
    readonly scmPageBytes: number;
  }) {
    this.#entries = options.iotlb;
    this.#missPs = options.missPs;
    this.#scmPageBytes = options.scmPageBytes;
  }

  /** A page that is mapped twice has to be unmapped twice. */
  map(pages: readonly number[], card = 0): void {
    for (const page of pages) {
      const entry = card * DOMAIN_SPAN + page;
      this.#mapped.set(entry, (this.#mapped.get(entry) ?? 0) + 1);
    }
  }

  unmap(pages: readonly number[], card = 0): void {
    for (const page of pages) {
      const entry = card * DOMAIN_SPAN + page;
      const left = (this.#mapped.get(entry) ?? 0) - 1;
      if (left > 0) this.#mapped.set(entry, left);
      else {
        this.#mapped.delete(entry);
        this.#iotlb.delete(entry);
      }
    }
  }

  /**
   * @returns the time of the translation; undefined where the access is refused.
   */
  translate(address: number, length: number, card = 0): Time | undefined {
    const pageBytes = address >= SCM_BASE ? this.#scmPageBytes : DRAM_PAGE_BYTES;
    let cost = 0;
    for (const at of pagesOf(address, length, pageBytes)) {
      const page = card * DOMAIN_SPAN + at;
      if (!this.#mapped.has(page)) {
        this.faults++;
        return undefined;
      }
      if (this.#iotlb.delete(page)) this.hits++;
      else {
        this.misses++;
        cost += this.#missPs;
        if (this.#iotlb.size >= this.#entries) {
          const [oldest] = this.#iotlb;
          this.#iotlb.delete(oldest!);
        }
      }
      this.#iotlb.add(page);
    }
    return cost;
  }
}
