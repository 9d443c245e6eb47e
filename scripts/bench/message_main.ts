/** `message_main.ts RUN`: the far end of `messages.ts`. It answers each message by one of the same size. */
import { cpuUsage } from "node:process";
import { encode } from "../../fabric/bus/codec.ts";
import { connectNats } from "../../fabric/bus/nats_bus.ts";
import { subjectOf } from "../../fabric/bus/subjects.ts";
import { busAddressFrom, EXIT } from "../../fabric/rack/build/run_file.ts";
import { answerClock, BareConnection, echoSubjects, FAR_END } from "./message_ways.ts";

const [run] = Deno.args;
if (run === undefined) {
  console.error("Usage: message_main.ts RUN");
  Deno.exit(EXIT.usage);
}
const address = busAddressFrom((variable) => Deno.env.get(variable));
const bare = await BareConnection.open(address);
const plain = echoSubjects(run, "bare");
bare.subscribe(plain.there, (payload) => bare.publish(plain.back, payload));
void bare.read();

const bus = await connectNats({ ...address, run, name: FAR_END, onError: console.error });
const { there, back } = echoSubjects(run, "bus");
bus.subscribe(there, (payload) => bus.publish(back, payload));
const clock = echoSubjects(run, "clock");
bus.subscribe(clock.there, (payload) => bus.publish(clock.back, answerClock(payload)));
// The processor time of this process so far, in µs.
bus.subscribe(subjectOf({ kind: "control", run, verb: "cpu" }), (_payload, _subject, reply) => {
  const { user, system } = cpuUsage();
  reply?.(encode(user + system));
});
await bus.closed;
