/**
 * An example of a user's protocol: a log in another host's SCM; each record is appended with a
 * WRITE and made persistent with a READ behind it. Copy it and change it; it imports `rackmesh` alone.
 *
 * The same file runs on both hosts (`my_protocol.yaml`): as `role: server` it offers the region
 * `log` of its SCM, as `role: client` it appends `records` records to it. Virtual time may pass at
 * every `yield*`. A verb returns a value or an error; `must` ends the program on an error.
 */
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_INLINE,
  IBV_SEND_SIGNALED,
  must,
  type ProgramContext,
  type Steps,
} from "rackmesh";

const SERVICE = "mylog";
const RECORD_BYTES = 64;

export default function* myProtocol(context: ProgramContext): Steps<void> {
  yield* context.options.role === "server" ? serve(context) : append(context);
}

function* serve({ cpu, device, options }: ProgramContext): Steps<void> {
  const { allocPd, createCq, regMr, listen, waitEvent, accept } = device.verbs;
  const { at: offset, bytes: length } = (options.regions as Regions).log;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  const log = must(yield* regMr(pd, cpu.scm, { offset, length, access }));
  const listener = must(listen(device, SERVICE));
  for (;;) {
    const event = yield* waitEvent(listener);
    if (event?.kind !== "request") continue;
    // The private data of the answer has the place of the log: 16 bytes, VA and rkey.
    const place = new DataView(new ArrayBuffer(16));
    place.setBigUint64(0, BigInt(log.address));
    place.setUint32(8, log.rkey);
    const privateData = new Uint8Array(place.buffer);
    const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4, maxInlineData: 220 };
    yield* accept(listener, event.request, { qp, privateData });
  }
}

function* append({ cpu, device, options }: ProgramContext): Steps<void> {
  const { allocPd, createCq, regMr, connect, refused, disconnect } = device.verbs;
  const { postSend, waitCompletion, sge } = device.verbs;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const buffer = cpu.allocate(2 * RECORD_BYTES);
  const mr = must(yield* regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4, maxInlineData: 220 };
  const connection = yield* connect(device, { to: String(options.to), service: SERVICE, qp });
  if (refused(connection)) return cpu.report("result", { program: "my_protocol", ...connection });
  const { buffer: bytes, byteOffset } = connection.privateData;
  const place = new DataView(bytes, byteOffset);
  const rkey = place.getUint32(8);
  const latencies: number[] = [];
  for (let i = 0; i < Number(options.records); i++) {
    cpu.store(buffer.address, new Uint8Array(RECORD_BYTES).fill(i + 1));
    const va = Number(place.getBigUint64(0)) + i * RECORD_BYTES;
    const from = cpu.now;
    must(
      yield* postSend(connection.qp, [
        {
          opcode: "write",
          sges: [sge(mr, 0, RECORD_BYTES)],
          remote: { va, rkey },
          // Its 64 B go with the WQE; the READ behind it completes for both.
          sendFlags: IBV_SEND_INLINE,
        },
        // Responses are ordered: when the READ's byte has arrived, it has flushed the WRITE before
        // it (P-10).
        {
          opcode: "read",
          wrId: i,
          sges: [sge(mr, RECORD_BYTES, 1)],
          remote: { va, rkey },
          sendFlags: IBV_SEND_SIGNALED,
        },
      ]),
    );
    const [completion] = yield* waitCompletion(cq);
    if (completion!.status !== "SUCCESS") {
      return cpu.report("result", {
        program: "my_protocol",
        status: "failed",
        error: completion!.status,
        records: i,
      });
    }
    latencies.push(cpu.now - from);
  }
  cpu.report("result", { program: "my_protocol", records: latencies.length, latencies });
  yield* disconnect(connection);
}

/**
 * The named regions of this host's SCM in the scenario, which every program receives among its
 * options.
 */
type Regions = Readonly<Record<"log", { readonly at: number; readonly bytes: number }>>;
