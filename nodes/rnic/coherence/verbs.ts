/** Ordinary RDMA and DMA on lines of a shared region: accesses of agent 0, home's local cache (decision 6). */
import { homeAccess } from "../../../fabric/coherence/home_card.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { CoherentPort, LineTask } from "../state/coherent_port_state.ts";
import type { Device } from "../state/device.ts";
import { noteLineTask } from "./audit.ts";
import { actAtHome } from "./home.ts";

/** Begins an access to a line of this host's regions, whose end `verb_ends.ts` takes. */
export function accessLine(device: Device, port: CoherentPort, task: LineTask): void {
  const ticket = port.nextTask++;
  port.tasks.set(ticket, task);
  if (device.out.auditing) noteLineTask(device, ticket, task);
  const { coherence } = device;
  if (coherence?.home === undefined) return;
  const { home } = coherence;
  const line = Math.floor(task.address / LINE_BYTES);
  const access = task.kind === "read"
    ? { kind: "load", line, ticket } as const
    : { kind: "store", line, ticket, change: task.change } as const;
  actAtHome(
    device,
    { coherence, home, from: "card" },
    (card, out) => homeAccess(card, access, out),
  );
}
