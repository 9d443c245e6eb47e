/**
 * A nats-server or cluster of another owner, as a command line names it: `rack nats-config` writes
 * the users and rights that its owner gives a rack.
 */
import { resolve } from "node:path";
import { z } from "zod";
import { type Access, accessOfLanes, type AccessRack, USERS } from "../../fabric/bus/access.ts";
import { hostsOf, type NatsAddress, serversOf } from "../../fabric/bus/nats_bus.ts";
import { PATIENCE_MS } from "../../fabric/base/patience.ts";
import { busAddressFrom, busEnvironment } from "../../fabric/rack/assembly/run_file.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import type { Broker } from "./nats_server.ts";

export interface ExistingNats {
  readonly address: NatsAddress;
  /** Each process's credential by its name; absent: all have that of `address`. */
  readonly users?: { readonly file: string; readonly byName: NatsUsers };
}

export type NatsUsers = Readonly<Record<string, NatsUser>>;

interface NatsUser extends Access {
  readonly user: string;
  readonly password: string;
}

const subjects = z.array(z.string());
const natsUsers = z.record(
  z.string(),
  z.object({ user: z.string(), password: z.string(), publish: subjects, subscribe: subjects }),
);

export interface NatsFlags {
  /** Addresses, separated by commas. */
  readonly nats?: string;
  /** Files. */
  readonly natsUsers?: string;
  readonly natsCreds?: string;
  readonly natsCa?: string;
}

/** @returns undefined where no server is named. @throws Refusal */
export function existingNats(flags: NatsFlags): ExistingNats | undefined {
  const { nats, natsUsers: usersFile, natsCreds, natsCa } = flags;
  if (nats === undefined) {
    const files = { "--nats-users": usersFile, "--nats-creds": natsCreds, "--nats-ca": natsCa };
    const alone = Object.entries(files).find(([, file]) => file !== undefined);
    if (alone === undefined) return undefined;
    throw refusal(alone[0], { found: "no --nats", expected: "the server to which it belongs" });
  }
  const address = addressIn(nats);
  const isNamed = address.user !== undefined || address.token !== undefined;
  const ways = [isNamed && "in --nats", usersFile && "--nats-users", natsCreds && "--nats-creds"];
  const credentials = ways.filter((way) => typeof way === "string" && way !== "");
  if (credentials.length > 1) {
    throw refusal("--nats", { found: `credentials ${credentials.join(" and ")}`, expected: "one" });
  }
  return {
    address: {
      ...address,
      ...(natsCreds !== undefined && { creds: readCreds(natsCreds) }),
      ...(natsCa !== undefined && { ca: readCa(natsCa) }),
    },
    ...(usersFile !== undefined && {
      users: { file: usersFile, byName: readUsers(usersFile) },
    }),
  };
}

/**
 * Each `nats://user:password@host:port`, `tls://…`, `nats://token@host:port` or `host:port`; the
 * credential of the first holds for all.
 * @throws Refusal, without a credential in its text.
 */
export function addressIn(urls: string): NatsAddress {
  const [first, ...others] = urls.split(",").map(oneAddressIn) as [NatsAddress, ...NatsAddress[]];
  for (const { url, user, password, token } of others) {
    const isOther = user !== undefined && (user !== first.user || password !== first.password);
    if (isOther || (token !== undefined && token !== first.token)) {
      throw refusal("--nats", {
        found: `another credential for ${url} than for ${first.url}`,
        expected: "one for all servers of a cluster",
      });
    }
  }
  return { ...first, url: [first, ...others].map(({ url }) => url).join(",") };
}

function oneAddressIn(text: string): NatsAddress {
  const full = text.includes("://") ? text : `nats://${text}`;
  const scheme = /^(nats|tls):\/\//.exec(full)?.[1];
  // Parsed as http, since URL splits other schemes differently; the default port 80 is then omitted.
  const parsed = URL.parse(full.replace(/^\w+:/, "http:"));
  if (scheme === undefined || parsed === null || parsed.pathname !== "/") {
    throw refusal("--nats", {
      // A credential may contain slashes and further @.
      found: `"${text.replace(/^(\w+:\/\/)?.*@/s, "$1…@")}"`,
      expected: "nats://user:password@host:port or tls://host:port, more of a cluster after commas",
    });
  }
  const port = parsed.port || (/:80\/?$/.test(full) ? "80" : "4222");
  const [user, password] = [parsed.username, parsed.password].map(unescaped) as [string, string];
  const url = `${scheme}://${parsed.hostname}:${port}`;
  if (user === "") return { url };
  return password === "" ? { url, token: user } : { url, user, password };
}

