/** What a host takes for registered, by the replies of a card that the test plays. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  REGION_SIZES,
  SCM_BASE,
  type SharedRegion,
} from "../../../fabric/rack/plan/shared_region.ts";
import type { RnicCommand, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import { NO_DEVICE } from "../cpu/host_bus.ts";
import { Registration } from "./registration.ts";

const REGION: SharedRegion = {
  ...REGION_SIZES,
  id: 3,
  name: "s",
  home: { host: "a", address: 0x0a00_0001 },
  far: [{ host: "b", address: 0x0a00_0002, agent: 1 }],
  memory: "scm",
  address: SCM_BASE,
  bytes: 256,
  placement: "remote",
  leasePs: 1_000,
  leaseMarginPs: 100,
  homeWaitPs: 1_100,
};

/** The card's power-on. */
const CARD = 7;

/** A core whose card gives these replies, in order; `card` may change meanwhile. */
function cpuOf(replies: readonly RnicReply[], cardAfter: number | undefined = CARD): Cpu {
  const left = [...replies];
  const cpu = {
    card: CARD as number | undefined,
    // deno-lint-ignore require-yield
    *command(_: RnicCommand): Steps<RnicReply> {
      const reply = left.shift();
      assert.ok(reply !== undefined);
      if (left.length === 0) cpu.card = cardAfter;
      return reply;
    },
  };
  return cpu as unknown as Cpu;
}

/** Runs what takes no time. @returns the error's text, where it throws. */
function textOf(steps: Steps<void>): string | undefined {
  try {
    assert.equal(steps.next().done, true);
    return undefined;
  } catch (error) {
    return String(error);
  }
}

const OK: RnicReply = { status: "ok", op: "done" };
function refused(errno: "ENOENT" | "EBUSY" | "EINVAL"): RnicReply {
  return { status: "error", errno, reason: "because" };
}

/** A registered region, and how its deregistration ends. */
function after(reply: RnicReply, cardAfter?: number | undefined): { has: boolean; text?: string } {
  const registration = new Registration();
  assert.equal(textOf(registration.register(REGION, cpuOf([OK]))), undefined);
  assert.equal(registration.has(REGION, CARD), true);
  const text = textOf(registration.deregister(REGION, cpuOf([reply], cardAfter)));
  return { has: registration.has(REGION, CARD), ...(text !== undefined && { text }) };
}

describe("Registration.register", () => {
  it("for one power-on of the card alone, ends without a refusal where that is over", () => {
    const registration = new Registration();
    assert.equal(textOf(registration.register(REGION, cpuOf([]), CARD - 1)), undefined);
    assert.equal(registration.has(REGION, CARD), false);
    assert.equal(textOf(registration.register(REGION, cpuOf([OK]), CARD)), undefined);
    assert.equal(registration.has(REGION, CARD), true);
  });
});

/** A core whose card answers the first tries so, or is not there; then it is there, and says yes. */
function trying(tries: readonly (RnicReply | "no card" | "dies")[]) {
  const slept: number[] = [];
  let left = [...tries], commands = 0;
  const cpu = {
    get card(): number | undefined {
      return left[0] === "no card"
        ? undefined
        : CARD + tries.filter((each) => each === "dies").length -
          left.filter((each) => each === "dies").length;
    },
    // deno-lint-ignore require-yield
    *command(_: RnicCommand): Steps<RnicReply> {
      commands++;
      const [reply, ...others] = left;
      left = others;
      return reply === "dies" ? NO_DEVICE : reply as RnicReply | undefined ?? OK;
    },
    // deno-lint-ignore require-yield
    *sleep(ps: number): Steps<void> {
      if (left[0] === "no card") left = left.slice(1);
      slept.push(ps);
    },
  } as unknown as Cpu;
  const registration = new Registration();
  const text = textOf(registration.register(REGION, cpu));
  const has = [CARD, CARD + 1].filter((card) => registration.has(REGION, card));
  return { text, has, commands, slept };
}

describe("Registration.register, again", () => {
  const QUARTER = 250;

  it("asks every quarter of a lease while home has not exposed it, or there is no card", () => {
    assert.deepEqual(trying([refused("EBUSY"), "no card", "no card"]), {
      text: undefined,
      has: [CARD],
      commands: 2,
      slept: [QUARTER, QUARTER],
    });
  });

  it("asks the next card where one has failed with the command: that refusal is no one's", () => {
    const found = trying(["dies"]);
    assert.deepEqual(found, { text: undefined, has: [CARD + 1], commands: 2, slept: [QUARTER] });
  });

  it("gives up at once where the card refuses, and after eight leases without an answer", () => {
    const text = "RegionRefused: Cannot register region s: because";
    const other = trying([refused("EINVAL")]);
    assert.deepEqual(other, { text, has: [], commands: 1, slept: [] });
    const busy = trying(Array(40).fill(refused("EBUSY")));
    assert.deepEqual([busy.text, busy.commands, busy.slept.length], [text, 32, 32]);
    const none = trying(Array(40).fill("no card"));
    assert.deepEqual([none.text, none.commands], [
      "RegionRefused: Cannot register region s: the card has no power",
      0,
    ]);
  });
});

describe("Registration.deregister", () => {
  const text = "RegionRefused: Cannot deregister region s: because";

  it("decision 21: leaves the region registered where home's card did not answer", () => {
    assert.deepEqual(after(OK, CARD), { has: false });
    assert.deepEqual(after(refused("ENOENT"), CARD), { has: true, text });
  });

  it("takes the region for unknown where another command is under way, or the card does not have it", () => {
    for (const errno of ["EBUSY", "EINVAL"] as const) {
      assert.deepEqual(after(refused(errno), CARD), { has: false, text });
    }
  });

  it("takes nothing for registered that another life of the card would have to know", () => {
    assert.deepEqual(after(refused("ENOENT"), CARD + 1), { has: false, text });
  });

  it("forgets a region that the card has refused to a core", () => {
    const registration = new Registration();
    assert.equal(textOf(registration.register(REGION, cpuOf([OK]))), undefined);
    registration.forget(REGION.id);
    assert.equal(registration.has(REGION, CARD), false);
  });
});
