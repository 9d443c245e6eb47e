/**
 * `trips_main.ts COUNT`: grants to the far end of `messages.ts` and its reports, one after the other.
 * Prints how long each took, in µs, as JSON.
 */
import { connectNats } from "../../fabric/bus/nats_bus.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { busAddressFrom } from "../../fabric/rack/assembly/run_file.ts";
import { clockMessage, echoSubjects, RUN, takeAnswer } from "./messages.ts";

const count = Number(Deno.args[0]);
const bus = await connectNats({
  ...busAddressFrom((variable) => Deno.env.get(variable)),
  run: RUN,
  name: "near",
  onError: console.error,
});

// Servers learn of each other's subscriptions in their own time.
const hello = echoSubjects("bus");
let isThere = false;
bus.subscribe(hello.back, () => isThere = true);
while (!isThere) {
  bus.publish(hello.there, new Uint8Array());
  await sleep(100);
}

const { there, back } = echoSubjects("clock");
const trips: number[] = [];
const { promise: done, resolve } = Promise.withResolvers<void>();
let began = performance.now();
bus.subscribe(back, (answer) => {
  takeAnswer(answer);
  trips.push(1_000 * (performance.now() - began));
  if (trips.length === count) return resolve();
  began = performance.now();
  bus.publish(there, clockMessage());
});
await sleep(200);
began = performance.now();
bus.publish(there, clockMessage());
await done;
await bus.close();
console.log(JSON.stringify(trips));
