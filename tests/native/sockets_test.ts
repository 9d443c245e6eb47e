/** TCP between programs of two hosts, and of one: `nodes/host/native/sockets.ts` on a rack. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { NEVER, PS_PER_MS, PS_PER_S, PS_PER_US } from "../../fabric/base/time.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import type { Observation, Observer } from "../../fabric/capture/observation.ts";
import { parseSyndrome } from "../../fabric/wire/roce/aeth.ts";
import { decodePacket, isRefusal } from "../../fabric/wire/roce/packet.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { CALL_PS, POLL, Sockets } from "../../nodes/host/native/sockets.ts";
import { BUFFER_BYTES } from "../../nodes/host/native/tcp_connection.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import type { CompChannel } from "../../nodes/host/verbs/objects.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const PORT = 18_515;
const SHUT_WR = 1;

/** A program's sockets, bound to its core; errors are thrown unless a test asks for them. */
interface Side {
  readonly context: ProgramContext;
  readonly sockets: Sockets;
  readonly channels: CompChannel[];
}

type Body = (side: Side) => Steps<void>;

interface RunOptions {
  readonly observer?: Observer;
  readonly faults?: readonly string[];
  /** Both programs run on `a`. */
  readonly isOneHost?: boolean;
}

/** Runs both to their ends; the client begins 100 µs later. */
function run(server: Body, client: Body, options: RunOptions = {}): SimulatedRack {
  const { faults = [], isOneHost = false, observer } = options;
  const programOf = (body: Body): Program =>
    function* (context) {
      const channels: CompChannel[] = [];
      const objects = {
        channel: (handle: number) => channels[handle],
        device: () => context.device,
      };
      const sockets = new Sockets(context, objects);
      yield* body({ context, sockets, channels });
      yield* sockets.end(context.cpu);
      context.cpu.report("end", context.cpu.now);
    };
  const programs = { "./server.ts": programOf(server), "./client.ts": programOf(client) };
  const rack = new SimulatedRack(
    `
name: sockets
hosts: { a: { services: none }, b: { services: none } }
programs:
  - { on: ${isOneHost ? "a" : "b"}, run: ./server.ts }
  - { on: a, run: ./client.ts, at: 300us }
faults: [${faults.join(", ")}]
`,
    { programs, ...(observer && { observer }) },
  ).run();
  assert.deepEqual(rack.reported("program-failed"), []);
  return rack;
}

/** Nothing is left: no queue pair of a connection, no thread, no event. */
function assertClean(rack: SimulatedRack): void {
  assert.equal(rack.reported("end").length, 2, "both programs come to their ends");
  assert.equal(rack.simulator.next, NEVER, "nothing is left to happen");
  const left = rack.simulator.unfinished().filter(({ value }) => !value.serves);
  assert.deepEqual(left.map(({ value }) => value.program), []);
}

function good<T>(answer: T | string): T {
  assert.ok(typeof answer !== "string", `${answer}`);
  return answer;
}

function* serve({ context: { cpu }, sockets }: Side, backlog = 5): Steps<number> {
  return good(yield* sockets.listen(cpu, { port: PORT, backlog })).handle;
}

function* accepted(side: Side): Steps<number> {
  const listener = yield* serve(side);
  return good(yield* side.sockets.accept(side.context.cpu, { listener, wait: true })).handle;
}

function* connected({ context: { cpu }, sockets }: Side, to = "b"): Steps<number> {
  const address = cpu.addresses[to]!;
  return good(yield* sockets.connect(cpu, { address, port: PORT, wait: true })).handle;
}

function* write({ context: { cpu }, sockets }: Side, socket: number, bytes: Uint8Array) {
  return yield* sockets.send(cpu, { socket, bytes, wait: true });
}

function* read({ context: { cpu }, sockets }: Side, socket: number, most = 65_536) {
  return yield* sockets.receive(cpu, { socket, most, wait: true, peek: false });
}

