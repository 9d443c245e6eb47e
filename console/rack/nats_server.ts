/**
 * A run's own nats-server, on loopback and on a port that the server picks. The clock repairs what
 * is lost when the server ends.
 */
import { assert } from "../../fabric/base/assert.ts";
import { type Access, USERS } from "../../fabric/bus/access.ts";
import { PATIENCE_MS } from "../../fabric/base/patience.ts";
import type { Bus } from "../../fabric/bus/bus.ts";
import {
  connectNats,
  hostsOf,
  type NatsAddress,
  type NatsOptions,
} from "../../fabric/bus/nats_bus.ts";
import { foldersOfPath, isExecutable } from "../base/executables.ts";
import { type Refused, violationsOf } from "./refused.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";

export interface NatsServerOptions {
  /** Default: the first found of {@link candidates}. */
  readonly binary?: string;
  readonly dir: string;
  readonly port?: number;
  /** Of `access.ts`; default: one user, for all processes and subjects. */
  readonly users?: ReadonlyMap<string, Access>;
  readonly readyTimeoutMs?: number;
  /** Restarts the server when it ends unasked, a limited number of times in a row. Default: no. */
  readonly keepUp?: boolean;
  readonly onEvent?: (text: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/** The message has the paths that were tried or the server's last output. */
export class NatsServerError extends Error {
  override readonly name = "NatsServerError";
}

export interface Broker {
  addressOf(user: string): NatsAddress;
  /** `host:port` of each server: a process may speak to no other. */
  readonly hosts: readonly string[];
  /**
   * Refusals to this run, or to no known run, as far as they are known: see {@link violationIn}.
   */
  refused(run: string): Refused[];
  /** A connection's; absent: as for a server that may be absent. */
  readonly connectTimeoutMs?: number;
}

/** A connection of the supervisor's user to a rack's broker. @throws BusError */
export function connectSupervisor(
  broker: Pick<Broker, "addressOf" | "connectTimeoutMs">,
  options: Pick<NatsOptions, "run" | "onError" | "patienceMs">,
): Promise<Bus> {
  const { connectTimeoutMs } = broker;
  return connectNats({
    ...broker.addressOf(USERS.supervisor),
    ...options,
    name: USERS.supervisor,
    ...(connectTimeoutMs !== undefined && { connectTimeoutMs }),
  });
}

/**
 * The shell execs the server, beside a second shell that ends it when its standard input closes:
 * otherwise the server would outlive a parent killed with `kill -9`. The second shell checks that
 * its parent still is the server, as the kernel may have reused the process number.
 */
const STARTER = `
exec 3<&0 </dev/null
sh -c '
  while read -r _ <&3; do :; done
  read -r _ _ _ parent _ </proc/$$/stat
  [ "$parent" = "$PPID" ] && kill "$PPID" && kill -CONT "$PPID"
' 2>/dev/null &
exec "$0" -c "$1" 3<&-
`;

const FIRST_ATTEMPTS = 5;
const KEEP_UP_ATTEMPTS = 10;
/** A user can see the effect of a killed server. */
const KEEP_UP_WAIT_MS = 300;
/**
 * With a thread per core, the server wakes a second one for each message that finds it idle: a
 * fifth of its CPU time, and the processes it serves need cores, too.
 */
const SERVER_THREADS = Math.max(1, navigator.hardwareConcurrency >> 1);
const EVERYONE = "rackmesh";
const STOP_TIMEOUT_MS = 2_000;
const LOGIN_S = 60;
const LAST_WORDS = 12;

/**
 * Starts a server and waits until it accepts connections.
 * @throws NatsServerError; the reason of `options.signal`.
 */
export async function startNatsServer(options: NatsServerOptions): Promise<NatsServer> {
  const binary = options.binary ?? findNatsServer();
  const server = new NatsServer({ ...options, binary });
  const { signal } = options;
  const stop = () => void server.stop();
  signal?.addEventListener("abort", stop);
  try {
    signal?.throwIfAborted();
    await server.start();
    return server;
  } catch (error) {
    if (signal?.aborted) await server.stop();
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener("abort", stop);
  }
}

/** Paths where nats-server may be, best first. */
export function candidates(): string[] {
  const named = Deno.env.get("RACKMESH_NATS_SERVER");
  if (named !== undefined && named !== "") return [named];
  // Debian installs it outside an ordinary user's PATH.
  const folders = [...foldersOfPath(), "/usr/sbin", "/usr/local/sbin"];
  return [...new Set(folders.map((folder) => `${folder}/nats-server`))];
}

/** @throws NatsServerError */
export function findNatsServer(): string {
  const tried = candidates();
  const found = tried.find(isExecutable);
  if (found !== undefined) return found;
  throw new NatsServerError(
    `Cannot find nats-server: tried ${tried.join(", ")}. ` +
      "Install it (Debian: apt install nats-server) or name it in RACKMESH_NATS_SERVER",
  );
}

export class NatsServer implements Broker {
  /** The server has answered once; on a busy machine the next answer takes longer. */
  readonly connectTimeoutMs = PATIENCE_MS;
  readonly logFile: string;
  readonly #options: NatsServerOptions & { readonly binary: string };
  readonly #configFile: string;
  readonly #passwords: ReadonlyMap<string, string>;
  readonly #users: ReadonlyMap<string, Access> | undefined;
  #port: number | undefined;
  #asked = 0;
  #process: Deno.ChildProcess | undefined;
  /** SIGKILL is no defect of the server. */
  #wasKilled = false;
  #exited: Promise<void> = Promise.resolve();

  constructor(options: NatsServerOptions & { readonly binary: string }) {
    this.#options = options;
    this.#configFile = `${options.dir}/nats-server.conf`;
    this.logFile = `${options.dir}/nats-server.log`;
    this.#port = options.port;
    this.#users = options.users;
    const names = options.users?.keys() ?? [EVERYONE];
    this.#passwords = new Map([...names].map((name) => [name, randomHex(24)]));
  }

  addressOf(name: string): NatsAddress {
    const user = this.#users === undefined ? EVERYONE : name;
    const password = this.#passwords.get(user);
    assert(password !== undefined, `The server has no user ${user}`);
    return { url: `nats://127.0.0.1:${this.#port}`, user, password };
  }

  refused(run: string): Refused[] {
    return violationsOf(this.logFile).filter(({ subject }) => {
      const other = /^rack\.([^.*>]+)\./.exec(subject);
      return other === null || other[1] === run;
    });
  }

  /** Of the only user; on a server with rights, of the supervisor. */
  get address(): NatsAddress {
    return this.addressOf(USERS.supervisor);
  }

  get hosts(): string[] {
    return hostsOf(this.address.url);
  }

  get pid(): number {
    return this.#process!.pid;
  }

  get exited(): Promise<void> {
    return this.#exited;
  }

  async start(): Promise<void> {
    const asked = ++this.#asked;
    for (let attempt = 1;; attempt++) {
      try {
        await this.#launch(asked);
        break;
      } catch (error) {
        const again = this.#options.keepUp && this.#wasKilled && attempt < FIRST_ATTEMPTS;
        if (!again || this.#asked !== asked) throw error;
      }
    }
    if (this.#options.keepUp) void this.#launchAgain(asked);
  }

  async #launchAgain(asked: number): Promise<void> {
    for (let attempt = 0; attempt < KEEP_UP_ATTEMPTS; attempt++) {
      await this.#exited;
      if (this.#asked !== asked) return;
      if (attempt === 0) this.#options.onEvent?.("nats-server has ended");
      await sleep(KEEP_UP_WAIT_MS);
      if (this.#asked !== asked) return;
      try {
        await this.#launch(asked);
        this.#options.onEvent?.(`nats-server is back, pid ${this.pid}`);
        attempt = -1;
      } catch {
        // The log has its output; the server's clients detect its end by themselves.
      }
    }
  }

  async #launch(asked: number): Promise<void> {
    // A new name at every start: the server on the port is this process only if its INFO has the name.
    const name = `rackmesh-${randomHex(8)}`;
    await this.#writeConfig(name);
    const log = await Deno.open(this.logFile, { create: true, append: true, mode: 0o600 });
    if (this.#asked !== asked) {
      log.close();
      throw new NatsServerError("nats-server was stopped before it was started");
    }
    const process = this.#spawn(log);
    const words: string[] = [];
    const listening = Promise.withResolvers<number>();
    const logged = this.#keepLog(process, { log, words, onPort: listening.resolve });
    const status = process.status;
    status.then(() => process.stdin.close()).catch(() => {});
    status.then(({ signal }) => this.#wasKilled = signal === "SIGKILL");
    this.#process = process;
    this.#exited = Promise.all([status, logged]).then(() => {});

    const limit = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => limit.reject(this.#notReady("is not ready in time", words)),
      this.#options.readyTimeoutMs ?? PATIENCE_MS,
    );
    const gone = this.#exited.then(async () => {
      throw this.#notReady(`ended with code ${(await status).code}`, words);
    });
    try {
      const port = await Promise.race([listening.promise, gone, limit.promise]);
      await Promise.race([this.#greet(port, name), gone, limit.promise]);
      this.#port = port;
    } catch (error) {
      await this.#end();
      throw error;
    } finally {
      clearTimeout(timer);
      gone.catch(() => {});
    }
  }

  /** SIGKILL, SIGSTOP or SIGCONT; {@link stop} ends a stopped process, too. */
  signal(name: Deno.Signal): void {
    if (this.#process !== undefined) signal(this.#process, name);
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  /** SIGTERM, then SIGKILL. Idempotent. */
  async stop(): Promise<void> {
    this.#asked++;
    await this.#end();
  }

  async #end(): Promise<void> {
    const process = this.#process;
    if (process === undefined) return;
    signal(process, "SIGTERM");
    signal(process, "SIGCONT");
    const timer = setTimeout(() => signal(process, "SIGKILL"), STOP_TIMEOUT_MS);
    await this.#exited;
    clearTimeout(timer);
  }

  #spawn(log: Deno.FsFile): Deno.ChildProcess {
    try {
      return new Deno.Command("sh", {
        args: ["-c", STARTER, this.#options.binary, this.#configFile],
        env: { GOMAXPROCS: String(SERVER_THREADS) },
        stdin: "piped",
        stdout: "null",
        stderr: "piped",
      }).spawn();
    } catch (cause) {
      log.close();
      const message = `Cannot start nats-server as ${this.#options.binary} does not run`;
      throw new NatsServerError(message, { cause });
    }
  }

  /** Its owner alone may read the file, all users a command line. */
  async #writeConfig(name: string): Promise<void> {
    const quoted = new Map([...this.#passwords].map(([user, word]) => [user, `"${word}"`]));
    const text = `# Written by rackmesh, anew at every start.
server_name: "${name}"
host: "127.0.0.1"
port: ${this.#port ?? -1}
max_payload: 8MB
# The server drops a client that vanished silently after 15 to 20 s.
ping_interval: "5s"
ping_max: 3
${authorization(quoted, this.#users)}`;
    await Deno.remove(this.#configFile).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
    await Deno.writeTextFile(this.#configFile, text, { createNew: true, mode: 0o600 });
  }

  async #keepLog(
    process: Deno.ChildProcess,
    options: {
      readonly log: Deno.FsFile;
      readonly words: string[];
      readonly onPort: (port: number) => void;
    },
  ): Promise<void> {
    const { log, words, onPort } = options;
    let rest = "";
    for await (const text of process.stderr.pipeThrough(new TextDecoderStream())) {
      // A full disk does not end the server.
      await log.write(new TextEncoder().encode(text)).catch(() => {});
      const lines = (rest + text).split("\n");
      rest = lines.pop()!;
      for (const line of lines) {
        words.push(line);
        const listening = /Listening for client connections on .*:(\d+)$/.exec(line);
        if (listening !== null) onPort(Number(listening[1]));
      }
      words.splice(0, words.length - LAST_WORDS);
    }
    log.close();
  }

  async #greet(port: number, name: string): Promise<void> {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port });
    try {
      const buffer = new Uint8Array(4096);
      const length = await connection.read(buffer);
      const info = new TextDecoder().decode(buffer.subarray(0, length ?? 0));
      if (info.startsWith("INFO ") && info.includes(`"${name}"`)) return;
      throw new NatsServerError(`Another server answers on port ${port}`);
    } finally {
      connection.close();
    }
  }

  #notReady(problem: string, words: readonly string[]): NatsServerError {
    const output = words.length === 0 ? "It printed nothing" : `Its output:\n${words.join("\n")}`;
    return new NatsServerError(`${this.#options.binary} ${problem}. ${output}`);
  }
}

/**
 * The users of a configuration file. `passwords` are words of its syntax: a quoted text, or `$NAME`
 * of the environment. A user without given rights may do anything. There is no `allow_responses`,
 * which would let a user publish on any subject: a message to itself may name it for the reply.
 */
export function authorization(
  passwords: ReadonlyMap<string, string>,
  rights: ReadonlyMap<string, Access> | undefined,
): string {
  const logins = new Map([...passwords].map(([user, password]) => [user, { user, password }]));
  return authorizationOf(usersText(logins, rights));
}

function authorizationOf(users: string): string {
  return `authorization {
  # Hundreds of processes that start at once take turns on the processors between greeting and login.
  timeout: ${LOGIN_S}
  users: ${users}
}
`;
}

/**
 * {@link authorization} for a server that takes its configuration in files of a limited length: the
 * first one includes the others, each of which has some users.
 * @returns undefined where one user alone is longer.
 */
export function authorizationFiles(
  passwords: ReadonlyMap<string, string>,
  rights: ReadonlyMap<string, Access>,
  { name, bytesMax }: { readonly name: (part: number) => string; readonly bytesMax: number },
): string[] | undefined {
  const encoder = new TextEncoder(), parts: string[] = [];
  let bytes = Infinity;
  for (const [i, [user, password]] of [...passwords].entries()) {
    const text = `user_${i}: ${userText({ user, password }, rights.get(user)).trimStart()}\n`;
    const { length } = encoder.encode(text);
    if (length > bytesMax) return undefined;
    if (bytes + length > bytesMax) {
      parts.push("");
      bytes = 0;
    }
    parts[parts.length - 1] += text;
    bytes += length;
  }
  const includes = parts.map((_, part) => `include "${name(part + 1)}"\n`).join("");
  const users = [...passwords].map((_, i) => `$user_${i}`).join(", ");
  return [`${includes}${authorizationOf(`[${users}]`)}`, ...parts];
}

/**
 * @param logins by the process's name; `password` as in {@link authorization}.
 */
export function usersText(
  logins: ReadonlyMap<string, Login>,
  rights: ReadonlyMap<string, Access> | undefined,
): string {
  const users = [...logins].map(([name, login]) => userText(login, rights?.get(name)));
  return `[
${users.join("\n")}
  ]`;
}

interface Login {
  readonly user: string;
  readonly password: string;
}

function userText({ user, password }: Login, access: Access | undefined): string {
  const permissions = access === undefined ? "" : `
      permissions: {
        publish: { allow: ${JSON.stringify(access.publish)} }
        subscribe: { allow: ${JSON.stringify(access.subscribe)} }
      }`;
  return `    {
      user: "${user}", password: ${password}${permissions}
    }`;
}

function signal(process: Deno.ChildProcess, name: Deno.Signal): void {
  try {
    process.kill(name);
  } catch {
    // The process has already ended.
  }
}

function randomHex(bytes: number): string {
  return crypto.getRandomValues(new Uint8Array(bytes)).toHex();
}
