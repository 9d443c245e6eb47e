/**
 * A store of a far host to a line that home's card keeps: `wsp` keeps it from the moment on at which the host is told
 * (decision 12 of the coherence protocol), other domains lose it while it is dirty in the card's local cache.
 */
import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS, type Verdict } from "../../console/explore/types.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { OwnProgram } from "../../nodes/host/own_programs.ts";
import { rackOf } from "./explored_rack.ts";

const AT = 2 ** 20, STORED = 7;

const SCENARIO = (domain: string, directory: string, placement = "local") => `
name: dirty
seed: 1
defaults: { services: none, attach: coherent, scm: { size: 2MiB } }
hosts: { a: { domain: ${domain} }, b: {} }
shared: [ { name: s, home: a, far: [b], memory: scm, at: 1MiB, bytes: 128, placement: ${placement}, lease: 20us, directory: ${directory} } ]
programs: [ { on: all, program: ./dirty.ts } ]
until: 300us
`;

/** @param demands what has to be found of a line that is stored. */
const protocolOf = (demands: number): OwnProgram => ({
  *program({ cpu }) {
    const region = yield* cpu.region("s");
    if (region.isHome) return;
    yield* region.store(0, new Uint8Array(64).fill(STORED));
    cpu.report("stored", cpu.now);
  },
  // deno-lint-ignore require-yield -- it only reads
  *recover({ cpu, host }) {
    return host === "a" ? cpu.load(cpu.scm.address + AT, 1)[0] : undefined;
  },
  check({ cut, hosts, reports }) {
    const isStored = reports.some(({ topic }) => topic === "stored");
    if (!isStored || !cut.includes("a") || hosts.a!.recovered === demands) return undefined;
    return `the stored line has ${hosts.a!.recovered}`;
  },
});

async function explored(
  domain: string,
  { directory = "card", demands = STORED, placement = "local" } = {},
): Promise<Verdict> {
  const rack = rackOf(SCENARIO(domain, directory, placement), {
    "./dirty.ts": protocolOf(demands),
  });
  return await explore(rack, { ...EXPLORE_DEFAULTS, cut: { host: "a" } });
}

describe("rack explore of a line that the local cache of home's card has dirty", () => {
  for (const directory of ["card", "memory"]) {
    it(`decision 12: wsp keeps it at every instant: directory in the ${directory}`, async () => {
      const { verdict, why, instants, exhaustive } = await explored("wsp", { directory });
      equal(verdict, "safe", why);
      ok(exhaustive && instants > 10, `${instants} instants`);
    });
  }

  it("decision 12: eadr loses it, and the counterexample names the place", async () => {
    const { counterexample } = await explored("eadr");
    const { places, found } = counterexample!;
    equal(found, "the stored line has 0");
    const [line] = places.filter(({ place }) => place === "local cache");
    same([line?.host, line?.from, line?.to, line?.survived], ["a", AT, AT + 64, false]);
  });

  it("decision 12: what another host's card has, or gets soon, is no part of home's wsp, and the counterexample says so", async () => {
    const { counterexample } = await explored("wsp", { placement: "remote" });
    const { places, found } = counterexample!;
    equal(found, "the stored line has 0");
    // The first instant is that before the store.
    const lines = places.map(({ host, from, to, place, survived, node }) => [
      ...[host, from, to, place, survived, node],
    ]);
    same(lines, [["a", AT, AT + 64, "not there yet", false, "b-rnic"]]);
  });

  it("decision 12: the counterexample names another host's card that has the lost line", async () => {
    const { program } = protocolOf(STORED);
    const rack = rackOf(SCENARIO("wsp", "card", "remote"), {
      "./dirty.ts": {
        *program(context) {
          yield* program(context);
          const { cpu } = context;
          if (cpu.host !== "a") return;
          // By then the far host has stored, and its card has the line.
          yield* cpu.sleep(70 * PS_PER_US - cpu.now);
          cpu.store(cpu.scm.address, Uint8Array.of(1));
        },
        // deno-lint-ignore require-yield -- it only reads
        *recover({ cpu, host }) {
          if (host !== "a") return undefined;
          return [cpu.scm.address, cpu.scm.address + AT].map((at) => cpu.load(at, 1)[0]);
        },
        check({ hosts }) {
          const [later, line] = hosts.a!.recovered as number[];
          return later === 1 && line !== STORED ? `the line has ${line}` : undefined;
        },
      },
    });
    const options = { ...EXPLORE_DEFAULTS, cut: { host: "a" } };
    const { counterexample } = await explore(rack, options);
    const [line, ...others] = counterexample!.places.filter(({ from }) => from >= AT);
    same([line, others.length], [
      {
        ...{ host: "a", from: AT, to: AT + 64, place: "remote cache", survived: false },
        ...{ node: "b-rnic", by: "b-rnic", id: line!.id },
      },
      0,
    ]);
  });

  it("decision 12: a counterexample under wsp says that the line's bytes survived there", async () => {
    const { counterexample } = await explored("wsp", { demands: 0 });
    const { places, found } = counterexample!;
    equal(found, `the stored line has ${STORED}`);
    const [line] = places.filter(({ place }) => place === "local cache");
    same([line?.from, line?.survived], [AT, true]);
  });
});

/** Far stores of 8 bytes, flushed one after the other; with `again` a value comes back, and flushes are the other way round. */
const inTurn = (again: boolean): OwnProgram => ({
  *program({ cpu }) {
    const region = yield* cpu.region("s");
    if (region.isHome) return;
    const store = (at: number, value: number) => region.store(at, new Uint8Array(8).fill(value));
    for (const value of [1, 2]) {
      for (const at of [0, 64]) {
        yield* store(at, value);
        yield* region.flush(at, 64);
      }
    }
    if (!again) return;
    yield* store(0, 1);
    yield* store(64, 3);
    yield* region.flush(64, 64);
    yield* region.flush(0, 64);
  },
  // deno-lint-ignore require-yield -- it only reads
  *recover({ cpu, host }) {
    if (host !== "a") return undefined;
    return [0, 64].map((at) => cpu.load(cpu.scm.address + AT + at, 8));
  },
});

describe("robustness of stores to a line that home's card keeps", () => {
  for (const domain of ["wsp", "eadr"]) {
    for (const again of [false, true]) {
      it(`decision 12: ${domain}: what is there is there in order: a value comes back: ${again}`, async () => {
        const rack = rackOf(SCENARIO(domain, "card"), { "./dirty.ts": inTurn(again) });
        const options = { ...EXPLORE_DEFAULTS, cut: { host: "a" } };
        const { verdict, why, counterexample, judgedBy } = await explore(rack, options);
        equal(verdict, "safe", counterexample?.found ?? why);
        ok(judgedBy.includes("robustness"));
      });
    }
  }
});