function unescaped(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function readUsers(path: string): NatsUsers {
  const text = readGiven("--nats-users", path);
  const expected = "the users.json that rack nats-config writes";
  try {
    const users = natsUsers.safeParse(JSON.parse(text));
    if (users.success) return users.data;
  } catch (cause) {
    throw refusal("--nats-users", { found: `no JSON in ${path}`, expected, cause });
  }
  throw refusal("--nats-users", { found: `other JSON in ${path}`, expected });
}

function readCreds(path: string): string {
  const text = readGiven("--nats-creds", path);
  if (/BEGIN NATS USER JWT[^]*BEGIN USER NKEY SEED/.test(text)) return text;
  throw refusal("--nats-creds", {
    found: `no JWT with its key in ${path}`,
    expected: "a credentials file of NATS, as nsc writes it",
  });
}

function readCa(path: string): string {
  const text = readGiven("--nats-ca", path);
  if (text.includes("-----BEGIN CERTIFICATE-----")) return text;
  throw refusal("--nats-ca", {
    found: `no certificate in ${path}`,
    expected: "certificates in PEM",
  });
}

function readGiven(option: string, path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (cause) {
    const found = `${path}: ${(cause as Error).message}`;
    throw refusal(option, { found, expected: "a file that can be read", cause });
  }
}

/** The address with a user's credential. @throws Refusal where the file of users lacks it. */
export function addressFor({ address, users }: ExistingNats, name: string): NatsAddress {
  if (users === undefined) return address;
  const known = users.byName[name];
  if (known !== undefined) return { ...address, user: known.user, password: known.password };
  throw refusal("--nats-users", {
    found: `no user for ${name} in ${users.file}`,
    expected: "users that rack nats-config has written for this scenario and --pack",
  });
}

const ASK_MS = 5_000;

/**
 * Asks the server which others its cluster has: a process may only speak to addresses that are known
 * when it starts.
 * @param rack whose processes need users with these rights.
 * @throws BusError, Refusal
 */
export async function existingBroker(
  { address: given, users }: ExistingNats,
  rack: Omit<AccessRack, "run">,
): Promise<Broker> {
  if (users !== undefined) checkUsers(users.byName, accessOfLanes(rack));
  const { supervisor: name } = USERS;
  const asked = addressFor({ address: given, ...(users && { users }) }, name);
  const urls = await serversOf(asked, { name, connectTimeoutMs: ASK_MS });
  const address = { ...given, url: urls.join(",") };
  return {
    addressOf: (name) => addressFor({ address, ...(users && { users }) }, name),
    hosts: hostsOf(address.url),
    refused: () => [],
    connectTimeoutMs: PATIENCE_MS,
  };
}

/** The server would refuse a subject only when it is used, and say no more than that. */
function checkUsers(users: NatsUsers, needed: ReadonlyMap<string, Access>): void {
  for (const [name, { publish, subscribe }] of needed) {
    const user = users[name];
    const subject = publish.find((one) => !user?.publish.includes(one)) ??
      subscribe.find((one) => !user?.subscribe.includes(one));
    if (user !== undefined && subject === undefined) continue;
    throw refusal("--nats-users", {
      found: user === undefined ? `no user for ${name}` : `no right of ${name} to ${subject}`,
      expected: "users that rack nats-config has written for this scenario and --pack",
    });
  }
}

const USERS_VARIABLE = "RACKMESH_NATS_USERS";

/** For {@link existingFrom} in a child process; every variable has a value. */
export function existingEnvironment(existing: ExistingNats | undefined): Record<string, string> {
  const { address = { url: "" }, users } = existing ?? {};
  return {
    ...busEnvironment(address),
    [USERS_VARIABLE]: users === undefined ? "" : resolve(users.file),
  };
}

/** @throws Refusal */
export function existingFrom(get: (variable: string) => string | undefined): ExistingNats {
  const file = get(USERS_VARIABLE);
  return {
    address: busAddressFrom(get),
    ...(file && { users: { file, byName: readUsers(file) } }),
  };
}
