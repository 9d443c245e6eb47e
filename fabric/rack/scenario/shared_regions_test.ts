import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../assembly/topology.ts";
import type { HostPlan, RackPlan, RnicPlan } from "../plan/plan.ts";
import { SCM_BASE } from "../plan/shared_region.ts";
import { parseScenario } from "./parse_scenario.ts";
import { FILE, messages, type Refusal } from "./scenario_testing.ts";
import { variants } from "./variants.ts";

/** Three hosts on coherent buses, with these regions. */
function sharing(...regions: string[]): string {
  return [
    "name: x",
    "defaults: { attach: coherent, scm: { size: 1MiB }, dram: 2MiB, queues: 64 }",
    "hosts: { a: {}, b: {}, c: {}, d: { attach: pcie } }",
    "shared:",
    ...regions.map((region) => `  - ${region}`),
  ].join("\n");
}

function planOf(text: string): RackPlan {
  return makePlan(variants(parseScenario(text, FILE))[0]!);
}

function configOf(plan: RackPlan, name: string): HostPlan | RnicPlan {
  const node = plan.nodes.find((each) => each.name === name)!;
  assert.ok(node.kind !== "switch");
  return node.config;
}

describe("coherence", () => {
  it("is the path of a file, of a rack that shares regions", () => {
    const rack = sharing("{ name: s, home: a, far: [b], bytes: 128 }");
    assert.equal(planOf(`${rack}\ncoherence: ./mine.ts`).coherence, "./mine.ts");
    assert.equal("coherence" in planOf(rack), false);
    assert.match(
      messages("name: x\nhosts: { a: {} }\ncoherence: ./mine.ts").join(),
      /coherence: found "\.\/mine\.ts", and no region, expected shared regions/,
    );
    assert.match(
      messages(`${rack}\ncoherence: mine`).join(),
      /coherence: found "mine", expected the path of a file of your own/,
    );
  });
});

describe("shared", () => {
  it("C-03: gives home and far hosts, and their cards, the regions that they have a part in", () => {
    const plan = planOf(sharing(
      "{ name: s, home: a, far: [b, c], bytes: 128, at: 4KiB, placement: local, lease: 20us }",
      "{ name: t, home: b, far: [a], bytes: 64KiB, memory: dram, slots: 1, remoteCache: 2 }",
      "{ name: u, home: a, far: [c], bytes: 64, directory: memory }",
    ));
    const [s, t] = configOf(plan, "b").shared!;
    assert.deepEqual(s, {
      id: 0,
      name: "s",
      home: { host: "a", address: 0x0a00_0001 },
      far: [
        { host: "b", address: 0x0a00_0002, agent: 1 },
        { host: "c", address: 0x0a00_0003, agent: 2 },
      ],
      memory: "scm",
      address: SCM_BASE + 4096,
      bytes: 128,
      placement: "local",
      leasePs: 20_000_000,
      leaseMarginPs: 2_500_000,
      // Of u, whose lease is a's longest.
      homeWaitPs: 56_250_000,
      remoteCache: 1024,
      localCache: 1024,
      slots: 16,
      entries: 4096,
      writeBacks: 8,
    });
    assert.equal(t!.address, 2 ** 21 - 2 ** 16);
    assert.deepEqual([t!.slots, t!.remoteCache, t!.placement], [1, 2, "auto"]);
    assert.equal(t!.leasePs, 50_000_000);
    assert.deepEqual(configOf(plan, "b-rnic").shared, [s, t]);
    const its = configOf(plan, "c").shared!;
    assert.deepEqual(its.map(({ name }) => name), ["s", "u"]);
    assert.equal(its[1]!.address, SCM_BASE + 2 ** 20 - 4096);
    assert.deepEqual(its[1]!.far.map(({ agent }) => agent), [2]);
    assert.equal(its[1]!.directory, "memory");
    assert.equal(configOf(plan, "d").shared, undefined);
    assert.deepEqual(configOf(plan, "a-rnic").attach, { bitsPerSecond: 192e9 });
    assert.equal(configOf(plan, "d-rnic").attach, undefined);
  });
});

describe("shared, judge", () => {
  const judgeOf = (more: string) =>
    configOf(planOf(sharing(`{ name: s, home: a, far: [b], bytes: 64${more} }`)), "a").shared![0]!
      .judge;

  it("decision 17: replaces margin, windows and length of a window, each alone, and the rule", () => {
    assert.equal(judgeOf(""), undefined);
    const usual = { marginPercent: 25, windows: 2, windowPs: 100e6 };
    assert.deepEqual(judgeOf(", judge: { margin: 0 }"), { ...usual, marginPercent: 0 });
    assert.deepEqual(judgeOf(", judge: { windows: 5, window: 7us }"), {
      ...usual,
      windows: 5,
      windowPs: 7e6,
    });
    const rule = { ...usual, rule: "./rule.ts" };
    assert.deepEqual(judgeOf(", judge: ./rule.ts"), rule);
    assert.deepEqual(judgeOf(", judge: { rule: ./rule.ts }"), rule);
  });
});

