/** Racks in which there is more than one of something: protocols of one host, hosts that lose their power. */
import { deepStrictEqual as same, match, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Check, CrashView, RecoveryContext } from "../../nodes/host/recovery/protocol.ts";
import { explore } from "../../console/explore/explore.ts";
import {
  EXPLORE_DEFAULTS,
  type ExploreOptions,
  type Verdict,
} from "../../console/explore/types.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { rackOf } from "./explored_rack.ts";
import type { OwnProgram } from "../../nodes/host/own_programs.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";

interface Protocol extends OwnProgram {
  readonly check: Check;
}

const PLACE = 4096, COPY = 8192, OTHER_PLACE = 12288;

/** Hosts without services, of which some run a protocol. */
function exploring(
  scenario: string,
  protocols: Readonly<Record<string, OwnProgram>>,
  options: Partial<ExploreOptions> = {},
): Promise<Verdict> {
  const rack = rackOf(
    `
name: several
seed: 3
defaults: { services: none, scm: { size: 64KiB } }
${scenario}
`,
    protocols,
  );
  return explore(rack, { ...EXPLORE_DEFAULTS, ...options });
}

function word(value: number): Uint8Array {
  return Uint8Array.of(value, 0, 0, 0, 0, 0, 0, 0);
}

/** Says what it is about, wherever it is asked, and leaves a copy in the cache. */
function keeping(name: string, place: number): Protocol {
  return {
    *program({ cpu }: ProgramContext): Steps<void> {
      yield* cpu.ntStore(cpu.scm.address + place, word(1));
    },
    // deno-lint-ignore require-yield -- it flushes nothing
    *recover({ cpu }: RecoveryContext): Steps<unknown> {
      const [value] = cpu.load(cpu.scm.address + place, 8);
      cpu.store(cpu.scm.address + place + 64, word(value! + 1));
      return { name, value };
    },
    check({ cut, hosts }: CrashView): string | undefined {
      if (cut.length === 0) return undefined;
      const { recovered, scm } = hosts["b"]!;
      const found = recovered as { name: string; value: number } | undefined;
      if (found?.name !== name) return `${name} is told what ${found?.name} has recovered`;
      const [copy] = scm(place + 64, 8);
      return copy === found.value + 1 ? undefined : `${name} finds ${copy} where it stored`;
    },
  };
}

describe("rack explore: several protocols of one host", () => {
  const protocols = {
    "./one.ts": keeping("one", PLACE),
    "./other.ts": keeping("other", OTHER_PLACE),
  };
  const scenario = `
hosts: { a: {}, b: {} }
programs:
  - { on: b, program: ./one.ts }
  - { on: b, program: ./other.ts }
`;
  for (const cuts of [1, 2] as const) {
    it(`P-41: each check is told of its own recovery, on one machine, ${cuts} cuts`, async () => {
      const { verdict, counterexample } = await exploring(scenario, protocols, { cuts });
      // These recoveries write, so one power failure alone does not show all.
      equal(verdict, cuts === 1 ? "partial" : "safe", counterexample?.found);
    });
  }
});

/** A program that writes a word at 30 us where its options say so, and a check that is told a rack's state. */
function watching(check: Check): Protocol {
  return {
    *program({ cpu, options }: ProgramContext): Steps<void> {
      if (options["writes"] !== true) return;
      yield* cpu.sleep(30 * PS_PER_US);
      yield* cpu.ntStore(cpu.scm.address + PLACE, word(1));
    },
    // deno-lint-ignore require-yield -- it reads only
    *recover({ cpu }: RecoveryContext): Steps<unknown> {
      return cpu.load(cpu.scm.address + PLACE, 8)[0];
    },
    check,
  };
}

function threeHosts(faults: string): string {
  return `
hosts: { a: {}, b: {}, c: {} }
programs:
  - { on: b, program: ./own.ts, writes: true }
  - { on: c, program: ./own.ts }
faults: ${faults}
`;
}

