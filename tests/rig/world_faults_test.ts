/**
 * What the world does to a rack that runs: signals, a broker that goes away, a full disk, files and
 * messages that are not what they should be. Each ends in a clear message and an exit code, or in
 * nothing at all; nothing is left running and no data file is damaged.
 */
import assert from "node:assert/strict";
import { afterAll, afterEach, beforeAll, beforeEach, describe, it } from "@std/testing/bdd";
import { startNatsServer } from "../../console/rack/nats_server.ts";
import { RackError } from "../../console/base/rack_error.ts";
import { newsFromBytes, reportToBytes } from "../../fabric/clock/clock.ts";
import { decodeSealed, encode, encodeSealed } from "../../fabric/bus/codec.ts";
import type { Bus } from "../../fabric/bus/bus.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import { connectNats } from "../../fabric/bus/nats_bus.ts";
import { CommandRig } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";
import { readCapture } from "../support/pcapng_reader.ts";
import { contentOf, killFromOutside, lifeLine, RackBench } from "../support/process_rack.ts";
import { itUnless, mountMissing } from "../support/skipping.ts";

const PAIR = new URL("../../scripts/scenarios/persist_pair.yaml", import.meta.url);
const ONE = ["--method", "persist-opcode", "--ddio", "off"];
/** Timekeeper, two hosts, two RNICs, a switch and the broker. */
const PROCESSES = 7;

const withMount = itUnless(await mountMissing(), "a run on a full disk");

