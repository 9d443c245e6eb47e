/** `echo_main.ts RUN`: answers each request with its payload, to measure the bus's round trip. */
import { connectNats } from "../../fabric/bus/nats_bus.ts";
import { subjectOf } from "../../fabric/bus/subjects.ts";
import { busAddressFrom, EXIT } from "../../fabric/rack/build/run_file.ts";

const [run] = Deno.args;
if (run === undefined) {
  console.error("Usage: echo_main.ts RUN");
  Deno.exit(EXIT.usage);
}
const address = busAddressFrom((variable) => Deno.env.get(variable));
const bus = await connectNats({ ...address, run, name: "echo", onError: console.error });
const subject = subjectOf({ kind: "control", run, verb: "echo" });
bus.subscribe(subject, (payload, _subject, reply) => reply?.(payload));
await bus.closed;
