/**
 * P-40, P-41: what the row of a method promises (`put_methods.ts`) is what the explorer finds, also where a core or a
 * card stands still: safe where it promises, unsafe, at an instant, where it does not. Every method of `put`, one line.
 */
import { ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS } from "../../console/explore/types.ts";
import { PUT_METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { METHOD_ROWS, promisesPersistence } from "../../nodes/host/programs/persist/put_methods.ts";
import { rackOf } from "./explored_rack.ts";

const STALLS = 4;

/** What flushes there; a method that promises always is tried at the first two. */
const RESPONDERS = [
  { host: "ddio: off", flush: "read" },
  { host: "ddio: on", flush: "cpu" },
  { host: "ddio: on, domain: eadr", flush: "read" },
  { host: "ddio: on, domain: wsp", flush: "none" },
] as const;

describe("the promise of a method", () => {
  for (const method of PUT_METHODS) {
    // A SEND can be persistent only in receive buffers that are.
    const receive = method === "send-read" ? "scm" : "dram";
    const isAlways = METHOD_ROWS[method].promise === "always";
    for (const { host, flush } of RESPONDERS.slice(0, isAlways ? 2 : undefined)) {
      const promises = promisesPersistence(method, { flush, receive });
      it(`P-40, P-41: ${method}, ${host}: ${promises ? "holds" : "is none"}`, async () => {
        // A core that polls would have stored a SEND's data before the READ behind it is answered.
        const completion = method === "send-read" ? "interrupt" : "poll";
        // The read-back of higher levels pushes the data, which nothing promises.
        const level = method === "write-verify" ? ", level: none" : "";
        const rack = rackOf(`
name: promise
seed: 11
hosts:
  a: { services: none }
  b: { ${host}, receive: ${receive}, completion: ${completion}, scm: { size: 256KiB } }
programs:
  - { on: a, run: put, to: b, bytes: 64, size: 64, depth: 1, method: ${method}${level} }
`);
        const options = { ...EXPLORE_DEFAULTS, claims: true, cut: { host: "b" }, stalls: STALLS };
        const { verdict, counterexample, stalls, why } = await explore(rack, options);
        equal(verdict, promises ? "safe" : "unsafe", counterexample?.found ?? why ?? "");
        if (promises) equal(stalls!.tried, Math.min(STALLS, stalls!.places));
        else ok(counterexample!.atPs > 0);
      });
    }
  }
});
