/**
 * The IOMMU as an RNIC asks it for pages (PRI) and translations (ATS), without its driver: it walks the page table for
 * one message after the other. Page requests go on to the kernel's thread, whose answer bypasses the driver.
 *
 * Source of the steps: Linux, `drivers/iommu/io-pgfault.c`; of the walk's time: Neugebauer et al.,
 * SIGCOMM'18.
 */
import { Fifo } from "../../../fabric/base/fifo.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { type HintWork, workPs } from "../../../fabric/rack/plan/hint_work.ts";
import type { AtsMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import { FairQueue } from "./fair_queue.ts";
import type { DemandRegion, Pager } from "./pager.ts";

export class Ats {
  pageRequests = 0;
  translations = 0;
  readonly #work: HintWork;
  readonly #pager: Pager;
  readonly #card: number;
  readonly #send: (message: AtsMessage) => void;
  readonly #waiting = new Fifo<AtsMessage>();
  readonly #hinted = new FairQueue<AtsMessage>();
  #current: { readonly message: AtsMessage; readonly until: Time } | undefined;

  constructor(options: {
    readonly work: HintWork;
    readonly pager: Pager;
    readonly card: number;
    readonly send: (message: AtsMessage) => void;
  }) {
    this.#work = options.work;
    this.#pager = options.pager;
    this.#card = options.card;
    this.#send = options.send;
  }

  take(message: AtsMessage, now: Time): void {
    const { hintsOf } = message;
    if (hintsOf === undefined) this.#waiting.push(message);
    else this.#hinted.push(message, hintsOf);
    if (this.#current === undefined) this.#begin(now);
  }

  get nextAt(): Time {
    return this.#current?.until ?? NEVER;
  }

  /** Requests that were not answered, the current one too. */
  get held(): number {
    return this.#waiting.length + this.#hinted.length + Number(this.#current !== undefined);
  }

  run(now: Time): void {
    for (let done = this.#current; done !== undefined && done.until <= now; done = this.#current) {
      this.#begin(done.until);
      this.#answer(done.message);
    }
  }

  #begin(at: Time): void {
    const message = this.#waiting.shift() ?? this.#hinted.shift();
    this.#current = message && { message, until: at + this.#walkPs(message) };
  }

  #walkPs({ step, count }: AtsMessage): Time {
    return workPs(this.#work, step === "page-request" ? "request" : "translate", count);
  }

  reset(): void {
    this.#waiting.clear();
    this.#hinted.clear();
    this.#current = undefined;
  }

  #answer(message: AtsMessage): void {
    const { step, key, first, count, ahead, write, hintsOf } = message;
    if (step === "page-request") {
      this.pageRequests++;
      const event = { type: "PAGE_FAULT", key, first, count, ahead, write } as const;
      return this.#pager.fault(hintsOf === undefined ? event : { ...event, hintsOf }, this.#card);
    }
    this.translations++;
    const region = this.#pager.regionOf(this.#card, key);
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

function rightsOf(region: DemandRegion | undefined, page: number): number {
  return region?.rights[page] ?? 0;
}
