/** What a nats-server of another owner has to know of a rack: its users and their rights. */
import { type Access, accessOfLanes } from "../../fabric/bus/access.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import type { ScenarioSource } from "../scenarios/scenario_source.ts";
import type { NatsUsers } from "./existing_nats.ts";
import { usersText } from "./nats_server.ts";
import { lacksInput, prepare, type PrepareOptions } from "./prepare.ts";

export interface NatsConfigOptions {
  readonly prepare: PrepareOptions;
  /** A folder, which is made where it is missing. */
  readonly out: string;
  /** Of NATS: its name, and the beginning of its users'. */
  readonly account: string;
}

export interface NatsConfig {
  /** To be included in `accounts { … }` of each server. */
  readonly configFile: string;
  /** For `--nats-users`. */
  readonly usersFile: string;
  /** Names of processes. */
  readonly users: readonly string[];
}

const PASSWORD_BYTES = 24;
const ACCOUNT = /^[A-Za-z0-9_-]{1,64}$/;

/** Writes both files, for all variants and any number of runs. @throws Refusal */
export async function writeNatsConfig(
  scenario: ScenarioSource,
  { prepare: choices, out, account }: NatsConfigOptions,
): Promise<NatsConfig> {
  if (!ACCOUNT.test(account)) {
    const expected = "1 to 64 letters, digits, - and _";
    throw refusal("--account", { found: `"${account}"`, expected });
  }
  const all = await prepare(scenario, {
    ...choices,
    native: { kind: "look" },
    change: (program) => lacksInput(program, choices.input) ? undefined : program,
  });
  const rights = union(all.map(accessOfLanes));
  const users: NatsUsers = Object.fromEntries(
    [...rights].map(([name, access]) => [
      name,
      { user: `${account}.${name}`, password: newPassword(), ...access },
    ]),
  );
  const configFile = `${out}/${account}.conf`, usersFile = `${out}/users.json`;
  await makeFolder(out);
  await writeSecret(configFile, configOf(account, users));
  await writeSecret(usersFile, `${JSON.stringify(users, undefined, 1)}\n`);
  return { configFile, usersFile, users: [...rights.keys()] };
}

function configOf(account: string, users: NatsUsers): string {
  const logins = Object.entries(users).map(([name, { user, password }]) =>
    [name, { user, password: `"${password}"` }] as const
  );
  const rights = new Map(Object.entries(users));
  return `# Users of a rack, one for each process. Include it in each server's accounts:
#     accounts { include "${account}.conf" }
${account}: {
  users: ${usersText(new Map(logins), rights)}
}
`;
}

function union(all: ReadonlyArray<ReadonlyMap<string, Access>>): Map<string, Access> {
  const rights = new Map<string, Access>();
  for (const one of all) {
    for (const [name, { publish, subscribe }] of one) {
      const before = rights.get(name);
      rights.set(name, {
        publish: [...new Set([...before?.publish ?? [], ...publish])],
        subscribe: [...new Set([...before?.subscribe ?? [], ...subscribe])],
      });
    }
  }
  return rights;
}

async function makeFolder(path: string): Promise<void> {
  try {
    await Deno.mkdir(path, { recursive: true, mode: 0o700 });
  } catch (cause) {
    const found = `Cannot write to ${path}: ${(cause as Error).message}`;
    throw refusal("--out", { found, expected: "a folder", cause });
  }
}

/** New passwords never replace ones that a server may have. */
async function writeSecret(path: string, text: string): Promise<void> {
  try {
    await Deno.writeTextFile(path, text, { createNew: true, mode: 0o600 });
  } catch (cause) {
    const found = `Cannot write ${path}: ${(cause as Error).message}`;
    throw refusal("--out", { found, expected: "a folder without it", cause });
  }
}

function newPassword(): string {
  return crypto.getRandomValues(new Uint8Array(PASSWORD_BYTES)).toHex();
}
