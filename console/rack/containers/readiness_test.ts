import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { createMemoryBroker } from "../../../fabric/bus/memory_bus_testing.ts";
import { subjectOf } from "../../../fabric/bus/subjects.ts";
import { newsToBytes } from "../../../fabric/clock/clock.ts";
import { fail } from "../../../fabric/base/assert.ts";
import { until } from "../../../fabric/bus/bus_contract.ts";
import { Joins, READY_PATH, serveReadiness } from "./readiness.ts";

const RUN = "pair-1";

describe("Joins", () => {
  const setUp = () => {
    const broker = createMemoryBroker();
    const [device, clock] = [1, 2].map(() => broker.connect({ onError: fail as () => never }));
    const joins = new Joins(device!, { run: RUN, partition: "b" });
    const welcome = (instance: string, partition = "b") => {
      const body = {
        ...{ term: 1, instance, incarnation: 1, bootAt: 0, settledSpan: 0 },
        ...{ lives: [], noticed: [], sentSoFar: [] },
      };
      const subject = subjectOf({ kind: "clock.grant", run: RUN, partition });
      clock!.publish(subject, newsToBytes({ kind: "welcome", body }));
    };
    let heard = 0;
    device!.subscribe(subjectOf({ kind: "clock.grant", run: RUN, partition: "b" }), () => heard++);
    return { joins, welcome, heard: () => heard };
  };

  it("has a process that the timekeeper has welcomed, and only that", async () => {
    const { joins, welcome, heard } = setUp();
    joins.expect("b-1");
    welcome("b-1", "a");
    welcome("b-0");
    await until(() => heard() === 1);
    assert.ok(!joins.has("b-1"));
    welcome("b-1");
    await until(() => joins.has("b-1"));
    assert.ok(!joins.has("b-2") && !joins.has(""));
    joins.close();
  });

  it("has the next process of a device when that is welcomed itself", async () => {
    const { joins, welcome, heard } = setUp();
    joins.expect("b-1");
    // It dies before it joins.
    joins.expect("b-2");
    welcome("b-1");
    await until(() => heard() === 1);
    assert.ok(!joins.has("b-2"));
    welcome("b-2");
    await until(() => joins.has("b-2"));
    joins.expect("b-3");
    assert.ok(!joins.has("b-3"));
    welcome("b-3");
    await until(() => joins.has("b-3"));
    joins.close();
  });
});

describe("serveReadiness", () => {
  it("answers as the device is, on its path alone", async () => {
    let isReady = false;
    await using server = serveReadiness(0, () => isReady);
    const status = async (path: string) => {
      const response = await fetch(`http://127.0.0.1:${server.addr.port}${path}`);
      await response.body?.cancel();
      return response.status;
    };
    assert.equal(await status(READY_PATH), 503);
    isReady = true;
    assert.equal(await status(READY_PATH), 200);
    assert.equal(await status("/"), 404);
  });
});
