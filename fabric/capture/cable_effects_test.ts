import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { CableEffect } from "../link/effect.ts";
import { CableEffects, type FrameAtEnd, type FrameMark, remarkText } from "./cable_effects.ts";

const LATENCY = 1_000;
const DELAYED: CableEffect = { says: ["delayed"], copies: 1, latePs: 5_000 };
const DOUBLED: CableEffect = { says: ["doubled"], copies: 2, latePs: 0 };
const HELD: CableEffect = { says: ["held"], copies: 1, latePs: 0 };

describe("CableEffects", () => {
  /** One cable; its frames are numbered in the order of the calls. */
  function cable() {
    const effects = new CableEffects(LATENCY);
    let number = 0;
    const frame = (startPs: number, byte: number): FrameAtEnd => ({
      startPs,
      bytes: Uint8Array.of(byte, 1),
      mark: { number: ++number } satisfies FrameMark,
    });
    return {
      sent: (startPs: number, byte: number, effect?: CableEffect) =>
        effects.sent(frame(startPs, byte), effect).map(remarkText),
      received: (startPs: number, byte: number) =>
        effects.received(frame(startPs, byte)).map(remarkText),
    };
  }

  it("names the original for both copies", () => {
    const { sent, received } = cable();
    assert.deepEqual(sent(0, 7, DOUBLED), ["doubled"]);
    assert.deepEqual(sent(10, 8), []);
    assert.deepEqual(received(1_000, 7), ["doubled, left as frame 1"]);
    assert.deepEqual(received(1_001, 7), ["duplicate of frame 3"]);
    assert.deepEqual(received(1_010, 8), []);
    assert.deepEqual(received(1_020, 7), [], "a third one is none of its");
  });

  it("knows a damaged frame by what arrives", () => {
    const { sent, received } = cable();
    const damaged = Uint8Array.of(9, 1);
    assert.deepEqual(sent(0, 7, { says: ["corrupted"], copies: 1, latePs: 0, damaged }), [
      "corrupted",
    ]);
    assert.deepEqual(received(1_000, 7), [], "not by what was sent");
    assert.deepEqual(received(1_000, 9), ["corrupted, left as frame 1"]);
  });

  it("awaits nothing of a frame that is lost", () => {
    const { sent, received } = cable();
    assert.deepEqual(sent(0, 7, { says: ["lost"], copies: 0, latePs: 0 }), ["lost"]);
    sent(100, 7);
    assert.deepEqual(received(1_100, 7), []);
  });

  it("does not take a frame that is sent again for the one like it that is late", () => {
    const { sent, received } = cable();
    sent(0, 7, DELAYED);
    sent(2_000, 7);
    assert.deepEqual(received(3_000, 7), [], "the first cannot be there yet");
    assert.deepEqual(received(6_000, 7), ["delayed, left as frame 1"]);
  });

  it("takes the first of two alike for the late one where a delay keeps their order", () => {
    const { sent, received } = cable();
    sent(0, 7, DELAYED);
    sent(2_000, 7);
    assert.deepEqual(received(6_000, 7), ["delayed, left as frame 1"]);
    assert.deepEqual(received(6_001, 7), []);
  });

  it("takes the one that has overtaken another like it for the later one", () => {
    const { sent, received } = cable();
    sent(0, 7, HELD);
    sent(500, 7);
    assert.deepEqual(received(1_500, 7), []);
    assert.deepEqual(received(1_600, 7), ["held, left as frame 1"]);
  });
});
