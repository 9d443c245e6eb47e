/** Translations of registered memory: one entry (mlx5: MTT) per page of a region. */

/** An entry in memory, and a line, which one DMA read brings. */
export const ENTRY_BYTES = 8;
export const ENTRIES_PER_LINE = 8;
export const LINE_BYTES = ENTRY_BYTES * ENTRIES_PER_LINE;

/** No page; an address in it is negative, too. */
export const ABSENT = -(2 ** 52);

export interface TranslationTable {
  id: number;
  readonly key: number;
  readonly pages: number[];
  readonly demand: PageRights[] | undefined;
  readonly lines: number;
  /** Lines that are not on the chip are read here. */
  address: number | undefined;
  /** A line that was read before a change is out of date. */
  version: number;
}

/**
 * @param memory pinned pages, or the number of on-demand ones.
 */
export function createTable(
  key: number,
  memory: { readonly given: readonly number[] } | { readonly pages: number },
): TranslationTable {
  const pages = "given" in memory
    ? memory.given as number[]
    : new Array<number>(memory.pages).fill(ABSENT);
  return {
    id: 0,
    key,
    pages,
    demand: "given" in memory
      ? undefined
      : Array.from(pages, (): PageRights => ({ rights: 0, asked: 0 })),
    lines: Math.ceil(pages.length / ENTRIES_PER_LINE),
    address: undefined,
    version: 0,
  };
}

export interface PageRights {
  /** 0 absent, 1 read, 2 write as well. */
  rights: 0 | 1 | 2;
  /** Rights asked of the host; 0: none. */
  asked: 0 | 1 | 2;
  /** The hint that has asked for the page, until a request needs it (H-24). */
  hint?: HintRequest | undefined;
}

export interface HintRequest {
  /** The requester's address, until a request needs one of the pages. */
  hintsOf: number | undefined;
  raised: boolean;
}
