/** Objects that are replaced while somebody still has them open: their space is another's by then. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_MS, PS_PER_US } from "../../fabric/base/time.ts";
import {
  isFailure,
  openClient,
  openObject,
  type PersistClient,
  type Region,
} from "../../nodes/host/programs/persist/persist_client.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { postSend, sge } from "../../nodes/host/verbs/post.ts";
import { waitCompletion } from "../../nodes/host/verbs/completion_queue.ts";
import { must } from "../../nodes/host/verbs/device.ts";
import { regMr } from "../../nodes/host/verbs/memory_region.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import { IBV_SEND_SIGNALED } from "../../nodes/host/verbs/flags.ts";

const BYTES = 4096;

function* open({ device }: ProgramContext, name: string, length: number) {
  const client = yield* openClient(device, {
    to: "b",
    terms: { method: "write-flush", messageBytes: BYTES, depth: 2, policy: "persistence" },
    mode: "poll",
    attempts: 1,
    pausePs: PS_PER_US,
    idlePs: PS_PER_MS,
  });
  assert.ok(!isFailure(client));
  const region = yield* openObject(client, { name, length });
  assert.ok(!isFailure(region));
  return { client, region };
}

/** Fills the object. @returns how that has ended. */
function* fill(
  { cpu }: ProgramContext,
  { client, region }: { readonly client: PersistClient; readonly region: Region },
  byte: number,
): Steps<string | undefined> {
  const buffer = cpu.allocate(BYTES);
  cpu.store(buffer.address, new Uint8Array(BYTES).fill(byte));
  const mr = must(yield* regMr(client.pd, buffer, { access: 0 }));
  const remote = { va: region.va, rkey: region.rkey };
  must(
    yield* postSend(client.connection.qp, {
      opcode: "write",
      sendFlags: IBV_SEND_SIGNALED,
      sges: [sge(mr)],
      remote,
    }),
  );
  const deadline = cpu.now + 50 * PS_PER_MS;
  return (yield* waitCompletion(client.cq, { deadline })).at(0)?.status;
}

/** An object is opened, replaced by a longer one, and its space given to another. */
function* replaceOne(context: ProgramContext): Steps<void> {
  const first = yield* open(context, "x", BYTES);
  const longer = yield* open(context, "x", 2 * BYTES);
  const other = yield* open(context, "y", BYTES);
  assert.equal(other.region.scmOffset, first.region.scmOffset);
  const filled = [yield* fill(context, other, 2), yield* fill(context, longer, 3)];
  const late = yield* fill(context, first, 1);
  context.cpu.report("filled", { filled, late });
}

describe("An object that is replaced", () => {
  it("P-41: is no way to what lies in its place by now", () => {
    const text = `name: replaced
defaults: { ddio: off, scm: { size: 1MiB } }
hosts: { a: {}, b: {} }
programs:
  - { on: a, run: ./replace.ts }
  - { on: a, run: get, from: b, name: y, at: 80ms }
`;
    const rack = new SimulatedRack(text, { programs: { "./replace.ts": replaceOne } }).run();
    const [{ filled, late } = {}] = rack.reported("filled");
    assert.deepEqual(filled, ["SUCCESS", "SUCCESS"]);
    assert.notEqual(late, "SUCCESS");
    const bytes = rack.reported("output").at(-1)!.bytes as Uint8Array;
    assert.deepEqual(Uint8Array.from(bytes), new Uint8Array(BYTES).fill(2));
  });
});
