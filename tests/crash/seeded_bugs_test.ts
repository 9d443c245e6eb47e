/**
 * The crash explorer finds the bugs that were put in, each of a kind of its own, and finds nothing in the
 * same code without them.
 */
import { deepStrictEqual as same, match, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Message, type Node, type Outputs, PORTS } from "../../fabric/node.ts";
import type { CreateNode } from "../../fabric/partition/partition.ts";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { CrashView, RecoveryContext } from "../../nodes/host/recovery/protocol.ts";
import { explore } from "../../console/explore/explore.ts";
import type {
  Counterexample,
  ExploredRack,
  ExploreOptions,
  Verdict,
} from "../../console/explore/types.ts";
import { ownRack, putRack } from "./explored_rack.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";

const OPTIONS: ExploreOptions = { choices: 4096, tear: 8, cuts: 1 };

function exploring(rack: ExploredRack, more: Partial<ExploreOptions> = {}): Promise<Verdict> {
  return explore(rack, { ...OPTIONS, ...more });
}

async function assertSafe(rack: ExploredRack, more?: Partial<ExploreOptions>): Promise<Verdict> {
  const verdict = await exploring(rack, more);
  equal(verdict.verdict, "safe", verdict.counterexample?.found);
  equal(verdict.bounded, 0);
  return verdict;
}

async function assertFound(
  rack: ExploredRack,
  more?: Partial<ExploreOptions>,
): Promise<Counterexample> {
  const { verdict, counterexample } = await exploring(rack, more);
  equal(verdict, "unsafe");
  ok(counterexample);
  return counterexample;
}

// What each method promises, `promises_test.ts` and `matrix_test.ts` explore.
describe("rack explore: methods", () => {
  const CLAIMS = [["write-only", "off"], ["write-only", "on"], ["write-read", "on"]] as const;
  for (const [method, ddio] of CLAIMS) {
    const rack = () => putRack({ method, ddio });
    it(`P-10, P-12: ${method} promises nothing that could be kept, DDIO ${ddio}`, async () => {
      const { verdict, instants, promises } = await exploring(rack());
      same([verdict, promises], ["unchecked", 0]);
      ok(instants > 200);
    });
    it(`P-10, P-12: what ${method} only claims is lost at some instant, DDIO ${ddio}`, async () => {
      const found = await assertFound(rack(), { claims: true });
      equal(found.checker, "survives-what-was-reported");
      match(found.found, /^b: SCM at 0x10000 is lost: write 0 of a\/0\/put#\d/);
      ok(found.promised.some((text) => /persistent, as its method claims,/.test(text)));
      ok(found.places.some(({ place, survived }) => place !== "memory" && !survived));
      match(found.ladder, /the power of b fails/);
    });
  }
});

/** Where things are in the SCM of b. */
const RECORD = 4096, TAIL = 8192;
const BYTES = Uint8Array.from({ length: 64 }, (_, i) => i + 1);
const ONE = Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 0);
const NONE = new Uint8Array(8);

type Own = (context: ProgramContext) => Steps<void>;

/** A record, and a tail that counts it, which must not be there without it. */
function appending(order: "record first" | "both at once"): Own {
  return function* ({ cpu }) {
    const { address } = cpu.scm;
    cpu.note({ kind: "writes", id: 0, on: "b", at: RECORD, bytes: BYTES });
    cpu.note({ kind: "writes", id: 1, on: "b", at: TAIL, bytes: ONE, after: [0] });
    cpu.store(address + RECORD, BYTES);
    if (order === "record first") yield* cpu.flush(address + RECORD, 64);
    cpu.store(address + TAIL, ONE);
    yield* cpu.flush(address + TAIL, 8);
    if (order === "both at once") yield* cpu.flush(address + RECORD, 64);
    cpu.note({ kind: "persistent", id: 1, promised: true });
  };
}

