/**
 * The IOMMU as an RNIC asks it for pages (PRI) and translations (ATS), without its driver: a unit that walks the page
 * table for one message after the other. A page request goes on to the kernel's thread for pages, whose answer comes
 * past the driver as well.
 *
 * Source of the steps: Linux, `drivers/iommu/io-pgfault.c`; of the walk's time: Neugebauer et al., SIGCOMM'18.
 */
import { Fifo } from "../../../fabric/base/fifo.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { type HintWork, workPs } from "../../../fabric/rack/plan/hint_work.ts";
import type { AtsMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import type { DemandRegion, Pager } from "./pager.ts";

export class Ats {
  pageRequests = 0;
  translations = 0;
  readonly #work: HintWork;
  readonly #pager: Pager;
  readonly #send: (message: AtsMessage) => void;
  readonly #waiting = new Fifo<{ readonly at: Time; readonly message: AtsMessage }>();
  #freeAt: Time = 0;

  constructor(options: {
    readonly work: HintWork;
    readonly pager: Pager;
    readonly send: (message: AtsMessage) => void;
  }) {
    this.#work = options.work;
    this.#pager = options.pager;
    this.#send = options.send;
  }

  /** The card asks. */
  take(message: AtsMessage, now: Time): void {
    const isRequest = message.step === "page-request";
    const walkPs = isRequest
      ? workPs(this.#work, "request", message.count)
      : workPs(this.#work, "translate", message.count);
    this.#freeAt = Math.max(now, this.#freeAt) + walkPs;
    this.#waiting.push({ at: this.#freeAt, message });
  }

  /** When {@link run} has something to do. */
  get nextAt(): Time {
    return this.#waiting.peek()?.at ?? NEVER;
  }

  run(now: Time): void {
    for (
      let first = this.#waiting.peek();
      first !== undefined && first.at <= now;
      first = this.#waiting.peek()
    ) {
      this.#waiting.shift();
      this.#answer(first.message);
    }
  }

  /** The card has failed: what it asked for is asked by none. */
  reset(): void {
    this.#waiting.clear();
  }

  #answer(message: AtsMessage): void {
    const { step, key, first, count, ahead, write } = message;
    if (step === "page-request") {
      this.pageRequests++;
      return this.#pager.fault({ type: "PAGE_FAULT", key, first, count, ahead, write });
    }
    this.translations++;
    const region = this.#pager.regions.get(key);
    for (let page = first; page < first + count;) {
      const from = page;
      const rights = rightsOf(region, page);
      while (page < first + count && rightsOf(region, page) === rights) page++;
      const pages = { first: from, count: page - from };
      const frames = rights === 0 ? [] : this.#pager.framesOf(region!, pages);
      const none = { kind: "ats", step: "translated", key, ahead: 0 } as const;
      this.#send({ ...none, ...pages, write: rights === 2, frames });
    }
  }
}

/** 0 where the card may not have the page. */
function rightsOf(region: DemandRegion | undefined, page: number): number {
  return region?.rights[page] ?? 0;
}
