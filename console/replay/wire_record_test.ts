import { deepEqual as same, equal } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import type { MessageSeen } from "../../fabric/capture/observation.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { type Direction, WireRecord } from "./wire_record.ts";

const LATENCY_PS = 100, RECENT_PS = 7;
const CABLE = {
  ...{ a: { node: "a", port: 0 }, b: { node: "b", port: 0 } },
  ...{ kind: "network", latencyPs: LATENCY_PS },
};
const PLAN = { nodes: [], addresses: {}, cables: [CABLE] } as unknown as RackPlan;

/** A cable with frames that leave in a row, each so much later than usual (Infinity: never). */
function recordOf(latePs: readonly number[]): { wire: WireRecord; direction: Direction } {
  const wire = new WireRecord(PLAN, RECENT_PS);
  for (const [i, late] of latePs.entries()) {
    const startPs = 10 * i, frame = Uint8Array.of(i, i, i);
    const effect = { says: ["late"], copies: late === Infinity ? 0 : 1, latePs: late };
    const seen = {
      ...{ kind: "sent", port: 0, startPs, endPs: startPs + 5, frame },
      ...(late > 0 && { effect }),
    };
    wire.frame("a", seen as unknown as MessageSeen, i);
  }
  return { wire, direction: wire.directionOf("a", 0)! };
}

it("WireRecord: what is forgotten before an instant matters to none from it on", () => {
  for (const latePs of [[0, 0, 0], [0, 40, 0, 0], [25, 0, 0], [Infinity, 0, 0], [0, 0, Infinity]]) {
    // Among them each instant at which a frame leaves, is on the cable as a whole, or arrives.
    for (let at = 0; at <= 200; at++) {
      const whole = recordOf(latePs), short = recordOf(latePs);
      short.wire.forgetBefore(at);
      for (const time of [at, at + 1, at + 30]) {
        const state = short.wire.stateOf(short.direction, time);
        same(state, whole.wire.stateOf(whole.direction, time), `${latePs}: ${at}, ${time}`);
      }
    }
  }
});

it("WireRecord forgets what has arrived, and keeps what arrives at the instant", () => {
  const { wire, direction } = recordOf([0, 0, 0]);
  // The first one is sent by 5, and arrives at 105.
  wire.forgetBefore(105);
  equal(direction.forgotten, 0);
  wire.forgetBefore(106);
  equal(direction.forgotten, 1);
  equal(direction.forgottenBytes, 3);
  wire.forgetBefore(1000);
  equal(direction.forgotten, 3);
  equal(direction.startPs.length, 0);
});