describe("rack explore: hosts that the scenario cuts", () => {
  for (
    const [what, faults] of [["dead", ""], ["back again", ", { at: 20us, start: c }"]] as const
  ) {
    it(`P-41: a check sees a host that is ${what} as rack run shows it`, async () => {
      const check: Check = ({ cut, hosts }) => {
        const { survived, recovered, scm } = hosts["c"]!;
        if (survived) return "c is said to have kept its power";
        if (cut.includes("c") === (what === "back again")) return `c is ${what}, and cut is ${cut}`;
        if (recovered !== 0) return `c recovered ${recovered}`;
        return scm(PLACE, 8)[0] === 0 ? undefined : "c has something";
      };
      const { verdict, counterexample, instants } = await exploring(
        threeHosts(`[{ at: 10us, kill: c }${faults}]`),
        { "./own.ts": watching(check) },
        { cut: { host: "b" } },
      );
      equal(verdict, "safe", counterexample?.found);
      ok(instants > 1);
    });
  }

  it("P-41: --cut all cuts those that have power when another has none", async () => {
    const check: Check = ({ hosts }) => hosts["b"]!.recovered === 1 ? "b has it" : undefined;
    const { verdict, counterexample } = await exploring(
      threeHosts("[{ at: 10us, kill: c }]"),
      { "./own.ts": watching(check) },
      { cut: "all" },
    );
    equal(verdict, "unsafe");
    ok(counterexample !== null && counterexample.isReplayable);
    equal(counterexample.found, "b has it");
    const actions = counterexample.faults.map(({ action, node }) => `${action} ${node}`);
    same(actions, ["kill c", "kill a", "kill b"], "no host comes back to be judged");
  });

  it("P-41: a power failure at the very instant of the scenario's finds what was done just before", async () => {
    // The last store before 30 us, and nothing after it.
    const check: Check = ({ hosts }) => hosts["b"]!.recovered === 1 ? "b has it" : undefined;
    const own = { "./own.ts": watching(check) };
    const { counterexample } = await exploring(threeHosts("[]"), own, { cut: { host: "b" } });
    const killed = `[{ at: ${counterexample!.atPs}ps, kill: b }]`;
    const again = await exploring(threeHosts(killed), own, { cut: { host: "b" } });
    equal(again.counterexample?.atPs, counterexample!.atPs);
  });
});

describe("rack explore: a survivor that waits for ever", () => {
  it("is cut off after many events, and the verdict says who goes on and what ends it", async () => {
    const own: Protocol = {
      *program({ cpu, device, options }: ProgramContext): Steps<void> {
        const { allocPd, createCq, connect, listen, waitEvent, accept, refused, must } =
          device.verbs;
        // A line of its own: without one its undisturbed run does nothing, and the verdict is unchecked.
        yield* cpu.ntStore(cpu.scm.address + PLACE, word(1));
        const pd = allocPd(device);
        const cq = must(yield* createCq(device, { entries: 4 }));
        const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 2, maxRecvWr: 2 };
        if (options.to !== undefined) {
          const connection = yield* connect(device, { to: "a", service: "waited", qp });
          while (refused(connection)) yield* cpu.sleep(1_000_000);
          return;
        }
        const listener = must(listen(device, "waited"));
        const event = yield* waitEvent(listener);
        if (event?.kind === "request") yield* accept(listener, event.request, { qp });
      },
      check: () => undefined,
    };
    const { verdict, why, continuations } = await exploring(
      `
hosts: { a: {}, c: {} }
programs:
  - { on: a, program: ./waits.ts }
  - { on: c, program: ./waits.ts, to: a }
`,
      { "./waits.ts": own },
      { cut: { host: "a" }, until: 2 },
    );
    same([verdict, continuations], ["partial", 1]);
    match(
      why!,
      /^where the power of a fails, \.\/waits\.ts#1 of c goes on without an end, here for \d+ events: with `until` /,
    );
  });
});

describe("rack explore: which hosts", () => {
  it("P-41: cuts each host whose power may matter to a check, also without a write to its SCM", async () => {
    const own: Protocol = {
      *program({ cpu }: ProgramContext): Steps<void> {
        cpu.note({ kind: "writes", id: 0, on: "b", at: PLACE, bytes: word(1) });
        cpu.store(cpu.scm.address + COPY, word(1));
        cpu.store(cpu.scm.address + PLACE, word(1));
        yield* cpu.flush(cpu.scm.address + PLACE, 8);
        yield* cpu.flush(cpu.scm.address + COPY, 8);
      },
      check: ({ cut, hosts }) => {
        const { scm } = hosts["c"]!;
        const isWrong = cut.includes("c") && scm(PLACE, 8)[0]! > scm(COPY, 8)[0]!;
        return isWrong ? "there, and its copy is not" : undefined;
      },
    };
    const { verdict, hosts } = await exploring(
      `
hosts: { a: {}, b: {}, c: {} }
programs:
  - { on: c, program: ./own.ts }
`,
      { "./own.ts": own },
    );
    equal(verdict, "unsafe");
    same(hosts, ["b", "c"]);
  });

  it("P-41: cuts a host whose SCM is written to, where another one's program has the check", async () => {
    const server: OwnProgram = {
      *program({ cpu }: ProgramContext): Steps<void> {
        cpu.store(cpu.scm.address + COPY, word(1));
        yield* cpu.ntStore(cpu.scm.address + PLACE, word(1));
      },
    };
    const client: OwnProgram = {
      *program() {},
      check: ({ cut, hosts }) => {
        const { scm } = hosts["b"]!;
        const isWrong = cut.includes("b") && scm(PLACE, 8)[0]! > scm(COPY, 8)[0]!;
        return isWrong ? "there, and its copy is not" : undefined;
      },
    };
    const { verdict, hosts } = await exploring(
      `
hosts: { a: {}, b: {}, c: {} }
programs:
  - { on: b, program: ./server.ts }
  - { on: a, program: ./client.ts }
`,
      { "./server.ts": server, "./client.ts": client },
    );
    same([verdict, hosts], ["unsafe", ["a", "b"]]);
  });
});