const WRONG: readonly Refusal[] = [
  [
    "decision 17: a judge where nothing is judged",
    sharing("{ name: s, home: a, far: [b], bytes: 64, placement: local, judge: { margin: 1 } }"),
    "5: shared[0].judge: found a judge, expected none, as placement: local leaves nothing to judge",
  ],
  [
    "decision 17: windows of one home that differ",
    sharing(
      "{ name: s, home: a, far: [b], bytes: 64, judge: { window: 50us } }",
      "{ name: t, home: a, far: [c], bytes: 64 }",
    ),
    "6: shared[1].name: found t with a window of 100 us, expected a window of 50 us as of region s: far cards count for all regions of a together",
  ],
  [
    "decision 17: a rule that is no file",
    sharing("{ name: s, home: a, far: [b], bytes: 64, judge: often }"),
    '5: shared[0].judge: found "often", expected a path like ./my_rule.ts or a mapping',
  ],
  [
    "a host that there is not",
    sharing("{ name: s, home: aa, far: [b], bytes: 64 }"),
    '5: shared[0].home: found "aa", expected a host of this rack (a, b, c or d)',
  ],
  [
    "home among the far ones",
    sharing("{ name: s, home: a, far: [b, a], bytes: 64 }"),
    "5: shared[0].far[1]: found a, expected a host other than home, which has the memory",
  ],
  [
    "C-01, decision 8: a card of another version of RoCE",
    sharing("{ name: s, home: a, far: [c, b], bytes: 64 }").replace("b: {}", "b: { roce: v1 }"),
    "5: shared[0].far[1]: found b, whose card speaks RoCEv1, expected a host whose card speaks RoCEv2, as that of a",
  ],
  [
    "C-01: a card that is attached by PCIe",
    sharing("{ name: s, home: a, far: [d], bytes: 64 }"),
    "5: shared[0].far[0]: found d, whose card is attached by PCIe, expected a host with attach: coherent, which shared regions need",
  ],
  [
    "decision 21: part of a line",
    sharing("{ name: s, home: a, far: [b], bytes: 100 }"),
    "5: shared[0].bytes: found 100, expected a size from 64 B to 1 GiB in steps of 64 B, like 64MiB",
  ],
  [
    "decision 21: regions that overlap",
    sharing(
      "{ name: s, home: a, far: [b], bytes: 128, at: 64 }",
      "{ name: t, home: a, far: [b], bytes: 128, at: 128 }",
    ),
    "6: shared[1].at: found 128 B, expected a region from 192 B on, where s ends",
  ],
  [
    "decision 7: a region where another has its directory",
    sharing(
      "{ name: s, home: a, far: [b], bytes: 4KiB, at: 0, directory: memory }",
      "{ name: t, home: a, far: [b], bytes: 128, at: 4KiB }",
    ),
    "6: shared[1].at: found 4 KiB, expected a region from 4224 B on, where s ends",
  ],
  [
    "a region at the place of those without one",
    sharing(
      "{ name: s, home: a, far: [b], bytes: 64 }",
      "{ name: t, home: a, far: [b], bytes: 8KiB, at: 1016KiB }",
    ),
    "6: shared[1].at: found a region that ends at 1 MiB, expected an end up to 1020 KiB, behind which is no SCM, or other regions",
  ],
  [
    "more than the memory",
    sharing("{ name: s, home: a, far: [b], bytes: 4MiB, memory: dram }"),
    "5: shared[0].bytes: found 4 MiB, expected regions that fit 2 MiB of DRAM",
  ],
  [
    "a place in DRAM",
    sharing("{ name: s, home: a, far: [b], bytes: 64, memory: dram, at: 64 }"),
    "5: shared[0].at: found 64 B, expected none, as the system chooses a place in DRAM",
  ],
  [
    "two of one name",
    sharing(
      "{ name: s, home: a, far: [b], bytes: 64 }",
      "{ name: s, home: b, far: [a], bytes: 64 }",
    ),
    "6: shared[1].name: found s a second time, expected another name for each region",
  ],
  [
    "a far host twice",
    sharing("{ name: s, home: a, far: [b, b], bytes: 64 }"),
    "5: shared[0].far: found a list, expected a list of 1 to 30 different hosts' names, or ranges like s1..s4",
  ],
  [
    "decision 7: a directory that is nowhere",
    sharing("{ name: s, home: a, far: [b], bytes: 64, directory: host }"),
    '5: shared[0].directory: found "host", expected card or memory',
  ],
  [
    "decision 13: a lease of no time",
    sharing("{ name: s, home: a, far: [b], bytes: 64, lease: 0us }"),
    '5: shared[0].lease: found "0us", expected a time > 0 with its unit, like 50us',
  ],
];

describe("a wrong shared", () => {
  for (const [name, text, ...expected] of WRONG) {
    it(`is refused: ${name}`, () => assert.deepEqual(messages(text), expected));
  }
});
