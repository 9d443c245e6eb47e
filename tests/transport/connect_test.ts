/** Programs of one host that connect in the same moment, over the queue pair that they share for it. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { SimulatedRack } from "../support/simulated_rack.ts";

describe("Connections that one host asks for at once", () => {
  for (const count of [2, 5]) {
    it(`${count} programs reach ${count} hosts with the first request of each`, () => {
      const names = Array.from({ length: count }, (_, i) => `h${i + 1}`);
      const rack = new SimulatedRack(`
name: connect
hosts: { a: {}, ${names.map((name) => `${name}: {}`).join(", ")} }
programs:
  - { on: [${names}], run: sink }
${names.map((to) => `  - { on: a, run: bulk, to: ${to}, begin: 450us, time: 10us }`).join("\n")}
`).run();
      const results = rack.reported("result", "a");
      assert.deepEqual(results.map(({ to }) => to).sort(), names);
      // A request that is lost comes again 500 µs later. Programs begin within the price of a look.
      for (const { status, startPs } of results) {
        assert.equal(status, "done");
        assert.ok(Number(startPs) >= 450e6 && Number(startPs) < 452e6, `began at ${startPs} ps`);
      }
    });
  }
});
