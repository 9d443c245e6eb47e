/**
 * A SEND that was promised to be persistent stays in the receive buffers (`receive: scm`) of a host
 * that lost power until the host's service stores it in its object. Shares no code with that
 * service.
 */
import { viewOf } from "../../fabric/base/slab.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { CRC_START, crcUpdate } from "../../fabric/wire/roce/icrc.ts";
import type { ImageView } from "./run_record.ts";
import { entriesIn, type FoundEntry, objectsIn } from "./scm_objects.ts";

const PENDING_TYPE = 0x5b;
/** The last four bytes of a pending message's header are its CRC. */
const HEADER_BYTES = 40, CRC_AT = 36, SLOTS_AT = 64;

interface Write {
  readonly at: number;
  readonly data: Uint8Array;
}

function* pendingMessagesIn(image: ImageView, { name, offset, length }: FoundEntry) {
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
  // A replacement that is not published takes its messages, too.
  const entries = [...entriesIn(image, scmBytes)];
  const areas = [...objectsIn(image, scmBytes).values()]
    .filter(({ name }) => name.startsWith(".recv/"));
  return areas.flatMap((area) => [...pendingMessagesIn(image, area)]).filter(
    ({ at, data, generation }) =>
      entries.some((entry) =>
        entry.generation === generation && entry.offset <= at &&
        at + data.length <= entry.offset + entry.length
      ),
  );
}

/**
 * Writes that the host's service will make from its receive buffers; none where they are in DRAM.
 */
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
