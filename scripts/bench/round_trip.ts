/**
 * The baseline for hops: the duration of a request and its answer between two processes over the
 * bus.
 */
import { sleep } from "../../fabric/bus/wall_time.ts";
import { connectNats, type NatsAddress } from "../../fabric/bus/nats_bus.ts";
import { subjectOf } from "../../fabric/bus/subjects.ts";
import { busEnvironment } from "../../fabric/rack/build/run_file.ts";
import { endChildren, startChild } from "../../console/rack/children.ts";
import { median } from "./figure.ts";

const PAYLOAD_BYTES = 64;
const WARM_UP = 2_000;

/** @returns the median wall time of a round trip in µs, over `count` sequential ones. */
export async function roundTripUs(
  address: NatsAddress,
  options: { readonly directory: string; readonly count: number },
): Promise<number> {
  const { directory, count } = options;
  const run = "bench-echo";
  const child = startChild({
    name: "echo",
    module: "scripts/bench/echo_main.ts",
    args: [run],
    env: busEnvironment(address),
    logFile: `${directory}/echo.log`,
  });
  const bus = await connectNats({ ...address, run, name: "bench", onError: () => {} });
  try {
    const subject = subjectOf({ kind: "control", run, verb: "echo" });
    const payload = new Uint8Array(PAYLOAD_BYTES);
    await untilAnswered(() => bus.request(subject, payload, { by: "echo", timeoutMs: 100 }));
    const times = new Float64Array(WARM_UP + count);
    for (let i = 0; i < times.length; i++) {
      const began = performance.now();
      await bus.request(subject, payload, { by: "echo", timeoutMs: 5_000 });
      times[i] = performance.now() - began;
    }
    return 1_000 * median(times.subarray(WARM_UP));
  } finally {
    await bus.close();
    await endChildren([child], 1_000);
  }
}

async function untilAnswered(ask: () => Promise<unknown>): Promise<void> {
  for (let attempt = 0; attempt < 100; attempt++) {
    try {
      await ask();
      return;
    } catch {
      await sleep(50);
    }
  }
  throw new Error("The echo process does not answer");
}
