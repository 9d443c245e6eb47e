/**
 * Loopback by default; another address only with TLS, or with an explicit option to go without:
 * keys and objects would cross the network as they are.
 */
import { sleep } from "../../fabric/bus/wall_time.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import type { App } from "./app.ts";

export interface ListenOptions {
  readonly address: string;
  /** 0: any free one. */
  readonly port: number;
  readonly tls?: { readonly cert: string; readonly key: string };
  /** The user's explicit word for another address without TLS. */
  readonly isInsecure?: boolean;
  /** Other names of this server, in browsers' Host header. */
  readonly names?: readonly string[];
}

export interface Place {
  readonly port: number;
  /** As a browser writes them; the first one is for people. */
  readonly origins: readonly string[];
}

export interface Listening extends Place {
  /** Ends feeds and connections; resolves when the socket is closed. */
  readonly close: () => Promise<void>;
}

export function isLoopback(address: string): boolean {
  return address === "localhost" || address === "::1" || /^127(?:\.\d{1,3}){3}$/.test(address);
}

/** @throws Refusal where the address is open to others and nothing protects it. */
export function checkListen({ address, tls, isInsecure = false, names = [] }: ListenOptions): void {
  if (!isLoopback(address) && tls === undefined && !isInsecure) {
    throw refusal("--listen", {
      found: `${address}, which others can reach, without TLS`,
      expected: "--tls-cert and --tls-key, or --insecure where the network is trusted",
    });
  }
  for (const name of names) {
    if (/^[\w.-]{1,253}$/.test(name)) continue;
    throw refusal("--host", { found: `"${name}"`, expected: "the name of this machine" });
  }
}

/**
 * @param make builds the app when the port is known.
 * @throws Refusal where the server cannot listen there.
 */
export async function listen(
  options: ListenOptions,
  make: (place: Place) => App | Promise<App>,
): Promise<Listening> {
  checkListen(options);
  const { address, port, tls } = options;
  const pem = tls && { cert: await pemIn(tls.cert), key: await pemIn(tls.key) };
  const { promise: app, resolve } = Promise.withResolvers<App>();
  let underWay = 0;
  const serve = async (request: Request, info: Deno.ServeHandlerInfo) => {
    const { hostname } = info.remoteAddr as Deno.NetAddr;
    underWay++;
    try {
      return await (await app).fetch(request, { address: hostname });
    } finally {
      underWay--;
    }
  };
  const ending = new AbortController(), { signal } = ending;
  const server = serveAt({ hostname: address, port, signal, onListen: () => {}, ...pem }, serve);
  const bound = server.addr as Deno.NetAddr;
  const place = { port: bound.port, origins: originsOf(options, bound) };
  const made = await make(place);
  resolve(made);
  return {
    ...place,
    close: async () => {
      made.endFeeds();
      // `shutdown` would wait for ever for a client that has stopped reading.
      for (let ms = 0; underWay > 0 && ms < GRACE_MS; ms += LOOK_MS) await sleep(LOOK_MS);
      ending.abort();
      await server.finished;
    },
  };
}

const GRACE_MS = 2_000, LOOK_MS = 20;

function serveAt(
  options: Deno.ServeTcpOptions,
  handler: (request: Request, info: Deno.ServeHandlerInfo) => Response | Promise<Response>,
): Deno.HttpServer {
  try {
    return Deno.serve(options, handler as Deno.ServeHandler);
  } catch (cause) {
    const { hostname, port } = options;
    const found = `Cannot listen on ${hostname}:${port}: ${(cause as Error).message}`;
    throw refusal("", { found, expected: "--port with a free one", cause });
  }
}

async function pemIn(path: string): Promise<string> {
  return await Deno.readTextFile(path).catch((cause) => {
    throw refusal("", { found: `Cannot read ${path}: ${(cause as Error).message}`, cause });
  });
}

function originsOf(
  { address, tls, names = [] }: ListenOptions,
  bound: Deno.NetAddr,
): string[] {
  const own = isLoopback(address) ? [address, "127.0.0.1", "localhost", "[::1]"] : isAny(address)
    // Every address of this machine is one of its own.
    ? ["127.0.0.1", "localhost", ...addressesHere()]
    : [address, "127.0.0.1", "localhost"];
  const all = [...names, ...own].map((name) =>
    name.includes(":") && !name.startsWith("[") ? `[${name}]` : name
  );
  const scheme = tls === undefined ? "http" : "https";
  return [...new Set(all)].map((name) => `${scheme}://${name}:${bound.port}`);
}

function isAny(address: string): boolean {
  return address === "0.0.0.0" || address === "::" || address === "[::]";
}

function addressesHere(): string[] {
  return Deno.networkInterfaces().map(({ address }) => address);
}
