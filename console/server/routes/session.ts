import { createRoute } from "@hono/zod-openapi";
import { done } from "../../api/common.ts";
import {
  audit,
  link,
  lockOrder,
  newLink,
  rackLock,
  session,
  signedIn,
  signIn,
  users,
} from "../../api/session.ts";
import type { Console } from "../context.ts";
import { ApiFailure } from "../doors/errors.ts";
import { Buckets } from "../doors/buckets.ts";
import { keyIn } from "../doors/guards.ts";
import { hashOf } from "../doors/keys.ts";
import { answers, newRoutes, runNamed, runParams, takes } from "./route.ts";

const post = createRoute({
  method: "post",
  path: "/session",
  summary: "Exchanges a one-time token for a key",
  security: [],
  request: { body: takes(signIn) },
  responses: answers(signedIn, "A key of this browser's own"),
});

const get = createRoute({
  method: "get",
  path: "/session",
  summary: "Who is signed in",
  responses: answers(session, "The session of the key"),
});

const remove = createRoute({
  method: "delete",
  path: "/session",
  summary: "Signs out: the key ends",
  responses: answers(done, "The key has ended"),
});

const postLink = createRoute({
  method: "post",
  path: "/links",
  summary: "An address that signs in one more browser, once",
  request: { body: takes(newLink) },
  responses: answers(link, "The address"),
});

const getAudit = createRoute({
  method: "get",
  path: "/audit",
  summary: "Who did what to what, when and with which result",
  responses: answers(audit, "The latest entries, newest first"),
});

const getUsers = createRoute({
  method: "get",
  path: "/users",
  summary: "Who is signed in",
  responses: answers(users, "By the order in which they came"),
});

const getLock = createRoute({
  method: "get",
  path: "/racks/{run}/lock",
  summary: "Whose a rack is, and whether others may give it orders",
  request: { params: runParams },
  responses: answers(rackLock, "Its owner and its lock"),
});

const postLock = createRoute({
  method: "post",
  path: "/racks/{run}/lock",
  summary:
    "Locks a rack, so that others' orders are refused; unlocks it; hands it over; takes it over",
  request: { params: runParams, body: takes(lockOrder) },
  responses: answers(rackLock, "Its owner and its lock"),
});

export function linkTo(origin: string, token: string): string {
  return `${origin}/#token=${token}`;
}

/** Tries of one wrong token: 256 bits are not guessed, but a page may try again and again. */
const FAILURE_RATE = { perSecond: 0.2, burst: 10 };

export function sessionRoutes(console: Console) {
  const { keys, locks, wallMs } = console, failures = new Buckets(FAILURE_RATE, wallMs);
  return newRoutes()
    .openapi(post, async (c) => {
      const { token } = c.req.valid("json");
      const found = await keys.signIn(token);
      if (found === undefined) {
        // Only what is wrong is counted, by what it is: a right token always gets in.
        const waitMs = failures.take(await hashOf(token));
        if (waitMs > 0) {
          throw new ApiFailure("too-many", "This token was tried too often", { waitMs });
        }
        throw new ApiFailure(
          "not-signed-in",
          "This token is spent or none of ours: rack console prints one that works once",
        );
      }
      const { key: _, ...detail } = found;
      c.set("detail", detail);
      return c.json(found, 200);
    })
    .openapi(get, (c) => {
      const { session, role, name } = c.get("caller")!;
      return c.json({ session, role, name, version: console.version, rack: console.rack }, 200);
    })
    .openapi(remove, async (c) => {
      await keys.signOut(keyIn(c.req.header("authorization"))!);
      return c.json({ done: true as const }, 200);
    })
    .openapi(postLink, async (c) => {
      const { role, name } = c.req.valid("json");
      c.set("detail", { role, name });
      const url = linkTo(console.origins[0]!, await keys.newToken(role, name?.trim()));
      return c.json({ url, role }, 200);
    })
    .openapi(getUsers, (c) => c.json({ users: keys.users() }, 200))
    .openapi(getLock, async (c) => {
      const { id } = await runNamed(c.req.valid("param").run);
      return c.json(locks.of(id), 200);
    })
    .openapi(postLock, async (c) => {
      const { id, up } = await runNamed(c.req.valid("param").run);
      if (!up) throw new ApiFailure("refused", `${id} is not up: only a rack that is has a lock`);
      const order = c.req.valid("json"), caller = c.get("caller")!;
      c.set("detail", order);
      switch (order.action) {
        case "lock":
          locks.lock(id, caller);
          break;
        case "unlock":
          locks.unlock(id, caller);
          break;
        case "take over":
          locks.takeOver(id, caller);
          break;
        case "hand over":
          locks.handOver(id, caller, order.to);
      }
      return c.json(locks.of(id), 200);
    })
    .openapi(getAudit, (c) => c.json({ entries: console.audit.entries() }, 200));
}
