import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { QUEUE_PLAN } from "../../../fabric/rack/plan/queue_plan.ts";
import {
  CARD_MEMORY_BASE,
  CARD_MEMORY_BYTES,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import { layOut, PLACEMENTS } from "../../../fabric/wire/host_bus/queue_placement.ts";
import { HostRig, pattern, RIG_TIMING } from "../testing/host_testing.ts";
import { AddressFault } from "./address_map.ts";
import { CardMemory } from "./card_memory.ts";
import { QueueGuard } from "./queue_guard.ts";

const END = CARD_MEMORY_BASE + CARD_MEMORY_BYTES;
const START = 2_000_000;

describe("CardMemory", () => {
  const memory = () => new CardMemory(new QueueGuard(layOut(PLACEMENTS.default, "areas")));

  it("Q-03: has a message of each line that a store touches, with its bytes as they were", () => {
    const card = memory(), bytes = pattern(100), at = CARD_MEMORY_BASE + 40;
    const messages = card.store(at, bytes, "p#0");
    bytes.fill(0);
    assert.deepEqual(messages.map(({ offset, data }) => [offset - at, data.length]), [
      [0, 24],
      [24, 64],
      [88, 12],
    ]);
    assert.deepEqual(messages.flatMap(({ data }) => [...data]), [...pattern(100)]);
    assert.equal(card.stores, 3);
  });

  it("Q-04: knows programs by numbers, the same ones each time", () => {
    const card = memory();
    const by = ["p#0", "q#0", "p#0"].map((name) =>
      card.store(CARD_MEMORY_BASE, pattern(1), name)[0]!.by
    );
    assert.deepEqual([by, card.numberOf("q#0"), card.numberOf("r#0")], [[0, 1, 0], 1, 2]);
  });

  it("refuses loads and stores that leave the window, and sends and counts nothing then", () => {
    const card = memory();
    for (const [at, length] of [[END - 7, 8], [CARD_MEMORY_BASE - 1, 8]] as const) {
      assert.throws(() => card.load(at, length), AddressFault);
      assert.throws(() => card.store(at, pattern(length), "p#0"), AddressFault);
    }
    card.load(END - 8, 8);
    assert.deepEqual([card.loads, card.stores], [1, 0]);
  });
});

describe("Cpu.read of the card's memory", () => {
  const queuePlan = { ...QUEUE_PLAN, store: "device" } as const;

  function reading(isUp: boolean): { readonly found: unknown[]; readonly rig: HostRig } {
    const found: unknown[] = [];
    const rig = new HostRig({ queuePlan }, {
      programs: {
        *reads(cpu) {
          yield* cpu.sleep(START - cpu.now);
          found.push([...(yield* cpu.read(CARD_MEMORY_BASE, 4))], cpu.now - START);
        },
      },
    });
    rig.run(START - 1);
    if (!isUp) rig.step({ kind: "link", port: 0, up: false });
    return { found, rig };
  }

  it("has all bits set where there is no card, and waits for none", () => {
    const { found, rig } = reading(false);
    rig.run();
    assert.deepEqual(found[0], [255, 255, 255, 255]);
    assert.ok((found[1] as number) <= RIG_TIMING.mmioPs);
    assert.deepEqual(rig.sent, []);
  });

  it("has all bits set where the card fails before it answers", () => {
    const { found, rig } = reading(true);
    rig.run(START + RIG_TIMING.mmioPs);
    assert.deepEqual(rig.sent.map(({ message }) => message.kind), ["register-read"]);
    rig.run(START + 500_000);
    assert.deepEqual(found, []);
    rig.step({ kind: "link", port: 0, up: false });
    rig.run();
    assert.deepEqual(found, [[255, 255, 255, 255], 500_000]);
  });
});
