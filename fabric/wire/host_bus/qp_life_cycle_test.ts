import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { ACCESS, type QpAttributes, type QpState, type QpType } from "./rnic_command.ts";
import { type AttributeName, refuseModify, transition } from "./qp_life_cycle.ts";

const STATES: readonly QpState[] = ["reset", "init", "rtr", "rts", "sqd", "sqe", "err"];
const ANY_TYPE = [
  "reset>init",
  "init>init",
  "init>rtr",
  "rtr>rts",
  "rts>rts",
  "rts>sqd",
  "sqd>rts",
  "sqd>sqd",
];
/** rocev2.md §4.1: what there is besides "any → RESET" and "any but RESET → ERR". */
const LEGAL: Readonly<Record<QpType, readonly string[]>> = {
  rc: ANY_TYPE,
  uc: [...ANY_TYPE, "sqe>rts"],
  ud: [...ANY_TYPE, "sqe>rts"],
};

describe("life cycle of a queue pair", () => {
  for (const type of ["rc", "uc", "ud"] as const) {
    it(`${type}: the whole product of states has exactly the transitions of rocev2.md §4.1`, () => {
      for (const from of STATES) {
        for (const to of STATES) {
          const expected = to === "reset" || (to === "err" && from !== "reset") ||
            LEGAL[type].includes(`${from}>${to}`);
          assert.equal(transition(type, from, to) !== undefined, expected, `${from} to ${to}`);
        }
      }
    });
  }

  it("every required attribute is required, every foreign one refused", () => {
    const names: AttributeName[] = [
      ...["accessFlags", "pathMtu", "destAddress", "destQpn", "rqPsn", "sqPsn"] as const,
      ...[
        "maxDestRdAtomic",
        "maxRdAtomic",
        "minRnrTimer",
        "timeout",
        "retryCnt",
        "rnrRetry",
        "qKey",
      ] as const,
    ];
    for (const type of ["rc", "uc", "ud"] as const) {
      for (const key of LEGAL[type]) {
        const [state, to] = key.split(">") as [QpState, QpState];
        const row = transition(type, state, to)!;
        const given = Object.fromEntries(
          row.required.map((name) => [name, name === "pathMtu" ? 256 : 1]),
        );
        const attributes: QpAttributes = { state: to, ...given };
        const qp = { type, state, mtu: 4096 };
        assert.equal(refuseModify(qp, attributes), undefined, key);
        for (const name of row.required) {
          assert.ok(
            refuseModify(qp, { ...attributes, [name]: undefined }),
            `${key} without ${name}`,
          );
        }
        for (const name of names) {
          if (row.required.includes(name) || row.optional.includes(name)) continue;
          assert.ok(refuseModify(qp, { ...attributes, [name]: 1 }), `${key} with ${name}`);
        }
      }
    }
  });

  const rtr = {
    state: "rtr",
    destAddress: 0x0a00_0002,
    pathMtu: 1024,
    destQpn: 18,
    rqPsn: 5,
    maxDestRdAtomic: 16,
    minRnrTimer: 12,
  } as const;
  const rts = {
    state: "rts",
    timeout: 14,
    retryCnt: 7,
    rnrRetry: 7,
    sqPsn: 1,
    maxRdAtomic: 16,
  } as const;
  const inInit = { type: "rc", state: "init", mtu: 4096 } as const;
  const inRtr = { type: "rc", state: "rtr", mtu: 4096 } as const;

  it("§7 #5: RTR without MIN_RNR_TIMER, or any other that it needs, is refused by its name", () => {
    assert.equal(refuseModify(inInit, rtr), undefined);
    for (const name of Object.keys(rtr) as (keyof typeof rtr)[]) {
      if (name === "state") continue;
      const { [name]: _, ...rest } = rtr;
      assert.ok(refuseModify(inInit, rest)?.includes(name), name);
    }
  });

  it("§7 #6: RTR with SQ_PSN as well is refused", () => {
    assert.ok(refuseModify(inInit, { ...rtr, sqPsn: 1 })?.includes("sqPsn"));
  });

  it("§7 #7: from RTS there is no way back to INIT", () => {
    const qp = { type: "rc", state: "rts", mtu: 4096 } as const;
    assert.ok(refuseModify(qp, { state: "init", accessFlags: 0 }));
  });

  it("§7 #10: values beyond their limits are refused, a time-out of 32 among them", () => {
    assert.equal(refuseModify(inRtr, rts), undefined);
    for (
      const beyond of [{ timeout: 32 }, { retryCnt: 8 }, { maxRdAtomic: 17 }, { sqPsn: 2 ** 24 }]
    ) {
      assert.ok(refuseModify(inRtr, { ...rts, ...beyond }), JSON.stringify(beyond));
    }
    assert.ok(refuseModify({ ...inInit, mtu: 1024 }, { ...rtr, pathMtu: 2048 }));
    assert.ok(refuseModify(inInit, { ...rtr, minRnrTimer: 32 }));
    assert.ok(refuseModify(inInit, { ...rtr, maxDestRdAtomic: -1 }));
  });

  it("§7 #86: relaxed ordering is refused, in whichever transition takes access flags", () => {
    const flags = ACCESS.localWrite | ACCESS.remoteWrite;
    for (const state of ["reset", "init"] as const) {
      const modify = (accessFlags: number) =>
        refuseModify({ ...inInit, state }, { state: "init", accessFlags });
      assert.equal(modify(flags), undefined);
      assert.match(modify(flags | ACCESS.relaxedOrdering) ?? "", /^IBV_ACCESS_RELAXED_ORDERING/);
    }
  });

  it("CUR_STATE must be the state that it is in", () => {
    assert.equal(refuseModify(inRtr, { ...rts, curState: "rtr" }), undefined);
    assert.ok(refuseModify(inRtr, { ...rts, curState: "rts" }));
  });
});
