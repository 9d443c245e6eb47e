/**
 * A page of another origin can send requests to this server (a port of the loopback interface is
 * open to every page of the browser), so: only our own names as Host (rebinding), no foreign Origin
 * or Sec-Fetch-Site, changes only with a header that no form can set and no other origin may set
 * without CORS, which is not offered; keys in a header, never cookies.
 */
import { createMiddleware } from "hono/factory";
import { secureHeaders } from "hono/secure-headers";
import { bodyLimit } from "hono/body-limit";
import type { MiddlewareHandler } from "hono";
import { ApiFailure } from "./errors.ts";
import { Buckets } from "./buckets.ts";
import type { Console, Env } from "../context.ts";

/** `1` on every request that is no GET. */
export const OWN_HEADER = "X-Rackmesh";

export function isRead(method: string): boolean {
  return method === "GET" || method === "HEAD";
}

/** 421 unless the request names one of our own hosts: a rebound name has another. */
export function hostGuard({ origins }: Pick<Console, "origins">): MiddlewareHandler<Env> {
  const hosts = new Set(origins.map((origin) => new URL(origin).host));
  return createMiddleware<Env>(async (c, next) => {
    const host = c.req.header("host") ?? new URL(c.req.url).host;
    if (!hosts.has(host)) {
      throw new ApiFailure("wrong-host", `This server is not ${host}: expected ${[...hosts][0]}`);
    }
    await next();
  });
}

/**
 * 403 for requests of another page. A link from elsewhere may open the page, and nothing of the
 * API.
 */
export function originGuard({ origins }: Pick<Console, "origins">): MiddlewareHandler<Env> {
  return createMiddleware<Env>(async (c, next) => {
    const { method, path } = c.req;
    const origin = c.req.header("origin"), site = c.req.header("sec-fetch-site");
    const isVisit = isRead(method) && !path.startsWith("/api/") && path !== "/metrics" &&
      c.req.header("sec-fetch-mode") === "navigate" &&
      c.req.header("sec-fetch-dest") === "document";
    const isForeign = (origin !== undefined && !origins.includes(origin)) ||
      (site !== undefined && site !== "same-origin" && site !== "none");
    if (isForeign && !isVisit) {
      throw new ApiFailure("not-allowed", "This request comes from another page");
    }
    if (c.req.header("upgrade") !== undefined) {
      throw new ApiFailure("not-allowed", "There is nothing to upgrade to");
    }
    if (!isRead(method) && c.req.header(OWN_HEADER) !== "1") {
      throw new ApiFailure("not-allowed", `A change needs the header ${OWN_HEADER}: 1`);
    }
    await next();
  });
}

/** Of every answer: nothing from elsewhere is loaded, framed, guessed or kept. */
export const ownHeaders: MiddlewareHandler<Env> = secureHeaders({
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    scriptSrc: ["'self'"],
    styleSrc: ["'self'"],
    imgSrc: ["'self'"],
    connectSrc: ["'self'"],
    baseUri: ["'none'"],
    formAction: ["'none'"],
    frameAncestors: ["'none'"],
    requireTrustedTypesFor: ["'script'"],
    trustedTypes: ["'none'"],
  },
  // A loopback address has no certificate, and another server on it may need none.
  strictTransportSecurity: false,
  referrerPolicy: "no-referrer",
  xFrameOptions: "DENY",
});

export const noStore: MiddlewareHandler<Env> = createMiddleware<Env>(async (c, next) => {
  await next();
  c.res.headers.set("Cache-Control", "no-store");
});

/** Of a request; an object for SCM has the size of one message of the bus. */
export const BODY_BYTES_MAX = 5 << 20, OBJECT_BYTES_MAX = 9 << 20;
/** Of a sign-in, which needs no key. */
export const SIGN_IN_BYTES_MAX = 4 << 10;

export function bodyGuard(maxSize: number): MiddlewareHandler<Env> {
  return bodyLimit({
    maxSize,
    onError: () => {
      throw new ApiFailure("too-large", `The body has more than ${maxSize} bytes`);
    },
  });
}

/** A second, and at once: a page with all its views needs a tenth of it. */
const RATE = { perSecond: 50, burst: 200 };
/** Orders to a rack come by hand, or from a script that waits for each. */
const CHANGE_RATE = { perSecond: 20, burst: 60 };

/**
 * 429 beyond the rates: by session, or by address without one. A sign-in is not counted here: another
 * user of the owner's address could keep the right token out; see `routes/session.ts`.
 */
