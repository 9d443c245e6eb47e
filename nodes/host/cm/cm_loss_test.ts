/**
 * Two connection managers with a network between them that loses, doubles and delays: whatever happens
 * to whichever message, both ends agree in the end, and each program is notified once.
 */
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  type CmType,
  gidOfAddress,
  REJECT_REASON,
  TRANSPORT_SERVICE,
} from "../../../fabric/wire/roce/cm.ts";
import { endListening } from "./cm_agent.ts";
import { addEndpoint, type CmOutput, expectAnswer } from "./cm_state.ts";
import { type Fate, LATENCY_PS, reqOf, RETRY, type Rule, World } from "./cm_loss_testing.ts";

/** The first `count` messages of a type meet with this. */
function only(type: CmType, fate: Fate, count = 1): Rule {
  return (message, index) => message.type === type && index < count ? fate : "pass";
}

const FATES: readonly (readonly [name: string, fate: Fate])[] = [
  ["lost", "drop"],
  ["doubled", "twice"],
  ["late, behind what is sent again", { delayPs: 700_000_000 }],
  ["very late", { delayPs: 2_500_000_000 }],
];

describe("connection set-up over a network that", () => {
  for (const type of ["REQ", "REP", "RTU"] as const) {
    for (const [name, fate] of FATES) {
      it(`${type} ${name}: both ends stand, and the service is told of one connection`, () => {
        const world = new World();
        world.rule = only(type, fate);
        world.connect();
        world.run();
        same(world.phases(), ["established", "established"]);
        same(world.events, ["request", "established"]);
        same([world.a.endpoints.size, world.b.endpoints.size], [1, 1]);
      });
    }

    it(`${type} lost twice of three times: the third one does it`, () => {
      const world = new World();
      world.rule = only(type, "drop", 2);
      world.connect();
      world.run();
      same(world.phases(), ["established", "established"]);
    });
  }

  it("never lets a REQ through: time-out at the one end, nothing at the other", () => {
    const world = new World();
    world.rule = ({ type }) => type === "REQ" ? "drop" : "pass";
    world.connect();
    world.run();
    same(world.active.end, { kind: "timeout" });
    same(world.events, []);
    equal(world.now, 3 * RETRY.timeoutPs + LATENCY_PS);
  });

  it("never lets a REP through: both ends give up, the service is notified", () => {
    const world = new World();
    world.rule = ({ type }) => type === "REP" ? "drop" : "pass";
    world.connect();
    world.run();
    same(world.phases(), ["closed", "closed"]);
    same(world.events, ["request", "closed"]);
    same([world.a.endpoints.size, world.b.endpoints.size], [0, 0]);
  });

  it("never lets a RTU through: the passive end reports that, and neither end is established", () => {
    const world = new World();
    world.rule = ({ type }) => type === "RTU" ? "drop" : "pass";
    world.connect();
    world.run();
    same(world.phases(), ["closed", "closed"]);
    const { end } = world.active;
    ok(end?.kind === "rejected" && end.message.reason === REJECT_REASON.timeout);
  });
});

describe("refusals over such a network", () => {
  for (
    const [type, name, fate] of [
      ["REJ", "lost", "drop"],
      ["REJ", "doubled", "twice"],
      ["REQ", "doubled", "twice"],
      ["REQ", "late", { delayPs: 700_000_000 }],
    ] as const
  ) {
    it(`${type} ${name}: the service is asked once, and its word is repeated`, () => {
      const world = new World({ rejects: true });
      world.rule = only(type, fate);
      world.connect();
      world.run();
      const { end } = world.active;
      ok(end?.kind === "rejected" && end.message.reason === REJECT_REASON.consumer);
      same(world.events, ["request"]);
      equal(world.b.endpoints.size, 0);
    });
  }

  it("no such service, and no such transport: refused with the reason", () => {
    for (
      const [change, reason] of [
        [{ serviceId: 78n }, REJECT_REASON.invalidServiceId],
        [{ transportService: TRANSPORT_SERVICE.rd }, REJECT_REASON.invalidTransport],
      ] as const
    ) {
      const world = new World();
      world.connect(change);
      world.run();
      const { end } = world.active;
      ok(end?.kind === "rejected" && end.message.reason === reason);
    }
  });

  it("a request with another host's address is dropped", () => {
    const world = new World();
    world.connect({ primaryLocalGid: gidOfAddress(0x0a00_0009) });
    world.run();
    same([world.active.end, world.events], [{ kind: "timeout" }, []]);
  });
});

describe("a slow program", () => {
  it("that accepts after the last REQ would have timed out: MRA has held the peer", () => {
    const world = new World({ thinkPs: 3_000_000_000 });
    world.connect();
    world.run();
    same(world.phases(), ["established", "established"]);
    ok(world.sent.includes("MRA"));
  });

  it("that takes its time to bring its queue pair up: MRA holds the peer's REP", () => {
    const world = new World({ bringUpPs: 3_000_000_000 });
    world.connect();
    world.run();
    same(world.phases(), ["established", "established"]);
    same(world.events, ["request", "established"]);
  });

  it("that never answers: the peer gives up after the service time-out, and says so", () => {
    const world = new World({ thinkPs: 30_000_000_000 });
    world.connect();
    world.run();
    same(world.active.end, { kind: "timeout" });
    same(world.phases(), ["closed", "closed"]);
    same(world.events, ["request"], "a request that is gone is not told");
  });

  it("a lost MRA is said again for the next REQ", () => {
    const world = new World({ thinkPs: 3_000_000_000 });
    world.rule = only("MRA", "drop");
    world.connect();
    world.run();
    same(world.phases(), ["established", "established"]);
  });
});

