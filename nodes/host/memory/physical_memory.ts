/**
 * DRAM and SCM behind their controllers, by physical address, without the caches. Lines are
 * numbered: DRAM's first, then SCM's.
 */
import type { HostPlan } from "../../../fabric/rack/plan/plan.ts";
import { type Time, transferTime } from "../../../fabric/base/time.ts";
import type { Memory } from "../../../fabric/rack/plan/plan.ts";
import { SCM_BASE } from "./address_map.ts";
import { Imc, type ImcPlan } from "./imc.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { SCM_BLOCK_BYTES } from "./scm.ts";
import { ScmModule } from "./scm_module.ts";
import { type ImageReader, SparseBytes, type Stick } from "./sparse_bytes.ts";
import type { MemoryModule } from "./wpq.ts";

export class PhysicalMemory {
  readonly dram: SparseBytes;
  readonly scm: SparseBytes;
  readonly dramImc: Imc;
  readonly scmImc: Imc;
  readonly scmModules: readonly ScmModule[];
  readonly lines: number;
  readonly #plan: HostPlan;
  readonly #dramLines: number;

  constructor(
    plan: HostPlan,
    content: {
      image?: ImageReader | undefined;
      stick?: Stick | undefined;
      onQueued?: ImcPlan["onQueued"];
    },
  ) {
    const { timing } = plan;
    this.#plan = plan;
    this.#dramLines = plan.dramBytes / LINE_BYTES;
    this.lines = this.#dramLines + plan.scmBytes / LINE_BYTES;
    this.dram = new SparseBytes(plan.dramBytes);
    this.scm = new SparseBytes(plan.scmBytes, content.image, content.stick);
    const channels = Array.from({ length: timing.memoryChannels }, (_, i) => i);
    this.scmModules = channels.map(() =>
      new ScmModule({
        readBitsPerSecond: timing.scmReadBitsPerSecond,
        writeBitsPerSecond: timing.scmWriteBitsPerSecond,
        linePs: timing.scmLinePs,
        mediumPs: timing.scmMediumPs,
      })
    );
    this.dramImc = new Imc({
      medium: this.dram,
      modules: channels.map(() => new DramModule(timing.dramWriteBitsPerSecond)),
      interleaveBytes: timing.dramInterleaveBytes,
      lines: timing.wpqLines,
    });
    this.scmImc = new Imc({
      medium: this.scm,
      modules: this.scmModules,
      interleaveBytes: timing.scmInterleaveBytes,
      lines: timing.wpqLines,
      onQueued: content.onQueued,
    });
  }

  advance(now: Time): void {
    this.dramImc.advance(now);
    this.scmImc.advance(now);
  }

  /** @returns undefined for a range in neither. */
  memoryOf(address: number, length: number): Memory | undefined {
    const { dramBytes, scmBytes } = this.#plan;
    if (address >= 0 && address + length <= dramBytes) return "dram";
    if (address >= SCM_BASE && address + length <= SCM_BASE + scmBytes) return "scm";
    return undefined;
  }

  lineOf(address: number): number {
    return address >= SCM_BASE
      ? this.#dramLines + Math.floor((address - SCM_BASE) / LINE_BYTES)
      : Math.floor(address / LINE_BYTES);
  }

  addressOf(line: number): number {
    return line >= this.#dramLines
      ? SCM_BASE + (line - this.#dramLines) * LINE_BYTES
      : line * LINE_BYTES;
  }

  imcOf(address: number): Imc {
    return address >= SCM_BASE ? this.scmImc : this.dramImc;
  }

  /**
   * How long a read of SCM, at `at`, waits until all of the range is in buffers: of its modules, or of the controller,
   * which answers for lines that it has queued.
   */
  scmWaitPs(address: number, length: number, at: Time): Time {
    return this.#latest(address, length, at, (module, place) => module.readableAt(place, at)) - at;
  }

  /** When the medium, not only the queue or a module's buffer, has all writes to the range so far (V-03). */
  mediumAt(address: number, length: number): Time {
    const at = this.imcOf(address).drainedAt(offsetOf(address), length);
    if (address < SCM_BASE) return at;
    return this.#latest(address, length, at, (module, place) => module.writtenAt(place, at));
  }

  #latest(
    address: number,
    length: number,
    at: Time,
    timeOf: (module: ScmModule, place: number) => Time,
  ): Time {
    const offset = address - SCM_BASE, end = offset + length;
    let latest = at;
    for (let block = offset - offset % SCM_BLOCK_BYTES; block < end; block += SCM_BLOCK_BYTES) {
      const { channel, inModule } = this.scmImc.placeOf(block);
      latest = Math.max(latest, timeOf(this.scmModules[channel]!, inModule));
    }
    return latest;
  }

  read(address: number, target: Uint8Array): void {
    this.imcOf(address).read(offsetOf(address), target);
  }
}

export function offsetOf(address: number): number {
  return address >= SCM_BASE ? address - SCM_BASE : address;
}

/** DRAM is written a line at a time; what its banks do is not modelled. */
class DramModule implements MemoryModule {
  readonly #linePs: Time;
  #freeAt: Time = 0;

  constructor(bitsPerSecond: number) {
    this.#linePs = transferTime(LINE_BYTES, bitsPerSecond);
  }

  take(_offset: number, from: Time): Time {
    return this.#freeAt = Math.max(this.#freeAt, from) + this.#linePs;
  }
}
