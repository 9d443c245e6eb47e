/** The kernel's thread for pages on the first core. It ends when no work is left. */
import type { Time } from "../../../fabric/base/time.ts";
import type { HostTiming, PressurePlan } from "../../../fabric/rack/plan/plan.ts";
import { type HintWork, workPs } from "../../../fabric/rack/plan/hint_work.ts";
import type { Account, Processor } from "../cpu/processor.ts";
import type { Cpu } from "../cpu/program.ts";
import { type AddressMap, DRAM_PAGE_BYTES } from "../memory/address_map.ts";
import type { IioStacks } from "../memory/iio_stacks.ts";
import type { MemorySystem } from "../memory/memory_system.ts";
import type { PageTable } from "../memory/page_table.ts";
import type { Pager } from "./pager.ts";
import { type PageServer, pressMemory, servePages } from "./serve_pages.ts";

export interface PageMachine {
  readonly now: Time;
  readonly timing: HostTiming;
  readonly map: AddressMap;
  readonly memory: MemorySystem;
  readonly iio: IioStacks;
  readonly pages: PageTable;
  readonly paging: Pager;
}

export interface ThreadParts {
  readonly machine: PageMachine;
  readonly processor: Processor;
  readonly cpu: (name: string, account: Account, card?: number) => Cpu;
  readonly onFailure: (name: string, error: unknown) => void;
  /** [0114]. */
  readonly work?: HintWork | undefined;
  readonly respond?: NonNullable<PageServer["respond"]> | undefined;
}

export class PageThread {
  readonly #parts: ThreadParts;
  #isRunning = false;

  constructor(parts: ThreadParts) {
    this.#parts = parts;
  }

  serve(): void {
    const { machine, processor, onFailure } = this.#parts;
    if (this.#isRunning || !machine.paging.hasWork) return;
    this.#isRunning = true;
    const end = () => {
      this.#isRunning = false;
      this.serve();
    };
    processor.add({
      name: "paging",
      driver: true,
      serves: true,
      startAt: machine.now + machine.timing.interruptPs,
      start: (account) => servePages(this.#server(account)),
      onReturn: end,
      onFailure: (error) => {
        end();
        onFailure("paging", error);
      },
    });
  }

  press(plan: PressurePlan, bootedAt: Time): void {
    const { machine, processor, cpu, onFailure } = this.#parts;
    const { paging: pager } = machine;
    processor.add({
      name: "pressure",
      driver: true,
      serves: true,
      startAt: Math.max(machine.now, bootedAt + plan.at),
      start: (account) => pressMemory({ cpu: cpu("pressure", account), pager }, plan),
      onFailure: (error) => onFailure("pressure", error),
    });
  }

  #server(account: Account): PageServer {
    const { machine, processor, cpu, work, respond } = this.#parts;
    const { paging: pager, pages: table, timing, map, iio, memory } = machine;
    const cores: Cpu[] = [cpu("paging", account)];
    return {
      cpu: cores[0]!,
      commandTo: (card, command) => (cores[card] ??= cpu("paging", account, card)).command(command),
      pager,
      table,
      timing,
      ...(work && {
        workPs: {
          page: workPs(work, "map", 1) + workPs(work, "iommu", 1),
          command: workPs(work, "translate", 1),
        },
      }),
      ...(respond && { respond }),
      physical: (address) => map.physical(address),
      isComing: (frame) => iio.isComing([frame]),
      isInUse: (frame) =>
        processor.isWatched(frame, DRAM_PAGE_BYTES) ||
        [...memory.streams.values()].some(({ offset, data }) =>
          offset < frame + DRAM_PAGE_BYTES && offset + data.length > frame
        ),
    };
  }
}
