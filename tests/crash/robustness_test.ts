/**
 * Robustness: protocols without a check are judged by what their recovery reads. Each bug is found with the
 * two writes that show it, and the same protocol without the bug is safe at all instants.
 */
import { deepStrictEqual as same, match, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { explore } from "../../console/explore/explore.ts";
import {
  EXPLORE_DEFAULTS,
  type ExploredRack,
  type ExploreOptions,
} from "../../console/explore/types.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { OwnProgram } from "../../nodes/host/own_programs.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import type { CrashView, Recover, RecoveryContext } from "../../nodes/host/recovery/protocol.ts";
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_ATOMIC,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  type SendRequest,
} from "../../nodes/protocol.ts";
import * as twoQueues from "../../scripts/scenarios/two_queues.ts";
import { afterCut, ownRack, rackOf } from "./explored_rack.ts";

const SCENARIO = await Deno.readTextFile(
  new URL("../../scripts/scenarios/two_queues.yaml", import.meta.url),
);
const FILE = "./two_queues.ts";

/** The shipped log, without its check. */
function log(change: (scenario: string) => string, recover: Recover = twoQueues.recover) {
  const own = { program: twoQueues.default, recover };
  // Two records of a few lines are enough, and quick.
  const short = SCENARIO.replaceAll("bytes: 4096", "bytes: 192").replace(
    "records: 3",
    "records: 2",
  );
  return rackOf(change(short), { [FILE]: own });
}

function explored(rack: ExploredRack, more: Partial<ExploreOptions> = {}) {
  return explore(rack, { ...EXPLORE_DEFAULTS, cut: { host: "b" }, ...more });
}

async function assertSafe(rack: ExploredRack, more?: Partial<ExploreOptions>): Promise<void> {
  const { verdict, counterexample, exhaustive, why, judgedBy } = await explored(rack, more);
  equal(verdict, "safe", counterexample?.found ?? why);
  equal(exhaustive, true);
  same(judgedBy, ["robustness"]);
}

async function assertFound(rack: ExploredRack, what: RegExp, more?: Partial<ExploreOptions>) {
  const { verdict, counterexample, why } = await explored(rack, more);
  equal(verdict, "unsafe", why);
  equal(counterexample!.checker, "robustness");
  match(counterexample!.found, what);
  return counterexample!;
}

