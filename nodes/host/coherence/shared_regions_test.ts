/** A host whose regions are at home, while its card dies and another comes: the test plays the card. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import {
  REGION_SIZES,
  SCM_BASE,
  type SharedRegion,
} from "../../../fabric/rack/plan/shared_region.ts";
import type { BusKind } from "../../../fabric/wire/host_bus/region_messages.ts";
import { HostRig } from "../testing/host_testing.ts";

const LINE_AT = SCM_BASE;
const REGION: SharedRegion = {
  ...REGION_SIZES,
  id: 0,
  name: "s",
  home: { host: "a", address: 0x0a00_0001 },
  far: [{ host: "b", address: 0x0a00_0002, agent: 1 }],
  memory: "scm",
  address: LINE_AT,
  bytes: 256,
  placement: "remote",
  leasePs: 1000 * PS_PER_US,
  leaseMarginPs: 100 * PS_PER_US,
  homeWaitPs: 1100 * PS_PER_US,
};
/** The card's death, and when what it had lent is lost. */
const DEAD_US = 10, LOST_US = DEAD_US + 1100;

/** The host at {@link DEAD_US} + 10 µs: the dead card had line 0 alone, and a new card has power. */
function restarted(): { rig: HostRig; ask: (us: number, op: BusKind, line?: number) => void } {
  const rig = new HostRig({ shared: [REGION] });
  const ask = (us: number, op: BusKind, line = 0) =>
    rig.arrive(us * PS_PER_US, { kind: "line", op, address: LINE_AT + 64 * line });
  const linkAt = (us: number, up: boolean) => {
    rig.run(us * PS_PER_US);
    rig.step({ kind: "link", port: 0, up });
  };
  ask(5, "RdInvOwn");
  linkAt(DEAD_US, false);
  linkAt(DEAD_US + 10, true);
  return { rig, ask };
}

function sentIn(rig: HostRig, fromUs: number): { op: string; us: number; data: unknown }[] {
  return rig.sent.flatMap(({ departAt, message }) =>
    message.kind === "line" && departAt >= fromUs * PS_PER_US
      ? [{ op: message.op, us: Math.floor(departAt / PS_PER_US), data: message.data }]
      : []
  );
}

describe("HostRegions", () => {
  it("C-10, decision 14: what a new card asks for while the old one's leases last is answered when they are over", () => {
    const { rig, ask } = restarted();
    ask(30, "RdInvOwn");
    ask(31, "RdData", 1);
    rig.run((LOST_US + 10) * PS_PER_US);
    const told = sentIn(rig, DEAD_US).map(({ op, us }) => ({ op, us }));
    assert.deepEqual(told, [{ op: "GrantE", us: LOST_US }, { op: "GrantS", us: LOST_US }]);
    const [grant] = sentIn(rig, DEAD_US);
    assert.equal(grant!.data, "lost", "nothing old is lent");
  });

  it("C-10, decision 12: a host that is back looks for losses right before its leases end, behind what its card brings", () => {
    const region: SharedRegion = { ...REGION, directory: "memory" };
    const rig = new HostRig({ shared: [region], domain: "wsp" }, { options: { life: 1 } });
    rig.run((LOST_US + 10) * PS_PER_US);
    assert.ok(rig.steps < 100, `${rig.steps} steps, none of which is for nothing`);
  });

  it("C-10: a card that dies before that gets no answer, and its successor does after its leases", () => {
    const { rig, ask } = restarted();
    ask(30, "RdInvOwn", 1);
    for (const [us, up] of [[40, false], [50, true]] as const) {
      rig.run(us * PS_PER_US);
      rig.step({ kind: "link", port: 0, up });
    }
    ask(60, "RdData", 2);
    rig.run((LOST_US + 100) * PS_PER_US);
    const told = sentIn(rig, DEAD_US).map(({ op, us }) => ({ op, us }));
    assert.deepEqual(told, [{ op: "GrantS", us: LOST_US + 30 }]);
  });

  it("decision 14: a core's access while leases last sends no snoop to a card that knows nothing of the line", () => {
    const ended: unknown[] = [];
    const rig = new HostRig({ shared: [REGION] }, {
      programs: {
        *a(cpu) {
          const s = yield* cpu.region("s");
          yield* cpu.sleep(50 * PS_PER_US - cpu.now);
          try {
            yield* s.load(0, 8);
          } catch (error) {
            ended.push((error as Error).name);
          }
        },
      },
    });
    rig.arrive(5 * PS_PER_US, { kind: "line", op: "RdInvOwn", address: LINE_AT });
    for (const [us, up] of [[DEAD_US, false], [DEAD_US + 10, true]] as const) {
      rig.run(us * PS_PER_US);
      rig.step({ kind: "link", port: 0, up });
    }
    rig.run((LOST_US + 10) * PS_PER_US);
    assert.deepEqual(sentIn(rig, DEAD_US), []);
    assert.deepEqual(ended, ["RegionLost"]);
  });
});

const FAR: SharedRegion = {
  ...REGION,
  home: { host: "b", address: 0x0a00_0002 },
  far: [{ host: "a", address: 0x0a00_0001, agent: 1 }],
};

