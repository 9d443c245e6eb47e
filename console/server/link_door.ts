/**
 * How the command asks a running console for one more address. The socket is in a folder that only
 * the console's user may enter, so a process that can open it has that user's rights anyway. The
 * folder `consoles` of the cache has a file for each console, which names its socket.
 */
import { ifThere, jsonIfThere, writeWhole } from "../base/files.ts";
import { cacheFolder } from "../base/paths.ts";
import { isAlive } from "../base/process_stat.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { RackError } from "../base/rack_error.ts";
import type { Role } from "../api/session.ts";

interface Running {
  readonly pid: number;
  readonly origin: string;
  readonly socket: string;
}

export interface LinkDoor {
  readonly close: () => Promise<void>;
}

/**
 * @param options.link makes an address that signs one browser in.
 * @param options.askedMs one that has not asked by then is sent away.
 */
export async function openLinkDoor(
  { origin, link, askedMs = ASKED_MS }: {
    readonly origin: string;
    readonly link: (role: Role) => Promise<string>;
    readonly askedMs?: number;
  },
): Promise<LinkDoor> {
  // A path in the cache may be longer than a socket's may be.
  const folder = await Deno.makeTempDir({ prefix: "rackmesh-console-" });
  const socket = `${folder}/link`;
  const listener = Deno.listen({ transport: "unix", path: socket });
  const folderOfAll = runningFolder(), file = `${folderOfAll}/${Deno.pid}.json`;
  await Deno.mkdir(folderOfAll, { recursive: true, mode: 0o700 });
  writeWhole(file, JSON.stringify({ pid: Deno.pid, origin, socket }));
  const open = new Set<Deno.UnixConn>();
  const serving = serve(listener, async (connection) => {
    open.add(connection);
    await answer(connection, { link, askedMs });
    open.delete(connection);
  });
  return {
    close: async () => {
      listener.close();
      await serving;
      for (const connection of open) close(connection);
      ifThere(() => Deno.removeSync(file));
      await Deno.remove(folder, { recursive: true });
    },
  };
}

async function serve(
  listener: Deno.UnixListener,
  answer: (connection: Deno.UnixConn) => Promise<void>,
): Promise<void> {
  // One that asks nothing keeps no other waiting.
  for await (const connection of listener) void answer(connection);
}

async function answer(
  connection: Deno.UnixConn,
  { link, askedMs }: {
    readonly link: (role: Role) => Promise<string>;
    readonly askedMs: number;
  },
): Promise<void> {
  try {
    const role = await firstLine(connection, askedMs);
    if (role !== "operator" && role !== "viewer") return;
    await connection.write(new TextEncoder().encode(`${await link(role)}\n`));
  } catch {
    // The other end has gone, or has asked nothing in time.
  } finally {
    close(connection);
  }
}

/** Also one that is closed. */
function close(connection: Deno.UnixConn): void {
  try {
    connection.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}

const ASKED_MS = 5_000;
const NEWLINE = 0x0a;

async function firstLine(connection: Deno.UnixConn, withinMs = ASKED_MS): Promise<string> {
  const timer = setTimeout(() => close(connection), withinMs);
  try {
    // `lines` would close the connection behind the first one.
    const buffer = new Uint8Array(400);
    let length = 0;
    while (length < buffer.length && !buffer.subarray(0, length).includes(NEWLINE)) {
      const read = await connection.read(buffer.subarray(length));
      if (read === null) break;
      length += read;
    }
    return new TextDecoder().decode(buffer.subarray(0, length)).split("\n")[0]!;
  } finally {
    clearTimeout(timer);
  }
}

function runningFolder(): string {
  return cacheFolder("consoles");
}

function running(): Running[] {
  const folder = runningFolder();
  return [...ifThere(() => [...Deno.readDirSync(folder)]) ?? []].flatMap(({ name }) => {
    const path = `${folder}/${name}`;
    const found = jsonIfThere<Running>(
      path,
      ({ pid, socket }) => typeof pid === "number" && typeof socket === "string",
    );
    if (found === undefined) return [];
    if (isAlive(found.pid) && ifThere(() => Deno.statSync(found.socket)) !== undefined) {
      return [found];
    }
    // Of one that was killed.
    ifThere(() => Deno.removeSync(path));
    return [];
  });
}

/**
 * An address of a console of this user that runs.
 * @param port which, where several run.
 * @throws Refusal where none or several run; RackError where it does not answer.
 */
export async function askForLink(
  role: Role,
  port?: number,
): Promise<{ readonly url: string; readonly origin: string }> {
  const all = running();
  const found = port === undefined
    ? all
    : all.filter(({ origin }) => Number(new URL(origin).port) === port);
  const [one] = found;
  if (one === undefined || found.length > 1) {
    const origins = all.map(({ origin }) => origin).join(", ");
    const what = all.length === 0 ? "no console of yours that runs" : `consoles at ${origins}`;
    const expected = all.length === 0 ? "one: rack console starts it" : "--port of one of them";
    throw refusal("--link", { found: what, expected });
  }
  const { origin, socket } = one;
  try {
    const connection = await Deno.connect({ transport: "unix", path: socket });
    await connection.write(new TextEncoder().encode(`${role}\n`));
    const url = await firstLine(connection);
    if (url !== "") return { url, origin };
  } catch (cause) {
    throw new RackError(`The console at ${origin} gives no address: ${(cause as Error).message}`);
  }
  throw new RackError(`The console at ${origin} gives no address: it is ending`);
}
