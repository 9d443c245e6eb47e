/**
 * (t) What a message costs: there and back between two processes over one nats-server, by three ways in turn. Other
 * work on the machine slows all three, so their ratio counts.
 */
import { cpuUsage } from "node:process";
import { USERS } from "../../fabric/bus/access.ts";
import type { Bus } from "../../fabric/bus/bus.ts";
import { decode } from "../../fabric/bus/codec.ts";
import { connectNats } from "../../fabric/bus/nats_bus.ts";
import { subjectOf } from "../../fabric/bus/subjects.ts";
import { busEnvironment } from "../../fabric/rack/build/run_file.ts";
import { endChildren, startChild } from "../../console/rack/children.ts";
import type { NatsServer } from "../../console/rack/nats_server.ts";
import { say } from "../commands/output.ts";
import { type Figure, type Measured, median } from "./figure.ts";
import {
  BareConnection,
  clockMessage,
  echoSubjects,
  FAR_END,
  takeAnswer,
  type Way,
} from "./message_ways.ts";
import { untilAnswered } from "./round_trip.ts";

const PAYLOAD_BYTES = 100;
const TITLES: Readonly<Record<Way, string>> = {
  bare: "sockets and nothing else, 100 B there and back",
  bus: "the bus, 100 B there and back",
  clock: "the bus, a grant there and its report back",
};

/** One way's trips of one turn. */
interface Turn {
  readonly tripUs: number;
  /** CPU time for a trip: of both ends together, and of nats-server. */
  readonly endsCpuUs: number;
  readonly serverCpuUs: number;
}

type Send = (way: Way) => void;

export async function measureMessages(
  { broker, directory, quick }: Measured & {
    readonly broker: NatsServer;
    readonly directory: string;
  },
): Promise<Figure[]> {
  const run = "bench-messages";
  const address = broker.addressOf(USERS.supervisor);
  const child = startChild({
    name: FAR_END,
    module: "scripts/bench/message_main.ts",
    args: [run],
    env: busEnvironment(address),
    logFile: `${directory}/message.log`,
  });
  const bus = await connectNats({ ...address, run, name: "near", onError: () => {} });
  const bare = await BareConnection.open(address);
  try {
    const ask = () => farCpuUs(bus, run);
    await untilAnswered(ask);
    const ends = new Ends({ bus, bare, run, serverPid: broker.pid });
    const turns: Record<Way, Turn[]> = { bare: [], bus: [], clock: [] };
    const trips = quick ? 1_000 : 4_000;
    for (let i = 0; i <= (quick ? 3 : 9); i++) {
      say(`messages, round ${i}`);
      for (const way of ["bare", "bus", "clock"] as const) {
        const turn = await ends.turn(way, { trips, farCpuUs: ask });
        // V8 compiles in the first round.
        if (i > 0) turns[way].push(turn);
      }
    }
    return figuresOf(turns);
  } finally {
    bare.close();
    await bus.close();
    await endChildren([child], 1_000);
  }
}

function figuresOf(turns: Readonly<Record<Way, readonly Turn[]>>): Figure[] {
  const figures: Figure[] = [];
  for (const way of ["bare", "bus", "clock"] as const) {
    const what = TITLES[way],
      row = (part: string, unit: string, value: (turn: Turn) => number) => {
        figures.push({ group: "t", what: part, unit, values: turns[way].map(value) });
      };
    row(what, "µs", ({ tripUs }) => tripUs);
    row("  CPU of both ends for each", "µs", ({ endsCpuUs }) => endsCpuUs);
    row("  CPU of nats-server for each", "µs", ({ serverCpuUs }) => serverCpuUs);
  }
  for (const way of ["bus", "clock"] as const) {
    figures.push({
      group: "t",
      what: `${way === "bus" ? "100 B by the bus" : "grant and report"} over bare sockets`,
      unit: "×",
      values: turns[way].map(({ tripUs }, i) => tripUs / turns.bare[i]!.tripUs),
    });
  }
  return figures;
}

async function farCpuUs(bus: Bus, run: string): Promise<number> {
  const subject = subjectOf({ kind: "control", run, verb: "cpu" });
  const answer = await bus.request(subject, new Uint8Array(), { by: FAR_END, timeoutMs: 1_000 });
  return decode(answer) as number;
}

class Ends {
  readonly #send: Send;
  readonly #serverPid: number;
  #onBack = () => {};

  constructor({ bus, bare, run, serverPid }: {
    readonly bus: Bus;
    readonly bare: BareConnection;
    readonly run: string;
    readonly serverPid: number;
  }) {
    this.#serverPid = serverPid;
    const payload = new Uint8Array(PAYLOAD_BYTES).fill(7);
    const subjects = {
      bare: echoSubjects(run, "bare"),
      bus: echoSubjects(run, "bus"),
      clock: echoSubjects(run, "clock"),
    };
    bare.subscribe(subjects.bare.back, () => this.#onBack());
    void bare.read();
    bus.subscribe(subjects.bus.back, () => this.#onBack());
    bus.subscribe(subjects.clock.back, (answer) => {
      takeAnswer(answer);
      this.#onBack();
    });
    this.#send = (way) => {
      if (way === "bare") bare.publish(subjects.bare.there, payload);
      else bus.publish(subjects[way].there, way === "bus" ? payload : clockMessage());
    };
  }

  /** So many trips, one after the other. */
  async turn(
    way: Way,
    { trips, farCpuUs }: { readonly trips: number; readonly farCpuUs: () => Promise<number> },
  ): Promise<Turn> {
    const before = await this.#cpuUs(farCpuUs);
    const times = new Float64Array(trips);
    const { promise, resolve } = Promise.withResolvers<void>();
    let count = 0, began = performance.now();
    this.#onBack = () => {
      const now = performance.now();
      times[count++] = now - began;
      if (count === trips) return resolve();
      began = now;
      this.#send(way);
    };
    this.#send(way);
    await promise;
    const after = await this.#cpuUs(farCpuUs);
    return {
      tripUs: 1_000 * median(times),
      endsCpuUs: (after.ends - before.ends) / trips,
      serverCpuUs: (after.server - before.server) / trips,
    };
  }

  async #cpuUs(farCpuUs: () => Promise<number>): Promise<{ ends: number; server: number }> {
    const { user, system } = cpuUsage();
    return {
      ends: user + system + await farCpuUs(),
      server: threadsCpuUs(this.#serverPid),
    };
  }
}

/** The CPU time of another process's threads so far, in µs, finer than its clock ticks. */
function threadsCpuUs(pid: number): number {
  const threads = [...Deno.readDirSync(`/proc/${pid}/task`)];
  return threads.reduce((sum, { name }) => {
    const [ns] = Deno.readTextFileSync(`/proc/${pid}/task/${name}/schedstat`).split(" ");
    return sum + Number(ns) / 1_000;
  }, 0);
}
