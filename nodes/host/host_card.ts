/**
 * One card in its host's view: bus, I/O stack, state. Memory, caches, IOMMU and cores are shared by
 * all cards.
 */
import { fail, unreachable } from "../../fabric/base/assert.ts";
import type { Message } from "../../fabric/node.ts";
import type { HostPlan } from "../../fabric/rack/plan/plan.ts";
import { QUEUE_PLAN } from "../../fabric/rack/plan/queue_plan.ts";
import type { AccessError } from "../../fabric/wire/host_bus/pcie.ts";
import { layOut } from "../../fabric/wire/host_bus/queue_placement.ts";
import { isOfQueue, type RnicEvent } from "../../fabric/wire/host_bus/rnic_command.ts";
import { type BusHost, HostBus } from "./cpu/host_bus.ts";
import type { Processor } from "./cpu/processor.ts";
import type { SharedRegions } from "./cpu/region.ts";
import { traceRead, traceWritten } from "./host_trace.ts";
import { CardMemory } from "./memory/card_memory.ts";
import { CoherentAgent } from "./memory/coherent_agent.ts";
import { Iio } from "./memory/iio.ts";
import type { Iommu } from "./memory/iommu.ts";
import { QueueGuard } from "./memory/queue_guard.ts";
import { SnoopFilter } from "./memory/snoop_filter.ts";
import { Ats } from "./paging/ats.ts";
import { CardPaging, type Pager } from "./paging/pager.ts";

export interface CardHost extends BusHost {
  readonly name: string;
  readonly paging: Pager;
  readonly iommu: Iommu | undefined;
  /** Regions that this host shares with others (C-03). */
  readonly regions: SharedRegions | undefined;
}

export interface CardParts {
  readonly host: CardHost;
  readonly plan: HostPlan;
  readonly processor: Processor;
  /** Other cards may keep copies. */
  readonly onWritten: (card: HostCard, address: number, length: number) => void;
  readonly onEvent: (card: HostCard, event: RnicEvent) => void;
  /** */
  readonly onRefused: (program: string, error: Error) => void;
}

export class HostCard {
  readonly index: number;
  readonly bus: HostBus;
  readonly iio: Iio;
  readonly guard: QueueGuard;
  readonly cardMemory: CardMemory | undefined;
  readonly agent: CoherentAgent | undefined;
  readonly ats: Ats | undefined;
  readonly paging: CardPaging;
  readonly snoops = new SnoopFilter((address) =>
    this.bus.send({ kind: "snoop-invalidate", address })
  );
  strayReplies = 0;
  readonly #parts: CardParts;

  constructor(index: number, parts: CardParts) {
    const { host, plan, processor } = parts, { timing } = plan;
    this.index = index;
    this.#parts = parts;
    const { placement, layout, store } = plan.queuePlan ?? QUEUE_PLAN;
    this.guard = new QueueGuard(layOut(placement, layout));
    this.cardMemory = store === "device" ? new CardMemory(this.guard) : undefined;
    this.paging = new CardPaging(host.paging, index);
    const { hintWork: work } = plan;
    const { paging: pager, memory, iommu, processingPs } = host;
    this.ats = work?.request === "iommu"
      ? new Ats({ work, pager, card: index, send: (message) => this.bus.send(message) })
      : undefined;
    this.iio = new Iio(plan, {
      memory,
      processingPs,
      iommu,
      stack: index,
      sink: {
        refused: (access) => {
          host.out.report("iommu-fault", index === 0 ? access : { ...access, rnic: index });
        },
        visible: (from, length) => processor.memoryChanged({ from, length }, host.now),
        isWatched: (from, length) =>
          processor.isWatched(from, length) || memory.foreign.isWatched(from, length),
        written: (write, flow) => {
          const times = { fromPs: this.iio.leftSince, untilPs: host.now };
          traceWritten(host.out, write, { flow, rnic: index, ...times });
          parts.onWritten(this, write.address, write.data.length);
          this.agent?.complete();
        },
        complete: (completion, read) => {
          if (this.agent === undefined) this.bus.send(completion);
          else this.agent.answer(completion, read);
        },
        tracked: (address) => {
          if (this.agent !== undefined) memory.share(address, 1);
          this.snoops.track(address);
        },
        loaded: ({ tag, status, data }) => {
          processor.loaded(tag, status === "success" ? data : undefined, host.now);
        },
        interrupt: (vector) => processor.raise(vector, host.now),
        event: (event) => parts.onEvent(this, event),
      },
    });
    this.agent = plan.attach && new CoherentAgent({
      iio: this.iio,
      grantPs: timing.dmaReadLlcPs - processingPs,
      sink: {
        send: (message, afterPs) => this.bus.send(message, afterPs),
        reading: (read) => traceRead(host.out, read, { behind: 0, rnic: index }),
        writing: (address, data) => this.guard.checkDevice(address, data),
        interrupt: (vector) => processor.raise(vector, host.now),
        loaded: (tag, data) => processor.loaded(tag, data.length > 0 ? data : undefined, host.now),
      },
    });
    this.bus = new HostBus(host, this);
  }

  /** The card is gone: requests are dropped, writes are not. */
  reset(): void {
    this.#parts.host.paging.reset(this.index);
    this.ats?.reset();
    this.iio.dropReads();
    this.agent?.reset();
    this.snoops.clear();
    this.guard.disconnected();
  }

  receive(message: Message): void {
    const { host, processor, onEvent } = this.#parts;
    switch (message.kind) {
      case "memory-write":
        this.guard.checkDevice(message.address, message.data);
        this.iio.write(message, host.now);
        return;
      case "memory-read":
        if (host.out.tracing) {
          traceRead(host.out, message, { behind: this.iio.bufferedBytes, rnic: this.index });
        }
        return this.iio.follow(message, host.now);
      case "interrupt":
      case "completion":
        return this.iio.follow(message, host.now);
      case "access-error":
        return this.#refused(message);
      case "ats":
        // The card asks its driver where there is no ATS.
        return this.ats?.take(message, host.now);
      case "reply":
        this.guard.answered(message.id, message.reply);
        if (!processor.reply(message, host.now)) this.strayReplies++;
        return;
      case "event":
        // Earlier completions must be visible before a queue's event.
        return isOfQueue(message.event)
          ? this.iio.follow(message, host.now)
          : onEvent(this, message.event);
      case "coherent":
        if (this.agent === undefined) fail(`${host.name} got a ${message.op} on PCIe`);
        return this.agent.receive(message, host.now);
      case "frame":
      case "snoop-invalidate":
      case "register-write":
      case "register-read":
      case "command":
        return fail(`${host.name} got a ${message.kind} on its bus`);
      case "line":
      case "far-access":
      case "far-answer":
      case "far-invalidate":
        if (host.regions !== undefined) return host.regions.take(message);
        return fail(`${host.name} got a ${message.kind}, and shares no region`);
      default:
        unreachable(message);
    }
  }

  #refused(message: AccessError): void {
    const refusal = this.cardMemory?.refusal(message);
    if (refusal === undefined) {
      fail(`${this.#parts.host.name} got an access error without memory at the card`);
    }
    this.#parts.onRefused(refusal.program, refusal.error);
  }
}