describe("a far host's store in a store buffer", () => {
  /** The card knows the region no more when the store leaves, and home takes it back in, or does not. */
  function refused(isTakenBack: boolean): { ended: string[]; registrations: number } {
    const ended: string[] = [];
    const rig = new HostRig({ shared: [FAR], memory: "tso" }, {
      programs: {
        *a(cpu) {
          const s = yield* cpu.region("s");
          yield* s.store(0, new Uint8Array(8));
          // A plain store waits behind it, but fails where it is made.
          assert.throws(() => cpu.store(2 ** 50, new Uint8Array(8)));
          for (let call = 0; call < 2; call++) {
            try {
              yield* s.fence();
              ended.push("done");
            } catch (error) {
              ended.push((error as Error).name);
            }
          }
        },
      },
    });
    let answered = 0, registrations = 0, stores = 0;
    const yes = { status: "ok", op: "done" } as const;
    const no = { status: "error", errno: "EPERM", reason: "home has taken it back" } as const;
    for (let left = 1000; left > 0 && rig.nextAt <= 500 * PS_PER_US && rig.next(); left--) {
      for (const { message } of rig.sent.slice(answered)) {
        answered++;
        const at = rig.now + PS_PER_US;
        if (message.kind === "command") {
          const isGood = registrations++ === 0 || isTakenBack;
          rig.arrive(at, { kind: "reply", id: message.id, reply: isGood ? yes : no });
        } else if (message.kind === "far-access") {
          const result = stores++ === 0 ? "refused" : "done";
          rig.arrive(at, { kind: "far-answer", tag: message.tag, result });
        }
      }
    }
    return { ended, registrations };
  }

  it("decision 16: is done after another registration, and refused for good where home refuses that", () => {
    assert.deepEqual(refused(true), { ended: ["done", "done"], registrations: 2 });
    assert.deepEqual(refused(false), { ended: ["RegionRefused", "done"], registrations: 2 });
  });
});

describe("a far host's core that waits for a change", () => {
  /** The card registers the region and answers loads with zeros; then `play` has its turn. @returns how the wait ends. */
  function waiting(play: (rig: HostRig) => void): { ended: string; atUs: number } {
    let found = { ended: "nothing", atUs: 0 };
    const rig = new HostRig({ shared: [FAR] }, {
      programs: {
        *a(cpu) {
          const s = yield* cpu.region("s");
          const ended = (how: string) =>
            void (found = { ended: how, atUs: Math.floor(cpu.now / PS_PER_US) });
          try {
            ended(yield* s.waitChange(0, 8, 900 * PS_PER_US));
          } catch (error) {
            ended((error as Error).name);
          }
        },
      },
    });
    let answered = 0;
    const answer = () => {
      for (const { message } of rig.sent.slice(answered)) {
        answered++;
        const at = rig.now + PS_PER_US;
        if (message.kind === "command") {
          const reply = { status: "ok", op: "done" } as const;
          rig.arrive(at, { kind: "reply", id: message.id, reply });
        } else if (message.kind === "far-access") {
          const data = new Uint8Array(64);
          rig.arrive(at, { kind: "far-answer", tag: message.tag, result: "done", data });
        }
      }
    };
    const runUntil = (us: number) => {
      while (rig.nextAt <= us * PS_PER_US && rig.next()) answer();
      rig.now = us * PS_PER_US;
    };
    runUntil(100);
    assert.deepEqual(found.ended, "nothing", "it waits");
    play(rig);
    runUntil(1_000);
    return found;
  }

  it("decision 19: wakes when its copy is gone, looks again, and waits on where nothing has changed", () => {
    const loads = (rig: HostRig) =>
      rig.sent.filter(({ message }) => message.kind === "far-access").length;
    const found = waiting((rig) => {
      const before = loads(rig);
      rig.arrive(150 * PS_PER_US, { kind: "far-invalidate", region: 0, line: 1 });
      rig.run(151 * PS_PER_US);
      assert.equal(loads(rig), before, "another line's is none of its");
      rig.arrive(160 * PS_PER_US, { kind: "far-invalidate", region: 0, line: 0 });
      rig.run(161 * PS_PER_US);
      assert.equal(loads(rig), before + 1);
      const { message } = rig.sent.at(-1)!;
      const { tag } = message as { tag: number };
      const data = new Uint8Array(64);
      rig.arrive(rig.now, { kind: "far-answer", tag, result: "done", data });
    });
    // At its deadline it looks once more.
    assert.deepEqual(found, { ended: "timeout", atUs: 901 });
  });

  it("C-10, decision 13: wakes when its card fails, and is told", () => {
    const found = waiting((rig) => {
      rig.now = 200 * PS_PER_US;
      rig.step({ kind: "link", port: 0, up: false });
    });
    assert.deepEqual(found, { ended: "RegionFenced", atUs: 200 });
  });

  it("C-10: wakes when the card reports a loss of the region, of any line", () => {
    const found = waiting((rig) => {
      const event = { type: "REGION_LOST", region: 0, first: 2, count: 1 } as const;
      rig.arrive(300 * PS_PER_US, { kind: "event", event });
      rig.run(301 * PS_PER_US);
      const { message } = rig.sent.at(-1)!;
      assert.equal(message.kind, "far-access");
      const { tag } = message as { tag: number };
      rig.arrive(rig.now, { kind: "far-answer", tag, result: "lost" });
    });
    assert.deepEqual(found, { ended: "RegionLost", atUs: 301 });
  });
});
