/** Which regions the card of the host knows (C-03, decision 21), by the card's power-on. */
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

  /** @param card the power-on of the card that is there; undefined without one. */
  has({ id }: SharedRegion, card: number | undefined): boolean {
    return card !== undefined && this.#cards.get(id) === card;
  }

  /** The card has refused an access: home has taken the region back, or the card has begun anew. */
  forget(region: number): void {
    this.#cards.delete(region);
  }

  /** The card is gone, with all that it knew. */
  clear(): void {
    this.#cards.clear();
  }

  /**
   * Registers a region: home's exposes it, a far host's card asks home's.
   * @param only the power-on of the card that it is for: where that is over, there is nothing to do, and no refusal.
   * @throws RegionRefused
   */
  *register(region: SharedRegion, cpu: Cpu, only?: number): Steps<void> {
    const retryPs = Math.ceil(region.leasePs / TRIES_PER_LEASE);
    let reason = "the card has no power";
    for (let tries = 0; tries < REGISTER_TRIES; tries++) {
      const { card } = cpu;
      if (only !== undefined && card !== only) return;
      // Another program of this host may have done it meanwhile.
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
   * Returns when all copies are written back. Accesses of other programs of this host that begin meanwhile register
   * the region again. @throws RegionRefused
   */
  *deregister(region: SharedRegion, cpu: Cpu): Steps<void> {
    const { card } = cpu;
    const known = this.#cards.get(region.id);
    this.#cards.delete(region.id);
    if (card === undefined) return;
    const reply = yield* cpu.command({ op: "deregister-region", region: region.id });
    if (reply.status === "ok") return;
    // ENOENT: home's card did not answer, and this one has kept the region. The other refusals tell of a command that
    // is under way, or of a region that the card does not have.
    if (reply.errno === "ENOENT" && known !== undefined && cpu.card === card) {
      this.#cards.set(region.id, known);
    }
    throw new RegionRefused(`Cannot deregister region ${region.name}: ${reply.reason}`);
  }

  /**
   * Gives a region back at a shutdown, whether the card knows it or a program has just asked for it. Returns when all
   * copies are written back. @returns why it could not be; undefined where it is given back.
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
