/**
 * Threads of native programs (`nodes/host/native/lib/threads.c`, `threads.ts`): each family of calls that
 * may wait for another thread, and programs of Debian's that have threads.
 */
import assert from "node:assert/strict";
import { afterAll, describe } from "@std/testing/bdd";
import { executableInPath } from "../../console/base/executables.ts";
import { compiled, nativeMissing, type NativeRun, runNative } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const NAME = "tests/native/threads_test.ts";
const missing = await nativeMissing();
const it = itUnless(missing, NAME);
const folder = await Deno.makeTempDir({ prefix: "rackmesh-threads-" });
afterAll(() => Deno.remove(folder, { recursive: true }));

/** @param programs by host, the server's first; the client starts later. */
function scenario(...programs: readonly (readonly [host: string, argv: readonly string[]])[]) {
  const lines = programs.map(([host, argv], i) =>
    `  - { on: ${host}, native: ${JSON.stringify(argv)}, at: ${i + 1}ms }`
  );
  return `
name: threads
hosts: { a: { services: none }, b: { services: none } }
programs:
${lines.join("\n")}
`;
}

/** With leases and without them: the same lines at the same instants, and the same digest. @returns the first. */
async function runTwice(text: string): Promise<NativeRun> {
  const on = await runNative(folder, text);
  const off = await runNative(folder, text, { env: { RACKMESH_LEASE: "off" } });
  assert.deepEqual(off.transcript, on.transcript);
  assert.equal(off.rack.simulator.digest, on.rack.simulator.digest);
  return on;
}

describe("threads of native programs", () => {
  it("wait, time out, are cancelled and end in virtual time", async () => {
    const { rack, lines } = await runTwice(
      scenario(["a", [compiled(folder, "thread_check.c")]]),
    );
    assert.deepEqual(rack.reported("native-ended").map(({ code }) => code), [7]);
    assert.deepEqual(lines.a, [
      "1000 us: initialised 1",
      "1000 us: initialised 2",
      "1000 us: initialised 0",
      "1300 us: turn 0",
      "1300 us: turn 1",
      "1300 us: turn 2",
      "1300 us: the last at the barrier 1",
      "1310 us: lock 2",
      "1310 us: lock 1",
      "1320 us: lock 0",
      "1320 us: joined 0",
      "1320 us: joined 10",
      "1320 us: joined 4",
      "1321 us: inits 1",
      "6321 us: Connection timed out 0",
      "11321 us: Connection timed out 1",
      "12331 us: cleaned up, the mutex is held by it: 0",
      "12331 us: cancelled 1",
      "13341 us: cleaned up, the mutex is held by it: 16",
      "13341 us: cancelled 1",
      "13341 us: its data is destroyed 1",
      "13492 us: small stacks 3",
      "14202 us: read 5 hello",
      "14202 us: again to be joined: 1",
    ]);
  });

  it("of C11 wait for each other in virtual time", async () => {
    const { rack, lines } = await runTwice(scenario(["a", [compiled(folder, "c11_check.c")]]));
    assert.deepEqual(rack.reported("program-failed"), []);
    assert.deepEqual(lines.a, [
      "1081 us: time-out of the condition 1",
      "1101 us: made 1",
      "1101 us: made 1",
      "1101 us: made 1",
      "1701 us: joined 10",
      "1701 us: joined 11",
      "1701 us: joined 12",
      "1771 us: time-out of the mutex 1",
      "1771 us: busy 1",
    ]);
  });

  it("of Python wait for each other in virtual time", async () => {
    if (!executableInPath("python3")) return;
    const file = `${folder}/threads.py`;
    Deno.writeTextFileSync(
      file,
      `
import queue, threading, time
q, lock, total = queue.Queue(3), threading.Lock(), 0
def work(n):
    global total
    for i in range(3):
        time.sleep(0.001 * n)
        with lock: total += n
        q.put((n, i))
threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]
begin = time.monotonic()
for t in threads: t.start()
got = [q.get() for _ in range(9)]
for t in threads: t.join()
print(total, *got)
print(threading.Event().wait(0.25), round(time.monotonic() - begin, 3))
`,
    );
    const { lines } = await runTwice(scenario(["a", ["/usr/bin/python3", file]]));
    assert.deepEqual(lines.a, [
      "18 (1, 0) (1, 1) (2, 0) (1, 2) (3, 0) (2, 1) (2, 2) (3, 1) (3, 2)",
      "False 0.259",
    ]);
  });
});

/** What a server and its clients print last; a server without `last` serves for ever. */
const PROGRAMS: readonly {
  readonly server: readonly string[];
  readonly clients: readonly (readonly string[])[];
  readonly last: RegExp;
}[] = [
  {
    server: ["rping", "-s", "-C", "4"],
    clients: [["rping", "-c", "-a", "b", "-C", "4", "-v"]],
    last: /client DISCONNECT EVENT/,
  },
  {
    server: ["rping", "-s", "-P"],
    clients: [["rping", "-c", "-a", "b", "-C", "2"], ["rping", "-c", "-a", "b", "-C", "3"]],
    last: /client DISCONNECT EVENT/,
  },
  {
    server: ["cmtime"],
    clients: [["cmtime", "-s", "b", "-c", "6"]],
    last: /^destroy +: +0.00/,
  },
  {
    server: ["mckey", "-m", "239.1.1.1"],
    clients: [["mckey", "-m", "239.1.1.1", "-s"]],
    last: /return status 0/,
  },
  {
    server: ["rstream", "-S", "1024", "-C", "3", "-I", "1"],
    clients: [["rstream", "-s", "b", "-S", "1024", "-C", "3", "-I", "1"]],
    last: /^custom +1k +3 +1 /,
  },
];

describe("programs of rdmacm-utils with threads", () => {
  for (const { server, clients, last } of PROGRAMS) {
    const pathOf = ([name, ...rest]: readonly string[]) => [`/usr/bin/${name}`, ...rest];
    const lacks = missing ??
      (executableInPath(server[0]!) ? undefined : `${server[0]} is not installed`);
    itUnless(lacks, NAME)(`${server.join(" ")}: the same with leases and without`, async () => {
      const { rack, lines } = await runTwice(
        scenario(
          ["b", pathOf(server)],
          ...clients.map((argv) => ["a", pathOf(argv)] as const),
        ),
      );
      assert.deepEqual(rack.reported("program-failed"), []);
      const ends = rack.reports.filter(({ node, topic }) =>
        node === "a" && topic === "native-ended"
      );
      assert.deepEqual(ends.map(({ value }) => value.code), clients.map(() => 0));
      assert.match(lines.a?.at(-1) ?? "", last);
    });
  }
});
