import { doesNotThrow, throws } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { InvariantError } from "../../../fabric/base/assert.ts";
import { encodeLockAnswer } from "../../../fabric/wire/host_bus/lock_answer.ts";
import {
  entryAddress,
  fieldAddress,
  layOut,
  type Placement,
  PLACEMENTS,
  QUEUE_FIELDS,
} from "../../../fabric/wire/host_bus/queue_placement.ts";
import type { RnicCommand, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { AddressFault } from "./address_map.ts";
import { QueueGuard } from "./queue_guard.ts";

const PERSISTENCE = { flow: 1, flush: "read", noSnoop: false } as const;
const INIT_REPLY = { status: "ok", op: "init", address: 1, mac: 1, mtu: 1024 } as const;
const DONE = { status: "ok", op: "done" } as const;
const UNTIL = 500;
const HOLDER = { program: "holder", now: UNTIL - 1 };

/** A command and its reply. */
function exchange(guard: QueueGuard, command: RnicCommand, reply: RnicReply): void {
  guard.sends(command, "holder");
  guard.sent(1, command, "holder");
  guard.answered(1, reply);
}

function guarded(placement: Placement, layout: "areas" | "record") {
  const store = layOut(placement, layout);
  const { bytes } = store;
  const space1 = 4096;
  const spaces = layout === "record"
    ? { queues: 8, space1, space2: space1 + bytes[1], space3: space1 + bytes[1] + bytes[2] }
    : { queues: 8, space1, space2: 8192, space3: 12288 };
  const guard = new QueueGuard(store);
  exchange(guard, { op: "init", spaces, persistence: PERSISTENCE }, INIT_REPLY);
  return { guard, store, spaces };
}

function lockThird(guard: QueueGuard): void {
  const reply = { status: "ok", op: "lock-space2", until: UNTIL } as const;
  exchange(guard, { op: "lock-space2", queue: 3 }, reply);
}

function release(guard: QueueGuard): void {
  guard.sends({ op: "unlock-space2", queue: 3 }, "holder");
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
            const byDevice = () => guard.checkDevice(at, new Uint8Array(4));
            const mayDevice = space !== 3 || field === "rnicPointer";
            if (mayDevice) doesNotThrow(byDevice, `${field} of ${queue}`);
            else throws(byDevice, InvariantError, `${field} of ${queue}`);
          }
        }
        release(guard);
        const depth = fieldAddress(store, spaces, { queue: 3, field: "depth" });
        if (placement.depth === 2) {
          lockThird(guard);
          throws(() => guard.checkStore(depth, 4, { ...HOLDER, now: UNTIL }), AddressFault);
          release(guard);
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

  it("Q-04: a lock ends with its queue: when the RNIC writes a whole entry of space 1 or 2", () => {
    for (const layout of ["areas", "record"] as const) {
      const { guard, store, spaces } = guarded(PLACEMENTS.default, layout);
      const depth = fieldAddress(store, spaces, { queue: 3, field: "depth" });
      const stores = () => guard.checkStore(depth, 4, HOLDER);
      for (const space of [1, 2] as const) {
        lockThird(guard);
        const entry = entryAddress(store, spaces, { queue: 3, space });
        const other = entryAddress(store, spaces, { queue: 2, space });
        guard.checkDevice(other, new Uint8Array(store.bytes[space]));
        guard.checkDevice(entry, new Uint8Array(4));
        doesNotThrow(stores, "another queue's, or a field");
        guard.checkDevice(entry, new Uint8Array(store.bytes[space]));
        throws(stores, AddressFault, `space ${space}`);
      }
    }
  });

  it("Q-04: no lock, and no question for one, outlasts the RNIC's init", () => {
    for (const answerAt of [undefined, 0x9000]) {
      const { guard, store, spaces } = guarded(PLACEMENTS.default, "areas");
      const depth = fieldAddress(store, spaces, { queue: 3, field: "depth" });
      const stores = () => guard.checkStore(depth, 4, HOLDER);
      if (answerAt === undefined) lockThird(guard);
      else exchange(guard, { op: "lock-space2", queue: 3, answerAt }, DONE);
      exchange(guard, { op: "init", spaces, persistence: PERSISTENCE }, INIT_REPLY);
      if (answerAt !== undefined) guard.checkDevice(answerAt, encodeLockAnswer({ until: UNTIL }));
      throws(stores, AddressFault);
    }
  });

  it("Q-04: a command to a card that is gone has no effect, whatever is answered under its number", () => {
    const { guard, store, spaces } = guarded(PLACEMENTS.default, "areas");
    const depth = fieldAddress(store, spaces, { queue: 3, field: "depth" });
    guard.sent(7, { op: "lock-space2", queue: 3 }, "holder");
    guard.disconnected();
    guard.answered(7, { status: "ok", op: "lock-space2", until: UNTIL });
    throws(() => guard.checkStore(depth, 4, HOLDER), AddressFault);
  });

  it("Q-04: a lock granted through a memory location is the asker's once the answer is there", () => {
    const { guard, store, spaces } = guarded(PLACEMENTS.default, "areas");
    const depth = fieldAddress(store, spaces, { queue: 3, field: "depth" });
    const stores = () => guard.checkStore(depth, 4, HOLDER);
    const answerAt = 0x9000;
    const ask = () => exchange(guard, { op: "lock-space2", queue: 3, answerAt }, DONE);
    ask();
    throws(stores, AddressFault, "accepted, and not granted");
    guard.checkDevice(answerAt, encodeLockAnswer("denied"));
    guard.checkDevice(answerAt, encodeLockAnswer({ until: UNTIL }));
    throws(stores, AddressFault, "denied, and answered once");
    ask();
    guard.checkDevice(answerAt, encodeLockAnswer({ until: UNTIL }));
    doesNotThrow(stores);
    throws(() => guard.checkStore(depth, 4, { ...HOLDER, program: "another" }), AddressFault);
    throws(() => guard.checkStore(depth, 4, { ...HOLDER, now: UNTIL }), AddressFault);
  });
});
