/** The ways of a message between two processes that `messages.ts` compares, as both of its ends know them. */
import { fail } from "../../fabric/base/assert.ts";
import type { NatsAddress } from "../../fabric/bus/nats_bus.ts";
import { subjectOf } from "../../fabric/bus/subjects.ts";
import {
  type Grant,
  newsFromBytes,
  newsToBytes,
  type Report,
  reportFromBytes,
  reportToBytes,
} from "../../fabric/clock/clock.ts";

export type Way = "bare" | "bus" | "clock";

/** The name of the process at the far end, as a user of the bus. */
export const FAR_END = "far";

/** Subjects as long as those of a rack. */
export function echoSubjects(run: string, way: Way): { there: string; back: string } {
  return {
    there: subjectOf({ kind: "wire", run, from: `near-${way}`, to: "far" }),
    back: subjectOf({ kind: "wire", run, from: "far", to: `near-${way}` }),
  };
}

/** A grant as a switch between two hosts gets it. */
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

/** What it answers. */
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

/** The far end's part of a grant: it is read, and a report is made. */
export function answerClock(payload: Uint8Array): Uint8Array<ArrayBuffer> {
  if (newsFromBytes(payload)?.kind !== "grant") fail("The grant has not come as it was");
  return reportToBytes(REPORT);
}

/** The near end's part: the report is read. */
export function takeAnswer(payload: Uint8Array): void {
  if (reportFromBytes(payload) === undefined) fail("The report has not come as it was");
}

const CR = 13, LF = 10, SPACE = 32, DIGIT_0 = 48;
const END = new Uint8Array([CR, LF]);

/**
 * NATS without a client: what a message costs at least. It knows complete messages of one subscription and
 * nothing else, and lives as long as a measure does.
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

  /** Reads until the connection ends. A message of these sizes comes with one read. */
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