function* readAll(side: Side, socket: number, most?: number): Steps<Uint8Array> {
  const parts: Uint8Array[] = [];
  for (;;) {
    const { bytes } = good(yield* read(side, socket, most));
    if (bytes.length === 0) return joined(parts);
    parts.push(bytes);
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function content(length: number, salt = 0): Uint8Array {
  const rng = rngFor(7, `content ${salt}`);
  return Uint8Array.from({ length }, () => rng.below(256));
}

function answerOf(answer: { readonly bytes: Uint8Array } | string): number | string {
  return typeof answer === "string" ? answer : answer.bytes.length;
}

const text = (bytes: string) => new TextEncoder().encode(bytes);

describe("TCP between native programs", () => {
  for (const isOneHost of [false, true]) {
    it(`carries a request and its answer, ${isOneHost ? "on one host" : "between two"}`, () => {
      const seen: unknown[] = [];
      const rack = run(
        function* (side) {
          const { context: { cpu }, sockets } = side;
          const listener = yield* serve(side);
          const peer = good(yield* sockets.accept(cpu, { listener, wait: true }));
          seen.push(peer.address === cpu.addresses.a, peer.port);
          const { bytes } = good(yield* read(side, peer.handle));
          good(yield* write(side, peer.handle, bytes));
          seen.push(yield* sockets.close(cpu, { socket: peer.handle }));
        },
        function* (side) {
          const { context: { cpu } } = side;
          const from = cpu.now;
          const socket = yield* connected(side, isOneHost ? "a" : "b");
          cpu.report("connect", cpu.now - from);
          const asked = cpu.now;
          good(yield* write(side, socket, text("hello")));
          const { bytes } = good(yield* read(side, socket));
          cpu.report("answer", cpu.now - asked);
          assert.deepEqual(bytes, text("hello"));
          assert.equal(good(yield* read(side, socket)).bytes.length, 0, "the end");
        },
        { isOneHost },
      );
      assertClean(rack);
      assert.deepEqual(seen, [true, 32_768, undefined]);
      const [answerPs] = rack.reported("answer") as unknown as number[];
      assert.ok(answerPs! > 4 * CALL_PS && answerPs! < 40 * PS_PER_US, `${answerPs} ps`);
      const [connectPs] = rack.reported("connect") as unknown as number[];
      assert.ok(connectPs! < 200 * PS_PER_US, `${connectPs} ps`);
    });
  }

  it("carries 1 MiB each way at once, whole, by reads of any size", () => {
    const up = content(1 << 20, 1), down = content(1 << 20, 2);
    const rack = run(
      function* (side) {
        const socket = yield* accepted(side);
        const { context: { cpu }, sockets } = side;
        good(yield* write(side, socket, down));
        yield* sockets.shutdown(cpu, { socket, how: SHUT_WR });
        assert.deepEqual(yield* readAll(side, socket, 3_000), up);
      },
      function* (side) {
        const socket = yield* connected(side);
        const { context: { cpu }, sockets } = side;
        let done = 0;
        const parts: Uint8Array[] = [];
        while (done < up.length) {
          const bytes = up.subarray(done, done + 50_000);
          const sent = yield* sockets.send(cpu, { socket, bytes, wait: false });
          if (typeof sent !== "string") done += sent.sent;
          const got = yield* sockets.receive(cpu, {
            socket,
            most: 9_999,
            wait: false,
            peek: false,
          });
          if (typeof got !== "string") parts.push(got.bytes);
          if (typeof sent === "string" && typeof got === "string") {
            assert.deepEqual([sent, got], ["EAGAIN", "EAGAIN"]);
            const events = POLL.in | POLL.out;
            const rows = [{ kind: "socket", handle: socket, events }] as const;
            yield* sockets.poll(cpu, { timeoutPs: NEVER, rows });
          }
        }
        yield* sockets.shutdown(cpu, { socket, how: SHUT_WR });
        parts.push(yield* readAll(side, socket));
        assert.deepEqual(joined(parts), down);
        cpu.report("rate", (2 << 20) / (cpu.now - 300 * PS_PER_US) * 1e12);
      },
    );
    assertClean(rack);
    assert.deepEqual(rack.reported("warning"), []);
    const [rate] = rack.reported("rate") as unknown as number[];
    assert.ok(rate! > 1e9, `${rate} B/s`);
  });

  it("no SEND finds the ring empty, however slowly the peer reads", () => {
    const bytes = content(400_000), seen = { segments: 0, rnrNaks: 0 };
    const see = (observation: Observation) => {
      if (observation.kind !== "sent" || observation.frame === undefined) return;
      const packet = decodePacket(observation.frame);
      if (isRefusal(packet)) return;
      if (packet.payload.length === 4096) seen.segments++;
      const { aeth } = packet;
      if (aeth !== undefined && parseSyndrome(aeth.syndrome).kind === "rnr-nak") seen.rnrNaks++;
    };
    const rack = run(
      function* (side) {
        const socket = yield* accepted(side);
        yield* side.context.cpu.sleep(5 * PS_PER_MS);
        assert.deepEqual(yield* readAll(side, socket, 1_000), bytes);
      },
      function* (side) {
        const socket = yield* connected(side);
        good(yield* write(side, socket, bytes));
      },
      { observer: { scope: "wire", see, commit: () => {} } },
    );
    assertClean(rack);
    assert.ok(seen.segments >= 97, `${seen.segments}`);
    assert.equal(seen.rnrNaks, 0);
  });

  it("both write more than fits before either reads, then read: neither waits for ever", () => {
    const size = BUFFER_BYTES;
    const body = (salt: number): (side: Side, socket: number) => Steps<void> =>
      function* (side, socket) {
        const { context: { cpu }, sockets } = side;
        const bytes = content(size + 40_000, salt);
        good(yield* sockets.send(cpu, { socket, bytes, wait: true }));
        yield* cpu.sleep(5 * PS_PER_MS);
        yield* sockets.shutdown(cpu, { socket, how: SHUT_WR });
        assert.deepEqual(yield* readAll(side, socket), content(size + 40_000, 3 - salt));
      };
    assertClean(run(
      function* (side) {
        yield* body(1)(side, yield* accepted(side));
      },
      function* (side) {
        yield* body(2)(side, yield* connected(side));
      },
    ));
  });
});

describe("Connecting", () => {
  it("is refused where nobody listens, and where the listener has closed", () => {
    assertClean(run(
      function* (side) {
        const { context: { cpu }, sockets } = side;
        const listener = yield* serve(side);
        yield* sockets.close(cpu, { socket: listener });
        // The port is free again.
        yield* sockets.close(cpu, { socket: yield* serve(side) });
      },
      function* ({ context: { cpu }, sockets }) {
        const address = cpu.addresses.b!;
        for (const port of [PORT, 7]) {
          const answer = yield* sockets.connect(cpu, { address, port, wait: true });
          assert.equal(answer, "ECONNREFUSED");
        }
        const away = yield* sockets.connect(cpu, { address: 0x08080808, port: 80, wait: true });
        assert.equal(away, "ENETUNREACH");
      },
    ));
  });

  it("without waiting: poll tells of the connection, and of the refusal", () => {
    assertClean(run(
      function* (side) {
        const socket = yield* accepted(side);
        assert.equal((yield* readAll(side, socket)).length, 3);
      },
      function* (side) {
        const { context: { cpu }, sockets } = side;
        for (const [port, error] of [[PORT, undefined], [9, "ECONNREFUSED"]] as const) {
          const address = cpu.addresses.b!;
          const { handle, isConnected } = good(
            yield* sockets.connect(cpu, { address, port, wait: false }),
          );
          assert.equal(isConnected, false);
          const early = yield* sockets.send(cpu, { socket: handle, bytes: text("x"), wait: false });
          assert.equal(early, "EAGAIN");
          const rows = [{ kind: "socket", handle, events: POLL.out }] as const;
          assert.deepEqual(yield* sockets.poll(cpu, { timeoutPs: 0, rows }), [0]);
          const [bits] = yield* sockets.poll(cpu, { timeoutPs: NEVER, rows });
          assert.equal(bits! & POLL.err, error === undefined ? 0 : POLL.err);
          assert.ok(bits! & POLL.out);
          const status = good(yield* sockets.status(cpu, { socket: handle, take: true }));
          assert.equal(status.error, error);
          if (error === undefined) good(yield* write(side, handle, text("abc")));
          yield* sockets.close(cpu, { socket: handle });
        }
      },
    ));
  });

  it("times out at a host without power", () => {
    const rack = run(
      function* () {},
      function* ({ context: { cpu }, sockets }) {
        yield* cpu.sleep(PS_PER_MS);
        const address = cpu.addresses.b!;
        assert.equal(yield* sockets.connect(cpu, { address, port: PORT, wait: true }), "ETIMEDOUT");
      },
      { faults: ["{ at: 500us, kill: b }"] },
    );
    assert.equal(rack.simulator.next, NEVER);
  });

  it("two listeners of a port: EADDRINUSE; port 0: a port of its own", () => {
    assertClean(run(
      function* (side) {
        const { context: { cpu }, sockets } = side;
        yield* serve(side);
        assert.equal(yield* sockets.listen(cpu, { port: PORT, backlog: 1 }), "EADDRINUSE");
        const one = good(yield* sockets.listen(cpu, { port: 0, backlog: 1 }));
        const two = good(yield* sockets.listen(cpu, { port: 0, backlog: 1 }));
        assert.notEqual(one.port, two.port);
      },
      function* () {},
    ));
  });

  it("a full backlog holds the next one back until accept has made room", () => {
    const order: string[] = [];
    assertClean(run(
      function* (side) {
        const { context: { cpu }, sockets } = side;
        const listener = good(yield* sockets.listen(cpu, { port: PORT, backlog: 1 })).handle;
        assert.equal(yield* sockets.accept(cpu, { listener, wait: false }), "EAGAIN");
        yield* cpu.sleep(3 * PS_PER_MS);
        order.push("accept");
        for (let i = 0; i < 3; i++) {
          const { handle } = good(yield* sockets.accept(cpu, { listener, wait: true }));
          good(yield* write(side, handle, text(`${i}`)));
        }
      },
      function* (side) {
        const made: number[] = [];
        for (let i = 0; i < 3; i++) {
          made.push(yield* connected(side));
          order.push(`connected ${i}`);
        }
        for (const [i, socket] of made.entries()) {
          assert.deepEqual(good(yield* read(side, socket)).bytes, text(`${i}`));
        }
      },
    ));
    assert.deepEqual(order, ["connected 0", "connected 1", "accept", "connected 2"]);
  });

  it("a listener that closes resets who waits in it", () => {
    assertClean(run(
      function* (side) {
        const { context: { cpu }, sockets } = side;
        const listener = yield* serve(side);
        yield* cpu.sleep(2 * PS_PER_MS);
        yield* sockets.close(cpu, { socket: listener });
      },
      function* (side) {
        const socket = yield* connected(side);
        assert.equal(yield* read(side, socket), "ECONNRESET");
        assert.equal(good(yield* read(side, socket)).bytes.length, 0);
        assert.equal(yield* write(side, socket, text("x")), "EPIPE");
      },
    ));
  });

  it("a lost RTU: the peer's first bytes stand for it", () => {
    assertClean(run(
      function* (side) {
        const { context: { cpu } } = side;
        const socket = yield* accepted(side);
        assert.ok(cpu.now < 500 * PS_PER_US, `accepted at ${cpu.now}`);
        assert.deepEqual(good(yield* read(side, socket)).bytes, text("first"));
        good(yield* write(side, socket, text("second")));
      },
      function* (side) {
        const socket = yield* connected(side);
        good(yield* write(side, socket, text("first")));
        assert.deepEqual(good(yield* read(side, socket)).bytes, text("second"));
      },
      { faults: ["{ link: a-rnic->tor, loss: all, nth: 2 }"] },
    ));
  });

  it("resolve knows the rack's hosts", () => {
    assertClean(run(
      function* () {},
      function* ({ context: { cpu }, sockets }) {
        const of = function* (name: string) {
          return yield* sockets.resolve(cpu, { name });
        };
        assert.deepEqual(yield* of("b"), { address: cpu.addresses.b! });
        assert.deepEqual(yield* of("localhost"), { address: 0x7f000001 });
        assert.equal(yield* of("example.org"), "ENOENT");
        assert.equal(yield* of("toString"), "ENOENT");
      },
    ));
  });
});

describe("The end of a connection", () => {
  it("half closed: the other direction goes on", () => {
    assertClean(run(
      function* (side) {
        const socket = yield* accepted(side);
        assert.deepEqual(yield* readAll(side, socket), text("question"));
        yield* side.context.cpu.sleep(PS_PER_MS);
        good(yield* write(side, socket, text("answer")));
      },
      function* (side) {
        const { context: { cpu }, sockets } = side;
        const socket = yield* connected(side);
        good(yield* write(side, socket, text("question")));
        assert.equal(yield* sockets.shutdown(cpu, { socket, how: SHUT_WR }), undefined);
        assert.equal(yield* write(side, socket, text("more")), "EPIPE");
        assert.deepEqual(yield* readAll(side, socket), text("answer"));
      },
    ));
  });

  it("what was written before close and the program's end arrives", () => {
    const bytes = content(100_000);
    assertClean(run(
      function* (side) {
        const socket = yield* accepted(side);
        yield* side.context.cpu.sleep(3 * PS_PER_MS);
        assert.deepEqual(yield* readAll(side, socket), bytes);
      },
      function* (side) {
        good(yield* write(side, yield* connected(side), bytes));
      },
    ));
  });

  it("with bytes that the closing program has not read: a reset", () => {
    assertClean(run(
      function* (side) {
        const { context: { cpu }, sockets } = side;
        const socket = yield* accepted(side);
        yield* cpu.sleep(PS_PER_MS);
        yield* sockets.close(cpu, { socket });
      },
      function* (side) {
        const socket = yield* connected(side);
        good(yield* write(side, socket, text("unread")));
        assert.equal(yield* read(side, socket), "ECONNRESET");
      },
    ));
  });

  it("bytes that come after the close: a reset, behind what was sent", () => {
    assertClean(run(
      function* (side) {
        const { context: { cpu }, sockets } = side;
        const socket = yield* accepted(side);
        good(yield* write(side, socket, content(300_000)));
        yield* sockets.close(cpu, { socket });
      },
      function* (side) {
        const { context: { cpu } } = side;
        const socket = yield* connected(side);
        yield* cpu.sleep(PS_PER_MS);
        good(yield* write(side, socket, text("too late")));
        yield* cpu.sleep(PS_PER_MS);
        let got = 0, answer: number | string;
        for (;;) {
          answer = answerOf(yield* read(side, socket));
          if (typeof answer === "string" || answer === 0) break;
          got += answer;
        }
        assert.equal(answer, "ECONNRESET");
        assert.ok(got > 0 && got < 300_000, `${got}`);
      },
    ));
  });

  it("a write to a peer that has closed is EPIPE", () => {
    assertClean(run(
      function* (side) {
        const { context: { cpu }, sockets } = side;
        yield* sockets.close(cpu, { socket: yield* accepted(side) });
      },
      function* (side) {
        const socket = yield* connected(side);
        yield* side.context.cpu.sleep(PS_PER_MS);
        assert.equal(good(yield* read(side, socket)).bytes.length, 0);
        assert.equal(yield* write(side, socket, text("x")), "EPIPE");
      },
    ));
  });

  for (
    const [name, size] of [["a small one", 10], ["more than its buffers hold", 600_000]] as const
  ) {
    it(`a write to a host that has lost its power, ${name}: ETIMEDOUT by the connection's retries`, () => {
      const rack = run(
        function* (side) {
          yield* accepted(side);
          yield* side.context.cpu.sleep(PS_PER_S);
        },
        function* (side) {
          const { context: { cpu } } = side;
          const socket = yield* connected(side);
          yield* cpu.sleep(PS_PER_MS);
          const answer = yield* write(side, socket, content(size));
          const later = yield* read(side, socket);
          assert.ok([answer, later].includes("ETIMEDOUT"), JSON.stringify([answer, later]));
          assert.ok(cpu.now < 20 * PS_PER_MS, `${cpu.now}`);
          cpu.report("done", true);
        },
        { faults: ["{ at: 900us, kill: b }"] },
      );
      assert.deepEqual(rack.reported("done"), [true]);
      assert.equal(rack.simulator.next, NEVER);
    });
  }

  it("a peer that dies while the window is closed: found by a probe", () => {
    const rack = run(
      function* (side) {
        yield* accepted(side);
        yield* side.context.cpu.sleep(PS_PER_S);
      },
      function* (side) {
        const socket = yield* connected(side);
        const bytes = content(900_000);
        assert.ok(good(yield* write(side, socket, bytes)).sent < bytes.length);
        assert.equal(yield* write(side, socket, bytes), "ETIMEDOUT");
        side.context.cpu.report("done", true);
      },
      { faults: ["{ at: 5ms, kill: b }"] },
    );
    assert.deepEqual(rack.reported("done"), [true]);
    assert.equal(rack.simulator.next, NEVER);
  });
});

describe("A card that fails and comes back", () => {
  it("at the server: its connections end with an error at both ends, the listener goes on", () => {
    const errors: unknown[] = [];
    const rack = run(
      function* (side) {
        const { context: { cpu }, sockets } = side;
        const listener = yield* serve(side);
        const { handle } = good(yield* sockets.accept(cpu, { listener, wait: true }));
        errors.push(yield* read(side, handle));
        const next = good(yield* sockets.accept(cpu, { listener, wait: true }));
        assert.deepEqual(yield* readAll(side, next.handle), text("again"));
      },
      function* (side) {
        const { context: { cpu } } = side;
        const socket = yield* connected(side);
        yield* cpu.sleep(PS_PER_MS);
        good(yield* write(side, socket, text("lost")));
        errors.push(yield* read(side, socket));
        yield* cpu.sleep(20 * PS_PER_MS);
        good(yield* write(side, yield* connected(side), text("again")));
      },
      { faults: ["{ at: 1ms, kill: b-rnic }", "{ at: 2ms, start: b-rnic }"] },
    );
    assert.deepEqual(errors.sort(), ["ECONNRESET", "ETIMEDOUT"]);
    assertClean(rack);
  });

  it("at the client: its connections end with an error, and new ones are made", () => {
    const errors: unknown[] = [];
    const rack = run(
      function* (side) {
        const { context: { cpu }, sockets } = side;
        const listener = yield* serve(side);
        const first = good(yield* sockets.accept(cpu, { listener, wait: true }));
        yield* cpu.sleep(2 * PS_PER_MS);
        good(yield* write(side, first.handle, text("lost")));
        errors.push(yield* read(side, first.handle));
        const next = good(yield* sockets.accept(cpu, { listener, wait: true }));
        assert.deepEqual(yield* readAll(side, next.handle), text("again"));
      },
      function* (side) {
        const { context: { cpu } } = side;
        errors.push(yield* read(side, yield* connected(side)));
        yield* cpu.sleep(20 * PS_PER_MS);
        good(yield* write(side, yield* connected(side), text("again")));
      },
      { faults: ["{ at: 1ms, kill: a-rnic }", "{ at: 2ms, start: a-rnic }"] },
    );
    assert.deepEqual(errors.sort(), ["ECONNRESET", "ETIMEDOUT"]);
    assertClean(rack);
  });
});

describe("What a connection holds", () => {
  it("is free when both ends have closed, also while their programs go on", () => {
    const held = ({ context: { device: { state } } }: Side) => [
      state.queuePairs.size,
      state.completionQueues.size,
      state.regions.size,
      state.pds.size,
    ];
    const body = (open: (side: Side) => Steps<number>): Body =>
      function* (side) {
        const { context: { cpu }, sockets } = side;
        const before = held(side);
        const socket = yield* open(side);
        assert.notDeepEqual(held(side), before);
        yield* sockets.close(cpu, { socket });
        yield* cpu.sleep(PS_PER_MS);
        assert.deepEqual(held(side), before);
      };
    assertClean(run(body(accepted), body(connected)));
  });

  it("a peer that never reads: probes end, and nothing is left to happen", () => {
    const rack = run(
      function* (side) {
        yield* accepted(side);
        yield* side.context.cpu.waitSignal("never", NEVER);
      },
      function* (side) {
        yield* write(side, yield* connected(side), content(900_000));
      },
    );
    assert.equal(rack.simulator.next, NEVER);
    const left = rack.simulator.unfinished().map(({ value }) => value.program);
    assert.ok(left.includes("./client.ts#1"), `${left}`);
  });
});

describe("poll", () => {
  it("waits for its time, for a listener, for bytes, for the peer's end, and knows what is closed", () => {
    assertClean(run(
      function* (side) {
        const { context: { cpu }, sockets } = side;
        const listener = yield* serve(side);
        const rows = [{ kind: "listener", handle: listener, events: POLL.in }] as const;
        const from = cpu.now;
        assert.deepEqual(yield* sockets.poll(cpu, { timeoutPs: 50 * PS_PER_US, rows }), [0]);
        assert.equal(cpu.now - from, 50 * PS_PER_US);
        // The time that its caller owes lies before its own.
        cpu.charge(30 * PS_PER_US);
        assert.deepEqual(yield* sockets.poll(cpu, { timeoutPs: 50 * PS_PER_US, rows }), [0]);
        assert.equal(cpu.now - from, 130 * PS_PER_US);
        assert.deepEqual(yield* sockets.poll(cpu, { timeoutPs: NEVER, rows }), [POLL.in]);
        const socket = good(yield* sockets.accept(cpu, { listener, wait: true })).handle;
        yield* cpu.sleep(PS_PER_MS);
        good(yield* write(side, socket, text("late")));
        yield* cpu.sleep(PS_PER_MS);
      },
      function* (side) {
        const { context: { cpu }, sockets } = side;
        const socket = yield* connected(side);
        const rows = [
          { kind: "socket", handle: socket, events: POLL.in | POLL.rdhup },
          { kind: "async", handle: 0, events: POLL.in },
          { kind: "socket", handle: 99, events: POLL.in },
        ] as const;
        assert.deepEqual(yield* sockets.poll(cpu, { timeoutPs: NEVER, rows }), [0, 0, POLL.nval]);
        const two = rows.slice(0, 2);
        const [bytes] = yield* sockets.poll(cpu, { timeoutPs: NEVER, rows: two });
        assert.equal(bytes, POLL.in);
        const peeked = { socket, most: 9, wait: true, peek: true };
        assert.deepEqual(good(yield* sockets.receive(cpu, peeked)).bytes, text("late"));
        assert.deepEqual(good(yield* read(side, socket)).bytes, text("late"));
        const [hup] = yield* sockets.poll(cpu, { timeoutPs: NEVER, rows: two });
        assert.equal(hup! & POLL.rdhup, POLL.rdhup);
      },
    ));
  });

  it("tells of a completion channel's event", () => {
    assertClean(run(
      function* (side) {
        const { context: { cpu, device }, sockets, channels } = side;
        const { createCompChannel, createCq, reqNotifyCq, allocPd, createQp, modifyQp, postRecv } =
          device.verbs;
        const { must, getChannelEvent } = device.verbs;
        const channel = createCompChannel(device);
        channels.push(channel);
        const cq = must(yield* createCq(device, { entries: 4, channel }));
        const pd = allocPd(device);
        const qp = must(
          yield* createQp(pd, { type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 1, maxRecvWr: 1 }),
        );
        must(yield* modifyQp(qp, { state: "init", accessFlags: 0 }));
        must(yield* postRecv(qp, { sges: [] }));
        must(yield* reqNotifyCq(cq));
        const rows = [{ kind: "channel", handle: 0, events: POLL.in }] as const;
        assert.deepEqual(yield* sockets.poll(cpu, { timeoutPs: PS_PER_US, rows }), [0]);
        cpu.spawn("flusher", function* (own) {
          yield* own.cpu.sleep(100 * PS_PER_US);
          yield* modifyQp({ ...qp, device: own.device }, { state: "err" });
        });
        const from = cpu.now;
        assert.deepEqual(yield* sockets.poll(cpu, { timeoutPs: NEVER, rows }), [POLL.in]);
        assert.ok(cpu.now - from > 90 * PS_PER_US);
        // It is still there to be taken.
        assert.equal(yield* getChannelEvent(channel, { deadline: cpu.now }), cq);
      },
      function* () {},
    ));
  });
});

describe("Any writes and reads", () => {
  const exchange = (seed: number, faults: readonly string[] = []) => {
    const rng = rngFor(seed, "sizes");
    const total = [rng.below(300_000), rng.below(300_000)];
    const body = (own: number, side: Side, socket: number) =>
      function* (): Steps<void> {
        const { context: { cpu }, sockets } = side;
        const bytes = content(total[own]!, own), parts: Uint8Array[] = [];
        let at = 0, isEnd = false;
        while (!isEnd) {
          if (at < bytes.length && rng.below(2) === 0) {
            const part = bytes.subarray(at, at + 1 + rng.below(1 << rng.below(17)));
            const sent = yield* sockets.send(cpu, { socket, bytes: part, wait: false });
            if (sent === "EAGAIN") yield* cpu.sleep(1 + rng.below(PS_PER_MS));
            else at += good(sent).sent;
            if (at === bytes.length) yield* sockets.shutdown(cpu, { socket, how: SHUT_WR });
          } else if (at === 0 && bytes.length === 0) {
            yield* sockets.shutdown(cpu, { socket, how: SHUT_WR });
            at = -1;
          } else {
            const most = 1 + rng.below(1 << rng.below(17));
            const got = yield* sockets.receive(cpu, {
              socket,
              most,
              wait: at === bytes.length,
              peek: false,
            });
            if (got === "EAGAIN") continue;
            const { bytes: part } = good(got);
            if (part.length === 0) isEnd = at === bytes.length;
            parts.push(part);
            if (rng.below(8) === 0) yield* cpu.sleep(rng.below(200 * PS_PER_US));
          }
        }
        assert.deepEqual(joined(parts), content(total[1 - own]!, 1 - own));
      }();
    return run(
      function* (side) {
        yield* body(0, side, yield* accepted(side));
      },
      function* (side) {
        yield* body(1, side, yield* connected(side));
      },
      { faults },
    );
  };

  for (let seed = 1; seed <= 12; seed++) {
    it(`seed ${seed}: bytes arrive whole and in order`, () => assertClean(exchange(seed)));
  }

  for (const fault of ["loss", "duplicate", "reorder", "corrupt"]) {
    it(`over a cable with ${fault} of 2 %`, () => {
      for (const seed of [21, 22]) {
        assertClean(exchange(seed, [`{ link: a, ${fault}: 2% }`, `{ link: b, ${fault}: 2% }`]));
      }
    });
  }

  it("a run repeats to the picosecond", () => {
    const ends = () => exchange(5).reported("end");
    assert.deepEqual(ends(), ends());
  });
});
