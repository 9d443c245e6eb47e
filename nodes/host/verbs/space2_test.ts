import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { decodeSpace2, encodeSpace2 } from "../../../fabric/wire/host_bus/default_store_testing.ts";
import { failed } from "./device.ts";
import { storeSpace2, writeSpace2 } from "./space2.ts";
import { bootDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";

const DATA = encodeSpace2({ depth: 64, unitBytes: 64 });

describe("space 2", () => {
  it("Q-04 (in part): is written by the RNIC by value, never by the host", () => {
    const rig = new VerbsRig();
    const device = rig.run(bootDevice(rig, rig.plan));
    equal(rig.run(writeSpace2(device, { queue: 5, offset: 0, data: DATA })), undefined);
    same(rig.commands.at(-1), { op: "write-space2", queue: 5, offset: 0, data: DATA });
    same(decodeSpace2(rig.load(device.state.space2 + 5 * 16, 16)), { depth: 0, unitBytes: 0 });
  });

  it("Q-04 (in part): is stored by the host between lock and unlock only", () => {
    const rig = new VerbsRig();
    const device = rig.run(bootDevice(rig, rig.plan));
    equal(rig.run(storeSpace2(device, { queue: 5, offset: 0, data: DATA })), undefined);
    same(rig.commands.slice(-2).map(({ op }) => op), ["lock-space2", "unlock-space2"]);
    equal(decodeSpace2(rig.load(device.state.space2 + 5 * 16, 16)).depth, 64);
  });

  it("Q-04: is not stored by the host at the instant at which the lock is taken back, or later", () => {
    for (const early of [-1, 0, 1]) {
      const rig = new VerbsRig();
      const device = rig.run(bootDevice(rig, rig.plan));
      rig.refuse = ({ op }) =>
        op === "lock-space2" ? { status: "ok", op, until: rig.now + early } : undefined;
      const wrong = rig.run(storeSpace2(device, { queue: 5, offset: 0, data: DATA }));
      equal(wrong?.errno, early > 0 ? undefined : "EBUSY");
      const stored = decodeSpace2(rig.load(device.state.space2 + 5 * 16, 16)).depth;
      equal(stored, early > 0 ? 64 : 0);
    }
  });

  it("Q-04 (in part): a breach is an error, with nothing changed", () => {
    const rig = new VerbsRig();
    const device = rig.run(bootDevice(rig, rig.plan));
    rig.refuse = () => ({ status: "error", errno: "EBUSY", reason: "locked already" });
    ok(failed(rig.run(storeSpace2(device, { queue: 5, offset: 0, data: DATA }))));
    ok(failed(rig.run(storeSpace2(device, { queue: 5, offset: 8, data: DATA }))));
    ok(failed(rig.run(writeSpace2(device, { queue: 5, offset: 0, data: DATA }))));
    equal(decodeSpace2(rig.load(device.state.space2 + 5 * 16, 16)).depth, 0);
  });
});
