import { sleep } from "../../fabric/bus/wall_time.ts";
import type { Rng } from "../../fabric/base/rng.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import {
  command,
  count,
  drawPut,
  get,
  getAll,
  laneName,
  list,
  type Orders,
  put,
} from "./orders.ts";

export interface Disturbance {
  readonly name: string;
  readonly weight: number;
  readonly run: (orders: Orders, rng: Rng) => Promise<void>;
}

const DEVICES = ["a", "b", "a-rnic", "b-rnic", "tor"];
const BURST_MOST = 30, WAIT_MS_MOST = 300;

const STEPS: readonly Disturbance[] = [
  { name: "transfers", weight: 30, run: transfers },
  { name: "commands", weight: 6, run: commands },
  { name: "refused orders", weight: 2, run: refusedOrders },
  { name: "power failures", weight: 6, run: powerFailure },
  { name: "kills of a service", weight: 6, run: serviceKill },
  { name: "pauses", weight: 2, run: pause },
  { name: "faults of cables", weight: 3, run: cableFault },
];

export function drawStep(rng: Rng): Disturbance {
  let left = rng.below(STEPS.reduce((sum, { weight }) => sum + weight, 0));
  return STEPS.find(({ weight }) => (left -= weight) < 0)!;
}

async function transfers(orders: Orders, rng: Rng): Promise<void> {
  const rounds = 1 + rng.below(BURST_MOST);
  for (let i = 0; i < rounds; i++) await transfer(orders, rng);
}

export async function transfer(orders: Orders, rng: Rng, lane = 0): Promise<void> {
  const host = hostOf(rng), which = rng.below(10);
  const names = orders.ledger.names(host).filter((name) => name.startsWith(laneName(lane)));
  if (which === 0) await list(orders, host);
  else if (which < 5 && names.length > 0) {
    await get(orders, { host, name: names[rng.below(names.length)]! });
  } else await put(orders, drawPut(rng, host, lane));
}

async function commands(orders: Orders, rng: Rng): Promise<void> {
  const draft = drawPut(rng);
  await put(orders, draft, { byCommand: true });
  await get(orders, draft, { byCommand: true });
  await list(orders, draft.host, { byCommand: true });
  await command(orders, ["ps"]);
}

async function refusedOrders(orders: Orders, rng: Rng): Promise<void> {
  const refused = [EXIT.failed, EXIT.usage], to = hostOf(rng);
  const orders_ = [
    ["get", "nothing", `${orders.directory}/nothing`, "--from", to],
    ["put", "/dev/null", "--to", to],
    ["put", "/proc/version", "--to", "nobody"],
    ["put", "/proc/version", "--to", to, "--as", "x".repeat(97)],
    ["kill", "nobody"],
    ["start", to],
    ["link", "loss", to, "101%"],
  ];
  await command(orders, orders_[rng.below(orders_.length)]!, refused);
}

/**
 * By the command or by a kill from outside, with an order under way; power comes back in any order.
 */
async function powerFailure(orders: Orders, rng: Rng): Promise<void> {
  const { rack, findings } = orders;
  const victims = DEVICES.filter(() => rng.below(DEVICES.length) === 0);
  if (victims.length === 0) victims.push(DEVICES[rng.below(DEVICES.length)]!);
  const under = underWay(orders, rng);
  await sleep(rng.below(WAIT_MS_MOST));
  for (const victim of victims) {
    const pid = rack.pidOf(victim), isOutside = rng.below(2) === 0;
    if (isOutside && pid !== undefined) kill(pid);
    else await command(orders, ["kill", victim], [EXIT.done, EXIT.usage]);
    count(findings, `kills of a ${kindOf(victim)}`);
  }
  await under;
  // The death of a process killed from outside may not be on record yet.
  for (const victim of shuffled(victims, rng)) await start(orders, victim);
  await getAll(orders);
}

async function start(orders: Orders, name: string): Promise<void> {
  for (let attempt = 0; attempt < START_ATTEMPTS; attempt++) {
    if (orders.rack.pidOf(name) !== undefined && attempt > 0) return;
    const { code, stderr } = await orders.rack.rack("start", name);
    count(orders.findings, "commands");
    if (code === EXIT.done) return;
    if (!/has power/.test(stderr)) {
      orders.findings.failures.push(`rack start ${name} ended with code ${code}: ${stderr}`);
      return;
    }
    if (orders.rack.pidOf(name) !== undefined) return;
    await sleep(WAIT_MS_MOST);
  }
}

const START_ATTEMPTS = 5;

async function serviceKill(orders: Orders, rng: Rng): Promise<void> {
  const under = underWay(orders, rng);
  const times = 1 + rng.below(2);
  for (let i = 0; i < times; i++) {
    await sleep(rng.below(WAIT_MS_MOST));
    const name = rng.below(2) === 0 ? "timekeeper" : "nats";
    const pid = orders.rack.pidOf(name);
    if (pid === undefined || !kill(pid)) continue;
    count(orders.findings, `kills of ${name}`);
  }
  await under;
  await getAll(orders);
}

async function pause(orders: Orders, rng: Rng): Promise<void> {
  await command(orders, ["pause"]);
  const under = put(orders, drawPut(rng));
  await sleep(rng.below(WAIT_MS_MOST));
  if (rng.below(2) === 0) await command(orders, ["step"]);
  await command(orders, ["resume"]);
  await under;
}

/** Transport makes up for the lost frames. */
async function cableFault(orders: Orders, rng: Rng): Promise<void> {
  const cable = rng.below(2) === 0 ? "a-rnic" : "b-rnic";
  const share = `${1 + rng.below(5)}%`;
  await command(orders, ["link", "loss", cable, share, "--for", "50ms"]);
  for (let i = 0; i < 4; i++) await transfer(orders, rng);
}

/** They may fail, as the rack is disturbed meanwhile. */
async function underWay(orders: Orders, rng: Rng): Promise<void> {
  const manner = { isDisturbed: true, byCommand: rng.below(3) === 0 };
  const draft = drawPut(rng), names = orders.ledger.names(draft.host);
  await put(orders, draft, manner);
  if (names.length > 0) await get(orders, { host: draft.host, name: names[0]! }, manner);
}

function hostOf(rng: Rng): string {
  return rng.below(2) === 0 ? "a" : "b";
}

function kindOf(device: string): string {
  return device === "tor" ? "switch" : device.endsWith("-rnic") ? "card" : "host";
}

function shuffled<T>(items: readonly T[], rng: Rng): T[] {
  return items.map((item) => ({ item, key: rng.next() })).toSorted((x, y) => x.key - y.key)
    .map(({ item }) => item);
}

/** SIGKILL. @returns false where the process has ended. */
export function kill(pid: number): boolean {
  try {
    Deno.kill(pid, "SIGKILL");
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
