/** Sockets, waits and names of native programs on two hosts (`nodes/host/native/lib/net.c`, `waits.c`, `names.c`). */
import assert from "node:assert/strict";
import { afterAll, describe } from "@std/testing/bdd";
import { compiled, nativeMissing, runNative } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const missing = await nativeMissing();
const it = itUnless(missing, "tests/native/net_test.ts");
const folder = await Deno.makeTempDir({ prefix: "rackmesh-net-" });

afterAll(() => Deno.remove(folder, { recursive: true }));

function scenario(file: string): string {
  return `
name: net
hosts: { a: { services: none }, b: { services: none } }
programs:
  - { on: b, native: [${file}, server] }
  - { on: a, native: [${file}, client, b], at: 1ms }
`;
}

describe("sockets of native programs", () => {
  it("behave as Linux's: streams, ends, waits, time-outs, refusals, names, sleeps and alarms", async () => {
    const { rack, lines } = await runNative(folder, scenario(compiled(folder, "net_check.c")));
    assert.deepEqual(rack.reported("program-failed"), []);
    assert.deepEqual(lines.b?.slice(-2), [
      "waits: 3 connections",
      "accepted from 10.0.0.1 port 32772",
    ]);
    assert.deepEqual(lines.a?.filter((line) => line.endsWith(": done")), [
      "stream: done",
      "waits: done",
      "time-out: done",
      "refusals: done",
      "times: done",
    ]);
    assert.deepEqual(lines.a?.filter((line) => line.startsWith("rackmesh:")), [
      "rackmesh: socket: type 3, protocol 0 are refused: the rack carries TCP alone",
      "rackmesh: socket: type 2, protocol 6 are refused: the rack carries TCP alone",
      "rackmesh: connect to 8.8.8.8: no host of the rack has that address",
      "rackmesh: datagrams of UDP are refused: the rack carries TCP alone",
      "rackmesh: example.org is no host of the rack",
      "rackmesh: example.org is no host of the rack",
    ]);
  });

  it("wait for completion channels, too: poll, epoll and select", async () => {
    const file = compiled(folder, "channel_check.c", ["-libverbs"]);
    const { rack, lines } = await runNative(folder, scenario(file));
    assert.deepEqual(rack.reported("program-failed"), []);
    assert.deepEqual(lines.b, [
      "poll: message 0",
      "epoll: message 1",
      "select: message 2",
      "end of the peer",
    ]);
  });

  it("that wait for ever are reported by what they wait for, without the kernel's threads", async () => {
    const file = compiled(folder, "net_check.c");
    const alone = await runNative(
      folder,
      `
name: alone
hosts: { a: {}, b: {} }
programs: [{ on: b, native: [${file}, server] }]
`,
    );
    const left = alone.rack.simulator.unfinished().filter(({ value }) => !value.serves);
    assert.deepEqual(left.map(({ value }) => value.waitsFor), ["a TCP connection (socket_accept)"]);
  });

  for (const [source, ...libraries] of [["net_check.c"], ["channel_check.c", "-libverbs"]]) {
    it(`${source}: the same without leases`, async () => {
      const file = compiled(folder, source!, libraries);
      const on = await runNative(folder, scenario(file));
      const off = await runNative(folder, scenario(file), { env: { RACKMESH_LEASE: "off" } });
      assert.deepEqual(off.transcript, on.transcript);
    });
  }
});
