/** A host's lines of a ladder. */
import type { Outputs } from "../../fabric/node.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { MemoryRead, MemoryWrite } from "../../fabric/wire/host_bus/pcie.ts";
import { describePhysical, SCM_BASE } from "./memory/address_map.ts";

/** @param of.behind bytes of earlier writes in the IIO. @param of.rnic number of the card. */
export function traceRead(
  out: Outputs,
  read: MemoryRead,
  { behind, rnic }: { readonly behind: number; readonly rnic: number },
): void {
  if (!out.tracing) return;
  const { tag, address, length, noSnoop } = read;
  const waits = behind > 0 ? `, behind ${behind} B in the IIO` : "";
  const text = `DMA read of ${length} B at ${describePhysical(address)}${ns(noSnoop)}${waits}`;
  out.trace({ step: "iio-read", text, tag, ...ofRnic(rnic), ...scmRange(address, length) });
}

export function traceWork(
  out: Outputs,
  work: {
    readonly core: number;
    readonly program: string;
    readonly fromPs: Time;
    readonly untilPs: Time;
  },
): void {
  if (!out.timing) return;
  const { core, program, fromPs, untilPs } = work;
  out.trace({ step: "busy", text: program, busy: { track: `core ${core}`, fromPs, untilPs } });
}

/** All of the write was in the IIO from `fromPs` to `untilPs`. */
export function traceWritten(
  out: Outputs,
  { address, data, noSnoop }: MemoryWrite,
  way: {
    readonly flow: 1 | 2;
    readonly rnic: number;
    readonly fromPs: Time;
    readonly untilPs: Time;
  },
): void {
  if (!out.tracing) return;
  const { flow, rnic, fromPs, untilPs } = way;
  if (out.timing) {
    const busy = { track: rnic === 0 ? "IIO" : `IIO ${rnic + 1}`, fromPs, untilPs };
    out.trace({ step: "busy", text: `DMA write of ${data.length} B`, busy });
  }
  const where = flow === 2 ? "is in the LLC" : "is accepted by the iMC";
  const text = `${data.length} B at ${describePhysical(address)}${ns(noSnoop)} ${where}`;
  out.trace({ step: flow === 2 ? "llc" : "imc", text, ...scmRange(address, data.length) });
}

function ofRnic(rnic: number): { rnic?: number } {
  return rnic === 0 ? {} : { rnic };
}

function scmRange(address: number, length: number): { scm?: readonly [number, number] } {
  const from = address - SCM_BASE;
  return from >= 0 ? { scm: [from, from + length] } : {};
}

function ns(noSnoop: boolean): string {
  return noSnoop ? " (NS)" : "";
}