describe("A rack run from the command line", () => {
  let rig: CommandRig;
  /** A run that takes long, by the delays in its processes. */
  let slow: string[];

  beforeEach(async () => {
    rig = await CommandRig.open();
    const input = await rig.file("data.bin", contentOf(256 * 1024));
    slow = ["run", PAIR.pathname, "--input", input, ...ONE, "--depth", "1", "--delay", "20"];
  });

  afterEach(async () => {
    assert.deepEqual(rig.processes(), []);
    await rig.close();
  });

  for (const [signal, code] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
    it(`is taken down by ${signal}`, async () => {
      const command = rig.start(slow);
      await rig.moving();
      assert.equal(rig.processes().length, PROCESSES);
      command.kill(signal);
      const ended = await command.ended;
      assert.deepEqual(rig.processes(), [], "gone when the command is");
      assert.equal(ended.code, code, ended.stderr);
      assert.match(ended.stderr, new RegExp(`${signal}: taking the rack down`));
    });
  }

  it("is taken down by Ctrl-C, which every process of the session gets", async () => {
    const command = rig.start(slow, { detached: true });
    await rig.moving();
    command.interrupt();
    const ended = await command.ended;
    assert.deepEqual(rig.processes(), []);
    assert.equal(ended.code, 130, ended.stderr);
  });

  it("is taken down by a signal that comes while it is coming up", async () => {
    const signals = ["SIGTERM", "SIGTERM", "SIGHUP"] as const;
    for (const [i, count] of [1, PROCESSES - 1, PROCESSES].entries()) {
      const command = rig.start(slow);
      await rig.up(count);
      command.kill(signals[i]!);
      const ended = await command.ended;
      assert.deepEqual(rig.processes(), []);
      assert.equal(ended.code, 143, ended.stderr);
    }
  });

  it("leaves a capture whole or not at all when it is interrupted over writing it", async () => {
    const input = await rig.file("more.bin", contentOf(512 * 1024));
    const pcap = `${rig.cache}/pcap`, capture = `${pcap}/persist-opcode_ddio_off.pcapng`;
    const command = rig.start(["run", PAIR.pathname, "--input", input, ...ONE, "--pcap", pcap]);
    await eventually("it is being written", () => exists(`${capture}.part`) || exists(capture));
    try {
      command.kill("SIGINT");
    } catch (error) {
      // It has ended already.
      if (!(error instanceof TypeError)) throw error;
    }
    const { code, stderr } = await command.ended;
    assert.deepEqual(rig.processes(), []);
    assert.ok(!exists(`${capture}.part`));
    // The signal may have come when all was written.
    if (code !== 0) assert.equal(code, 130, stderr);
    if (exists(capture)) assert.ok(readCapture(Deno.readFileSync(capture)).frames.length > 0);
    else assert.match(stderr, /SIGINT: .*leaving the captures/);
  });

  it("ends by itself when the command is killed with kill -9, the broker included", async () => {
    for (const wait of [() => rig.up(PROCESSES), () => rig.moving()]) {
      const command = rig.start(slow);
      await wait();
      command.kill("SIGKILL");
      await command.ended;
      await rig.gone();
    }
  });

  it("goes on when somebody kills its broker", async () => {
    const input = await rig.file("data.bin", contentOf(64 * 1024));
    const quicker = ["run", PAIR.pathname, "--input", input, ...ONE, "--delay", "3"];
    const reference = await rig.run([...quicker, "--pack", "all", "--json"]);
    const command = rig.start([...quicker, "--json"]);
    await rig.moving();
    const [run] = rig.runs().filter((path) => exists(`${path}/nats-server.conf`));
    const broker = rig.processes().find((line) => line.includes("nats-server.conf"))!;
    Deno.kill(parseInt(broker), "SIGKILL");
    const ended = await command.ended;
    assert.equal(ended.code, 0, ended.stderr);
    assert.equal(JSON.parse(ended.stdout).digest, JSON.parse(reference.stdout).digest);
    const log = await Deno.readTextFile(`${run}/nats-server.log`);
    assert.equal(log.match(/Server is ready/g)?.length, 2, "it was killed and started again");
  });

  it("ends with a message when a broker by --nats goes away for good", async () => {
    const server = await startNatsServer({ dir: rig.cache });
    const { url, user, password } = server.address;
    const address = url.replace("//", `//${user}:${password}@`);
    const env = { RACKMESH_NATS_PATIENCE_MS: "1500" };
    const command = rig.start([...slow, "--nats", address], { env });
    await rig.moving();
    Deno.kill(server.pid, "SIGKILL");
    const ended = await command.ended;
    assert.equal(ended.code, 2, ended.stderr);
    assert.match(
      ended.stderr,
      /Connection to the bus is gone for good: no server answers for 1.5 s/,
    );
    assert.doesNotMatch(ended.stderr, /\n\s+at |Uncaught/);
  });

  withMount(
    "ends with a message when the disk is full, and leaves no half-written input",
    async () => {
      const input = `${rig.cache}/data.bin`;
      const quick = ["run", PAIR.pathname, "--input", input, ...ONE];
      const places = [
        // Whichever file is the first: what a process has seen, or the SCM.
        ["456k", /ended by itself .*Cannot write .*\.(scm|seen).*: No space left on device/s],
        ["200k", /Cannot keep a copy of .*data\.bin with the run: No space left on device/],
      ] as const;
      for (const [size, message] of places) {
        const mount = `mkdir -p runs && mount -t tmpfs -o size=${size} none runs`;
        const { code, stderr: said } = await rig.shell(`${mount} && rack ${quick.join(" ")}`, {
          before: ["unshare", "-rm"],
        });
        assert.equal(code, 2, said);
        assert.match(said, message);
        assert.doesNotMatch(said, /\n\s+at |Uncaught/);
      }
      assert.deepEqual(await Deno.readFile(input), contentOf(256 * 1024));
    },
  );
});

/** A run on whose bus somebody else speaks. */
const FORGED = {
  scenario: PAIR,
  method: "persist-opcode",
  ddio: "on",
  inputBytes: 16 * 1024,
  size: 1024,
  isForged: true,
} as const;

