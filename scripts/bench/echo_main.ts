/** `echo_main.ts`: answers each request with its payload, to measure a round trip of NATS. */
import { busAddressFrom } from "../../fabric/rack/build/run_file.ts";
import { connectClient, ECHO } from "./round_trip.ts";

const address = busAddressFrom((variable) => Deno.env.get(variable));
const { client } = await connectClient(address);
client.subscribe(ECHO, { callback: (_error, message) => message.respond(message.data) });
await client.closed();
