/** Ordinary RDMA and DMA on lines of a shared region: accesses of agent 0, home's local cache (decision 6). */
import { homeAccess } from "../../../fabric/coherence/home_card.ts";
import type { Access } from "../../../fabric/coherence/access.ts";
import type { Device } from "../state/device.ts";
import { actAtHome } from "./home.ts";

/** Begins an access to a line of this host's regions. */
export function accessLine(device: Device, access: Access): void {
  const { coherence } = device;
  if (coherence?.home === undefined) return;
  const { home } = coherence;
  actAtHome(
    device,
    { coherence, home, from: "card" },
    (card, out) => homeAccess(card, access, out),
  );
}
