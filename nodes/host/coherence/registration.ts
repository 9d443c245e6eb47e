/** The regions that the host's card knows (C-03, decision 21), by the card's power-on. */
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import { RegionRefused } from "../cpu/region.ts";

/**
 * A choice: home may need a boot, or the rest of a lease, before it exposes a region; a far host asks for 8 leases.
 */
const TRIES_PER_LEASE = 4, REGISTER_TRIES = 32;

export class Registration {
  /** By region: the power-on of the card at which it was registered. */
  readonly #cards = new Map<number, number>();

  /** @param card the power-on of the present card; undefined without one. */
  has({ id }: SharedRegion, card: number | undefined): boolean {
    return card !== undefined && this.#cards.get(id) === card;
  }

  /** The card has refused an access: home has taken the region back, or the card has begun anew. */
  forget(region: number): void {
    this.#cards.delete(region);
  }

  clear(): void {
    this.#cards.clear();
  }

  /**
   * Registers a region: home's exposes it, a far host's card asks home's.
   * @param only the power-on of the card to register at: the call returns without an error when
   * that has ended.
   * @throws RegionRefused
   */
  *register(region: SharedRegion, cpu: Cpu, only?: number): Steps<void> {
    const retryPs = Math.ceil(region.leasePs / TRIES_PER_LEASE);
    let reason = "the card has no power";
    for (let tries = 0; tries < REGISTER_TRIES; tries++) {
      const { card } = cpu;
      if (only !== undefined && card !== only) return;
      // Another program of this host may have registered it meanwhile.
      if (this.has(region, card)) return;
      if (card !== undefined) {
        const reply = yield* cpu.command({ op: "register-region", region: region.id });
        if (reply.status === "ok") {
          this.#cards.set(region.id, card);
          return;
        }
        reason = reply.reason;
        // EBUSY: home has not exposed it, an earlier life of a card has to end first, or the card is being opened.
        if (reply.errno !== "EBUSY" && cpu.card === card) break;
      }
      yield* cpu.sleep(retryPs);
    }
    throw new RegionRefused(`Cannot register region ${region.name}: ${reason}`);
  }

  /**
   * Returns when all copies are written back. An access of another program of this host meanwhile
   * registers the region again. @throws RegionRefused
   */
  *deregister(region: SharedRegion, cpu: Cpu): Steps<void> {
    const { card } = cpu;
    const known = this.#cards.get(region.id);
    this.#cards.delete(region.id);
    if (card === undefined) return;
    const reply = yield* cpu.command({ op: "deregister-region", region: region.id });
    if (reply.status === "ok") return;
    // ENOENT: home's card did not answer, and this one has kept the region. Other refusals mean
    // that a command is under way or that the card does not have the region.
    if (reply.errno === "ENOENT" && known !== undefined && cpu.card === card) {
      this.#cards.set(region.id, known);
    }
    throw new RegionRefused(`Cannot deregister region ${region.name}: ${reply.reason}`);
  }

  /**
   * Gives a region back at a shutdown, whether the card knows it or a program has just asked for
   * it. Returns when all copies are written back. @returns the reason of a failure; else undefined.
   */
  *giveBack(region: SharedRegion, cpu: Cpu): Steps<string | undefined> {
    const retryPs = Math.ceil(region.leasePs / TRIES_PER_LEASE);
    this.#cards.delete(region.id);
    while (cpu.card !== undefined) {
      const reply = yield* cpu.command({ op: "deregister-region", region: region.id });
      if (reply.status === "ok" || reply.errno === "EINVAL") return undefined;
      if (reply.errno !== "EBUSY") return `${region.name}: ${reply.reason}`;
      yield* cpu.sleep(retryPs);
    }
    return `${region.name}: the card has no power`;
  }
}
