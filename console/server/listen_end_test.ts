import assert from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { after } from "../../fabric/bus/wall_time.ts";
import { listen } from "./listen.ts";

it("a server ends though a request is under way that does not end", async () => {
  const asked = Promise.withResolvers<void>();
  const app = {
    endFeeds: () => {},
    fetch: () => {
      asked.resolve();
      return new Promise<Response>(() => {});
    },
  };
  const server = await listen({ address: "127.0.0.1", port: 0 }, () => app as never);
  const client = new AbortController();
  const answer = fetch(`http://127.0.0.1:${server.port}/`, { signal: client.signal });
  answer.catch(() => {});
  await asked.promise;
  const late = Promise.withResolvers<never>();
  const cancel = after(20_000, () => late.reject(new Error("it has not ended")));
  await Promise.race([server.close(), late.promise]);
  cancel();
  await assert.rejects(answer);
  client.abort();
});
