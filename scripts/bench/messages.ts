import { cpuUsage } from "node:process";
import { fail } from "../../fabric/base/assert.ts";
import { USERS } from "../../fabric/bus/access.ts";
import type { Bus } from "../../fabric/bus/bus.ts";
import { decode } from "../../fabric/bus/codec.ts";
import { connectNats, type NatsAddress } from "../../fabric/bus/nats_bus.ts";
import { subjectOf } from "../../fabric/bus/subjects.ts";
import {
  type Grant,
  newsFromBytes,
  newsToBytes,
  type Report,
  reportFromBytes,
  reportToBytes,
} from "../../fabric/clock/clock.ts";
import { busEnvironment } from "../../fabric/rack/assembly/run_file.ts";
import { endChildren, startChild } from "../../console/rack/children.ts";
import type { NatsServer } from "../../console/rack/nats_server.ts";
import { say } from "../commands/output.ts";
import { type Figure, type Measured, median } from "./figure.ts";
import { untilAnswered } from "./round_trip.ts";

type Way = "bare" | "bus" | "clock";

export const RUN = "bench-messages";
/** The far end answers with the processor time that it has taken so far, in µs. */
export const CPU = subjectOf({ kind: "control", run: RUN, verb: "cpu" });
export const FAR_END = "far";

/** As long as those of a rack. */
export function echoSubjects(way: Way): { there: string; back: string } {
  return {
    there: subjectOf({ kind: "wire", run: RUN, from: `near-${way}`, to: "far" }),
    back: subjectOf({ kind: "wire", run: RUN, from: "far", to: `near-${way}` }),
  };
}

const GRANT: Grant = {
  term: 0,
  incarnation: 0,
  id: 12_345,
  horizon: 1_083_673_864,
  expect: [["a-rnic", 0, 8_001], ["b-rnic", 0, 4_000]],
  confirmed: [["b-rnic", 8_000]],
  links: [],
  runs: [],
  cables: [],
  lost: [],
  breaks: [],
};

const REPORT: Report = {
  term: 0,
  partition: "tor",
  incarnation: 0,
  grant: 12_345,
  reached: 1_083_673_864,
  next: Infinity,
  now: 1_083_600_000,
  ran: 1_083_600_000,
  events: 24_000,
  sent: [["b-rnic", 0, 8_001, 1_086_358_274]],
  digests: [["tor", 123_456_789, -987_654_321, 24_000]],
  hits: [],
  taken: null,
};

export function clockMessage(): Uint8Array<ArrayBuffer> {
  return newsToBytes({ kind: "grant", body: GRANT });
}

export function answerClock(payload: Uint8Array): Uint8Array<ArrayBuffer> {
  if (newsFromBytes(payload)?.kind !== "grant") fail("The grant has not come as it was");
  return reportToBytes(REPORT);
}

export function takeAnswer(payload: Uint8Array): void {
  if (reportFromBytes(payload) === undefined) fail("The report has not come as it was");
}

const CR = 13, LF = 10, SPACE = 32, DIGIT_0 = 48;
const END = new Uint8Array([CR, LF]);

/**
 * NATS without a client: the least cost of a message. It knows complete messages of one
 * subscription and nothing else, and lives as long as a measure does.
 */
export class BareConnection {
  readonly #socket: Deno.TcpConn;
  readonly #text = new TextEncoder();
  readonly #heads = new Map<string, Uint8Array>();
  #onMessage: (payload: Uint8Array<ArrayBuffer>) => void = () => {};

  private constructor(socket: Deno.TcpConn) {
    this.#socket = socket;
  }

  static async open({ url, user, password }: NatsAddress): Promise<BareConnection> {
    const { hostname, port } = new URL(url.replace(/^nats:/, "http:"));
    const socket = await Deno.connect({ hostname, port: Number(port) });
    socket.setNoDelay(true);
    const connection = new BareConnection(socket);
    await socket.read(new Uint8Array(4_096));
    const login = { verbose: false, pedantic: false, user, pass: password };
    await connection.#write(connection.#text.encode(`CONNECT ${JSON.stringify(login)}\r\n`));
    return connection;
  }