export function rateGuard({ wallMs }: Pick<Console, "wallMs">): MiddlewareHandler<Env> {
  const all = new Buckets(RATE, wallMs), changes = new Buckets(CHANGE_RATE, wallMs);
  return createMiddleware<Env>(async (c, next) => {
    const who = c.get("caller")?.session ?? `from ${c.env?.address ?? ""}`;
    if (isSignIn(c.req)) return await next();
    const isChange = !isRead(c.req.method);
    const taken = [
      all.take(who),
      ...(isChange ? [changes.take(who)] : []),
    ];
    const waitMs = Math.max(...taken);
    if (waitMs > 0) {
      throw new ApiFailure("too-many", "Too many requests: wait a little", { waitMs });
    }
    await next();
  });
}

export function isSignIn({ method, path }: { readonly method: string; readonly path: string }) {
  return method === "POST" && path === "/api/v1/session";
}

/** Without a known key a request has no session. */
export function callerGuard({ keys }: Pick<Console, "keys">): MiddlewareHandler<Env> {
  return createMiddleware<Env>(async (c, next) => {
    const key = keyIn(c.req.header("authorization"));
    c.set("caller", key === undefined ? undefined : await keys.callerOf(key));
    await next();
  });
}

export function keyIn(authorization: string | undefined): string | undefined {
  return /^Bearer ([\w.~+/=-]{1,200})$/.exec(authorization ?? "")?.[1];
}

/** 401 without a key; 403 where a viewer wants a change, or data that are the operator's. */
export const roleGuard: MiddlewareHandler<Env> = createMiddleware<Env>(async (c, next) => {
  const { method, path } = c.req;
  const isOpen = isSignIn(c.req);
  const caller = c.get("caller");
  if (caller === undefined && !isOpen) {
    throw new ApiFailure(
      "not-signed-in",
      "Sign in first: this needs a key (Authorization: Bearer)",
    );
  }
  const isOwn = path === "/api/v1/session";
  const needsOperator = !isOwn && (!isRead(method) || path === "/api/v1/audit");
  if (needsOperator && caller?.role !== "operator") {
    throw new ApiFailure("not-allowed", "A viewer may look, and change nothing");
  }
  await next();
});

/** 403 for an order to a rack that another has locked: see `locks.ts`. */
export function lockGuard({ locks }: Pick<Console, "locks">): MiddlewareHandler<Env> {
  return createMiddleware<Env>(async (c, next) => {
    const { method, path } = c.req;
    const [, , , topic, run, act] = path.split("/");
    const isOrder = !isRead(method) && (topic === "racks" || topic === "runs");
    const caller = c.get("caller");
    if (isOrder && caller !== undefined && run !== undefined && act !== "lock") {
      locks.check(decoded(run), caller);
    }
    await next();
  });
}

/** A part of a path; one that is no percent-encoding names no run, which its route says. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Of requests without a key that were refused: so many are written down, others counted. */
const STRANGER_RATE = { perSecond: 0.2, burst: 20 };

/** Also of a refused change; of reads those that let a file out. */
export function auditGuard(
  { audit, wallMs }: Pick<Console, "audit" | "wallMs">,
): MiddlewareHandler<Env> {
  const strangers = new Buckets(STRANGER_RATE, wallMs);
  let unwritten = 0;
  return createMiddleware<Env>(async (c, next) => {
    await next();
    if (isRead(c.req.method) && !c.get("isAudited")) return;
    const caller = c.get("caller");
    // Else anybody could push out of the log what was done.
    if (caller === undefined && c.res.status >= 400 && strangers.take("") > 0) {
      unwritten++;
      return;
    }
    const more = unwritten;
    unwritten = 0;
    audit.add({
      at: new Date().toISOString(),
      session: caller?.session ?? "",
      role: caller?.role ?? null,
      ...(caller !== undefined && { name: caller.name }),
      action: `${c.req.method} ${routeOf(c.req.path)}`,
      target: c.req.path.slice(0, 300),
      detail: c.get("detail") ?? null,
      ...(more > 0 && { refusedBefore: more }),
      status: c.res.status,
      result: c.error === undefined ? "done" : c.error.message.slice(0, 500),
    });
  });
}

function routeOf(path: string): string {
  return path.split("/").map((part, i) => i === 4 || i > 5 ? "…" : part).join("/").slice(0, 100);
}
