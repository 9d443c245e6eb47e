import { strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { WORKER_BYTES, workersFor } from "./workers.ts";

describe("workersFor", () => {
  it("is no more than memory has room for, and at least one", () => {
    const bytes = 10 * WORKER_BYTES;
    equal(workersFor({ jobs: 4, bytes }), 4);
    equal(workersFor({ jobs: 16, bytes }), 10);
    equal(workersFor({ jobs: 16, bytes: WORKER_BYTES / 2 }), 1);
    equal(workersFor({ bytes: Infinity }), navigator.hardwareConcurrency);
  });
});
