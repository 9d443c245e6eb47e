import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { methodsOf } from "./responder.ts";

it("methodsOf calls a method safe where no cell of such a machine is unsafe", () => {
  const machine = { domain: "adr", arch: "ddio", ddio: "on" } as const;
  const cells = [
    { ...machine, method: "write-read", safe: false },
    { ...machine, method: "persist-opcode", safe: true },
    // Its receive buffer decides.
    { ...machine, method: "send-flush", safe: true },
    { ...machine, method: "send-flush", safe: false },
    // Of another machine.
    { ...machine, ddio: "off" as const, method: "write-only", safe: true },
  ];
  same(methodsOf(cells, { ...machine, host: "b" }), {
    safe: ["persist-opcode"],
    unsafe: ["write-read", "send-flush"],
  });
});
