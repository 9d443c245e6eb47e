/** Whether a container's device takes part in the rack, for the probe of an engine. */
import type { Bus, Subscription } from "../../../fabric/bus/bus.ts";
import { patternOf } from "../../../fabric/bus/subjects.ts";
import { newsFromBytes } from "../../../fabric/clock/clock.ts";

export const READY_PATH = "/readyz";

/** Hears of the timekeeper's welcome, as the partition's user; of grants it hears none later. */
export class Joins {
  readonly #bus: Bus;
  readonly #subject: string;
  #expected = "";
  #joined = "";
  #subscription: Subscription | undefined;

  constructor(bus: Bus, { run, partition }: { readonly run: string; readonly partition: string }) {
    this.#bus = bus;
    this.#subject = patternOf({ kind: "clock.grant", run, partition });
  }

  /** A process of this name starts. */
  expect(instance: string): void {
    this.#expected = instance;
    this.#subscription ??= this.#bus.subscribe(this.#subject, (payload) => {
      const news = newsFromBytes(payload);
      if (news?.kind !== "welcome" || news.body.instance !== this.#expected) return;
      this.#joined = this.#expected;
      this.close();
    });
  }

  /** The timekeeper has taken up the process. */
  has(instance: string): boolean {
    return instance !== "" && this.#joined === instance;
  }

  close(): void {
    this.#subscription?.close();
    this.#subscription = undefined;
  }
}

/** Answers `GET /readyz`: 200 as long as it is ready, else 503. */
export function serveReadiness(
  port: number,
  isReady: () => boolean,
): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ hostname: "0.0.0.0", port, onListen: () => {} }, (request) => {
    if (new URL(request.url).pathname !== READY_PATH) return new Response(null, { status: 404 });
    return isReady()
      ? new Response("ready\n")
      : new Response("it has no power, or has not joined the rack yet\n", { status: 503 });
  });
}
