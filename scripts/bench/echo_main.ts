import { cpuUsage } from "node:process";
import { encode } from "../../fabric/bus/codec.ts";
import { connectNats } from "../../fabric/bus/nats_bus.ts";
import { busAddressFrom } from "../../fabric/rack/assembly/run_file.ts";
import { answerClock, BareConnection, CPU, echoSubjects, FAR_END, RUN } from "./messages.ts";
import { connectClient, ECHO } from "./round_trip.ts";

const address = busAddressFrom((variable) => Deno.env.get(variable));

const bare = await BareConnection.open(address);
const plain = echoSubjects("bare");
bare.subscribe(plain.there, (payload) => bare.publish(plain.back, payload));
void bare.read();

const bus = await connectNats({ ...address, run: RUN, name: FAR_END, onError: console.error });
const { there, back } = echoSubjects("bus");
bus.subscribe(there, (payload) => bus.publish(back, payload));
const clock = echoSubjects("clock");
bus.subscribe(clock.there, (payload) => bus.publish(clock.back, answerClock(payload)));
bus.subscribe(CPU, (_payload, _subject, reply) => {
  const { user, system } = cpuUsage();
  reply?.(encode(user + system));
});

const { client } = await connectClient(address);
client.subscribe(ECHO, { callback: (_error, message) => void message.respond(message.data) });
await client.closed();
