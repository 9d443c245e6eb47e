/**
 * What rdma-core has calls for and the cards have not, each with its reason: for the pages FROM_LIBIBVERBS.md and
 * NATIVE.md of `scripts/scenarios/`, and for rdma-core's tests that skip for it (`rack verbs-test`).
 */

export interface Absent {
  readonly what: string;
  readonly why: string;
}

export const ABSENT = {
  xrc: {
    what: "XRC",
    why:
      "its shared receive queue changes who acknowledges, of which no card's timing is published",
  },
  cardMemory: {
    what: "memory of the card for programs (ibv_alloc_dm)",
    why: "published measurements of it are about one card",
  },
  rawPackets: {
    what: "raw packets, flow rules, scaling over queues",
    why: "frames that are not RoCE have no receiver here",
  },
  dmabuf: { what: "dma-buf", why: "no device has memory of its own" },
  allAddresses: {
    what: "on-demand regions of all addresses (implicit)",
    why: "a region is a range of addresses",
  },
  tags: {
    what: "tag matching, flow tags",
    why: "one vendor's cards alone have it",
  },
} as const satisfies Readonly<Record<string, Absent>>;

/** For a table or a message. */
export const absentText = ({ what, why }: Absent): string => `${what}: ${why}`;
