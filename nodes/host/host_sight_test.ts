import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import type { Message } from "../../fabric/node.ts";
import type { HostCard } from "./host_card.ts";
import { HostSight, type SightParts } from "./host_sight.ts";
import { ForeignPages } from "./memory/foreign_pages.ts";

const IIO_PS = 100, INTERRUPT_PS = 3_000;
/** A page that is a process's, and one that is the host's own. */
const FOREIGN = 8192, OWN = 4096;

interface Happens {
  readonly seesReads?: false;
  readonly attach?: true;
  readonly spins?: true;
  readonly shared?: true;
  /** Reads that have begun, and the first write. */
  readonly reads?: readonly { readonly address: number; readonly at: Time }[];
  readonly writeAt?: Time;
}

function sightOf(
  { attach, spins, shared, seesReads, reads = [], writeAt = NEVER }: Happens = {},
): HostSight {
  const foreign = new ForeignPages();
  foreign.map(FOREIGN, { read: () => undefined, write() {}, isWatched: false }, 0);
  const iio = {
    nextDurableAt: writeAt,
    nextReadAt: reads[0]?.at ?? NEVER,
    nextReadOf: (isThere: (from: number, length: number) => boolean) =>
      reads.find(({ address }) => isThere(address, 64))?.at ?? NEVER,
    leastPs: () => IIO_PS,
  };
  const card = { iio, agent: attach && {} } as unknown as HostCard;
  const processor = { hasSpins: spins === true } as SightParts["processor"];
  const timing = { interruptPs: INTERRUPT_PS } as SightParts["timing"];
  return new HostSight({
    cards: [card],
    timing,
    processor,
    foreign,
    sharesRegions: shared === true,
    ...(seesReads === false && { seesReads }),
  });
}

const read = (address: number): Message => ({
  kind: "memory-read",
  tag: 1,
  address,
  length: 64,
  noSnoop: false,
});
const WRITE: Message = {
  kind: "memory-write",
  address: OWN,
  data: new Uint8Array(64),
  noSnoop: false,
};
const INTERRUPT: Message = { kind: "interrupt", vector: 0 };
const REPLY: Message = {
  kind: "reply",
  id: 1,
  reply: { status: "ok", op: "init", address: 1, mac: 1, mtu: 1024 },
};

describe("HostSight", () => {
  it("sees a write where its bytes are visible, an interrupt where it wakes, and all else at once", () => {
    const sight = sightOf();
    assert.equal(sight.seenAfter(WRITE), IIO_PS);
    assert.equal(sight.seenAfter(INTERRUPT), INTERRUPT_PS);
    assert.equal(sight.seenAfter(REPLY), 0);
  });

  it("sees the card's read of a process's memory, whose bytes are those of the instant, and no other", () => {
    const sight = sightOf();
    assert.equal(sight.seenAfter(read(OWN)), NEVER);
    assert.equal(sight.seenAfter(read(FOREIGN)), 0);
    assert.equal(sight.seenAfter(read(FOREIGN - 1)), 0);
    assert.equal(sight.seenAfter(read(FOREIGN + 4096)), NEVER);
  });

  it("sees no read where the thread leaves the memory alone", () => {
    const reads = [{ address: OWN, at: 40 }, { address: FOREIGN, at: 70 }];
    const sight = sightOf({ seesReads: false, reads, writeAt: 90 });
    assert.equal(sight.seenAfter(read(FOREIGN)), NEVER);
    assert.equal(sight.seenAfter(WRITE), IIO_PS);
    assert.deepEqual([sight.sendsAt, sight.nextAt], [40, 90]);
  });

  it("sees each message at once on the coherent bus, beside polls that are passed over, and with shared regions", () => {
    for (const each of [{ attach: true }, { spins: true }, { shared: true }] as const) {
      const sight = sightOf(each);
      const messages: readonly Message[] = [WRITE, INTERRUPT, read(OWN)];
      assert.deepEqual(messages.map((message) => sight.seenAfter(message)), [0, 0, 0]);
    }
  });

  it("ends at the answer of a read of a process's memory and at a write's next piece; other reads only send", () => {
    const reads = [{ address: OWN, at: 40 }, { address: FOREIGN, at: 70 }];
    const sight = sightOf({ reads });
    assert.deepEqual([sight.sendsAt, sight.nextAt], [40, 70]);
    assert.equal(sightOf({ reads, writeAt: 60 }).nextAt, 60);
    assert.deepEqual([sightOf().sendsAt, sightOf().nextAt], [NEVER, NEVER]);
  });
});
