/**
 * A user's log with a bug, for `rack explore` to find. A record goes to the server over one queue
 * pair, and the tail that counts it over another, so that the tail need not wait behind the
 * record's packets. Both are read back before the record is reported. Where is the bug?
 *
 *   rack explore scripts/scenarios/two_queues.yaml
 *
 * With `tail: same` the tail goes over the record's queue pair, behind it, and the log is safe.
 */
import {
  type CrashView,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_INLINE,
  IBV_SEND_SIGNALED,
  type Mr,
  type ProgramContext,
  type Qp,
  type RecoveryContext,
  type Steps,
} from "rackmesh";

/** As ConnectX cards have it. */
const MAX_INLINE = 220;
const SERVICE = "twoqs";
/** The tail has a line of its own before the records. */
const RECORDS_AT = 64;

interface LogOptions {
  readonly role: "server" | "client";
  readonly to?: string;
  readonly records: number;
  readonly bytes: number;
  readonly tail: "own" | "same";
  readonly regions: { readonly log: { readonly at: number; readonly bytes: number } };
}

export default function* twoQueues(context: ProgramContext): Steps<void> {
  const options = context.options as unknown as LogOptions;
  yield* options.role === "server" ? serve(context, options) : append(context, options);
}

/** Differs from the previous content of its place, and from every other record. */
function recordOf(number: number, bytes: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes).fill(number + 1);
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
    const qp = {
      pd,
      sendCq: cq,
      recvCq: cq,
      maxSendWr: 4,
      maxRecvWr: 4,
      maxInlineData: MAX_INLINE,
    };
    yield* accept(listener, event.request, { qp, privateData: new Uint8Array(place.buffer) });
  }
}

interface Way {
  readonly qp: Qp;
  readonly va: number;
  readonly rkey: number;
}

function* append({ cpu, device }: ProgramContext, options: LogOptions): Steps<void> {
  const { allocPd, createCq, regMr, connect, refused, waitCompletion, must } = device.verbs;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const buffer = cpu.allocate(options.bytes + 64);
  const mr = must(yield* regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
  const ways: Way[] = [];
  for (let i = 0; i < 2; i++) {
    const qp = {
      pd,
      sendCq: cq,
      recvCq: cq,
      maxSendWr: 4,
      maxRecvWr: 4,
      maxInlineData: MAX_INLINE,
    };
    const connection = yield* connect(device, { to: String(options.to), service: SERVICE, qp });
    if (refused(connection)) return cpu.report("result", { program: "two_queues", ...connection });
    const { buffer: bytes, byteOffset } = connection.privateData;
    const place = new DataView(bytes, byteOffset);
    const va = Number(place.getBigUint64(0));
    ways.push({ qp: connection.qp, va, rkey: place.getUint32(8) });
  }
  const [first, second] = ways as [Way, Way];
  const forTail = options.tail === "same" ? first : second;
  for (let number = 0; number < options.records; number++) {
    cpu.store(buffer.address, recordOf(number, options.bytes));
    cpu.store(buffer.address + options.bytes, wordOf(number + 1));
    yield* write(device, first, {
      mr,
      from: 0,
      length: options.bytes,
      at: placeOf(number, options),
    });
    yield* write(device, forTail, { mr, from: options.bytes, length: 8, at: 0 });
    // Each queue pair's READ flushes its WRITEs out of the server's I/O controller (P-10).
    for (let done = 0; done < 2;) {
      for (const { status } of yield* waitCompletion(cq)) {
        if (status !== "SUCCESS") {
          return cpu.report("result", { program: "two_queues", status: "failed", error: status });
        }
        done++;
      }
    }
    cpu.report("progress", { written: number + 1, messages: options.records });
  }
  cpu.report("result", { program: "two_queues", status: "done", records: options.records });
}

/** A WRITE, and a READ of its last byte behind it, whose completion confirms both. */
function* write(
  device: ProgramContext["device"],
  way: Way,
  what: { readonly mr: Mr; readonly from: number; readonly length: number; readonly at: number },
): Steps<void> {
  const { postSend, sge, must } = device.verbs;
  const { mr, from, length, at } = what;
  const { rkey } = way, va = way.va + at;
  const back = sge(mr, mr.length - 8, 1);
  must(
    yield* postSend(way.qp, [
      {
        opcode: "write",
        // Up to 220 B go with the WQE: the tail, and short records.
        sendFlags: length <= MAX_INLINE ? IBV_SEND_INLINE : 0,
        sges: [sge(mr, from, length)],
        remote: { va, rkey },
      },
      {
        opcode: "read",
        sendFlags: IBV_SEND_SIGNALED,
        sges: [back],
        remote: { va: va + length - 1, rkey },
      },
    ]),
  );
}

function placeOf(number: number, { bytes }: LogOptions): number {
  return RECORDS_AT + number * bytes;
}

function wordOf(number: number): Uint8Array<ArrayBuffer> {
  const word = new Uint8Array(8);
  new DataView(word.buffer).setBigUint64(0, BigInt(number));
  return word;
}

interface Recovered {
  readonly records: number;
  /** The first record that the tail counts and that is missing or incomplete. */
  readonly broken: number | null;
}

/** On a server after power-on: the records that the tail counts. */
// deno-lint-ignore require-yield -- it only looks
export function* recover({ cpu, options: given }: RecoveryContext): Steps<Recovered | null> {
  const options = given as unknown as LogOptions;
  if (options.role !== "server") return null;
  const base = cpu.scm.address + options.regions.log.at;
  const tail = cpu.load(base, 8);
  const records = Number(new DataView(tail.buffer, tail.byteOffset).getBigUint64(0));
  for (let number = 0; number < records; number++) {
    const found = cpu.load(base + placeOf(number, options), options.bytes);
    const wanted = recordOf(number, options.bytes);
    if (found.some((byte, i) => byte !== wanted[i])) return { records, broken: number };
  }
  return { records, broken: null };
}

/** The tail must never count a missing record, and must count every reported one. */
export function check({ cut, hosts, reports }: CrashView): string | undefined {
  for (const [host, { recovered }] of Object.entries(hosts)) {
    const found = recovered as Recovered | null | undefined;
    if (found === null || found === undefined) continue;
    if (found.broken !== null) return `the tail counts record ${found.broken}, which is not whole`;
    // A host that has its power back has recovered in the middle of the run.
    const boot = reports.findLast(({ node, topic }) => node === host && topic === "recovered");
    const until = cut.includes(host) ? Infinity : boot!.time;
    const said = reports.findLast(({ topic, time }) => topic === "progress" && time < until);
    const { written } = (said?.value ?? { written: 0 }) as { readonly written: number };
    if (found.records < written) {
      return `${written} records were reported, ${found.records} found`;
    }
  }
  return undefined;
}
