/**
 * Each client writes the numbers 1, 2, 3, … into words of the server, some at a time, and reads
 * back that all are there (`stale_pointer.yaml`). Between two posts it works for a while, more in
 * each burst, so that doorbells come at every time to the card.
 */
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_SIGNALED,
  type ProgramContext,
  type Steps,
} from "rackmesh";
import {
  admit,
  connectTo,
  countersOf,
  flagsFor,
  MAX_INLINE,
  nextRequest,
  remoteOf,
} from "./peer.ts";

const SERVICE = "stale";
const WORD_BYTES = 8;
/** The longest work is longer than a look-up of a pointer. */
const WORK_PS = 50_000, BURSTS = 32;

export default function* stalePointer(context: ProgramContext): Steps<void> {
  yield* context.options.role === "server" ? serve(context) : measure(context);
}

function* serve({ cpu, device, options }: ProgramContext): Steps<void> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const listener = v.must(v.listen(device, SERVICE));
  for (let i = 0; i < Number(options.clients); i++) {
    const cq = v.must(yield* v.createCq(device, { entries: 16 }));
    const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    const words = cpu.allocate(Number(options.posts) * WORD_BYTES);
    const mr = v.must(yield* v.regMr(pd, words, { access }));
    const request = yield* nextRequest(device, listener);
    const qp = {
      pd,
      sendCq: cq,
      recvCq: cq,
      maxSendWr: 8,
      maxRecvWr: 8,
      maxInlineData: MAX_INLINE,
    };
    yield* admit({ device, listener }, request, { qp, mr });
  }
  // Its memory is there for the clients as long as it runs.
  for (;;) yield* v.waitEvent(listener);
}

function* measure({ cpu, device, options }: ProgramContext): Steps<void> {
  const v = device.verbs;
  const posts = Number(options.posts), burst = Number(options.burst);
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 64 }));
  const bytes = posts * WORD_BYTES;
  const numbers = v.must(
    yield* v.regMr(pd, cpu.allocate(bytes), { access: IBV_ACCESS_LOCAL_WRITE }),
  );
  const seen = v.must(yield* v.regMr(pd, cpu.allocate(bytes), { access: IBV_ACCESS_LOCAL_WRITE }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 16, maxRecvWr: 8, maxInlineData: MAX_INLINE };
  const connection = yield* connectTo(device, { to: String(options.to), service: SERVICE, qp });
  const before = yield* countersOf(cpu);
  const began = cpu.now;
  let done = 0;
  for (let posted = 0; posted < posts;) {
    for (let i = 0; i < burst && posted < posts; i++, posted++) {
      const at = posted * WORD_BYTES;
      cpu.store(numbers.address + at, numberOf(posted));
      const sges = [v.sge(numbers, at, WORD_BYTES)];
      const remote = remoteOf(connection, at);
      const sendFlags = flagsFor(WORD_BYTES);
      const request = { opcode: "write", sendFlags, wrId: posted, sges, remote } as const;
      v.must(yield* v.postSend(connection.qp, request));
      yield* cpu.sleep(Math.floor(posted / burst) % BURSTS * WORK_PS);
    }
    while (done < posted) {
      for (const { wrId, status } of yield* v.waitCompletion(cq)) {
        if (status !== "SUCCESS") throw new Error(`Write ${wrId} ended with ${status}`);
        if (wrId !== done) throw new Error(`Write ${wrId} has completed, ${done} was expected`);
        done++;
      }
    }
  }
  const took = cpu.now - began;
  const after = yield* countersOf(cpu);
  const sendFlags = IBV_SEND_SIGNALED, remote = remoteOf(connection);
  const read = { opcode: "read", sendFlags, sges: [v.sge(seen)], remote } as const;
  v.must(yield* v.postSend(connection.qp, read));
  yield* v.waitCompletion(cq);
  let wrong = 0;
  const there = cpu.load(seen.address, bytes);
  for (let i = 0; i < posts; i++) {
    const at = i * WORD_BYTES;
    if (`${there.subarray(at, at + WORD_BYTES)}` !== `${numberOf(i)}`) wrong++;
  }
  if (wrong > 0) throw new Error(`${wrong} of ${posts} numbers are not in the server's memory`);
  const counted = (name: string) => (after[name] ?? 0) - (before[name] ?? 0);
  const doorbells = counted("doorbells");
  cpu.report("result", {
    program: "stale-pointer",
    host: cpu.host,
    posts,
    doorbells,
    stalePointers: counted("stalePointers"),
    readsPerDoorbell: Math.round(1000 * counted("doorbellReads") / doorbells) / 1000,
    nsPerWrite: Math.round(took / posts / 1000),
  });
}

function numberOf(post: number): Uint8Array {
  const bytes = new Uint8Array(WORD_BYTES);
  new DataView(bytes.buffer).setUint32(4, post + 1);
  return bytes;
}
