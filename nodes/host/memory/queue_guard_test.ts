import { doesNotThrow, throws } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { InvariantError } from "../../../fabric/base/assert.ts";
import {
  fieldAddress,
  layOut,
  type Placement,
  PLACEMENTS,
  QUEUE_FIELDS,
} from "../../../fabric/wire/host_bus/queue_placement.ts";
import { AddressFault } from "./address_map.ts";
import { QueueGuard } from "./queue_guard.ts";

const PERSISTENCE = { flow: 1, flush: "read", noSnoop: false } as const;
const INIT_REPLY = { status: "ok", op: "init", address: 1, mac: 1, mtu: 1024 } as const;
const UNTIL = 500;
const HOLDER = { program: "holder", now: UNTIL - 1 };

function guarded(placement: Placement, layout: "areas" | "record") {
  const store = layOut(placement, layout);
  const { bytes } = store;
  const space1 = 4096;
  const spaces = layout === "record"
    ? { queues: 8, space1, space2: space1 + bytes[1], space3: space1 + bytes[1] + bytes[2] }
    : { queues: 8, space1, space2: 8192, space3: 12288 };
  const guard = new QueueGuard(store);
  guard.answered({ op: "init", spaces, persistence: PERSISTENCE }, INIT_REPLY, "boot");
  return { guard, store, spaces };
}

function lockThird(guard: QueueGuard): void {
  const reply = { status: "ok", op: "lock-space2", until: UNTIL } as const;
  guard.answered({ op: "lock-space2", queue: 3 }, reply, "holder");
}

describe("QueueGuard", () => {
  it("Q-04: of every field of every queue, core and device may write what their space permits", () => {
    for (const placement of Object.values(PLACEMENTS)) {
      for (const layout of ["areas", "record"] as const) {
        const { guard, store, spaces } = guarded(placement, layout);
        for (let queue = 0; queue < 8; queue++) {
          lockThird(guard);
          for (const field of QUEUE_FIELDS) {
            const at = fieldAddress(store, spaces, { queue, field }), space = placement[field];
            const byCore = (program: string) => () =>
              guard.checkStore(at, 1, { ...HOLDER, program });
            const may = space === 3 || (space === 2 && queue === 3);
            if (may) doesNotThrow(byCore("holder"), `${field} of ${queue}`);
            else throws(byCore("holder"), AddressFault, `${field} of ${queue}`);
            if (space === 2) throws(byCore("another"), AddressFault, "the lock is the holder's");
            const byDevice = () => guard.checkDevice(at, 4);
            const mayDevice = space !== 3 || field === "rnicPointer";
            if (mayDevice) doesNotThrow(byDevice, `${field} of ${queue}`);
            else throws(byDevice, InvariantError, `${field} of ${queue}`);
          }
        }
        guard.unlocked(3);
        const depth = fieldAddress(store, spaces, { queue: 3, field: "depth" });
        if (placement.depth === 2) {
          lockThird(guard);
          throws(() => guard.checkStore(depth, 4, { ...HOLDER, now: UNTIL }), AddressFault);
          guard.unlocked(3);
        }
        throws(() => guard.checkStore(depth, 4, HOLDER), AddressFault);
        throws(
          () => guard.checkStore(spaces.space1 - 8, 16, HOLDER),
          AddressFault,
          "by its tail",
        );
        doesNotThrow(() => guard.checkStore(spaces.space1 - 8, 8, HOLDER));
      }
    }
  });
});
