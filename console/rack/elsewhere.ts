/** Devices of a rack that parents on other machines start (`rack node`), as a command names them. */
import type { NatsUsers } from "./existing_nats.ts";
import { type Access, accessOfProcesses, USERS } from "../../fabric/bus/access.ts";
import type { ClockStatus } from "../../fabric/clock/clock_service.ts";
import type { RunFile } from "../../fabric/rack/assembly/run_file.ts";
import { nativeIn } from "../../fabric/rack/plan/plan.ts";
import { oneOf, refusal } from "../../fabric/rack/plan/problem.ts";
import { writeWhole } from "../base/files.ts";
import type { Prepared } from "./prepare.ts";
import type { Broker } from "./nats_server.ts";

/**
 * Without a message for so long, a device elsewhere is dead. Its parent tells of its death at once:
 * this is for the end of a machine, and longer than a network needs to heal.
 */
export const LIVENESS_ELSEWHERE_MS = 30_000;
/** In ms: shorter than a process's heartbeats, all would be dead. */
export const LIVENESS_RANGE = { least: 1_500, most: 3_600_000 } as const;

/**
 * The processes of these devices.
 * @param devices as typed.
 * @throws Refusal for an unknown device, one that is named twice, one with native programs.
 */
export function elsewhereIn(
  { partitions, plan }: Pick<Prepared, "partitions" | "plan">,
  devices: readonly string[],
  livenessMs = LIVENESS_ELSEWHERE_MS,
): Pick<RunFile, "elsewhere" | "livenessMs"> {
  const twice = devices.find((name, i) => devices.indexOf(name) !== i);
  if (twice !== undefined) {
    throw refusal("--elsewhere", { found: `${twice} twice`, expected: "each device once" });
  }
  const found = devices.map((device) => {
    const partition = partitions.find(({ name, nodes }) =>
      name === device || nodes.includes(device)
    );
    if (partition !== undefined) return partition;
    const known = partitions.flatMap(({ nodes }) => nodes);
    throw refusal("--elsewhere", { found: `"${device}"`, expected: oneOf(known, device) });
  });
  const [native] = nativeIn(plan, found.flatMap(({ nodes }) => nodes));
  if (native !== undefined) {
    throw refusal("--elsewhere", {
      found: `${native.host}, which has a native program`,
      expected: "devices without: its files are this machine's",
    });
  }
  return {
    elsewhere: [...new Set(found.map(({ name }) => name))],
    livenessMs,
  };
}

/** How often a command says which devices are missing, and when first. */
export const MISSING_MS = 10_000, FIRST_MISSING_MS = 2_000;

/** Of these partitions, those that have not joined yet. */
export function absentIn({ why }: Pick<ClockStatus, "why">, names: readonly string[]): string[] {
  return why.filter(({ partition, status }) =>
    names.includes(partition) && (status === "absent" || status === "unknown")
  ).map(({ partition }) => partition);
}

/** In a run's directory: credentials for `rack node`, as `rack nats-config` writes them. */
export const USERS_FILE = "users.json";

/** Readable by the owner only. */
export function writeUsers(runFile: RunFile, broker: Broker): void {
  const rights = accessOfProcesses(runFile);
  const names = [...runFile.elsewhere ?? [], USERS.supervisor, USERS.viewer];
  const users: NatsUsers = Object.fromEntries(names.flatMap((name) => {
    const { user, password } = broker.addressOf(name);
    const access: Access = rights.get(name)!;
    return user === undefined || password === undefined
      ? []
      : [[name, { user, password, ...access }]];
  }));
  if (Object.keys(users).length === 0) return;
  writeWhole(`${runFile.directory}/${USERS_FILE}`, JSON.stringify(users));
}
