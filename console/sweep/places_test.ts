import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { formatPath, readYaml } from "../../fabric/rack/scenario/yaml_source.ts";
import { placesOf, withValues } from "./places.ts";

const DATA = readYaml(
  `
name: several
fabric: { mtu: 1024 }
defaults: &small { cores: 2, llc: { ways: 8 } }
hosts:
  a: {}
  s1..s8: *small
  v: { ddio: on }
programs:
  - { on: v, run: sink }
  - { on: a, run: bulk, to: v, depth: 8, time: 1ms }
  - { on: s1, run: bulk, to: v, depth: 8, time: 1ms }
  - { on: s2, program: ./own.ts, to: v, records: 3 }
faults:
  - { link: a, loss: 1% }
`,
  "",
).source.data as Record<string, unknown>;

function of(name: string): string[] {
  return placesOf(name, DATA).map(formatPath);
}

describe("placesOf", () => {
  it("takes a whole path, written or not, also of hosts with a range as their name", () => {
    assert.deepEqual(of("seed"), ["seed"]);
    assert.deepEqual(of("hosts.a.ddio"), ["hosts.a.ddio"]);
    assert.deepEqual(of("hosts.s1..s8.llc.ways"), ["hosts.s1..s8.llc.ways"]);
    assert.deepEqual(of("programs[1].depth"), ["programs[1].depth"]);
    assert.deepEqual(of("programs.2.size"), ["programs[2].size"]);
    assert.deepEqual(of("faults[0].loss"), ["faults[0].loss"]);
  });

  it("takes the end of the only path that has it, of what is written before what could be", () => {
    assert.deepEqual(of("ddio"), ["hosts.v.ddio"]);
    assert.deepEqual(of("mtu"), ["fabric.mtu"]);
    assert.deepEqual(of("records"), ["programs[3].records"]);
    assert.deepEqual(of("s1..s8.cores"), ["hosts.s1..s8.cores"]);
    assert.deepEqual(of("kmin"), ["fabric.ecn.kmin"]);
    assert.deepEqual(of("loss"), ["faults[0].loss"]);
  });

  it("takes * for every key or number that has the word, or could", () => {
    assert.deepEqual(of("programs[*].depth"), ["programs[1].depth", "programs[2].depth"]);
    assert.deepEqual(of("hosts.*.ddio"), ["hosts.a.ddio", "hosts.s1..s8.ddio", "hosts.v.ddio"]);
    assert.deepEqual(of("hosts.s*8.ddio"), ["hosts.s1..s8.ddio"]);
  });

  it("refuses a name of several places with the candidates, and one of none with the nearest", () => {
    for (
      const [name, message] of [
        [
          "depth",
          "a word that stands at 2 places: expected programs[1].depth or programs[2].depth" +
          ", or programs[*].depth for all",
        ],
        [
          "queues",
          "a word that could stand at 4 places: expected defaults.queues, " +
          "hosts.a.queues, hosts.s1..s8.queues or hosts.v.queues",
        ],
        ["dept", "no word of this scenario: expected depth"],
        [
          "wholly-unknown",
          "no word of this scenario: expected a word of the scenario, or its path",
        ],
        [
          "programs[9].depth",
          'a path with "9": expected an item of programs by its number, ' +
          "from 0 to 3",
        ],
        [
          "iters",
          "no word of this scenario: expected a word of the scenario, or its path, such as " +
          "programs[0].depth; an option that is not written there, as programs[3].iters",
        ],
        [
          "programs[*].mtu",
          "no word of this scenario: expected a path in which * has something to stand for; " +
          "an option that is not written there, as programs[3].mtu",
        ],
        ["hosts..ddio", "no path: expected one such as hosts.b.ddio"],
      ] as const
    ) {
      assert.throws(() => of(name), (error: Error) => {
        assert.equal(error.message.startsWith(`--vary ${name} is ${message}`), true, error.message);
        return true;
      });
    }
  });
});

describe("withValues", () => {
  it("sets values in a copy, makes mappings on the way, and changes one place of an alias", () => {
    const set = (name: string, data: unknown) => ({ places: placesOf(name, DATA), data });
    const made = withValues(DATA, [
      set("programs[*].depth", 2),
      set("kmin", "1KiB"),
      set("s1..s8.llc.ways", 4),
    ]) as never as {
      readonly fabric: unknown;
      readonly defaults: { readonly llc: unknown };
      readonly hosts: Readonly<Record<string, { readonly llc: unknown }>>;
      readonly programs: readonly { readonly depth?: number }[];
    };
    assert.deepEqual(made.programs.map(({ depth }) => depth), [undefined, 2, 2, undefined]);
    assert.deepEqual(made.fabric, { mtu: 1024, ecn: { kmin: "1KiB" } });
    assert.deepEqual(made.hosts["s1..s8"]!.llc, { ways: 4 });
    assert.deepEqual(made.defaults.llc, { ways: 8 });
    assert.deepEqual(DATA["fabric"], { mtu: 1024 });
  });
});
