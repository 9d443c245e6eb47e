/**
 * Debian's librdmacm on the emulated /dev/infiniband/rdma_cm (`nodes/host/native/lib/rdma_cm.c`,
 * `rdma_cm.ts`, `cm_requests.ts`): its events, refusals and ends, and programs of rdmacm-utils.
 */
import assert from "node:assert/strict";
import { afterAll, describe } from "@std/testing/bdd";
import { PS_PER_MS } from "../../fabric/base/time.ts";
import { executableInPath } from "../../console/base/executables.ts";
import { compiled, nativeMissing, type NativeRun, runNative } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const folder = await Deno.makeTempDir({ prefix: "rackmesh-cm-" });
afterAll(() => Deno.remove(folder, { recursive: true }));

const missing = await nativeMissing() ?? headerMissing();
const it = itUnless(missing, "tests/native/rdma_cm_test.ts");

function headerMissing(): string | undefined {
  const args = ["-fsyntax-only", "-x", "c", "-include", "rdma/rdma_cma.h", "/dev/null"];
  const { success } = new Deno.Command("cc", { args, stderr: "null" }).outputSync();
  return success ? undefined : "rdma/rdma_cma.h is not here (librdmacm-dev)";
}

function scenario(
  server: readonly string[] | undefined,
  client: readonly string[],
  faults: readonly string[] = [],
): string {
  const list = (argv: readonly string[]) => JSON.stringify(argv);
  return `
name: cm
hosts: { a: { services: none }, b: { services: none } }
programs:
${server === undefined ? "" : `  - { on: b, native: ${list(server)} }\n`}\
  - { on: a, native: ${list(client)}, at: 1ms }
faults: [${faults.join(", ")}]
`;
}

/** Runs with leases, again, and without them: all the same, with the same digest. @returns the first. */
async function runThrice(text: string): Promise<NativeRun> {
  const run = (env = {}) => runNative(folder, text, { env });
  const first = await run(), again = await run(), off = await run({ RACKMESH_LEASE: "off" });
  for (const other of [again, off]) {
    assert.deepEqual(other.transcript, first.transcript);
    assert.equal(other.rack.simulator.digest, first.rack.simulator.digest);
  }
  return first;
}

function check(): string {
  return compiled(folder, "cm_check.c", ["-lrdmacm", "-libverbs"]);
}

describe("librdmacm on an emulated device", () => {
  it("connects, refuses, disconnects, migrates and joins groups as on Linux", async () => {
    const file = check();
    const { rack, lines } = await runThrice(scenario([file, "server"], [file, "client", "b"]));
    assert.deepEqual(rack.reported("program-failed"), []);
    assert.deepEqual(lines.a, [
      "no host: ADDR_ERROR -110 ",
      "no listener: ADDR_RESOLVED 0 ",
      "no listener: ROUTE_RESOLVED 0 ",
      "no listener: REJECTED 8 ",
      "refused: ADDR_RESOLVED 0 ",
      "refused: ROUTE_RESOLVED 0 ",
      "refused: REJECTED 28 because",
      "accepted: ADDR_RESOLVED 0 ",
      "accepted: ROUTE_RESOLVED 0 ",
      "accepted: ESTABLISHED 0 hello",
      "not yet: Resource temporarily unavailable",
      "accepted: RDMA_CM_EVENT_DISCONNECTED",
      "migrated: TIMEWAIT_EXIT 0 ",
      "group: ADDR_RESOLVED 0 ",
      "group: MULTICAST_JOIN 0 ",
      "joined ::ffff:239.1.2.3, queue pair ffffff, key 1234567",
      "done",
    ]);
    assert.deepEqual(lines.b, [
      "bound to 0.0.0.0:7471, no device",
      "the port again: Address already in use",
      "a foreign address: Cannot assign requested address",
      "server: CONNECT_REQUEST 0 no",
      "from 10.0.0.1:32770 to 10.0.0.2:7471, rackmesh0, depths 3 2, retries 6 5",
      "server: CONNECT_REQUEST 0 yes",
      "from 10.0.0.1:32771 to 10.0.0.2:7471, rackmesh0, depths 3 2, retries 6 5",
      "server: ESTABLISHED 0 ",
      "server: DISCONNECTED 0 ",
      "server: TIMEWAIT_EXIT 0 ",
      "done",
    ]);
  });

  it("tells of a peer without power: UNREACHABLE", async () => {
    const faults = ["{ at: 500us, kill: b }"];
    const text = scenario(undefined, [check(), "wait", "b"], faults);
    const { lines } = await runNative(folder, text, { until: 30 * PS_PER_MS });
    assert.deepEqual(lines.a, [
      "waiting: ADDR_RESOLVED 0 ",
      "waiting: ROUTE_RESOLVED 0 ",
      "waiting: UNREACHABLE -110 ",
    ]);
  });

  it("ends the connections of a process that has ended: its peer gets DISCONNECTED", async () => {
    const file = check(), text = scenario([file, "leave"], [file, "wait", "b"]);
    const { lines } = await runNative(folder, text, { until: 30 * PS_PER_MS });
    assert.deepEqual(lines.a?.slice(-3), [
      "waiting: ESTABLISHED 0 hello",
      "waiting: DISCONNECTED 0 ",
      "waiting: TIMEWAIT_EXIT 0 ",
    ]);
  });
});

/** What each pair prints last, at both ends. */
const PROGRAMS: readonly {
  readonly name: string;
  readonly server: readonly string[];
  readonly client: readonly string[];
  readonly last: string;
}[] = [
  {
    name: "ucmatose",
    server: ["ucmatose", "-c", "3", "-C", "20", "-S", "3000", "-m", "-t", "32", "-a", "9"],
    client: ["ucmatose", "-c", "3", "-C", "20", "-S", "3000", "-m", "-t", "32", "-a", "9", "-s"],
    last: "return status 0",
  },
  {
    name: "udaddy",
    server: ["udaddy", "-c", "2"],
    client: ["udaddy", "-c", "2", "-s"],
    last: "return status 0",
  },
  {
    name: "rdma_server",
    server: ["rdma_server"],
    client: ["rdma_client", "-s"],
    last: "end 0",
  },
];

describe("programs of rdmacm-utils", () => {
  for (const { name, server, client, last } of PROGRAMS) {
    const lacks = missing ??
      (executableInPath(name) === undefined ? `${name} is not installed` : undefined);
    itUnless(lacks, "tests/native/rdma_cm_test.ts")(
      `${server.join(" ")}: the same each time`,
      async () => {
        const [one, ...ones] = server, [other, ...others] = client;
        const { rack, lines } = await runThrice(
          scenario([executableInPath(one!)!, ...ones], [executableInPath(other!)!, ...others, "b"]),
        );
        assert.deepEqual(rack.reported("program-failed"), []);
        for (const host of ["a", "b"]) assert.ok(lines[host]?.at(-1)?.endsWith(last), host);
      },
    );
  }
});
