import { deepEqual as same, equal, match, throws } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { CallWatch } from "../cpu/forgotten_calls.ts";
import type { Refusal } from "../cm/connection.ts";
import type { reject } from "../cm/listen.ts";
import type { Steps } from "../cpu/program.ts";
import type { AccessFlags, SendFlags } from "../verbs/flags.ts";
import type { PostError, VerbError } from "../verbs/objects.ts";
import { type AnswerOf, type CallRow, checksOf, row, type RowOf } from "./calls.ts";
import { REGION_CALLS, REGION_CHECKS } from "./core_calls.ts";
import { flags, listOf, made, oneOf, optional, shape, text, u8 } from "./values.ts";
import { VERB_CHECKS } from "./verb_calls.ts";

type Untyped = Readonly<Record<string, (...args: unknown[]) => unknown>>;

/** A table whose functions return what they are called with, and the calls that have come. */
function recorded(names: readonly string[], called: unknown[][]): Untyped {
  return Object.fromEntries(
    names.map((name) => [name, (...args: unknown[]) => {
      called.push([name, ...args]);
      return args;
    }]),
  );
}

describe("calls of a shared region", () => {
  it("C-03: with a wrong value end the program with EINVAL, and do not reach the region", () => {
    const called: unknown[][] = [];
    const region = new CallWatch().watched(
      recorded(Object.keys(REGION_CALLS), called),
      REGION_CHECKS,
    );
    const wrong: [name: string, args: unknown[], text: RegExp][] = [
      ["load", [-1, 8], /^EINVAL: load: offset is -1: expected an offset in bytes/],
      ["load", [0, "8"], /length is "8": expected a length in bytes/],
      ["store", [0, "bytes"], /bytes is "bytes": expected bytes, a Uint8Array/],
      ["store", [0.5, new Uint8Array(1)], /offset is 0\.5: expected/],
      ["fetchAdd", [0, 1], /operand is 1: expected a bigint of 64 bits/],
      ["compareSwap", [8, 1n], /swap is not given: expected a bigint of 64 bits/],
      ["compareSwap", [8, 1n, 1n << 64n], /swap is 18446744073709551616n, a bigint: expected/],
      ["flush", [0], /length is not given/],
      ["waitChange", [0, 8], /deadline is not given: expected a time in picoseconds/],
      ["move", ["here"], /place is "here": expected one of "local", "remote"/],
    ];
    for (const [name, args, message] of wrong) {
      throws(() => region[name]!(...args), { name: "ProgramError", message });
    }
    same(called, []);
    region.fetchAdd!(8, -1n);
    same(called, [["fetchAdd", 8, -1n]]);
  });
});