describe("the end of a connection over such a network", () => {
  function standing(): World {
    const world = new World();
    world.connect();
    world.run();
    return world;
  }

  for (const side of ["a", "b"] as const) {
    for (const type of ["DREQ", "DREP"] as const) {
      for (const [name, fate] of FATES) {
        it(`${type} ${name}, begun by ${side}: both ends are closed, and told once`, () => {
          const world = standing();
          world.rule = only(type, fate);
          world.disconnect(side);
          world.run();
          same(world.phases(), ["closed", "closed"]);
          same(world.events, ["request", "established", "closed"]);
          same([world.a.endpoints.size, world.b.endpoints.size], [0, 0]);
        });
      }
    }
  }

  it("both at once", () => {
    const world = standing();
    world.disconnect("a");
    world.disconnect("b");
    world.run();
    same(world.phases(), ["closed", "closed"]);
  });

  for (
    const [side, phase] of [["a", "req-sent"], ["a", "rep-received"], ["b", "rep-sent"]] as const
  ) {
    for (const type of ["REQ", "REP", "RTU", "REJ", "DREQ", "DREP"] as const) {
      for (const [name, fate] of [["passed", "pass"], ...FATES] as const) {
        it(`begun by ${side} in ${phase}, ${type} ${name}: no end stays, each program is told once`, () => {
          const world = new World({ bringUpPs: 10_000_000, thinkPs: 5_000_000 });
          world.rule = only(type, fate);
          world.connect();
          const endpoint = () => side === "a" ? world.active : world.passive;
          world.runUntil(() => endpoint()?.phase === phase);
          world.disconnect(side);
          world.run();
          same([world.a.endpoints.size, world.b.endpoints.size], [0, 0]);
          equal(world.active.phase, "closed");
          const closed = world.events.filter((event) => event === "closed").length;
          ok(closed <= 1, `${world.events}`);
          // The passive program is told, unless its request ended before it was answered.
          if (side === "b") equal(closed, 1);
        });
      }
    }
  }

  it("begun before the RTU sends a DREQ behind it, and no end of it is established for ever", () => {
    const world = new World({ bringUpPs: 10_000_000 });
    world.connect();
    world.runUntil(() => world.passive?.phase === "rep-sent");
    world.disconnect("b");
    world.run();
    same(world.sent, ["REQ", "REP", "RTU", "DREQ", "DREP"]);
    same([world.active.end, world.passive?.end], [{ kind: "disconnected" }, {
      kind: "disconnected",
    }]);
  });

  it("begun while the REQ is on its way: a REJ (time-out), and the REP is refused", () => {
    const world = new World({ thinkPs: 5_000_000 });
    world.connect();
    world.disconnect("a");
    world.run();
    same(world.sent, ["REQ", "REJ"]);
    same([world.active.end, world.b.endpoints.size], [{ kind: "disconnected" }, 0]);
  });

  it("with a peer that is dead: given up after the tries", () => {
    const world = standing();
    world.rule = () => "drop";
    world.disconnect("a");
    world.run();
    same(world.active.end, { kind: "timeout" });
  });

  it("a copy of the REQ that comes when all is over makes no new connection", () => {
    const world = standing();
    world.disconnect("a");
    world.run();
    world.send("b", reqOf(world.active));
    world.run();
    same(world.events, ["request", "established", "closed"]);
    equal(world.b.endpoints.size, 0);
  });
});

describe("the end of listening", () => {
  it("refuses what is not answered and what comes later; the connection stands", () => {
    const world = new World();
    world.connect();
    world.run();
    const later = addEndpoint(world.a, {
      peerAddress: world.active.peerAddress,
      transactionId: 100n,
      listener: undefined,
      retry: RETRY,
      req: undefined,
    });
    const output: CmOutput = { send: [], signals: new Set() };
    endListening(world.b, world.listener, { now: world.now, output });
    same([output.send, [...output.signals]], [[], ["s"]]);
    const message = reqOf(later);
    expectAnswer(world.a, later, { message, now: world.now, phase: "req-sent" });
    world.send("b", message);
    world.run();
    ok(later.end?.kind === "rejected");
    equal(later.end.message.reason, REJECT_REASON.invalidServiceId);
    same(world.phases(), ["established", "established"]);
    same(world.events, ["request", "established", "ended"]);
  });

  it("refuses a request that its program has not answered", () => {
    const world = new World({ thinkPs: 5_000_000 });
    world.connect();
    world.runUntil(() => world.passive !== undefined);
    const output: CmOutput = { send: [], signals: new Set() };
    endListening(world.b, world.listener, { now: world.now, output });
    for (const { message } of output.send) world.send("a", message);
    world.run();
    ok(world.active.end?.kind === "rejected");
    equal(world.active.end.message.reason, REJECT_REASON.invalidServiceId);
    equal(world.b.endpoints.size, 0);
  });
});