describe("rack explore: programs", () => {
  it("P-41: finds a tail that is persistent before its record", async () => {
    await assertSafe(ownRack({ program: appending("record first") }));
    const { found, writebacks } = await assertFound(
      ownRack({ program: appending("both at once") }),
    );
    match(
      found,
      /write 1 of b\/0\/\.\/own.ts#\d is there, and write 0 .*, which it comes after, is not/,
    );
    ok(writebacks.every(({ from }) => from >= TAIL), "the cache gave up the tail's line first");
  });

  it("P-04: finds a flush of the wrong range", async () => {
    const program = (flushed: number): Own =>
      function* ({ cpu }) {
        const at = cpu.scm.address + RECORD + 32;
        cpu.note({ kind: "writes", id: 0, on: "b", at: RECORD + 32, bytes: BYTES });
        cpu.store(at, BYTES);
        yield* cpu.flush(at, flushed);
        cpu.note({ kind: "persistent", id: 0, promised: true });
      };
    await assertSafe(ownRack({ program: program(64) }));
    const { places, writebacks } = await assertFound(ownRack({ program: program(32) }));
    same(writebacks, []);
    same(
      places.map(({ from, to, place, survived }) => [from, to, place, survived]),
      [[RECORD + 32, RECORD + 64, "memory", true], [RECORD + 64, RECORD + 96, "llc", false]],
    );
    await assertSafe(ownRack({ program: program(32) }, ", domain: eadr"));
  });

  it("P-41: finds a record that a torn write passes for whole", async () => {
    const program: Own = function* ({ cpu }) {
      yield* cpu.ntStore(cpu.scm.address + RECORD, BYTES.subarray(0, 32));
      yield* cpu.ntStore(cpu.scm.address + TAIL, ONE);
    };
    /** Takes the record for whole as the word at `mark` is there. */
    const recovering = (mark: number) =>
      // deno-lint-ignore require-yield -- it reads only
      function* ({ cpu }: RecoveryContext): Steps<unknown> {
        const isThere = cpu.load(cpu.scm.address + mark, 8)[0] !== 0;
        return isThere ? [...cpu.load(cpu.scm.address + RECORD, 32)] : [];
      };
    const check = ({ hosts }: CrashView) => {
      const found = hosts.b!.recovered as number[];
      if (found.length === 0 || found.every((byte, i) => byte === BYTES[i])) return undefined;
      return `the record is ${found}`;
    };
    await assertSafe(ownRack({ program, recover: recovering(TAIL), check }));
    const { found, checker, writebacks, atPs } = await assertFound(
      ownRack({ program, recover: recovering(RECORD), check }),
    );
    equal(checker, "check");
    match(found, /^the record is 1,2,3,4,5,6,7,8,.*0,0,0,0/);
    ok(writebacks.length > 0 && writebacks.every(({ at }) => at < atPs));
    await assertSafe(ownRack({ program, recover: recovering(RECORD), check }), { tear: 32 });
  });

  it("P-41: finds a recovery that may not be interrupted, by a second power failure", async () => {
    // An intention: "add 1 to the sum", and the sum itself.
    const program: Own = function* ({ cpu }) {
      yield* cpu.ntStore(cpu.scm.address + RECORD, ONE);
    };
    const recovering = (isIdempotent: boolean) =>
      function* ({ cpu }: RecoveryContext): Steps<unknown> {
        const [intention, sum] = [cpu.scm.address + RECORD, cpu.scm.address + TAIL];
        const value = cpu.load(intention, 8)[0]!;
        if (value !== 0) {
          const before = isIdempotent ? 0 : cpu.load(sum, 8)[0]!;
          yield* cpu.ntStore(sum, Uint8Array.of(before + value, 0, 0, 0, 0, 0, 0, 0));
          yield* cpu.ntStore(intention, NONE);
        }
        return cpu.load(sum, 8)[0];
      };
    const check = ({ hosts }: CrashView) =>
      (hosts.b!.recovered as number) > 1 ? `1 was added ${hosts.b!.recovered} times` : undefined;
    const once = await explore(ownRack({ program, recover: recovering(false), check }), OPTIONS);
    equal(once.verdict, "partial", "one power failure does not show it");
    await assertSafe(ownRack({ program, recover: recovering(true), check }), { cuts: 2 });
    const { found, again } = await assertFound(
      ownRack({ program, recover: recovering(false), check }),
      { cuts: 2 },
    );
    equal(found, "1 was added 2 times");
    ok(again !== undefined && again > 0);
  });

  it("finds a recovery that does not run through", async () => {
    const program: Own = function* ({ cpu }) {
      yield* cpu.ntStore(cpu.scm.address + RECORD, ONE);
    };
    // deno-lint-ignore require-yield -- it throws
    const recover = function* ({ cpu }: RecoveryContext): Steps<unknown> {
      if (cpu.load(cpu.scm.address + RECORD, 8)[0] !== 0) throw new Error("what is this?");
      return undefined;
    };
    const { found } = await assertFound(ownRack({ program, recover }));
    match(found, /^recover failed on b: what is this\? \(seeded_bugs_test\.ts:\d+:\d+\)$/);
  });
});

/** A card of `b` that answers its own reads of SCM, as though the writes before them had arrived. */
function hasty(create: CreateNode): CreateNode {
  return (name, life, unsaved) => {
    const node = create(name, life, unsaved);
    return name === "b-rnic" ? hastyCard(node) : node;
  };
}

function hastyCard(node: Node): Node {
  return {
    ...node,
    step(now, input, out) {
      const reads: Extract<Message, { kind: "memory-read" }>[] = [];
      const outputs: Outputs = {
        ...out,
        tracing: out.tracing,
        send(port, message, departAt) {
          const isRead = message.kind === "memory-read" && message.address >= SCM_BASE;
          if (port !== PORTS.rnicBus || !isRead) return out.send(port, message, departAt);
          reads.push(message);
          return departAt;
        },
      };
      node.step(now, input, outputs);
      for (let read = reads.shift(); read !== undefined; read = reads.shift()) {
        const { tag, length } = read;
        const data = new Uint8Array(length);
        const message = { kind: "completion", tag, status: "success", data } as const;
        node.step(now, { kind: "message", port: PORTS.rnicBus, message, tailPs: 0 }, outputs);
      }
    },
  };
}

describe("rack explore: cards", () => {
  it("P-24, P-41: finds a PM module that does not wait for its read behind the data", async () => {
    const rack = putRack({ method: "persist-opcode", ddio: "off" });
    await assertSafe(rack);
    const { places, ladder } = await assertFound({ ...rack, replace: hasty });
    ok(places.every(({ place, survived }) => place !== "memory" && !survived));
    match(ladder, /S905[\s\S]*the power of b fails|the power of b fails[\s\S]*S905/);
  });
});
