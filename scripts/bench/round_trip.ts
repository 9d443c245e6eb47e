/**
 * The yardstick for hops, by the client of nats-core with only the socket of this project, so that
 * it stays the same while our bus gets faster.
 */
import type { NatsAddress } from "../../fabric/bus/nats_bus.ts";
import { TcpConnection } from "../../fabric/bus/nats_transport.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { busEnvironment } from "../../fabric/rack/assembly/run_file.ts";
import { endChildren, startChild } from "../../console/rack/children.ts";
import { median } from "./figure.ts";

const PAYLOAD_BYTES = 64;
const WARM_UP = 2_000;

/** @returns the median wall time in µs, over `count` sequential round trips. */
export async function roundTripUs(
  address: NatsAddress,
  options: { readonly directory: string; readonly count: number },
): Promise<number> {
  const { directory, count } = options;
  const child = startChild({
    name: "echo",
    module: "scripts/bench/echo_main.ts",
    args: [],
    env: busEnvironment(address),
    logFile: `${directory}/echo.log`,
  });
  const { client } = await connectClient(address);
  try {
    const payload = new Uint8Array(PAYLOAD_BYTES);
    await untilAnswered(() => client.request(ECHO, payload, { timeout: 100 }));
    const times = new Float64Array(WARM_UP + count);
    for (let i = 0; i < times.length; i++) {
      const began = performance.now();
      await client.request(ECHO, payload, { timeout: 5_000 });
      times[i] = performance.now() - began;
    }
    return 1_000 * median(times.subarray(WARM_UP));
  } finally {
    await client.close();
    await endChildren([child], 1_000);
  }
}

export const ECHO = "rack.bench-echo.control.echo";

export function connectClient({ url, user, password }: NatsAddress): Promise<TcpConnection> {
  return TcpConnection.connect({
    servers: url,
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { pass: password }),
    noAsyncTraces: true,
  });
}

export async function untilAnswered(ask: () => Promise<unknown>): Promise<void> {
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