describe("rack explore: robustness of what is written from afar", () => {
  it("names both writes of a log whose tail overtakes its record on another queue pair", async () => {
    const rack = rackOf(SCENARIO, {
      [FILE]: { program: twoQueues.default, recover: twoQueues.recover },
    });
    const { found, ladder } = await assertFound(
      rack,
      /finds B, 8 B at 0x0 of b, which a posted at 220\.789 us on queue pair 18, and not A, 4096 B at 0x40 of b, which a posted at 220\.319 us on queue pair 17,/,
    );
    match(found, /A is not yet at b, as no completion of A was awaited before B/);
    const steps = ["posts A, 4096 B", "posts B, 8 B", "b has B: found", "the power of b fails"];
    const places = steps.map((step) => ladder.indexOf(step));
    ok(places.every((place, i) => place > (places[i - 1] ?? 0)), `${places}: ${ladder}`);
  });

  it("is kept where the tail goes behind the record and memory takes both in turn (DDIO off)", () =>
    assertSafe(log((text) => text.replace("tail: own", "tail: same"))));

  it("is broken by the same with DDIO on, where a READ takes nothing out of the cache", async () => {
    await assertFound(
      log((text) => text.replace("tail: own", "tail: same").replace("ddio: off", "ddio: on")),
      /b has A since 2\d\d\.\d+ us, and no FLUSH, READ or clwb of b .*covers it/,
    );
  });

  it("is broken where recovery reads a record before it knows that it is whole", async () => {
    // deno-lint-ignore require-yield -- it only looks
    const recover = function* ({ cpu }: RecoveryContext): Steps<number> {
      return cpu.load(cpu.scm.address + 64, 192)[0]!;
    };
    await assertFound(
      log((text) => text, recover),
      /reads a part of 192 B at 0x40 of b, .* has torn it/,
    );
  });

  it("knows a WRITE of several packets as one, whichever part of it is read", async () => {
    const record = Array.from({ length: 3 * 4096 }, (_, i) => i % 251 + 1);
    for (const word of [0, 4800, 12280]) {
      // deno-lint-ignore require-yield -- it only looks
      const recover = function* ({ cpu }: RecoveryContext): Steps<number> {
        const { address } = cpu.scm;
        return cpu.load(address, 8)[0] === 0 ? 0 : cpu.load(address + 4096 + word, 8)[0]!;
      };
      const posts: Post[] = [{ at: 4096, bytes: record }, {
        at: 0,
        bytes: [1, 0, 0, 0, 0, 0, 0, 0],
      }];
      const { found } = await assertFound(
        posting(posts, { ddio: "on", recover }),
        /finds B, 8 B at 0x0 /,
      );
      match(found, /and not A, 12288 B at 0x1000 of b, which a posted at .* on queue pair 17,/);
    }
  });

  it("knows whose an atomic's word is, and the WRITE that has waited for it", async () => {
    // deno-lint-ignore require-yield -- it only looks
    const recover = function* ({ cpu }: RecoveryContext): Steps<number> {
      const { address } = cpu.scm;
      return cpu.load(address + 256, 8)[0] === 0 ? 0 : cpu.load(address, 8)[0]!;
    };
    const write: Post = { at: 256, bytes: [1, 0, 0, 0, 0, 0, 0, 0] };
    for (
      const [ddio, posts] of [["off", [{ at: 0 }, write]], ["on", [{ at: 0 }, write]], ["on", [{
        at: 0,
      }, { at: 256 }]]] as const
    ) {
      const rack = posting(posts, { ddio, recover });
      if (ddio === "off") await assertSafe(rack);
      else {
        await assertFound(
          rack,
          /finds B, 8 B at 0x100 of b, which a posted .* and not A, 8 B at 0x0 of b, which a posted .*: b has A since .*, and no FLUSH, READ or clwb of b before B covers it$/,
        );
      }
    }
  });

  it("takes what a card keeps for a host without power (wsp) as that message's", () =>
    assertSafe(
      log((text) =>
        text.replace("tail: own", "tail: same").replace("ddio: off", "ddio: on\n  domain: wsp")
      ),
    ));

  it("follows a write to the core that has seen it, and stores what decides about it", async () => {
    for (const isFlushed of [true, false]) {
      const rack = rackOf(
        SCENARIO.replace("ddio: off", "ddio: on").replace(FILE, "./polling.ts")
          .replaceAll("bytes: 4096", "bytes: 64").replace("records: 3", "records: 1"),
        { "./polling.ts": polling(isFlushed), [FILE]: { program: twoQueues.default } },
      );
      if (isFlushed) await assertSafe(rack);
      else {
        await assertFound(
          rack,
          /B, 8 B at 0x8000 of b, which a core stored .*, and not A, 64 B at 0x40 .* between them/,
        );
      }
    }
  });
});

const FLAG = 0x8000;

/** A WRITE of these bytes; without any, a FETCH ADD of 1. */
interface Post {
  readonly at: number;
  readonly bytes?: readonly number[];
}

