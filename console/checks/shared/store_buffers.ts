/**
 * Checks store buffers against x86-TSO (Sewell et al., CACM 53(7), 2010; `memory: tso`), by the
 * notes of cores: stores leave in the order in which they came; a load has its bytes from the
 * newest store to them in its own core's buffer, else from memory; fences and atomics find the
 * buffer empty. `line_order.ts` judges the order in which stores leave.
 */
import type { AccessRecord, BufferedRecord } from "../../../fabric/audit.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { Finding, NodeTime } from "../finding.ts";
import { isEqual } from "./line_content.ts";
import { inSteps, type RunRecord, type Steps } from "../run_record.ts";

interface Held {
  readonly note: BufferedRecord;
  readonly by: string;
  readonly at: NodeTime;
  /**
   * It is leaving by the access with this number; if the card refuses that, it may be tried again.
   */
  leaving: number | undefined;
  isRefused: boolean;
}

interface Forwarded {
  readonly note: AccessRecord;
  readonly store: BufferedRecord;
}

export function* wrongBuffers({ notes, lives, until }: RunRecord): Steps<Finding[]> {
  const buffers = new Map<string, Held[]>();
  const open = new Map<string, Forwarded>();
  const wrong: Finding[] = [];
  const lifeOf = (node: string, time: number) =>
    lives.get(node)?.findLastIndex(({ from }) => from <= time) ?? 0;
  yield* inSteps(notes, ({ time, node, by, note }) => {
    const at = { node, time };
    const tell = (text: string) => void wrong.push({ text, at });
    const keyOf = (core: number) => `${node} ${lifeOf(node, time)} ${core}`;
    const heldBy = (core: number) => buffers.get(keyOf(core)) ?? [];
    switch (note.kind) {
      case "buffered": {
        const held = heldBy(note.core);
        buffers.set(keyOf(note.core), held);
        held.push({ note, by, at, leaving: undefined, isRefused: false });
        break;
      }
      case "store-fence": {
        const [first] = heldBy(note.core);
        if (first !== undefined) {
          tell(`a fence of ${by} ends before ${nameOf(first)} has left its buffer`);
        }
        break;
      }
      case "access": {
        if (note.core === undefined) break;
        const held = heldBy(note.core);
        if (note.buffered === undefined) {
          const text = pastBuffer(held, note, by);
          if (text !== undefined) tell(text);
          if (note.forwarded === undefined) break;
          const store = held.findLast((each) => overlaps(each.note, note))?.note;
          if (store !== undefined) open.set(`${by} ${note.id}`, { note, store });
          break;
        }
        while (held[0]?.isRefused && held[0].note.id !== note.buffered) held.shift();
        const head = held.find((each) => each.note.id === note.buffered);
        if (head === undefined) {
          tell(`store ${note.buffered} of ${by} leaves a buffer that does not have it`);
        } else if (head !== held[0]) {
          tell(`${nameOf(head)} leaves its buffer before ${nameOf(held[0]!)}`);
        } else if (!isSame(head.note, note)) {
          tell(`${nameOf(head)} leaves its buffer with other bytes`);
        }
        if (head !== undefined) head.leaving = note.id;
        break;
      }
      case "accessed": {
        const forwarded = open.get(`${by} ${note.id}`);
        if (forwarded !== undefined && !isForwarded(forwarded, note.bytes)) {
          tell(
            `load ${note.id} of ${by} found ${note.bytes?.toHex()}, where its core's buffer has ` +
              forwarded.store.bytes.toHex(),
          );
        }
        for (const [key, held] of buffers) {
          const place = held.findIndex((each) => each.by === by && each.leaving === note.id);
          if (place < 0 || !key.startsWith(`${node} `)) continue;
          if (note.result === "refused") held[place]!.isRefused = true;
          else held.splice(place, 1);
        }
        break;
      }
    }
  });
  if (until !== undefined) return wrong;
  for (const [key, held] of buffers) {
    const [node = "", life] = key.split(" ");
    const isDead = lives.get(node)?.[Number(life)]?.to !== Infinity;
    const left = held.find(({ isRefused }) => !isRefused);
    if (isDead || left === undefined) continue;
    wrong.push({ text: `${nameOf(left)} never left its buffer`, at: left.at });
  }
  return wrong;
}

function pastBuffer(held: readonly Held[], note: AccessRecord, by: string): string | undefined {
  const name = `${note.op} ${note.id} of ${by}`;
  switch (note.op) {
    case "store":
      return `${name} has not gone through its core's buffer`;
    case "add":
    case "compare-swap":
      return held[0] && `${name} begins before ${nameOf(held[0])} has left its core's buffer`;
    case "flush": {
      const found = held.find((each) => overlaps(each.note, wholeLines(note)));
      return found && `${name} begins before ${nameOf(found)} has left its core's buffer`;
    }
    case "load": {
      const newest = held.findLast((each) => overlaps(each.note, note));
      if (newest?.note.id === note.forwarded) return undefined;
      return newest === undefined
        ? `${name} has its bytes from a store that is not in its core's buffer`
        : `${name} does not have its bytes from ${nameOf(newest)} in its core's buffer`;
    }
  }
}

function isForwarded({ note, store }: Forwarded, found: Uint8Array | undefined): boolean {
  const at = note.offset - store.offset;
  return found !== undefined && at >= 0 && at + note.length <= store.length &&
    isEqual(found, store.bytes.subarray(at, at + note.length));
}

function isSame(store: BufferedRecord, note: AccessRecord): boolean {
  return store.region === note.region && store.offset === note.offset &&
    store.length === note.length && isEqual(store.bytes, note.bytes);
}

type Place = Pick<AccessRecord, "region" | "offset" | "length">;

function overlaps(x: Place, y: Place): boolean {
  return x.region === y.region && x.offset < y.offset + y.length && y.offset < x.offset + x.length;
}

function wholeLines({ region, offset, length }: Place): Place {
  const from = Math.floor(offset / LINE_BYTES) * LINE_BYTES;
  return {
    region,
    offset: from,
    length: Math.ceil((offset + length) / LINE_BYTES) * LINE_BYTES - from,
  };
}

function nameOf({ note: { id }, by }: Held): string {
  return `store ${id} of ${by}`;
}
