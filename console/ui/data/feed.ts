/**
 * One JSON document a line. The feed goes on where it was after an interruption, and rests while
 * the page is hidden: a browser has but six connections for all pages of one server.
 */
import { signal } from "@preact/signals";
import type { Batch, Message } from "../../api/feed.ts";
import { request } from "./session.ts";

/** `since`: wall time in ms since 1970. */
export type Connection =
  | { readonly state: "connecting" | "live" }
  | { readonly state: "interrupted"; readonly since: number; readonly why: string };

export const connection = signal<Connection>({ state: "connecting" });

/** The server sends an empty batch every few seconds; without any for so long, it is away. */
const SILENCE_MS = 12_000;
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
    try {
      const parameters = new URLSearchParams({
        ...(run !== undefined && { run }),
        ...(after !== undefined && { after: String(after) }),
      });
      const end = AbortSignal.any([signal, attempt.signal]);
      const response = await request(`/feed?${parameters}`, { signal: end });
      for await (const batch of batchesOf(response, attempt)) {
        failures = 0;
        connection.value = { state: "live" };
        after = batch.seq;
        if (batch.messages.length > 0) onMessages(batch.messages);
      }
      throw new Error("The server has ended the feed");
    } catch (error) {
      if (signal.aborted) return;
      if (document.hidden) continue;
      if (connection.value.state !== "interrupted") {
        const why = (error as Error).message;
        connection.value = { state: "interrupted", since: Date.now(), why };
      }
      await pause(AGAIN_MS[Math.min(failures++, AGAIN_MS.length - 1)]!, signal);
    } finally {
      document.removeEventListener("visibilitychange", hide);
      attempt.abort();
    }
  }
}

async function* batchesOf(response: Response, attempt: AbortController): AsyncGenerator<Batch> {
  let timer = setTimeout(() => attempt.abort(), SILENCE_MS);
  try {
    let rest = "";
    const text = response.body!.pipeThrough(new TextDecoderStream());
    for await (const part of text) {
      clearTimeout(timer);
      timer = setTimeout(() => attempt.abort(), SILENCE_MS);
      const lines = (rest + part).split("\n");
      rest = lines.pop()!;
      for (const line of lines) if (line !== "") yield JSON.parse(line);
    }
  } finally {
    clearTimeout(timer);
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
