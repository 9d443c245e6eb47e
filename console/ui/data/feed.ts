/**
 * One JSON document a line. The feed goes on where it was after an interruption, and rests while
 * the page is hidden: a browser has but six connections for all pages of one server.
 */
import { FEED_SILENCE_MS } from "../../api/page_terms.ts";
import { connection, interrupted, NO_ANSWER } from "./connection.ts";
import type { Batch, Message } from "../../api/feed.ts";
import { request } from "./session.ts";

/** Beyond the silence after which the page says so: the connection itself may be broken. */
const BROKEN_MS = 12_000;
const AGAIN_MS = [100, 250, 500, 1_000, 2_000];

export async function followFeed(
  { run, signal, onMessages }: {
    readonly run: string | undefined;
    readonly signal: AbortSignal;
    readonly onMessages: (messages: readonly Message[]) => void;
  },
): Promise<void> {
  let after: number | undefined;
  for (let failures = 0; !signal.aborted;) {
    await untilVisible(signal);
    const attempt = new AbortController();
    const hide = () => document.hidden && attempt.abort();
    document.addEventListener("visibilitychange", hide);
    const silence = new Silence(attempt);
    try {
      const parameters = new URLSearchParams({
        ...(run !== undefined && { run }),
        ...(after !== undefined && { after: String(after) }),
      });
      const end = AbortSignal.any([signal, attempt.signal]);
      const response = await request(`/feed?${parameters}`, { signal: end, isFeed: true });
      for await (const batch of batchesOf(response, silence)) {
        failures = 0;
        connection.value = { state: "live" };
        after = batch.seq;
        if (batch.messages.length > 0) onMessages(batch.messages);
      }
      throw new Error("The server has ended the feed");
    } catch (error) {
      if (signal.aborted) return;
      if (document.hidden) continue;
      interrupted(attempt.signal.aborted ? NO_ANSWER : (error as Error).message);
      await pause(AGAIN_MS[Math.min(failures++, AGAIN_MS.length - 1)]!, signal);
    } finally {
      silence.end();
      document.removeEventListener("visibilitychange", hide);
      attempt.abort();
    }
  }
}

/** Says that the server does not answer; it may be slow, so that the connection is kept for longer. */
class Silence {
  readonly #attempt: AbortController;
  #timers: ReturnType<typeof setTimeout>[] = [];

  constructor(attempt: AbortController) {
    this.#attempt = attempt;
    this.heard();
  }

  heard(): void {
    this.end();
    this.#timers = [
      setTimeout(() => document.hidden || interrupted(NO_ANSWER), FEED_SILENCE_MS),
      setTimeout(() => this.#attempt.abort(), BROKEN_MS),
    ];
  }

  end(): void {
    for (const timer of this.#timers) clearTimeout(timer);
  }
}

async function* batchesOf(response: Response, silence: Silence): AsyncGenerator<Batch> {
  let rest = "";
  for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
    silence.heard();
    const lines = (rest + part).split("\n");
    rest = lines.pop()!;
    for (const line of lines) if (line !== "") yield JSON.parse(line);
  }
}

function untilVisible(signal: AbortSignal): Promise<void> {
  if (!document.hidden || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = new AbortController();
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      done.abort();
      resolve();
    };
    document.addEventListener("visibilitychange", look, { signal: done.signal });
    signal.addEventListener("abort", look, { signal: done.signal });
  });
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