/** Host a posts all of these at once, on one queue pair of b. */
function posting(
  posts: readonly Post[],
  { ddio, recover }: { readonly ddio: "on" | "off"; readonly recover: Recover },
): ExploredRack {
  const program = function* ({ cpu, device, options }: ProgramContext): Steps<void> {
    const v = device.verbs;
    const pd = v.allocPd(device);
    const cq = v.must(yield* v.createCq(device, { entries: 16 }));
    const queues = { pd, sendCq: cq, recvCq: cq, maxSendWr: 16, maxRecvWr: 16 };
    if (options.to === undefined) {
      const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
      const mr = v.must(yield* v.regMr(pd, cpu.scm, { offset: 0, length: 1 << 14, access }));
      const listener = v.must(v.listen(device, "posts"));
      const event = yield* v.waitEvent(listener);
      if (event?.kind !== "request") return;
      const privateData = new Uint8Array(new Float64Array([mr.address, mr.rkey]).buffer);
      yield* v.accept(listener, event.request, { qp: queues, privateData });
      return yield* cpu.sleep(100_000_000);
    }
    const buffer = cpu.allocate(1 << 14);
    const mr = v.must(yield* v.regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
    const connection = yield* v.connect(device, { to: "b", service: "posts", qp: queues });
    if (v.refused(connection)) throw new Error(connection.reason);
    const [address, rkey] = new Float64Array(connection.privateData.slice().buffer);
    let from = 0;
    const requests = posts.map(({ at, bytes }): SendRequest => {
      const length = bytes?.length ?? 8;
      const common = {
        remote: { va: address! + at, rkey: rkey! },
        sges: [v.sge(mr, from, length)],
      };
      if (bytes !== undefined) cpu.store(buffer.address + from, Uint8Array.from(bytes));
      from += length;
      if (bytes !== undefined) return { opcode: "write", ...common };
      return { opcode: "fetch-add", ...common, atomic: { swapAdd: 1n, compare: 0n } };
    });
    v.must(yield* v.postSend(connection.qp, requests));
  };
  const file = "./posts.ts";
  return rackOf(
    `
name: posts
seed: 3
defaults: { services: none, ddio: ${ddio}, scm: { size: 64KiB } }
hosts: { a: {}, b: {} }
programs:
  - { on: b, program: ${file} }
  - { on: a, program: ${file}, to: b, at: 20us }
`,
    { [file]: { program, recover } },
  );
}

/** A server whose core looks for the first record, and notes in SCM that it is there. */
function polling(isFlushed: boolean): OwnProgram {
  return {
    *program({ cpu, device }: ProgramContext): Steps<void> {
      const { allocPd, createCq, regMr, listen, waitEvent, accept, must } = device.verbs;
      const pd = allocPd(device);
      const cq = must(yield* createCq(device, { entries: 16 }));
      const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
      const mr = must(yield* regMr(pd, cpu.scm, { offset: 0, length: 4096, access }));
      const place = new DataView(new ArrayBuffer(16));
      place.setBigUint64(0, BigInt(mr.address));
      place.setUint32(8, mr.rkey);
      const listener = must(listen(device, "twoqs"));
      for (let clients = 0; clients < 2;) {
        const event = yield* waitEvent(listener);
        if (event?.kind !== "request") continue;
        clients++;
        const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 };
        yield* accept(listener, event.request, { qp, privateData: new Uint8Array(place.buffer) });
      }
      const record = cpu.scm.address + 64;
      while (cpu.load(record, 1)[0] === 0) yield* cpu.sleep(100_000);
      if (isFlushed) yield* cpu.flush(record, 64);
      cpu.store(cpu.scm.address + FLAG, wordOf(1));
      yield* cpu.flush(cpu.scm.address + FLAG, 8);
    },
    // deno-lint-ignore require-yield -- it only looks
    *recover({ cpu, options }: RecoveryContext): Steps<number> {
      if (options.role !== "server" || cpu.load(cpu.scm.address + FLAG, 8)[0] === 0) return 0;
      return cpu.load(cpu.scm.address + 64, 64)[0]!;
    },
  };
}

const FIRST = 4096, SECOND = 8192;

function wordOf(value: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.of(value, 0, 0, 0, 0, 0, 0, 0);
}

/** Stores of one core, all of which recovery reads. */
function stores(program: OwnProgram["program"], more: Partial<OwnProgram> = {}): OwnProgram {
  return {
    program,
    // deno-lint-ignore require-yield -- it only looks
    *recover({ cpu }: RecoveryContext): Steps<number[]> {
      return [FIRST, SECOND].map((at) => cpu.load(cpu.scm.address + at, 8)[0]!);
    },
    ...more,
  };
}

function unflushed({ cpu }: ProgramContext): Steps<void> {
  const { address } = cpu.scm;
  return function* () {
    cpu.store(address + FIRST, wordOf(1));
    cpu.store(address + SECOND, wordOf(1));
    yield* cpu.flush(address + SECOND, 8);
    yield* cpu.flush(address + FIRST, 8);
  }();
}

