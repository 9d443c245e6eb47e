/**
 * Calls of an own program with values of any kind, objects of other calls among them, drawn from a seed: each
 * ends in an answer or in an error with words of ours, and neither the host nor its card comes to an end.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Rng, rngFor } from "../../fabric/base/rng.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { CallRow } from "../../nodes/host/calls/calls.ts";
import { CORE_CALLS } from "../../nodes/host/calls/core_calls.ts";
import { VERB_CALLS } from "../../nodes/host/calls/verb_calls.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { IBV_ACCESS_LOCAL_WRITE, IBV_SEND_INLINE } from "rackmesh";
import { SimulatedRack } from "../support/simulated_rack.ts";

/** Errors whose words are for a program's author. */
const WORDS =
  /^(ProgramError|AddressFault|OutOfMemory|RegionRefused|RangeError)$|^TypeError: (Cannot (report|send)|An operation)/;

function* objects({ cpu, device }: ProgramContext): Steps<unknown[]> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const buffer = cpu.allocate(8192);
  const mr = v.must(yield* v.regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
  const plan = { type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 8 } as const;
  const qp = v.must(yield* v.createQp(pd, plan));
  const ud = v.must(yield* v.createQp(pd, { ...plan, type: "ud" }));
  const srq = v.must(yield* v.createSrq(pd, { maxWr: 4 }));
  const mw = v.must(yield* v.allocMw(pd, 2));
  const ids = v.rdmaCreateEventChannel(device);
  const [idle, listening, connecting] = ["tcp", "udp", "tcp"].map((ps) =>
    v.must(v.rdmaCreateId(ids, { ps: ps as "tcp" | "udp" }))
  );
  v.must(v.rdmaListen(listening!));
  v.must(v.rdmaResolveAddr(connecting!, { to: "b", port: 7 }));
  const event = v.must(yield* v.rdmaGetCmEvent(ids));
  v.must(v.rdmaResolveRoute(connecting!));
  const far = [{ address: 2 ** 50, length: 8, lkey: mr.lkey }];
  const remote = { va: 2 ** 52, rkey: 1 };
  return [
    ...[device, cpu, cpu.scm, pd, cq, buffer, mr, qp, ud, srq, mw],
    v.must(v.createAh(pd, { address: 1 })),
    v.createCompChannel(device),
    v.must(v.listen(device, "any")),
    v.wrStart(qp),
    ...[ids, idle, listening, connecting, event],
    { ps: "udp" },
    { qpNum: 77, privateData: new Uint8Array(3) },
    { to: 2 ** 31, port: 9, timeoutPs: 5 },
    plan,
    { ...plan, maxSendWr: 2 ** 30 },
    { to: "b", service: "none", qp: { ...plan, pd } },
    { opcode: "send", sges: far, sendFlags: IBV_SEND_INLINE },
    { opcode: "fetch-add", sges: far, remote, atomic: { swapAdd: 1n, compare: 0n } },
    { opcode: "bind-mw", bind: { mw, mr, rkey: 5, access: 0, offset: 2 ** 52 } },
    { access: IBV_ACCESS_LOCAL_WRITE, length: 2 ** 50 },
    { deadline: cpu.now + 5 },
  ];
}

const PLAIN: readonly unknown[] = [
  ...[
    undefined,
    null,
    true,
    0,
    1,
    -1,
    0.5,
    NaN,
    Infinity,
    4096,
    2 ** 32,
    2 ** 53,
    1n,
    -1n,
    1n << 64n,
  ],
  ...[
    "",
    "x",
    "rc",
    "b",
    "send",
    [],
    [1],
    {},
    new Map(),
    new Uint8Array(0),
    new Uint8Array(4),
    () => 1,
  ],
  ...[{ sges: [] }, { opcode: "write" }, { entries: 1 }, { entries: 2 ** 40 }, { maxWr: 2 ** 20 }],
  ...[{ state: "init" }, { state: "reset" }, { kind: "memory", address: 0, length: 1 }, {
    kind: "x",
  }],
];

/** Mostly values that pass the check of their argument, so that the verb itself sees them. */
function drawn(rows: CallRow["args"], values: readonly unknown[], rng: Rng): unknown[] {
  return rows.map(([_, kind]) => {
    const of = typeof kind === "function" ? kind : kind.optional;
    const right = values.filter((value) => of(value) === undefined);
    const from = right.length > 0 && rng.unit() < 0.9 ? right : values;
    return from[Math.floor(rng.unit() * from.length)];
  });
}

/** These take any thread, memory that others use, the core for as long as they are told, or nothing. */
const LEFT_OUT = ["spawn", "free", "charge", "random", "settle", "sfence", "fence"];

describe("calls of an own program with any values", () => {
  it("end in an answer or in an error of ours; the rack goes on", () => {
    const rng = rngFor(7, "any values");
    const strange: string[] = [];
    let called = 0, ended = false;
    const program: Program = function* (context) {
      const values = [...PLAIN, ...yield* objects(context)];
      for (const [table, rows] of [["verbs", VERB_CALLS], ["cpu", CORE_CALLS]] as const) {
        for (const [name, { args }] of Object.entries<CallRow>(rows)) {
          if (LEFT_OUT.includes(name)) continue;
          const given = drawn(args, values, rng);
          // In a thread of its own: it may wait for what never comes.
          context.cpu.spawn(`${called++}`, function* ({ cpu, device }) {
            const functions = (table === "cpu" ? cpu : device.verbs) as unknown as Readonly<
              Record<string, (...args: unknown[]) => unknown>
            >;
            try {
              const answer = functions[name]!(...given);
              if (typeof Object(answer).next === "function") yield* answer as Steps<unknown>;
            } catch (error) {
              const { name: kind, message } = error as Error;
              if (!WORDS.test(kind) && !WORDS.test(`${kind}: ${message}`)) {
                strange.push(`${name}: ${kind}: ${message}`);
              }
            }
          });
          yield* context.cpu.sleep(PS_PER_US);
        }
      }
      ended = true;
    };
    const scenario = "name: any\nhosts: { a: {}, b: {} }\n" +
      "programs: [{ on: a, program: ./any.ts, service: true }]\n";
    const rack = new SimulatedRack(scenario, {
      programs: { "./any.ts": program },
      unsound: "its calls take no care",
    }).run(1e10);
    assert.ok(ended && called > 100, `${called} calls`);
    assert.deepEqual(strange, []);
    // A wait for memory that is not mapped fails its thread.
    const failed = rack.reported("program-failed").map(({ message }) => String(message));
    assert.deepEqual(failed.filter((each) => !/no memory is mapped there$/.test(each)), []);
  });
});