  subscribe(subject: string, onMessage: (payload: Uint8Array<ArrayBuffer>) => void): void {
    this.#onMessage = onMessage;
    void this.#write(this.#text.encode(`SUB ${subject} 1\r\n`));
  }

  publish(subject: string, payload: Uint8Array): void {
    const key = `${subject} ${payload.length}`;
    let head = this.#heads.get(key);
    if (head === undefined) {
      head = this.#text.encode(`PUB ${subject} ${payload.length}\r\n`);
      this.#heads.set(key, head);
    }
    const frame = new Uint8Array(head.length + payload.length + 2);
    frame.set(head);
    frame.set(payload, head.length);
    frame.set(END, head.length + payload.length);
    void this.#write(frame);
  }

  /** A message of these sizes comes with one read. */
  async read(): Promise<void> {
    const buffer = new Uint8Array(64 * 1024);
    for (;;) {
      const length = await this.#socket.read(buffer).catch(() => null);
      if (length === null) return;
      let at = 0;
      while (at < length) {
        const line = buffer.indexOf(LF, at) + 1;
        if (buffer[at] === "M".charCodeAt(0)) {
          let size = 0, unit = 1;
          for (let i = line - 3; buffer[i] !== SPACE; i--, unit *= 10) {
            size += unit * (buffer[i]! - DIGIT_0);
          }
          this.#onMessage(buffer.slice(line, line + size));
          at = line + size + END.length;
        } else {
          if (buffer[at + 1] === "I".charCodeAt(0)) void this.#write(this.#text.encode("PONG\r\n"));
          at = line;
        }
      }
    }
  }

  close(): void {
    this.#socket.close();
  }

  async #write(frame: Uint8Array): Promise<void> {
    if (await this.#socket.write(frame) < frame.length) fail("A frame was written in two parts");
  }
}

const PAYLOAD_BYTES = 100;
const TITLES: Readonly<Record<Way, string>> = {
  bare: "sockets and nothing else, 100 B there and back",
  bus: "the bus, 100 B there and back",
  clock: "the bus, a grant there and its report back",
};

interface Turn {
  readonly tripUs: number;
  /** For a trip: of both ends together; `serverCpuUs`: of nats-server. */
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
  const address = broker.addressOf(USERS.supervisor);
  const child = startChild({
    name: FAR_END,
    module: "scripts/bench/echo_main.ts",
    args: [],
    env: busEnvironment(address),
    logFile: `${directory}/echo.log`,
  });
  const bus = await connectNats({ ...address, run: RUN, name: "near", onError: () => {} });
  const bare = await BareConnection.open(address);
  try {
    const ask = () => farCpuUs(bus);
    await untilAnswered(ask);
    const ends = new Ends({ bus, bare, serverPid: broker.pid });
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

async function farCpuUs(bus: Bus): Promise<number> {
  const answer = await bus.request(CPU, new Uint8Array(), { by: FAR_END, timeoutMs: 1_000 });
  return decode(answer) as number;
}

class Ends {
  readonly #send: Send;
  readonly #serverPid: number;
  #onBack = () => {};

  constructor({ bus, bare, serverPid }: {
    readonly bus: Bus;
    readonly bare: BareConnection;
    readonly serverPid: number;
  }) {
    this.#serverPid = serverPid;
    const payload = new Uint8Array(PAYLOAD_BYTES).fill(7);
    const subjects = {
      bare: echoSubjects("bare"),
      bus: echoSubjects("bus"),
      clock: echoSubjects("clock"),
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

export function threadsCpuUs(pid: number): number {
  const threads = [...Deno.readDirSync(`/proc/${pid}/task`)];
  return threads.reduce((sum, { name }) => {
    const [ns] = Deno.readTextFileSync(`/proc/${pid}/task/${name}/schedstat`).split(" ");
    return sum + Number(ns) / 1_000;
  }, 0);
}
