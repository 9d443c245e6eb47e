/** What a card does with a manufacturer's operations that its queue pair has not agreed on (§2.3). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PERSIST_ETH } from "../../../fabric/wire/roce/persist_eth.ts";
import { OPCODE_ROWS, type OpcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import { encodePacket, type RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { VENDOR_EXTENSIONS } from "../../../fabric/wire/roce/vendor_testing.ts";
import {
  changed,
  counter,
  EVERY_ACCESS,
  go,
  names,
  packetOf,
  pair,
  post,
  statuses,
} from "../testing/pair_testing.ts";

const REQUESTS = OPCODE_ROWS.filter(({ vendor, direction }) => vendor && direction === "request");

/** The packet with this operation, in the place of its own. */
function as(packet: RocePacket, { code, payload: rule }: OpcodeRow): RocePacket {
  const payload = rule === 0 ? new Uint8Array() : packet.payload;
  const padCount = -payload.length & 3;
  const extensions = { ...VENDOR_EXTENSIONS, persistEth: PERSIST_ETH, immdt: { immediate: 1 } };
  return changed({ ...packet, ...extensions, payload }, { bth: { opcode: code, padCount } });
}

describe("a manufacturer's operation", () => {
  for (const row of REQUESTS) {
    // The pair is RC.
    const reason = row.service === "rc" ? "drop-vendor-operation" : "drop-wrong-service";
    const rights = row.persistence ? EVERY_ACCESS : EVERY_ACCESS | ACCESS.remoteWritePersistence;

    it(`§7 #78: ${row.name} is dropped in silence and counted; R times out`, () => {
      const p = pair({}, { attributes: { retryCnt: 1, accessFlags: rights } });
      p.rig.fate = (from, frame) => {
        if (from !== "a") return "pass";
        p.rig.inject(p.rig.b, encodePacket(as(packetOf(frame.bytes), row)));
        return "drop";
      };
      post(p, "write", { length: 8 });
      go(p);
      assert.deepEqual(names(p, "b"), [], "no answer");
      assert.equal(counter(p, "b", reason), 2);
      assert.ok(p.rig.bytes(p.rig.b, p.to).every((byte) => byte === 0xee), "nothing is written");
      assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"]);
    });

    it(`§7 #78: ${row.name} between others changes nothing for these`, () => {
      const p = pair({}, { attributes: { accessFlags: rights } });
      p.rig.fate = (from, frame) => {
        if (from === "a") p.rig.inject(p.rig.b, encodePacket(as(packetOf(frame.bytes), row)));
        return "pass";
      };
      post(p, "write", { length: 8 });
      post(p, "write", { at: 8, length: 8 });
      go(p);
      assert.equal(counter(p, "b", reason), 2);
      assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    });
  }
});
