import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { CUT_OFF } from "../link/effect.ts";
import { PORTS, type TraceStep } from "../node.ts";
import { makePlan } from "../rack/assembly/topology.ts";
import { parseScenario } from "../rack/scenario/parse_scenario.ts";
import { variants } from "../rack/scenario/variants.ts";
import { markCongestion } from "../wire/roce/frame_peek.ts";
import { OPCODE } from "../wire/roce/opcode.ts";
import { encodePacket } from "../wire/roce/packet.ts";
import { makeBth } from "../wire/roce/packet_testing.ts";
import { framedSteps } from "./framed_steps.ts";
import type { SeenEvent } from "./instants.ts";
import type { MessageSeen } from "./observation.ts";

const SCENARIO = `
name: three
hosts: { x: {}, y: {} }
`;
/** Nodes: x, x-rnic, y, y-rnic, and a switch. */
const PLAN = makePlan(variants(parseScenario(SCENARIO, "three.yaml"))[0]!);
const placeOf = (name: string) => PLAN.nodes.findIndex((node) => node.name === name);
const SWITCH = PLAN.nodes.find(({ kind }) => kind === "switch")!.name;

function frame(psn: number): Uint8Array<ArrayBuffer> {
  return encodePacket({
    destinationMac: 0x0200_0000_0002,
    sourceMac: 0x0200_0000_0001,
    sourceAddress: 0x0a00_0001,
    destinationAddress: 0x0a00_0002,
    dscp: 0,
    ecn: 2,
    ttl: 64,
    identification: psn,
    udpSourcePort: 0xc242,
    payload: new Uint8Array(16),
    bth: makeBth({ opcode: OPCODE["RC RDMA WRITE ONLY"], destQpn: 0x22, psn }),
    reth: { va: 0n, rkey: 5, length: 16 },
  });
}

/** The switch's port to a card. */
function portTo(card: string): number {
  const cable = PLAN.cables.find(({ a, b }) =>
    [a.node, b.node].includes(card) && a !== b &&
    [a.node, b.node].includes(SWITCH)
  )!;
  return cable.a.node === SWITCH ? cable.a.port : cable.b.port;
}

function passing(
  name: string,
  kind: MessageSeen["kind"],
  at: { readonly port: number; readonly startPs: number; readonly bytes: Uint8Array<ArrayBuffer> },
): MessageSeen {
  const { port, startPs, bytes } = at;
  const node = placeOf(name);
  return {
    kind,
    time: startPs,
    node,
    event: 0,
    port,
    startPs,
    endPs: startPs + 9,
    frame: bytes,
    text: "",
  };
}

function event(name: string, time: number, ...seen: SeenEvent["seen"]): SeenEvent {
  return { time, node: placeOf(name), seen };
}

const SEND: TraceStep = {
  step: "S203",
  text: "sends it",
  psn: 7,
  qpn: 0x11,
  connection: "10.0.0.1:17-10.0.0.2:34",
};

describe("framedSteps", () => {
  it("H-03: gives a request's frame none of the steps that announce it and prepare for it", () => {
    const hint = { ...SEND, step: "hint-out" };
    const step = { kind: "step", time: 1, node: placeOf("x-rnic"), event: 0, step: hint } as const;
    const sent = passing("x-rnic", "sent", {
      port: PORTS.rnicNetwork,
      startPs: 2,
      bytes: frame(7),
    });
    const { lines } = framedSteps(PLAN, [event("x-rnic", 1, step), event("x-rnic", 2, sent)]);
    assert.deepEqual(lines.map(({ frame }) => frame), [undefined]);
  });

  const send = { kind: "step", time: 1, node: placeOf("x-rnic"), event: 0, step: SEND } as const;

  it("follows a step's frame through the switch, that marks it, to its receiver", () => {
    const bytes = frame(7), marked = markCongestion(bytes), other = frame(8);
    const card = { port: PORTS.rnicNetwork };
    const inside = { port: portTo("x-rnic") }, outside = { port: portTo("y-rnic") };
    const { lines, frames } = framedSteps(PLAN, [
      event("x-rnic", 1, send),
      event("x-rnic", 2, passing("x-rnic", "sent", { ...card, startPs: 10, bytes: other })),
      event("x-rnic", 3, passing("x-rnic", "sent", { ...card, startPs: 20, bytes })),
      event(SWITCH, 30, passing(SWITCH, "received", { ...inside, startPs: 30, bytes: other })),
      event(SWITCH, 40, passing(SWITCH, "received", { ...inside, startPs: 40, bytes })),
      event(SWITCH, 50, passing(SWITCH, "sent", { ...outside, startPs: 50, bytes: marked })),
      event("y-rnic", 60, passing("y-rnic", "received", { ...card, startPs: 60, bytes: marked })),
    ]);
    assert.deepEqual(lines.map(({ step, node, frame }) => [step, node, frame]), [
      ["S203", "x-rnic", 1],
    ]);
    const ways = frames.map(({ passes }) => passes.map(({ node, startPs }) => [node, startPs]));
    assert.deepEqual(ways, [
      [["x-rnic", 10], [SWITCH, 30]],
      [["x-rnic", 20], [SWITCH, 40], [SWITCH, 50], ["y-rnic", 60]],
    ]);
    assert.equal(frames[1]!.bytes, bytes);
  });

  it("says what a cable does to a frame, and does not wait for one that it loses", () => {
    const bytes = frame(7), again = frame(7);
    const card = { port: PORTS.rnicNetwork };
    const lost = { ...passing("x-rnic", "sent", { ...card, startPs: 10, bytes }), effect: CUT_OFF };
    const { frames } = framedSteps(PLAN, [
      event("x-rnic", 1, send, lost),
      event("x-rnic", 2, passing("x-rnic", "sent", { ...card, startPs: 20, bytes: again })),
      event(
        SWITCH,
        30,
        passing(SWITCH, "received", {
          port: portTo("x-rnic"),
          startPs: 30,
          bytes: again,
        }),
      ),
    ]);
    assert.equal(frames[0]!.passes[0]!.effect, "lost by the cable here (cut)");
    assert.deepEqual(frames.map(({ passes }) => passes.length), [1, 2]);
  });
});
