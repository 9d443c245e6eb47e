/** The connection of all fio engines. */
import { PS_PER_S, PS_PER_US, type Time } from "../../../../fabric/base/time.ts";
import { WC_STATUS } from "../../../../fabric/wire/host_bus/cqe.ts";
import { connect, type ConnectOptions } from "../../cm/connect.ts";
import {
  type Connection,
  disconnect,
  disconnecting,
  isDisconnected,
  refused,
} from "../../cm/connection.ts";
import type { CmDevice } from "../../cm/gsi.ts";
import {
  accept,
  type AcceptOptions,
  type ConnectRequest,
  listen,
  type Listener,
  unlisten,
  waitEvent,
} from "../../cm/listen.ts";
import { rngFor } from "../../../../fabric/base/rng.ts";
import type { Buffer } from "../../memory/address_map.ts";
import type { Cpu, Steps } from "../../cpu/program.ts";
import { waitCompletion } from "../../verbs/completion_queue.ts";
import { allocated, failed, must, ProgramError } from "../../verbs/device.ts";
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
} from "../../verbs/flags.ts";
import type { Cq, WorkCompletion } from "../../verbs/objects.ts";
import { completionError, type FioJob, type JobError } from "./job.ts";

export const ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

/** Linux's numbers, as fio prints `err=`. */
const ERRNO = { EIO: 5, ENOMEM: 12, EINVAL: 22, ECONNREFUSED: 111, ETIMEDOUT: 110 } as const;

class EngineError extends Error {
  override readonly name = "EngineError";
  constructor(readonly job: JobError) {
    super(job.text);
  }
}

export function engineError(code: keyof typeof ERRNO, text: string): EngineError {
  return new EngineError({ code: ERRNO[code], text: `${code}: ${text}` });
}

/** @returns undefined for a fault of the program itself. */
export function jobErrorOf(cause: unknown): JobError | undefined {
  if (cause instanceof EngineError) return cause.job;
  return cause instanceof ProgramError ? { code: ERRNO.EIO, text: cause.message } : undefined;
}

/** A failed completion ends the job: `td->error = wc.status`. */
export function checked(completion: WorkCompletion): WorkCompletion {
  if (completion.status === "SUCCESS") return completion;
  throw new EngineError(completionError(completion, WC_STATUS[completion.status]));
}

function serviceOf({ port }: Pick<FioJob, "port">): string {
  return `fio${port}`;
}

/** librdmacm: 4.096 µs · 2^20, and Max CM Retries 15. */
const RETRY = { timeoutPs: 4_294_967 * PS_PER_US, tries: 15 };
/** LIBRPMA_FIO_RETRY_MAX_NO, LIBRPMA_FIO_RETRY_DELAY_S. */
const ATTEMPTS = 10;
const PAUSE_PS: Time = 5 * PS_PER_S;

/**
 * A host without such a server, which may begin later, is tried again after five seconds of virtual
 * time, ten times at most.
 */
export function* connectTo(
  device: CmDevice,
  job: FioJob,
  options: Pick<ConnectOptions, "qp" | "transport">,
): Steps<Connection> {
  const to = job.to!;
  for (let attempt = 1;; attempt++) {
    const answer = yield* connect(device, {
      to,
      service: serviceOf(job),
      retry: RETRY,
      ...options,
    });
    if (!refused(answer)) return answer;
    const { refused: kind, reason } = answer;
    if (kind !== "no-service" || attempt === ATTEMPTS) {
      const code = kind === "timeout" ? "ETIMEDOUT" : "ECONNREFUSED";
      throw engineError(code, `no connection to port ${job.port} of ${to}: ${reason}`);
    }
    yield* device.cpu.sleep(PAUSE_PS);
  }
}

export function* acceptOne(
  job: Pick<FioJob, "port">,
  { listener, options }: {
    readonly listener: Listener;
    readonly options: (request: ConnectRequest) => AcceptOptions;
  },
): Steps<Connection> {
  for (;;) {
    const event = yield* waitEvent(listener);
    if (event?.kind === "reset") throw engineError("EIO", "the RNIC has failed");
    if (event?.kind !== "request") continue;
    const answer = yield* accept(listener, event.request, options(event.request));
    if (refused(answer)) {
      throw engineError("EIO", `port ${job.port}: ${answer.refused}: ${answer.reason}`);
    }
    yield* unlisten(listener);
    return answer;
  }
}

export function listenOn(device: CmDevice, job: FioJob): Listener {
  return must(listen(device, serviceOf(job)));
}

/** @returns undefined when the connection has ended and no completion is left. */
export function* nextCompletion(
  cq: Cq,
  connection: Connection,
  mode: "poll" | "interrupt",
): Steps<WorkCompletion | undefined> {
  for (;;) {
    const [completion] = yield* waitCompletion(cq, {
      mode,
      most: 1,
      also: disconnecting(connection),
    });
    if (completion !== undefined) return completion;
    if (isDisconnected(connection)) return undefined;
  }
}

/** Disconnects at a failure, so that the other end notices. */
export function* endingOnFailure<T>(connection: Connection, part: () => Steps<T>): Steps<T> {
  try {
    return yield* part();
  } catch (cause) {
    if (jobErrorOf(cause) !== undefined) yield* disconnect(connection);
    throw cause;
  }
}

/** Random data, as fio fills buffers before a job; its time passes here. */
export function* filledBuffer(cpu: Cpu, length: number): Steps<Buffer> {
  const buffer = allocated(() => cpu.allocate(length));
  if (failed(buffer)) throw engineError("ENOMEM", `buffers of ${length} B: ${buffer.reason}`);
  const rng = rngFor(Math.floor(cpu.random() * 2 ** 32), "fio buffers");
  const words = new Uint32Array(Math.ceil(length / 4));
  for (let i = 0; i < words.length; i++) words[i] = rng.next();
  cpu.store(buffer.address, new Uint8Array(words.buffer, 0, length));
  yield* cpu.settle();
  return buffer;
}
