/**
 * A log whose records show by a checksum whether they are whole: one WRITE for a record, no tail
 * behind it (`checksummed_record.yaml`).
 *
 * With `checksum: xor` two equal words that are both missing cancel each other. The sequence number
 * stands at both ends of a record, and so a record without either of them passes for whole.
 */
import {
  type CrashView,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_SIGNALED,
  type ProgramContext,
  type RecoveryContext,
  type Steps,
} from "rackmesh";

const SERVICE = "crclog";
const WORD = 8;

interface LogOptions {
  readonly role: "server" | "client";
  readonly to?: string;
  readonly records: number;
  /** With its checksum: a multiple of 8. */
  readonly bytes: number;
  readonly checksum: "crc32" | "xor";
  readonly regions: { readonly log: { readonly at: number; readonly bytes: number } };
}

export default function* checksummedRecord(context: ProgramContext): Steps<void> {
  const options = context.options as unknown as LogOptions;
  yield* options.role === "server" ? serve(context, options) : append(context, options);
}

/** Sequence number, payload, sequence number, checksum. No two words of the payload are equal. */
function recordOf(number: number, { bytes, checksum }: LogOptions): Uint8Array<ArrayBuffer> {
  const record = new Uint8Array(bytes);
  const words = new DataView(record.buffer);
  const last = bytes - 2 * WORD;
  for (let at = WORD; at < last; at += WORD) {
    words.setBigUint64(at, BigInt(number + 1) * 0x9e37_79b9_7f4a_7c15n * BigInt(at) % (1n << 64n));
  }
  for (const at of [0, last]) words.setBigUint64(at, BigInt(number + 1));
  words.setBigUint64(bytes - WORD, sumOf(record.subarray(0, bytes - WORD), checksum));
  return record;
}

function sumOf(bytes: Uint8Array<ArrayBuffer>, checksum: LogOptions["checksum"]): bigint {
  if (checksum === "crc32") return BigInt(crc32(bytes));
  const words = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let sum = 0n;
  for (let at = 0; at < bytes.length; at += WORD) sum ^= words.getBigUint64(at);
  return sum;
}

/** Of ISO 3309, by byte. */
const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ ((value & 1) === 1 ? 0xedb8_8320 : 0);
  return value;
});

function crc32(bytes: Uint8Array): number {
  let crc = 0xffff_ffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ CRC_TABLE[(crc ^ byte) & 0xff]!;
  return (crc ^ 0xffff_ffff) >>> 0;
}

function* serve({ cpu, device }: ProgramContext, options: LogOptions): Steps<void> {
  const { allocPd, createCq, regMr, listen, waitEvent, accept, must } = device.verbs;
  const { at: offset, bytes: length } = options.regions.log;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  const log = must(yield* regMr(pd, cpu.scm, { offset, length, access }));
  const listener = must(listen(device, SERVICE));
  for (;;) {
    const event = yield* waitEvent(listener);
    if (event?.kind !== "request") continue;
    const place = new DataView(new ArrayBuffer(16));
    place.setBigUint64(0, BigInt(log.address));
    place.setUint32(8, log.rkey);
    const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 };
    yield* accept(listener, event.request, { qp, privateData: new Uint8Array(place.buffer) });
  }
}

function* append({ cpu, device }: ProgramContext, options: LogOptions): Steps<void> {
  const { allocPd, createCq, regMr, connect, refused, postSend, sge, waitCompletion, must } =
    device.verbs;
  const { bytes, records } = options;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const buffer = cpu.allocate(bytes + WORD);
  const mr = must(yield* regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 };
  const connection = yield* connect(device, { to: String(options.to), service: SERVICE, qp });
  if (refused(connection)) {
    return cpu.report("result", { program: "checksummed_record", ...connection });
  }
  const { buffer: said, byteOffset } = connection.privateData;
  const place = new DataView(said, byteOffset);
  const rkey = place.getUint32(8);
  for (let number = 0; number < records; number++) {
    const va = Number(place.getBigUint64(0)) + number * bytes;
    cpu.store(buffer.address, recordOf(number, options));
    must(
      yield* postSend(connection.qp, [
        { opcode: "write", sges: [sge(mr, 0, bytes)], remote: { va, rkey } },
        // It takes the WRITE out of the server's I/O controller (P-10: DDIO is off).
        {
          opcode: "read",
          sendFlags: IBV_SEND_SIGNALED,
          sges: [sge(mr, bytes, 1)],
          remote: { va: va + bytes - 1, rkey },
        },
      ]),
    );
    const [{ status } = { status: "none" }] = yield* waitCompletion(cq);
    if (status !== "SUCCESS") {
      return cpu.report("result", {
        program: "checksummed_record",
        status: "failed",
        error: status,
      });
    }
    cpu.report("progress", { written: number + 1, messages: records });
  }
  cpu.report("result", { program: "checksummed_record", status: "done", records });
}

interface Recovered {
  readonly records: number;
  /** The first record whose checksum is right and that is not what was written. */
  readonly broken: number | null;
}

/** The records up to the first one whose checksum is wrong. */
// deno-lint-ignore require-yield -- it only looks
export function* recover({ cpu, options: given }: RecoveryContext): Steps<Recovered | null> {
  const options = given as unknown as LogOptions;
  if (options.role !== "server") return null;
  const { bytes, checksum } = options;
  const base = cpu.scm.address + options.regions.log.at;
  for (let number = 0; number < options.records; number++) {
    const found = cpu.load(base + number * bytes, bytes) as Uint8Array<ArrayBuffer>;
    const said = new DataView(found.buffer, found.byteOffset + bytes - WORD).getBigUint64(0);
    const isEmpty = found.every((byte) => byte === 0);
    if (isEmpty || said !== sumOf(found.subarray(0, bytes - WORD), checksum)) {
      return { records: number, broken: null };
    }
    const wanted = recordOf(number, options);
    if (found.some((byte, i) => byte !== wanted[i])) return { records: number, broken: number };
  }
  return { records: options.records, broken: null };
}

/**
 * A record whose checksum is right is the one that was written, and all that were reported are
 * there.
 */
export function check({ cut, hosts, reports }: CrashView): string | undefined {
  for (const [host, { recovered }] of Object.entries(hosts)) {
    const found = recovered as Recovered | null | undefined;
    if (found === null || found === undefined || !cut.includes(host)) continue;
    if (found.broken !== null) {
      return `record ${found.broken} is not what was written, and its checksum is right`;
    }
    const said = reports.findLast(({ topic }) => topic === "progress");
    const { written } = (said?.value ?? { written: 0 }) as { readonly written: number };
    if (found.records < written) return `${written} records were reported, ${found.records} found`;
  }
  return undefined;
}