describe("A rack that runs", () => {
  let bench: RackBench;
  /** Digest of {@link FORGED} on which nobody speaks. */
  let undisturbed: string;

  beforeAll(async () => {
    bench = await RackBench.open();
    const { outcome } = await bench.run({ ...FORGED, packing: "all" });
    undisturbed = outcome.digest;
  });

  /** A client of the bus that belongs to no rack. */
  function stranger(
    run: string,
    onError = (error: Error): void => assert.fail(error),
  ): Promise<Bus> {
    return connectNats({ ...bench.server.address, run, name: "stranger", onError });
  }

  afterAll(() => bench.close());

  it("P-05 (in part): is not given a torn SCM file: says so, and leaves the file alone", async () => {
    const torn = contentOf(4096 * 5 + 1);
    let path = "";
    const run = bench.run({
      scenario: PAIR,
      method: "persist-opcode",
      ddio: "off",
      inputBytes: 24 * 1024,
      size: 1024,
      delayMsMax: 2,
      midway: {
        share: 0.3,
        act: async (rack, { directory }) => {
          // Else the requester gives up, and the run is over, before b is back.
          await rack.control.attempt("pause", {});
          killFromOutside(rack, "b");
          const dead = () => rack.processes().some(({ name, pid }) => name === "b" && pid === null);
          await eventually("b is dead", dead);
          path = `${directory}/scm/b.scm`;
          await Deno.writeFile(path, torn);
          rack.startPartition("b");
        },
      },
    });
    await assert.rejects(run, (error) => {
      assert.ok(error instanceof RackError);
      assert.equal(error.code, 2);
      assert.match(error.message, /b ended by itself \(exit code 2\)/);
      assert.match(error.message, /host b's scm\.size is 67108864 B: the file has 20481 B/);
      return true;
    });
    assert.deepEqual(await Deno.readFile(path), torn);
  });

  it("refuses every message with a bit turned over, names its subject, and gives the same digest", async () => {
    const bus = await stranger("any");
    const flips = flipBits(bus, BITS_SEED);
    await bus.flush();
    const { outcome } = await bench.run(FORGED).finally(() => bus.close());
    assert.equal(outcome.digest, undisturbed, `seed ${BITS_SEED}`);
    const refused = outcome.refused.reduce((sum, { count }) => sum + count, 0);
    // What came before a process was there, or after its end, nobody refused.
    assert.ok(refused > flips.count / 2 && refused > 150, `${refused} of ${flips.count}`);
    for (const { of, subject } of outcome.refused) {
      assert.ok(of === "timekeeper" || subject.includes(`.${of}`), `${of} on ${subject}`);
    }
  });

  for (
    const { what, forge, error } of [
      {
        what: "sends what arrives in the past",
        forge: speakOfThePast,
        error:
          /^a-rnic ended by itself .*\na has sent a message on rack\.\S+\.wire\.a\.a-rnic that/s,
      },
      {
        what: "reports what it has not sent",
        forge: reportTooMuch,
        error:
          /^a ended by itself .*\na-rnic asks on rack\.\S+\.again\.a-rnic\.a for message \d+ of a/s,
      },
    ]
  ) {
    it(`ends with a sentence that names subject and device where another one ${what} for it`, async () => {
      const bus = await stranger("any", () => {});
      forge(bus);
      await bus.flush();
      const run = bench.run({
        scenario: PAIR,
        method: "persist-opcode",
        ddio: "on",
        inputBytes: 16 * 1024,
        delayMsMax: 8,
      });
      await assert.rejects(run.finally(() => bus.close()), (failure) => {
        assert.ok(failure instanceof RackError, String(failure));
        assert.match(failure.message, error);
        assert.match(failure.message, /another process speaks for/);
        assert.equal(failure.code, 2);
        return true;
      });
    });
  }

  it("refuses what is malformed or foreign on the bus, counts it, and gives the same digest", async () => {
    let refusedByTimekeeper = 0;
    const ran = await bench.run({
      ...FORGED,
      delayMsMax: 4,
      midway: {
        share: 0.2,
        act: async (rack, { run }) => {
          const bus = await stranger(run);
          for (const [subject, payload] of nonsense(run)) bus.publish(subject, payload);
          await bus.flush();
          await bus.close();
          // It has much to refuse first, and may be gone when it has: then this came too late.
          for (let attempt = 0; attempt < 20 && refusedByTimekeeper === 0; attempt++) {
            refusedByTimekeeper = (await rack.status())?.refused ?? 0;
          }
        },
      },
    });
    assert.equal(ran.outcome.digest, undisturbed);
    assert.deepEqual(lifeLine(ran), []);
    assert.equal(ran.puts[0]?.status, "done");
    assert.ok(refusedByTimekeeper > 100, `${refusedByTimekeeper} refused`);
    for (const { partition, refused } of ran.outcome.finals) {
      assert.ok(refused > 20, `${partition} refused ${refused}`);
    }
  });
});

/** Says of host a that it sent its card a message that arrives at 0, behind all that it has sent. */
function speakOfThePast(bus: Bus): void {
  bus.subscribe("rack.*.wire.a.a-rnic", (payload, subject) => {
    const [incarnation, first, rows] = decodeSealed(payload) as [number, number, unknown[][]];
    if (first === 0 || rows[0]![0] === 0) return;
    const forged = [incarnation, first + rows.length, [rows[0]!.with(0, 0)]];
    bus.publish(subject, encodeSealed(forged));
  });
}

/** Answers for host a what it is granted, sooner than it can: a thousand messages to its card. */
function reportTooMuch(bus: Bus): void {
  bus.subscribe("rack.*.clock.grant.a", (payload, subject) => {
    const news = newsFromBytes(payload);
    if (news?.kind !== "grant") return;
    const { term, incarnation, id, horizon } = news.body;
    const forged = {
      ...{ term, partition: "a", incarnation, grant: id, reached: horizon, next: horizon },
      ...{ now: 0, ran: 0, events: 0, digests: [], hits: [], taken: null },
      sent: [["a-rnic", incarnation, 1_000, horizon]] as const,
    };
    bus.publish(subject.replace("grant", "report"), reportToBytes(forged));
  });
}

const BITS_SEED = 1;

/** Says again half of what it hears of a run's clock and cables, each time with another bit turned over. */
function flipBits(bus: Bus, seed: number): { readonly count: number } {
  const rng = rngFor(seed, "bits");
  const own = new Set<string>();
  const flips = { count: 0 };
  const textOf = (subject: string, payload: Uint8Array) => `${subject} ${payload.toHex()}`;
  bus.subscribe("rack.>", (payload, subject) => {
    const isInternal = /^rack\.[^.]+\.(?:wire|again|clock)\./.test(subject);
    if (!isInternal || own.has(textOf(subject, payload)) || rng.below(2) !== 0) return;
    const flipped = payload.slice();
    const bit = rng.below(8 * flipped.length);
    flipped[bit >> 3]! ^= 1 << (bit & 7);
    own.add(textOf(subject, flipped));
    bus.publish(subject, flipped);
    flips.count++;
  });
  return flips;
}

/** Payloads that are none of ours: no CBOR, CBOR of another shape, of nearly the right shape. */
const NONSENSE: readonly Uint8Array[] = [
  new Uint8Array(0),
  Uint8Array.of(0xff),
  new TextEncoder().encode("GET / HTTP/1.1\r\n\r\n"),
  contentOf(1000),
  contentOf(1 << 18),
  // Arrays in arrays, without end.
  new Uint8Array(1 << 18).fill(0x81),
  ...[
    null,
    -1,
    0.5,
    "b",
    [],
    [[]],
    ["b"],
    ["zz", "nobody"],
    [null, null],
    ["welcome", []],
    ["grant", [0, 0, 1, 1, [], [], [], []]],
    ["grant", [0, 99, 1, 1, [], [], [], [], ""]],
    [0, 0, [[1, 2, 3]]],
    [0, 0, [[-1, 0, 0, 0, 0, 0, 0, 0, 0, null]]],
    [0, 0, [[1, 1, 999, 0, 999, 0, 0, 0, 0, new Uint8Array(64)]]],
    Array.from({ length: 13 }, () => 0),
    ["kill", "b", 0, "not-this-process"],
  ].flatMap((value) => [encode(value), encodeSealed(value)]),
];

const CABLES = [["a", "a-rnic"], ["b", "b-rnic"], ["a-rnic", "tor"], ["b-rnic", "tor"]] as const;

/** Each of them to every kind of subject of a run, and to one that is no rack's. */
function* nonsense(run: string): Generator<readonly [subject: string, payload: Uint8Array]> {
  const nodes = ["a", "a-rnic", "b", "b-rnic", "tor", "zz"];
  const verbs = [
    "status",
    "pause",
    "resume",
    "step",
    "pace",
    "death",
    "start",
    "run",
    "fault",
    "faults",
  ];
  const control = [...verbs, "finished", "stalled", "final-b", "boot", "kill", "nonsense"];
  const subjects = [
    ...nodes.flatMap((node) =>
      (["grant", "report", "join", "alive"] as const).map((kind) => `clock.${kind}.${node}`)
    ),
    ...CABLES.flatMap(([x, y]) => [`wire.${x}.${y}`, `wire.${y}.${x}`, `again.${x}.${y}`]),
    ...nodes.flatMap((node) => [`wire.zz.${node}`, `again.zz.${node}`, `clock.order.${node}`]),
    ...nodes.flatMap((node) => [`trace.${node}`, `report.${node}`]),
    ...control.map((verb) => `control.${verb}`),
    "clock.ask",
    "clock.nonsense.b",
    "nonsense",
  ].map((rest) => `rack.${run}.${rest}`);
  for (const subject of [...subjects, "foreign", "rack.other.clock.ask"]) {
    for (const payload of NONSENSE) yield [subject, payload];
  }
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
