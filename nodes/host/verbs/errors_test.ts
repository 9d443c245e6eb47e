import { equal, throws } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Steps } from "../cpu/program.ts";
import { refused } from "../cm/connection.ts";
import { failed, must, verbError } from "./errors.ts";
import type { PostError, VerbError } from "./objects.ts";

// deno-lint-ignore require-yield -- it answers at once
function* answering<T>(answer: T): Steps<T> {
  return answer;
}

describe("must", () => {
  it("returns the result, whose type is without the error", () => {
    const answer = 7 as number | VerbError;
    const posted = undefined as PostError | undefined;
    const seven: number = must(answer), nothing: undefined = must(posted);
    equal(seven, 7);
    equal(nothing, undefined);
  });

  it("throws errno and reason of an error", () => {
    throws(() => must(verbError("ENOMEM", "room is for no more")), {
      name: "ProgramError",
      message: "ENOMEM: room is for no more",
    });
  });

  it("takes no call without yield*, which the compiler says, and it itself at run time", () => {
    const error = { name: "ProgramError", message: /^EINVAL: must .* write yield\*/ };
    // @ts-expect-error -- the steps of a call are not its result
    throws(() => must(answering<number | VerbError>(7)), error);
    // @ts-expect-error -- the same of a call that returns nothing
    throws(() => must(answering<PostError | undefined>(undefined)), error);
  });
});

describe("failed and refused", () => {
  it("take no call without yield*: its steps are no error, whatever they would answer", () => {
    const steps = answering(verbError("EINVAL", "it is wrong"));
    throws(() => failed(steps), { name: "ProgramError", message: /^EINVAL: failed .* yield\*/ });
    throws(() => refused(steps), { name: "ProgramError", message: /^EINVAL: refused .* yield\*/ });
    equal(failed(undefined), false);
    equal(failed(verbError("EINVAL", "")), true);
  });
});
