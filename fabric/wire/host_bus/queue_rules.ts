/** The access rules of queue information, for host or card. */
import {
  entryAddress,
  type Space,
  type SpaceBases,
  SPACES,
  type StoreLayout,
} from "./queue_placement.ts";

export interface StorePart {
  readonly space: Space;
  readonly queue: number;
}

export function* touchedParts(
  { store, bases, queues }: {
    readonly store: StoreLayout;
    readonly bases: SpaceBases;
    readonly queues: number;
  },
  { address, length }: { readonly address: number; readonly length: number },
): Generator<StorePart> {
  for (const space of SPACES) {
    const bytes = store.bytes[space], stride = store.stride[space];
    if (bytes === 0) continue;
    const base = bases[`space${space}`];
    const first = Math.max(0, Math.floor((address - base) / stride));
    for (let queue = first; queue < queues; queue++) {
      const entry = entryAddress(store, bases, { queue, space });
      if (entry >= address + length) break;
      if (entry + bytes > address) yield { space, queue };
    }
  }
}

/** A core's store into space 1, or into space 2 without the program's lock. */
export interface StoreBreach extends StorePart {
  readonly address: number;
  readonly length: number;
  readonly holder?: string | undefined;
}

export function breachText(breach: StoreBreach, program: string): string {
  const { address, length, space, queue, holder } = breach;
  const where = `Cannot store ${length} B at 0x${address.toString(16)}`;
  const what = `they touch space ${space} of queue ${queue}`;
  if (space === 1) return `${where}: ${what}, which only the RNIC writes`;
  const found = holder === undefined ? "is not locked" : `is locked by ${holder}`;
  return `${where}: ${what}, which ${found}: expected lock-space2 granted to ${program}`;
}
