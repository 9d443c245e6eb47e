/** What every port of native programs does (`host/native/port.ts`): live, recording or replaying. */
import { ReplayError } from "../../../fabric/base/run_ending_error.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { encodeReply, Request } from "../native/words.ts";
import type { RequestName } from "../native/requests.ts";
import type { NativePort, NativeProcess, NativeStart } from "../native/port.ts";
import { encodeRequest, MEMORY_BASE, type ScriptedMain, scriptedPort } from "./native_testing.ts";

/** Scripts by the program's name. */
export const SCRIPTS: Readonly<Record<string, ScriptedMain>> = {
  *talks(process) {
    const at = process.put(Uint8Array.from({ length: 300 }, (_, i) => i));
    process.printed = "begins\n";
    yield* process.ask("sleep", { args: { ps: 5 } });
    process.at(at, 4).set([9, 9, 9, 9]);
    process.printed += "goes on\n";
    const rows = [1, 2].map((wr_id) => ({ wr_id, elements: [{ addr: at, length: 300, lkey: 7 }] }));
    yield* process.ask("post_send", { args: { qp: 3 }, rows });
    yield* process.ask("post_send", { args: { qp: 3 }, rows });
    yield* process.ask("resolve", { bytes: new TextEncoder().encode("host") });
    return 3;
  },
  // deno-lint-ignore require-yield -- it asks for nothing
  *silent() {
    return 0;
  },
};

export function startOf(name: string, argv: readonly string[] = [name]): NativeStart {
  return { name, file: `/nowhere/${name}`, argv, env: {} };
}

/** A reply that says no more than that it is done. */
export function done(
  nowPs: number,
  { leasePs = nowPs, name = "sleep" }: { leasePs?: number; name?: RequestName } = {},
): Uint8Array<ArrayBuffer> {
  const head = { error: 0, nowPs, leasePs, unwrittenPs: leasePs, alone: 0, ask: 0 };
  return encodeReply(name, head);
}

/** Lives through the life of `talks`, with what the card does to its memory. @returns what it saw. */
export function conversation(process: NativeProcess): readonly unknown[] {
  const seen: unknown[] = [], { main } = process, text = new TextDecoder();
  const see = (bytes: Uint8Array<ArrayBuffer> | undefined) => {
    if (bytes === undefined) return void seen.push("ended");
    // Printed bytes of each stream as its head says.
    const request = new Request(bytes.slice()), stdout = request.head("stdout");
    seen.push([...bytes], text.decode(process.output("stdout", stdout)));
  };
  see(process.first);
  seen.push([...main.read(MEMORY_BASE, 300) ?? []], main.read(8, 8));
  main.write(MEMORY_BASE + 16, Uint8Array.from([1, 2, 3, 4, 5, 6, 7, 8]));
  see(main.resume(done(10)));
  seen.push([...main.read(MEMORY_BASE, 300) ?? []], [...main.read(MEMORY_BASE, 300) ?? []]);
  see(main.resume(done(20, { name: "post_send" })));
  see(main.resume(done(2 ** 40, { name: "post_send" })));
  see(main.resume(done(2 ** 40 + 1, { name: "resolve" })));
  seen.push(text.decode(process.output("stdout")), process.end(), process.end());
  return seen;
}

/** @param open a port whose programs are {@link SCRIPTS}. */
export function nativePortContract(name: string, open: () => NativePort): void {
  describe(`${name}, as every port of native programs`, () => {
    it("passes requests, memory, output and the end on, as they are", () => {
      const live = conversation(scriptedPort(SCRIPTS).start(startOf("talks")));
      assert.deepEqual(conversation(open().start(startOf("talks"))), live);
    });

    it("has no first request of a program that ends at once", () => {
      const process = open().start(startOf("silent"));
      assert.deepEqual([process.first, process.end()], [undefined, 0]);
    });

    it("asks nothing of a killed program any more", () => {
      const { main, kill } = bound(open().start(startOf("talks")));
      kill();
      assert.equal(main.resume(done(10)), undefined);
    });
  });
}

function bound(process: NativeProcess) {
  return { main: process.main, kill: () => process.kill() };
}

/** Requests of each form, for what encodes them. */
export const REQUEST_FORMS: readonly Uint8Array<ArrayBuffer>[] = [
  encodeRequest("clock", { head: { usedPs: 2 ** 45, stdout: 7 } }),
  encodeRequest("post_send", {
    args: { qp: 1 },
    rows: [{ wr_id: 2n ** 63n, elements: [{ addr: 1, length: 2, lkey: 3 }] }],
  }),
  encodeRequest("post_send", { args: { qp: 1 }, rows: [] }),
  encodeRequest("scm_store", { spans: [{ offset: 64, bytes: Uint8Array.of(1, 2, 3) }] }),
  encodeRequest("socket_send", { args: { socket: 5 }, bytes: Uint8Array.of(4, 5, 6) }),
];

/** What a replay says that cannot go on. */
export function replayErrorOf(replay: () => unknown): string {
  try {
    replay();
  } catch (error) {
    assert.ok(error instanceof ReplayError, String(error));
    return error.message;
  }
  throw new assert.AssertionError({ message: "The replay goes on" });
}
