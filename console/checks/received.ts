/**
 * Messages in the receive buffers of a host that lost power (`receive: scm`): a SEND that was promised to be
 * persistent stays there until the host's service stores it in its object. Decodes the directory and the
 * buffers from the bytes in SCM, and shares no code with that service.
 */
import { viewOf } from "../../fabric/base/slab.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { crc32, CRC_START, crcUpdate } from "../../fabric/wire/roce/icrc.ts";
import type { ImageView } from "./run_record.ts";

const DIRECTORY_BYTES = 65_536, ENTRY_BYTES = 128, ALIGNMENT = 256;
/** "RCKM", then the version. */
const MAGIC = 0x5243_4b4d, VERSION = 1;
/** Type of a pending message. */
const PENDING_TYPE = 0x5b;
/** Header of a pending message, whose last four bytes are its CRC; header of an area, before its slots. */
const HEADER_BYTES = 40, CRC_AT = 36, SLOTS_AT = 64;

interface Write {
  readonly at: number;
  readonly data: Uint8Array;
}

interface Entry {
  readonly name: string;
  readonly generation: number;
  readonly offset: number;
  readonly length: number;
}

function* entriesOf(image: ImageView, scmBytes: number): Generator<Entry> {
  for (let at = 0; at + DIRECTORY_BYTES <= scmBytes; at += ALIGNMENT) {
    const header = viewOf(image.read(at, at + 16));
    if (header.getUint32(4) !== MAGIC || header.getUint32(8) !== VERSION) continue;
    for (let entry = at + ENTRY_BYTES; entry < at + DIRECTORY_BYTES; entry += ENTRY_BYTES) {
      const bytes = image.read(entry, entry + ENTRY_BYTES);
      if (bytes.every((byte) => byte === 0)) break;
      const view = viewOf(bytes);
      if (view.getUint32(0) !== crc32(bytes.subarray(4))) continue;
      yield {
        name: new TextDecoder().decode(bytes.subarray(25, 25 + bytes[24]!)),
        generation: view.getUint32(4),
        offset: Number(view.getBigUint64(8)),
        length: Number(view.getBigUint64(16)),
      };
    }
    return;
  }
}

/** Whole messages of an area, in order, from the first that is not stored yet. */
function* pendingMessagesIn(image: ImageView, { name, offset, length }: Entry) {
  const word = viewOf(image.read(offset, offset + 8));
  const epoch = word.getUint32(0);
  const slotBytes = Number(name.split("/")[2]);
  const found = new Map<number, number>();
  for (let slot = offset + SLOTS_AT; slot + slotBytes <= offset + length; slot += slotBytes) {
    const header = viewOf(image.read(slot, slot + HEADER_BYTES));
    if (header.getUint8(0) !== PENDING_TYPE || header.getUint32(32) !== epoch) continue;
    found.set(header.getUint32(16), slot);
  }
  for (let sequence = word.getUint32(4) + 1;; sequence++) {
    const slot = found.get(sequence);
    if (slot === undefined) return;
    const bytes = image.read(slot, slot + slotBytes).slice();
    const view = viewOf(bytes);
    const end = Math.min(slotBytes, HEADER_BYTES + Number(view.getBigUint64(20)));
    const crc = crcUpdate(CRC_START, view, { from: 0, end: CRC_AT });
    const whole = ~crcUpdate(crc, view, { from: HEADER_BYTES, end }) >>> 0;
    if (whole !== view.getUint32(CRC_AT)) return;
    const data = bytes.subarray(HEADER_BYTES, end);
    yield { at: Number(view.getBigUint64(4)), generation: view.getUint32(28), data };
  }
}

function writesIn(image: ImageView, scmBytes: number): Write[] {
  const newest = new Map<string, Entry>();
  for (const entry of entriesOf(image, scmBytes)) {
    const other = newest.get(entry.name);
    if (other === undefined || other.generation < entry.generation) newest.set(entry.name, entry);
  }
  const entries = [...newest.values()];
  const areas = entries.filter(({ name }) => name.startsWith(".recv/"));
  return areas.flatMap((area) => [...pendingMessagesIn(image, area)]).filter(
    ({ at, data, generation }) =>
      entries.some((entry) =>
        entry.generation === generation && entry.offset <= at &&
        at + data.length <= entry.offset + entry.length
      ),
  );
}

/** What the host's service will store from its receive buffers; nothing where they are in DRAM. */
export function receivedIn(
  plan: RackPlan,
  { host, image }: { readonly host: string; readonly image: ImageView },
): readonly Write[] {
  const node = plan.nodes.find(({ name }) => name === host);
  if (node?.kind !== "host") return [];
  const service = node.config.programs.find(({ run }) => run === "persistd");
  return service?.options["receive"] === "scm" ? writesIn(image, node.config.scmBytes) : [];
}

/** The SCM with these writes; the image itself where there are none. */
export function withReceived(
  plan: RackPlan,
  { host, image }: { readonly host: string; readonly image: ImageView },
): ImageView {
  const writes = receivedIn(plan, { host, image });
  if (writes.length === 0) return image;
  return {
    read(from, to) {
      const bytes = image.read(from, to).slice();
      for (const { at, data } of writes) {
        const first = Math.max(from, at), end = Math.min(to, at + data.length);
        if (first < end) bytes.set(data.subarray(first - at, end - at), first - from);
      }
      return bytes;
    },
    possible(unit) {
      const isWritten = writes.some(({ at, data }) => at < unit + 8 && unit < at + data.length);
      return isWritten ? undefined : image.possible?.(unit);
    },
  };
}
