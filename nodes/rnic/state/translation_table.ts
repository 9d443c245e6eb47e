/** Translations of registered memory: a table of one entry (mlx5: MTT) for each page of a region. */

/** One entry in memory, and what one DMA read brings: a line of the host's memory. */
export const ENTRY_BYTES = 8;
export const ENTRIES_PER_LINE = 8;
export const LINE_BYTES = ENTRY_BYTES * ENTRIES_PER_LINE;

/** In {@link TranslationTable.pages}: there is no page. An address in it is negative, too. */
export const ABSENT = -(2 ** 52);

/** The translations of a region, which its windows share. */
export interface TranslationTable {
  /** Assigned when the card takes it in. */
  id: number;
  readonly key: number;
  /** Physical address of each page, or {@link ABSENT}. */
  readonly pages: number[];
  /** Of an on-demand region: the rights of each page. Undefined where all of it is pinned. */
  readonly demand: PageRights[] | undefined;
  readonly lines: number;
  /** Its entries in host memory, from which the card reads lines that are not on the chip. */
  address: number | undefined;
  /** Counts changes of entries: a line that was read before one is out of date. */
  version: number;
}

/** @param memory the pages of a pinned region, or how many an on-demand one has. */
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
  /** 0 absent, 1 may be read, 2 may be written as well. */
  rights: 0 | 1 | 2;
  /** Asked of the host, with these rights; 0: not. */
  asked: 0 | 1 | 2;
  /** The page request by which hints have asked for it (H-24), while no request has needed it. */
  hint?: HintRequest | undefined;
}

export interface HintRequest {
  /**
   * Address of their requester; undefined once a request needs one of its pages: the page request is that request's
   * from then on.
   */
  hintsOf: number | undefined;
  raised: boolean;
}
