import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { QpAttributes, QpState, QpType } from "../../fabric/wire/rnic_command.ts";
import { type AttributeName, refuseModify, transition } from "./life_cycle.ts";

const STATES: readonly QpState[] = ["reset", "init", "rtr", "rts", "sqd", "sqe", "err"];
/** rocev2.md §4.1: what there is besides "any → RESET" and "any but RESET → ERR". */
const LEGAL: Readonly<Record<QpType, readonly string[]>> = {
  rc: [
    "reset>init",
    "init>init",
    "init>rtr",
    "rtr>rts",
    "rts>rts",
    "rts>sqd",
    "sqd>rts",
    "sqd>sqd",
  ],
  ud: [
    ...[
      "reset>init",
      "init>init",
      "init>rtr",
      "rtr>rts",
      "rts>rts",
      "rts>sqd",
      "sqd>rts",
      "sqd>sqd",
    ],
    "sqe>rts",
  ],
};

describe("life cycle", () => {
  for (const type of ["rc", "ud"] as const) {
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
    for (const type of ["rc", "ud"] as const) {
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

  it("values beyond their limits are refused", () => {
    const rtr = {
      state: "rtr",
      destAddress: 1,
      destQpn: 1,
      rqPsn: 1,
      maxDestRdAtomic: 1,
      minRnrTimer: 1,
    } as const;
    const qp = { type: "rc", state: "init", mtu: 1024 } as const;
    assert.equal(refuseModify(qp, { ...rtr, pathMtu: 1024 }), undefined);
    assert.ok(refuseModify(qp, { ...rtr, pathMtu: 2048 }));
    assert.ok(refuseModify(qp, { ...rtr, pathMtu: 1024, minRnrTimer: 32 }));
    assert.ok(refuseModify(qp, { ...rtr, pathMtu: 1024, maxDestRdAtomic: 17 }));
  });
});
