/** What describes a host to its native programs in place of the machine (`nodes/host/native/lib/files.c`). */
import assert from "node:assert/strict";
import { afterAll, describe } from "@std/testing/bdd";
import { compiled, nativeMissing, runNative } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const missing = await nativeMissing();
const it = itUnless(missing, "tests/native/files_test.ts");
const folder = await Deno.makeTempDir({ prefix: "rackmesh-files-" });

afterAll(() => Deno.remove(folder, { recursive: true }));

describe("files, interfaces and numbers of a native program", () => {
  it("are the emulated host's, from its first constructor on, and the same without leases", async () => {
    const file = compiled(folder, "files_check.c");
    const text = `
name: files
hosts: { a: { services: none }, b: { services: none } }
programs: [{ on: [a, b], native: [${file}] }]
`;
    const on = await runNative(folder, text);
    const { lines } = on;
    assert.deepEqual(lines.b, [
      "/sys/class/infiniband/rackmesh0/node_type: 1: CA",
      "/sys/class/infiniband/rackmesh0/node_guid: 0000:0200:0000:0002",
      "/sys/class/infiniband/rackmesh0/ports/1/link_layer: Ethernet",
      "/sys/class/infiniband/rackmesh0/ports/1/gids/0: 0000:0000:0000:0000:0000:ffff:0a00:0002",
      "/sys/class/infiniband/rackmesh0/ports/1/gid_attrs/types/0: RoCE v2",
      "/sys/class/infiniband/rackmesh0/ports/1/gid_attrs/ndevs/1: eth0",
      "/sys/class/infiniband_verbs/uverbs0/ibdev: rackmesh0",
      "/sys/class/net/eth0/address: 02:00:00:00:00:02",
      "/sys/class/net/eth0/mtu: 4200",
      "/proc/sys/kernel/random/boot_id: 7261636b-6d65-4368-8000-00000a000002",
      "//sys/./class/net/../net/lo/ifindex: 1",
      "files: done",
      "address 0a000002",
      "speed 100000",
      "interfaces: done",
      "rackmesh: /dev/infiniband/uverbs0 is refused: its commands are the kernel's, expected libibverbs",
      lines.b?.[16],
      "begun at 1577836800 as b",
      "numbers: done",
    ]);
    assert.match(lines.b![16]!, /^process 400\d, thread 10400\d, random [0-9a-f]{16}$/);
    assert.notEqual(lines.a![16], lines.b![16]);
    assert.ok(lines.a!.includes("/sys/class/net/eth0/address: 02:00:00:00:00:01"));
    // A code above 128 is not a signal's where the program has given it.
    const [failed] = on.rack.reported("program-failed", "b");
    assert.match(String(failed?.message), /^exit code 200: /);
    const off = await runNative(folder, text, { env: { RACKMESH_LEASE: "off" } });
    assert.deepEqual(off.transcript, on.transcript);
    assert.equal(off.rack.simulator.digest, on.rack.simulator.digest);
  });
});