describe("checksOf", () => {
  const request = shape<{ readonly id: number; readonly note?: number }>("a request", {
    id: u8,
    note: optional(u8),
  });
  const many = listOf(request, "requests");

  function answered(answer: Parameters<typeof row>[0], value: unknown, called: unknown[][] = []) {
    const checks = checksOf({ verb: row(answer, { queue: u8, requests: many }) });
    return new CallWatch().watched(recorded(["verb"], called), checks).verb!(1, value);
  }

  it("answers as the function does: steps, a value, a refusal, or an error", () => {
    const reason = "verb: requests[1].id is 256: expected 8 bits, a whole number from 0 to 255";
    const wrong = [{ id: 1 }, { id: 256 }];
    same(answered("value", wrong), { errno: "EINVAL", reason });
    same((answered("steps", wrong) as Generator).next().value, { errno: "EINVAL", reason });
    const refusal = (answered("refused", wrong) as Generator).next().value as { reason: string };
    equal(refusal.reason, `EINVAL: ${reason}`);
    throws(() => answered("thrown", wrong), { message: `EINVAL: ${reason}` });
  });

  it("answers of a verb that returns errors in its steps are such errors, and end no program", () => {
    const called: unknown[][] = [];
    const verbs = new CallWatch().watched(recorded(["reject", "getChannelEvent"], called), {
      reject: VERB_CHECKS["reject"]!,
      getChannelEvent: VERB_CHECKS["getChannelEvent"]!,
    });
    for (const [name, what] of [["reject", "listener"], ["getChannelEvent", "channel"]] as const) {
      const { value } = (verbs[name]!({}, {}) as Generator<never, VerbError>).next();
      equal((value as VerbError).errno, "EINVAL");
      match((value as VerbError).reason, new RegExp(`^${name}.*: ${what} is an object without`));
    }
    same(called, []);
  });

  it("a row's answer is that of the function's type, which the compiler demands", () => {
    type Answers = [
      AnswerOf<() => Steps<7 | VerbError>>,
      AnswerOf<() => Steps<PostError | undefined>>,
      AnswerOf<(at: number) => undefined | VerbError>,
      AnswerOf<() => Steps<Refusal | 7>>,
      AnswerOf<() => Steps<7 | "timeout">>,
      AnswerOf<() => number>,
    ];
    const answers: Answers = ["steps", "post", "value", "refused", "thrown", "thrown"];
    equal(answers.length, 6);
    // @ts-expect-error -- a call that returns errors in its steps does not throw
    const wrong: CallRow<AnswerOf<typeof reject>> = row("thrown", {});
    equal(wrong.answer, "thrown");
  });

  it("of a post: makes the call with the requests before the wrong one, and says its number", () => {
    const called: unknown[][] = [];
    const table = {
      // deno-lint-ignore require-yield -- it answers at once
      *verb(...args: unknown[]): Generator<never, undefined> {
        called.push(args);
      },
    };
    const checks = checksOf({ verb: row("post", { queue: u8, requests: many }) });
    const { verb } = new CallWatch().watched(table, checks);
    const posted = verb(1, [{ id: 1 }, { id: 2 }, { note: 3 }]).next().value as unknown;
    same(called, [[1, [{ id: 1 }, { id: 2 }]]]);
    const { errno, bad, reason } = posted as { errno: string; bad: number; reason: string };
    same([errno, bad], ["EINVAL", 2]);
    match(reason, /requests\[2\]\.id is not given: expected 8 bits/);
  });

  it("takes no steps, bytes or instance for an object whose fields are all optional", () => {
    const options = shape<{ readonly most?: number }>("options", { most: optional(u8) });
    const checks = checksOf({ verb: row("value", { options }) });
    const { verb, wait } = new CallWatch().watched(
      { verb: (..._: unknown[]) => undefined, wait: function* () {} },
      checks,
    );
    for (const wrong of [wait(), new Uint8Array(0), new Map(), function* () {}(), []]) {
      match(String(Object(verb(wrong)).reason), /^verb: options is .*: expected options$/);
    }
    equal(verb({}), undefined);
  });

  it("tells fields apart whatever order they come in, and those that do not exist", () => {
    const called: unknown[][] = [];
    for (
      const one of [{ id: 1, note: 2 }, { note: 2, id: 1 }, { id: 1 }, { id: 1, note: undefined }]
    ) {
      answered("value", [one, one], called);
    }
    equal(called.length, 4);
    const { reason } = answered("value", [{ note: 2, id: 1, nite: 3 }]) as { reason: string };
    equal(reason, "verb: requests[0].nite is no field of a request: expected id, note");
  });
});

describe("kinds of values", () => {
  it("have the types of the fields and arguments that they stand for, which the compiler demands", () => {
    interface Asked {
      readonly type: "rc" | "uc";
      readonly depth?: number;
      readonly access: AccessFlags;
    }
    type Ask = (asked: Asked) => Steps<VerbError>;
    const type = oneOf(["rc", "uc"]), depth = optional(u8);
    const access = flags<AccessFlags>("access flags", {});
    const asked = shape<Asked>("what is asked", { type, depth, access });
    row("steps", { asked }) satisfies RowOf<Ask>;
    const wrong = [
      // @ts-expect-error -- a field is not there
      shape<Asked>("", { type, depth }),
      // @ts-expect-error -- a field has another type
      shape<Asked>("", { type, depth: optional(text), access }),
      // @ts-expect-error -- a field that may be missing is demanded
      shape<Asked>("", { type, depth: u8, access }),
      // @ts-expect-error -- a value of the type would be refused
      shape<Asked>("", { type: oneOf(["rc"]), depth, access }),
      // @ts-expect-error -- a value that the type has not would be taken
      shape<Asked>("", { type: oneOf(["rc", "uc", "ud"]), depth, access }),
      // @ts-expect-error -- flags of another kind
      shape<Asked>("", { type, depth, access: flags<SendFlags>("send flags", {}) }),
      // @ts-expect-error -- the function takes no such argument
      row("steps", { asked, text }) satisfies RowOf<Ask>,
      // @ts-expect-error -- an object has no such field
      made<Asked>("", "", ["deepness"]),
    ];
    equal(wrong.length, 8);
  });
});
