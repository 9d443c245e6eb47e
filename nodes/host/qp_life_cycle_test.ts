import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { QpAttributes, QpState } from "../../fabric/wire/rnic_command.ts";
import { refuseTransition, transition } from "./qp_life_cycle.ts";

const STATES: QpState[] = ["reset", "init", "rtr", "rts", "sqd", "sqe", "err"];

/** `rocev2.md` §4.1: what may follow what. */
const RC_LEGAL = [
  "reset>init",
  "init>init",
  "init>rtr",
  "rtr>rts",
  "rts>rts",
  "rts>sqd",
  "sqd>rts",
  "sqd>sqd",
];

const RTR: QpAttributes = {
  state: "rtr",
  destAddress: 0x0a000002,
  pathMtu: 1024,
  destQpn: 18,
  rqPsn: 5,
  maxDestRdAtomic: 16,
  minRnrTimer: 12,
};
const RTS: QpAttributes = {
  state: "rts",
  timeout: 14,
  retryCnt: 7,
  rnrRetry: 7,
  sqPsn: 1,
  maxRdAtomic: 16,
};

function refusal(type: "rc" | "ud", state: QpState, attributes: QpAttributes): string | undefined {
  return refuseTransition({ type, state, mtu: 4096 }, attributes);
}

describe("transition", () => {
  it("§4.1: has exactly the standard's arrows, over the whole product of states", () => {
    for (const type of ["rc", "ud"] as const) {
      for (const from of STATES) {
        for (const to of STATES) {
          const arrow = `${from}>${to}`;
          const legal = to === "reset" || (to === "err" && from !== "reset") ||
            RC_LEGAL.includes(arrow) || (type === "ud" && arrow === "sqe>rts");
          equal(transition(type, from, to) !== undefined, legal, `${type} ${arrow}`);
        }
      }
    }
  });
});

describe("refuseTransition", () => {
  it("takes a reliable queue pair from RESET to RTS", () => {
    equal(refusal("rc", "reset", { state: "init", accessFlags: 7 }), undefined);
    equal(refusal("rc", "init", RTR), undefined);
    equal(refusal("rc", "rtr", RTS), undefined);
  });

  it("§7.1 test 5: refuses RTR without any one of its required attributes", () => {
    for (const name of Object.keys(RTR) as (keyof QpAttributes)[]) {
      if (name === "state") continue;
      const { [name]: _, ...rest } = RTR;
      ok(refusal("rc", "init", rest as QpAttributes)?.includes(name), name);
    }
  });

  it("§7.1 test 6: refuses an attribute that the transition does not take", () => {
    ok(refusal("rc", "init", { ...RTR, sqPsn: 1 })?.includes("sqPsn"));
    ok(refusal("ud", "reset", { state: "init", qKey: 1, accessFlags: 1 })?.includes("accessFlags"));
  });

  it("§7.1 test 10: refuses values beyond their limits", () => {
    const beyond: QpAttributes[] = [
      { ...RTS, timeout: 32 },
      { ...RTS, retryCnt: 8 },
      { ...RTS, maxRdAtomic: 17 },
      { ...RTS, sqPsn: 0x100_0000 },
    ];
    same(beyond.map((attributes) => refusal("rc", "rtr", attributes) !== undefined), [
      true,
      true,
      true,
      true,
    ]);
    const small = { type: "rc", state: "init", mtu: 1024 } as const;
    ok(refuseTransition(small, { ...RTR, pathMtu: 4096 })?.includes("pathMtu"));
    equal(refuseTransition(small, RTR), undefined);
  });
});