function* flushed({ cpu }: ProgramContext): Steps<void> {
  for (const at of [FIRST, SECOND]) {
    cpu.store(cpu.scm.address + at, wordOf(1));
    yield* cpu.flush(cpu.scm.address + at, 8);
  }
}

describe("rack explore: robustness of what a core stores", () => {
  it("misses a flush between two stores to different lines", async () => {
    await assertFound(
      ownRack(stores(unflushed)),
      /B, 8 B at 0x2000 .* and not A, 8 B at 0x1000 .* no clwb \(cpu\.flush\) of b .*covers it/,
    );
    await assertSafe(ownRack(stores(flushed)));
  });

  it("names the fence between two words that one non-temporal store writes", async () => {
    const program = function* ({ cpu }: ProgramContext): Steps<void> {
      yield* cpu.ntStore(cpu.scm.address + FIRST, Uint8Array.from([...wordOf(1), ...wordOf(1)]));
    };
    // deno-lint-ignore require-yield -- it only looks
    const recover = function* ({ cpu }: RecoveryContext): Steps<number> {
      return cpu.load(cpu.scm.address + FIRST, 16)[0]!;
    };
    await assertFound(
      ownRack({ program, recover }),
      /B, 8 B at 0x1008 .* and not A, 8 B at 0x1000 .*: b stores A and B around the cache .* no sfence between them/,
    );
  });

  it("needs none where caches survive", () =>
    assertSafe(ownRack(stores(unflushed), ", domain: eadr")));

  it("takes an old value for whichever of its writes explains all that was read", async () => {
    const toggled = function* ({ cpu }: ProgramContext): Steps<void> {
      const { address } = cpu.scm;
      for (const [at, value] of [[FIRST, 1], [FIRST, 0], [FIRST, 1], [SECOND, 1], [FIRST, 0]]) {
        cpu.store(address + at!, wordOf(value!));
        yield* cpu.flush(address + at!, 8);
      }
    };
    await assertSafe(ownRack(stores(toggled)));
  });

  it("says nothing of words that recovery itself has written, also when it is cut", async () => {
    const recover = function* ({ cpu }: RecoveryContext): Steps<number> {
      const { address } = cpu.scm;
      yield* cpu.ntStore(address + SECOND, wordOf(7));
      return cpu.load(address + SECOND, 8)[0]! + cpu.load(address + FIRST, 8)[0]!;
    };
    await assertSafe(ownRack(stores(unflushed, { recover })), { cuts: 2 });
  });

  it("judges nothing where recovery reads nothing that was written", async () => {
    // deno-lint-ignore require-yield -- it only looks
    const recover = function* ({ cpu }: RecoveryContext): Steps<number> {
      return cpu.load(cpu.scm.address, 8)[0]!;
    };
    const { verdict, why } = await explored(ownRack(stores(flushed, { recover })));
    equal(verdict, "unchecked");
    match(why!, /recovery reads nothing that the run has written/);
  });
});

describe("rack explore: robustness beside a check", () => {
  /** A record of two words that go to memory in any order, and a sum that says whether both are there. */
  const summed = stores(unflushed, {
    // deno-lint-ignore require-yield -- it only looks
    *recover({ cpu }: RecoveryContext): Steps<string> {
      const [first, second] = [FIRST, SECOND].map((at) => cpu.load(cpu.scm.address + at, 8)[0]!);
      return first! + second! === 2 ? "whole" : "none";
    },
    check: afterCut(({ hosts }: CrashView) => {
      const { recovered } = hosts.b!;
      return recovered === "whole" || recovered === "none" ? undefined : `found ${recovered}`;
    }),
  });

  it("is not asked where a protocol has one: a checksummed log is not robust on purpose", async () => {
    const { verdict, judgedBy } = await explored(ownRack(summed));
    equal(verdict, "safe");
    same(judgedBy, ["check"]);
  });

  it("is asked, too, with --robust, and the verdict says which of them judged", async () => {
    const { judgedBy } = await explored(ownRack(summed), { robust: true });
    same(judgedBy, ["check", "robustness"]);
    const { isReplayable } = await assertFound(ownRack(summed), /no clwb/, { robust: true });
    // `rack run` asks checks only.
    equal(isReplayable, false);
  });
});
