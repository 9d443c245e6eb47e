/**
 * A log in another host's SCM that notes its operations, so that it needs no `check`: `rack
 * explore` and `rack run` judge what `recover` finds by durable linearizability (`console/explore`,
 * operations).
 *
 * Each record is written and made persistent by a READ behind it, then so is the tail, which counts
 * the records. With `order: tail-first` the tail goes first, which is wrong: the explorer finds the
 * log with a record that nothing has appended.
 */
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_INLINE,
  IBV_SEND_SIGNALED,
  must,
  type ProgramContext,
  type Recover,
  type Steps,
} from "rackmesh";

const SERVICE = "noted";
const RECORD_BYTES = 64;
/** The tail has a line of its own in front of the records. */
const RECORDS_AT = 64;
const QUEUES = { maxSendWr: 4, maxRecvWr: 4, maxInlineData: 64 };

export default function* notedLog(context: ProgramContext): Steps<void> {
  yield* context.options.to === undefined ? serve(context) : append(context);
}

/** One object, by the name that the notes give it. */
export const recover: Recover = function* ({ cpu, options }) {
  const { at } = (options.regions as Regions).log;
  const wordAt = (offset: number) => numberIn(cpu.load(cpu.scm.address + at + offset, 8));
  const log = Array.from({ length: wordAt(0) }, (_, i) => wordAt(RECORDS_AT + i * RECORD_BYTES));
  yield* cpu.settle();
  return { objects: { log } };
};

function* serve({ cpu, device, options }: ProgramContext): Steps<void> {
  const { allocPd, createCq, regMr, listen, waitEvent, accept } = device.verbs;
  const { at: offset, bytes: length } = (options.regions as Regions).log;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  const mr = must(yield* regMr(pd, cpu.scm, { offset, length, access }));
  const listener = must(listen(device, SERVICE));
  for (;;) {
    const event = yield* waitEvent(listener);
    if (event?.kind !== "request") continue;
    const privateData = new Uint8Array(
      new BigUint64Array([BigInt(mr.address), BigInt(mr.rkey)]).buffer,
    );
    yield* accept(listener, event.request, {
      qp: { pd, sendCq: cq, recvCq: cq, ...QUEUES },
      privateData,
    });
  }
}

function* append({ cpu, device, options }: ProgramContext): Steps<void> {
  const { allocPd, createCq, regMr, connect, refused, postSend, waitCompletion, sge } =
    device.verbs;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const buffer = cpu.allocate(2 * RECORD_BYTES);
  const mr = must(yield* regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
  const to = String(options.to);
  const qp = { pd, sendCq: cq, recvCq: cq, ...QUEUES };
  const connection = yield* connect(device, { to, service: SERVICE, qp });
  if (refused(connection)) return cpu.report("result", { program: "noted_log", ...connection });
  const { qp: connected } = connection;
  const view = new DataView(connection.privateData.slice().buffer);
  const log = Number(view.getBigUint64(0, true)), rkey = Number(view.getBigUint64(8, true));

  /** The answer of a READ has flushed the WRITE before it. */
  function* persist(word: number, at: number): Steps<void> {
    cpu.store(buffer.address, new Uint8Array(new BigUint64Array([BigInt(word)]).buffer));
    const remote = { va: log + at, rkey };
    must(
      yield* postSend(connected, [
        { opcode: "write", sges: [sge(mr, 0, 8)], remote, sendFlags: IBV_SEND_INLINE },
        { opcode: "read", sges: [sge(mr, 64, 1)], remote, sendFlags: IBV_SEND_SIGNALED },
      ]),
    );
    const [completion] = yield* waitCompletion(cq);
    if (completion!.status !== "SUCCESS") throw new Error(`Found ${completion!.reason}`);
  }

  const isTailFirst = options.order === "tail-first";
  for (let id = 0; id < Number(options.records); id++) {
    const value = 100 + id;
    const record = () => persist(value, RECORDS_AT + id * RECORD_BYTES);
    const tail = () => persist(id + 1, 0);
    // Before any of its effects.
    cpu.note({ kind: "operation", id, on: to, object: "log", type: "log", call: "append", value });
    for (const step of isTailFirst ? [tail, record] : [record, tail]) yield* step();
    // It survives from now on.
    cpu.note({ kind: "operation-end", id });
  }
  cpu.report("result", { program: "noted_log", records: options.records });
}

function numberIn(bytes: Uint8Array): number {
  return Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
}

type Regions = Readonly<Record<"log", { readonly at: number; readonly bytes: number }>>;
