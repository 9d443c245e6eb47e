/**
 * What a host will find in its receive buffers when it has power again (`receive: scm`): a SEND that was
 * promised to be persistent lies there until it is stored where it belongs. Reads the directory and the buffers
 * from the bytes in the SCM by itself, and shares no code with the service that will do so.
 */
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { ImageView } from "./run_record.ts";

const DIRECTORY_BYTES = 65_536, ENTRY_BYTES = 128, ALIGNMENT = 256;
/** "RCKM", then the version. */
const MAGIC = 0x5243_4b4d, VERSION = 1;
/** Of a message that is a deposit. */
const DEPOSIT_TYPE = 0x5b;
/** Bytes of a deposit's header, whose last four are its CRC; of a buffer area's, before the slots. */
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

/** What a byte does to the register of Ethernet's CRC-32. */
const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = (crc & 1) === 0 ? crc >>> 1 : (crc >>> 1) ^ 0xedb8_8320;
  return crc;
});

function crc32(...parts: readonly Uint8Array[]): number {
  let crc = 0xffff_ffff;
  for (const part of parts) {
    for (const byte of part) crc = CRC_TABLE[(crc ^ byte) & 255]! ^ (crc >>> 8);
  }
  return (crc ^ 0xffff_ffff) >>> 0;
}

function dataView(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Named places of the host's SCM, if its service receives into SCM. */
function servedBy(plan: RackPlan, host: string) {
  const node = plan.nodes.find(({ name, kind }) => name === host && kind === "host");
  if (node?.kind !== "host") return undefined;
  const service = node.config.programs.find(({ run }) => run === "persistd");
  if (service?.options["receive"] !== "scm") return undefined;
  return { scmBytes: node.config.scmBytes };
}

function* entriesOf(image: ImageView, scmBytes: number): Generator<Entry> {
  for (let at = 0; at + DIRECTORY_BYTES <= scmBytes; at += ALIGNMENT) {
    const header = dataView(image.read(at, at + 16));
    if (header.getUint32(4) !== MAGIC || header.getUint32(8) !== VERSION) continue;
    for (let entry = at + ENTRY_BYTES; entry < at + DIRECTORY_BYTES; entry += ENTRY_BYTES) {
      const bytes = image.read(entry, entry + ENTRY_BYTES);
      if (bytes.every((byte) => byte === 0)) break;
      const view = dataView(bytes);
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

/** Deposits of an area that are whole, in their order, from the first that is not stored on. */
function* pendingMessagesIn(image: ImageView, { name, offset, length }: Entry) {
  const word = dataView(image.read(offset, offset + 8));
  const epoch = word.getUint32(0);
  const slotBytes = Number(name.split("/")[2]);
  const found = new Map<number, number>();
  const end = offset + length;
  for (let slot = offset + SLOTS_AT; slot + slotBytes <= end; slot += slotBytes) {
    const header = dataView(image.read(slot, slot + HEADER_BYTES));
    if (header.getUint8(0) !== DEPOSIT_TYPE || header.getUint32(32) !== epoch) continue;
    found.set(header.getUint32(16), slot);
  }
  for (let sequence = word.getUint32(4) + 1;; sequence++) {
    const slot = found.get(sequence);
    if (slot === undefined) return;
    const bytes = image.read(slot, slot + slotBytes).slice();
    const header = dataView(bytes);
    const data = bytes.subarray(HEADER_BYTES, HEADER_BYTES + Number(header.getBigUint64(20)));
    if (crc32(bytes.subarray(0, CRC_AT), data) !== header.getUint32(CRC_AT)) return;
    yield { at: Number(header.getBigUint64(4)), generation: header.getUint32(28), data };
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

/** What the host's service will have stored from its receive buffers; nothing where they are in DRAM. */
export function receivedIn(
  plan: RackPlan,
  { host, image }: { readonly host: string; readonly image: ImageView },
): readonly Write[] {
  const served = servedBy(plan, host);
  return served === undefined ? [] : writesIn(image, served.scmBytes);
}

/**
 * The SCM as the host's service will have made it before it accepts a client; the image itself where
 * receive buffers are in DRAM.
 */
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
