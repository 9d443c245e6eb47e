/**
 * DRAM and SCM behind their controllers, by physical address, without the caches. Lines are
 * numbered: DRAM's first, then SCM's.
 */
import type { HostPlan } from "../../../fabric/rack/plan/plan.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { Memory } from "../../../fabric/rack/plan/plan.ts";
import { SCM_BASE } from "./address_map.ts";
import { Imc, type ImcPlan } from "./imc.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { SCM_BLOCK_BYTES } from "./scm.ts";
import { type ImageReader, SparseBytes, type Stick } from "./sparse_bytes.ts";
import { XpBuffer } from "./xp_buffer.ts";

const DRAM_BLOCK_BYTES = 64;

export class PhysicalMemory {
  readonly dram: SparseBytes;
  readonly scm: SparseBytes;
  readonly dramImc: Imc;
  readonly scmImc: Imc;
  readonly scmBuffer = new XpBuffer(SCM_BLOCK_BYTES);
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
    this.dramImc = new Imc({
      medium: this.dram,
      lines: timing.wpqLines,
      bitsPerSecond: timing.dramWriteBitsPerSecond,
      blockBytes: DRAM_BLOCK_BYTES,
    });
    this.scmImc = new Imc({
      medium: this.scm,
      lines: timing.wpqLines,
      bitsPerSecond: timing.scmWriteBitsPerSecond,
      blockBytes: SCM_BLOCK_BYTES,
      buffer: this.scmBuffer,
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

  read(address: number, target: Uint8Array): void {
    this.imcOf(address).read(offsetOf(address), target);
  }
}

export function offsetOf(address: number): number {
  return address >= SCM_BASE ? address - SCM_BASE : address;
}
