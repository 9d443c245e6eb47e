import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import { PLACEMENTS } from "../../wire/host_bus/queue_placement.ts";
import { WORK_PRESETS } from "../plan/hint_work.ts";
import { HINT_PLAN } from "../plan/hint_plan.ts";
import { HINT_KINDS } from "../../wire/roce/hint_eth.ts";
import { QUEUE_PLAN } from "../plan/queue_plan.ts";
import { PROFILES } from "../plan/profile.ts";
import { FILE, hostWith, messages, withLines } from "./scenario_testing.ts";
import { METHODS } from "../plan/vocabulary.ts";
import { parseScenario } from "./parse_scenario.ts";
import { seeded } from "../../base/property_testing.ts";

describe("parseScenario", () => {
  it("lets a program of one's own name its own host, by loopback, and a shipped one another", () => {
    const entry = (run: string) => withLines(`programs: [{ on: a, run: ${run}, to: a, x: 1 }]`);
    assert.deepEqual(messages(entry("./mine.ts")), []);
    assert.match(messages(entry("bulk")).join(), /expected another host than the one it runs on/);
  });

  it("reads the design's example", () => {
    const scenario = parseScenario(
      `
name: persist-pair
seed: 7
profile: clx-optane-cx5          # device timings; any can be overridden below
fabric: { topology: star, rate: 100Gbps, latency: 300ns, mtu: 4096 }
hosts:
  a: {}
  b: { ddio: off, domain: adr, scm: { size: 64MiB } }
programs:
  - { on: a, run: put, file: ./data.bin, to: b, method: persist-opcode, depth: 16 }
faults:
  - { at: 40us, kill: b }
  - { at: 60us, start: b }
expect:
  - survives-what-was-reported
`,
      FILE,
    );
    assert.equal(scenario.seed, 7);
    assert.equal(scenario.fabric.latencyPs, 300_000);
    assert.equal(scenario.fabric.bitsPerSecond, 100e9);
    assert.deepEqual(scenario.hosts.map(({ name, ddio }) => [name, ddio]), [["a", "on"], [
      "b",
      "off",
    ]]);
    assert.deepEqual(scenario.programs, [{
      on: "a",
      run: "put",
      at: 0,
      options: { to: "b", file: "./data.bin", method: ["persist-opcode"], depth: 16 },
    }]);
    assert.deepEqual(scenario.faults, [
      { at: 40_000_000, action: "kill", node: "b" },
      { at: 60_000_000, action: "start", node: "b" },
    ]);
  });

  it("H-02, H-06, H-09: reads what a card does with hints, for all hosts and for one", () => {
    const text = `
name: x
defaults: { hints: { depth: 4, send: 2us } }
hosts: { a: {}, b: { hints: on }, c: { hints: off }, d: { hints: { kinds: [warm-up], batch: adaptive, backOff: off } } }
`;
    const [a, b, c, d] = parseScenario(text, FILE).hosts;
    const delay = { follow: "delay", delayPs: 2_000_000 } as const;
    // A batch that is not named is no longer than what is looked ahead.
    assert.deepEqual(a!.hints, { ...HINT_PLAN, ...delay, depth: 4, batch: 4 });
    assert.deepEqual(b!.hints, HINT_PLAN);
    assert.equal(c!.hints, undefined);
    assert.deepEqual(d!.hints, {
      ...HINT_PLAN,
      kinds: HINT_KINDS.warmUp,
      batch: "adaptive",
      backOff: "off",
    });
    assert.equal(parseScenario("name: x\nhosts: { a: {} }", FILE).hosts[0]!.hints, undefined);
  });

  it("H-07, H-08: reads what hints are in, and by what they go", () => {
    const planOf = (hints: string) =>
      parseScenario(`name: x\nhosts: { a: { hints: { ${hints} } } }`, FILE).hosts[0]!.hints;
    for (
      const [words, plan] of [
        ["encoding: payload", { encoding: "payload" }],
        ["transport: own", { transport: "own" }],
        ["encoding: flagged", { encoding: "flagged", transport: "own" }],
      ] as const
    ) {
      assert.deepEqual(planOf(words), { ...HINT_PLAN, ...plan });
    }
  });

  it("[0114], H-09: reads who does the work of hints: a preset, single pieces, or a preset but for some", () => {
    const workOf = (work: string) =>
      parseScenario(`name: x\nhosts: { a: { hints: { work: ${work} } } }`, FILE).hosts[0]!.hints!
        .work;
    assert.deepEqual(workOf("driver"), WORK_PRESETS.driver);
    assert.deepEqual(workOf("{ answer: firmware }"), { answer: "firmware" });
    const mixed = workOf("{ preset: driver, decide: os, answer: driver }");
    assert.deepEqual(mixed, { ...WORK_PRESETS.driver, decide: "os", answer: "driver" });
  });

  it("Q-04, Q-05, Q-07: reads how queues are known, for all hosts and for one", () => {
    const text = `
name: x
defaults: { queues: { layout: record, cache: none } }
hosts: { a: {}, b: { queues: { count: 64, placement: both-in-3, lockAnswer: memory } }, c: { queues: 32 } }
`;
    const [a, b, c] = parseScenario(text, FILE).hosts;
    assert.deepEqual(a!.queuePlan, { ...QUEUE_PLAN, layout: "record" });
    assert.deepEqual(b!.queuePlan, {
      ...QUEUE_PLAN,
      placement: PLACEMENTS["both-in-3"],
      layout: "record",
      lockAnswer: "memory",
    });
    assert.deepEqual([a!.queues, b!.queues, c!.queues], [1024, 64, 32]);
    assert.equal(c!.queueCache.entries, 0);
    const planned = (queues: string) =>
      parseScenario(hostWith(`{ queues: ${queues} }`), FILE).hosts[1]!.queuePlan;
    assert.deepEqual(planned("{ scheme: classic }"), {
      ...QUEUE_PLAN,
      scheme: "classic",
      doorbell: { form: "fifo", carries: "number" },
    });
    assert.deepEqual(planned("{ scheme: three-space }"), QUEUE_PLAN, "one to be compared");
    assert.equal(planned("{ layout: areas }"), undefined);
    const ways: readonly [string, string, number][] = [
      ["oldest", "oldest", 1],
      ["{ oldest: 4 }", "several-oldest", 4],
      ["{ olderThan: 10us }", "older-than", 10_000_000],
      ["{ random: 2 }", "random", 2],
    ];
    for (const [word, evict, amount] of ways) {
      const host = hostWith(`{ queues: { cache: { entries: 8, evict: ${word} } } }`);
      const { queueCache, queuePlan } = parseScenario(host, FILE).hosts[1]!;
      assert.deepEqual(queueCache, { entries: 8, evict, amount });
      assert.equal(queuePlan, undefined, "a plan without news stays as it was");
    }
  });

  it("fills in everything from the profile", () => {
    const scenario = parseScenario("name: x\nhosts: { a: , b: {} }", FILE);
    const profile = PROFILES["clx-optane-cx5"];
    assert.equal(scenario.fabric.latencyPs, profile.network.latencyPs);
    assert.deepEqual(scenario.fabric.switch, profile.switch);
    assert.deepEqual(scenario.fabric.bus, profile.bus);
    assert.deepEqual(scenario.hosts[0]!.timing, { host: profile.host, rnic: profile.rnic });
    assert.deepEqual(scenario.hosts[0]!.services, ["persistd"]);
    assert.deepEqual([scenario.until, scenario.faults, scenario.expect], [null, [], []]);
  });

  it("lets a host's word count more than the defaults', and those more than the profile's", () => {
    const { hosts } = parseScenario(
      `
name: x
defaults:
  ddio: off
  llc: { ways: 4 }
  timing: { host: { iio: 1us, scmWriteRate: 10Gbps }, rnic: { dmaReadsMax: 4 } }
hosts:
  a: {}
  b: { ddio: on, llc: { size: 64KiB }, timing: { host: { iio: 2us } }, services: none }
`,
      FILE,
    );
    const [a, b] = hosts;
    assert.deepEqual([a!.ddio, b!.ddio], ["off", "on"]);
    assert.deepEqual([a!.llc.ways, b!.llc.ways, b!.llc.bytes], [4, 4, 65536]);
    assert.deepEqual([a!.timing.host.iioPs, b!.timing.host.iioPs], [1_000_000, 2_000_000]);
    assert.deepEqual([a!.timing.rnic.dmaReadsMax, b!.timing.rnic.dmaReadsMax], [4, 4]);
    assert.equal(b!.timing.host.scmWriteBitsPerSecond, 10e9);
    assert.deepEqual([a!.services, b!.services], [["persistd"], []]);
  });

  it("takes all for every method and keeps a list's order", () => {
    const text = (method: string) =>
      withLines(`programs: [{ on: a, run: put, to: b, method: ${method} }]`);
    assert.deepEqual(parseScenario(text("all"), FILE).programs[0]!.options.method, METHODS);
    assert.deepEqual(
      parseScenario(text("[write-send, write-read]"), FILE).programs[0]!.options.method,
      ["write-send", "write-read"],
    );
  });

  it("runs a program on all hosts, each with the next one", () => {
    const { programs } = parseScenario(
      "name: x\nhosts: { h2: , h1: , h3: }\nprograms: [{ on: all, run: put, to: next }]",
      FILE,
    );
    assert.deepEqual(programs.map(({ on, options }) => [on, options.to]), [
      ["h1", "h2"],
      ["h2", "h3"],
      ["h3", "h1"],
    ]);
  });

  it("reads a range of host names", () => {
    const { hosts } = parseScenario(
      "name: x\nhosts: { h8..h10: { ddio: off }, s08..s09: {} }",
      FILE,
    );
    assert.deepEqual(hosts.map(({ name, ddio }) => `${name} ${ddio}`), [
      "h10 off",
      "h8 off",
      "h9 off",
      "s08 on",
      "s09 on",
    ]);
  });

  it("takes a range wherever several names may stand, as if each had been written", () => {
    const rack = (on: string, to: string, kill: string, link: string, scm: string, far: string) =>
      parseScenario(
        `
name: x
defaults: { attach: coherent }
hosts: { a: {}, s1..s3: {} }
shared: [{ name: r, home: a, far: [${far}], bytes: 4KiB }]
programs:
  - { on: ${on}, run: ./mine.ts }
  - { on: a, run: log, to: ${to} }
faults:
${kill}
${link}
${scm}
`,
        FILE,
      );
    const lines = (line: (name: string) => string) => ["s1", "s2", "s3"].map(line).join("\n");
    assert.deepEqual(
      rack(
        "[a, s1..s3]",
        "[s1..s3]",
        "  - { at: 9us, kill: s1..s3 }\n  - { at: 99us, start: s1..s3 }",
        "  - { link: s1..s3, loss: 1% }\n  - { at: 5us, cut: s1..s3 }\n  - { at: 6us, heal: s1..s3 }",
        "  - { scm: s1..s3, stuck: 8 }\n  - { rnic: s1..s3, flip: 1% }",
        "s1..s3",
      ),
      rack(
        "[a, s1, s2, s3]",
        "[s1, s2, s3]",
        [
          lines((name) => `  - { at: 9us, kill: ${name} }`),
          lines((name) => `  - { at: 99us, start: ${name} }`),
        ].join("\n"),
        [
          lines((name) => `  - { link: ${name}, loss: 1% }`),
          lines((name) => `  - { at: 5us, cut: ${name} }`),
          lines((name) => `  - { at: 6us, heal: ${name} }`),
        ].join("\n"),
        [
          lines((name) => `  - { scm: ${name}, stuck: 8 }`),
          lines((name) => `  - { rnic: ${name}, flip: 1% }`),
        ].join("\n"),
        "s1, s2, s3",
      ),
    );
  });

  it("says where a range is none, and where none has a place", () => {
    const many = "expected a range of names from the lower number to the higher, like s1..s4";
    const one = "expected one name: a range has no place here";
    for (
      const [line, message] of [
        ["programs: [{ on: s3..s1, run: ./mine.ts }]", `programs[0].on: found "s3..s1", ${many}`],
        ["programs: [{ on: a, run: ./mine.ts, to: a..b }]", `programs[0].to: found "a..b", ${one}`],
        ["programs: [{ on: a, run: bulk, to: s1..s2 }]", `programs[0].to: found "s1..s2", ${one}`],
        ["faults: [{ at: 1us, kill: a..b }]", `faults[0].kill: found "a..b", ${many}`],
        ["faults: [{ link: a..b, loss: 1% }]", `faults[0].link: found "a..b", ${many}`],
        ["faults: [{ rnic: a..b, flip: 1% }]", `faults[0].rnic: found "a..b", ${many}`],
        [
          "shared: [{ name: r, home: a..b, far: [b], bytes: 4KiB }]",
          `shared[0].home: found "a..b", ${one}`,
        ],
      ] as const
    ) {
      assert.equal(messages(withLines(line))[0], `3: ${message}`);
    }
  });

  it("reports once what is wrong with the names of a range, wherever it stands", () => {
    for (
      const [line, place] of [
        ["faults: [{ at: 1us, kill: h1..h500 }]", "faults[0].kill"],
        ["faults: [{ link: h1..h500, loss: 1% }]", "faults[0].link"],
        ["faults: [{ rnic: h1..h500, flip: 1% }]", "faults[0].rnic"],
        ["programs: [{ on: h1..h500, run: ./mine.ts }]", "programs[0].on"],
        ["programs: [{ on: [a, h1..h500], run: ./mine.ts }]", "programs[0].on[1]"],
        ["programs: [{ on: a, run: log, to: [b, h1..h500] }]", "programs[0].to[1]"],
        [
          "shared: [{ name: r, home: a, far: [b, h1..h29], bytes: 4KiB }]",
          "shared[0].far[1]",
        ],
      ] as const
    ) {
      const found = messages(withLines(line)).filter((each) => each.includes("of its range"));
      assert.equal(found.length, 1, line);
      const more = line.includes("h29") ? 28 : 499;
      const start = `3: ${place}: found "h1", and ${more} more of its range, expected`;
      assert.ok(found[0]!.startsWith(start), found[0]);
    }
    assert.deepEqual(messages("name: x\nhosts: { h1..h500: { llc: { ways: 2, ddioWays: 4 } } }"), [
      "2: hosts.h1..h500.llc.ddioWays: found 4, and 499 more of its range, " +
      "expected at most 2, the LLC's ways",
    ]);
    const [long] = messages(withLines("faults: [{ at: 1us, kill: h1..h99999 }]"));
    assert.match(long!, /found "h1..h99999", expected a range of names/);
  });

  it("reports each kind of what is wrong at one place with the names of a range", () => {
    const faults = ["at: 5us, kill", "at: 9us, start", "at: 9us, kill"]
      .map((each) => `{ ${each}: h1..h3 }`).join(", ");
    const text = `name: x\nhosts: { h1..h3: {} }\nuntil: 9us\nfaults: [ ${faults} ]`;
    const at = "4: faults[2].at: found 9 us, and 2 more of its range, expected a";
    assert.deepEqual(messages(text).filter((each) => each.includes("faults[2].at")), [
      `${at} time before until, 9 us`,
      `${at} later time than the start of h1 before: in one instant power goes off, then on`,
    ]);
  });

  it("reports a name where it stands in the file, whatever ranges stand before it", () => {
    for (
      const [program, place] of [
        ["on: [h1..h2, a, zz, b], run: ./mine.ts", "on[2]"],
        ["on: a, run: log, to: [h1..h2, b, zz]", "to[2]"],
        ["on: a, run: ./mine.ts, to: [h1..h2, b, zz]", "to[2]"],
      ] as const
    ) {
      const found = messages(withLines(`programs: [{ ${program} }]`));
      const start = `3: programs[0].${place}: found "zz", expected`;
      assert.ok(found.some((each) => each.startsWith(start)), `${found}`);
    }
  });

  it("takes program: for run:, and refuses both at once", () => {
    const head = "name: x\nhosts: { a: {} }\nprograms: [{ on: a, ";
    const scenario = parseScenario(`${head}program: ./mine.ts, x: 1 }]`, "s.yaml");
    assert.deepEqual(scenario.programs[0], { on: "a", run: "./mine.ts", at: 0, options: { x: 1 } });
    assert.throws(() => parseScenario(`${head}program: put, run: put }]`, "s.yaml"), /program/);
  });

  it("leaves the options of a user's own program as they are", () => {
    const text = withLines(
      "programs: [{ on: b, run: ./my_protocol.ts, at: 5us, to: a, anything: [1, { x: y }] }]",
    );
    assert.deepEqual(parseScenario(text, FILE).programs, [
      {
        on: "b",
        run: "./my_protocol.ts",
        at: 5_000_000,
        options: { to: "a", anything: [1, { x: "y" }] },
      },
    ]);
  });

  it("puts faults in order of time", () => {
    const text = withLines("faults: [{ at: 3us, start: b }, { at: 1us, kill: b }]");
    assert.deepEqual(parseScenario(text, FILE).faults.map(({ action }) => action), [
      "kill",
      "start",
    ]);
  });

  it("gives SCM regions in order of their place", () => {
    const text = hostWith(
      "{ scm: { regions: { z: { at: 0, size: 64 }, log: { at: 64, size: 1KiB } } } }",
    );
    assert.deepEqual(parseScenario(text, FILE).hosts[1]!.regions, [
      { name: "z", at: 0, bytes: 64 },
      { name: "log", at: 64, bytes: 1024 },
    ]);
  });

  it("reports all that is wrong at once", () => {
    const text = `name: a b
sed: 7
fabric: { topology: ring, latency: 0ns }
hosts:
  a: { cores: 0, ddio: offf }
  tor: {}
programs:
  - { on: q, run: putt, to: a }
faults:
  - { at: 1us, start: a }
expect: [magic]
`;
    assert.deepEqual(
      messages(text).map((message) => message.split(": found")[0]),
      [
        "1: name",
        "2: sed",
        "3: fabric.topology",
        "3: fabric.latency",
        "5: hosts.a.cores",
        "5: hosts.a.ddio",
        "6: hosts.tor",
        "8: programs[0].on",
        "8: programs[0].run",
        "10: faults[0].start",
        "11: expect[0]",
      ],
    );
  });

  it("never throws anything but a Refusal, whatever the values", () => {
    const values = fc.oneof(
      fc.constantFrom(
        "a",
        "b",
        "all",
        "next",
        "on",
        "5us",
        "0ns",
        "4KiB",
        "put",
        "persist-opcode",
        "tor",
      ),
      fc.jsonValue({ maxDepth: 2 }),
    );
    const keys = [
      "hosts",
      "programs",
      "faults",
      "fabric",
      "defaults",
      "expect",
      "name",
      "seed",
      "until",
    ];
    const hostKeys = ["ddio", "scm", "llc", "timing", "queues", "services"];
    const programKeys = ["on", "run", "at", "to", "method", "depth", "size"];
    const documents = fc.record({
      name: fc.constant("x"),
      hosts: fc.oneof(values, fc.dictionary(fc.constantFrom("a", "b"), pick(hostKeys, values))),
      programs: fc.oneof(values, fc.array(pick(programKeys, values), { maxLength: 3 })),
      faults: fc.oneof(values, fc.array(pick(["at", "kill", "start"], values), { maxLength: 3 })),
      ...Object.fromEntries(keys.slice(3).map((key) => [key, values])),
    }, { requiredKeys: [] });
    fc.assert(
      fc.property(documents, (document) => {
        messages(JSON.stringify(document));
      }),
      seeded(),
    );
  });
});

function pick(keys: readonly string[], values: fc.Arbitrary<unknown>) {
  return fc.dictionary(fc.constantFrom(...keys), values);
}
