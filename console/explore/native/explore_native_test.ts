import { match, throws } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import type { RackPlan } from "../../../fabric/rack/plan/plan.ts";
import { checkNative } from "./explore_native.ts";

const NATIVE = { run: "log", native: { argv: ["log"], env: {} } };
const RECOVERED = { run: "log", native: { ...NATIVE.native, recover: { argv: ["recover"] } } };
const SERVES = { run: "persistd", serves: true };
const OWN = { run: "./own.ts" };

/** Of hosts with these programs, and a card each. */
function planOf(...hosts: (readonly object[])[]): RackPlan {
  const nodes = hosts.flatMap((programs, i) => [
    { kind: "rnic", name: `h${i}-rnic`, config: {} },
    { kind: "host", name: `h${i}`, config: { programs } },
  ]);
  return { nodes } as unknown as RackPlan;
}

it("checkNative: native programs and daemons alone, at least one of which has a recovery", () => {
  checkNative({ plan: planOf([OWN], [SERVES]) });
  checkNative({ plan: planOf([RECOVERED]) });
  checkNative({ plan: planOf([NATIVE], [SERVES, RECOVERED], [RECOVERED]) });
  throws(() => checkNative({ plan: planOf([NATIVE, SERVES], [NATIVE]) }), /no host has a recovery/);
  throws(() => checkNative({ plan: planOf([SERVES], [RECOVERED, OWN]) }), (error: Error) => {
    match(error.message, /\.\/own\.ts on h1 beside native ones \(log on h1\)/);
    return true;
  });
  throws(() => checkNative({ plan: planOf([OWN], [RECOVERED]) }), /own\.ts on h0 beside native/);
});
