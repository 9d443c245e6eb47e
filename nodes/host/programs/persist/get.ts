import { IBV_ACCESS_LOCAL_WRITE, IBV_SEND_SIGNALED } from "../../verbs/flags.ts";
import { sge } from "../../verbs/post.ts";
import type { Steps } from "../../cpu/program.ts";
import { RD_ATOMIC_MAX } from "../../../../fabric/wire/host_bus/qp_life_cycle.ts";
import { countOption, textOption } from "../common/options.ts";
import {
  type ClientOptions,
  createWindow,
  type Failure,
  isFailure,
  makeRegions,
  measured,
  nextCompletions,
  openClient,
  openObject,
  type PersistClient,
  post,
  type Region,
  releaseClient,
  runClient,
  waitingOptions,
} from "./persist_client.ts";
import { outcomeOf, summarize } from "../common/summary.ts";
import type { Mr, SendRequest } from "../../verbs/objects.ts";
import type { ProgramContext } from "../../program_context.ts";
import type { CmDevice } from "../../cm/gsi.ts";

function createGet(
  client: PersistClient,
  { region, slots, messageBytes, depth }: {
    readonly region: Region;
    readonly slots: Mr;
    readonly messageBytes: number;
    readonly depth: number;
  },
) {
  const count = Math.ceil(region.length / messageBytes);
  const window = createWindow(depth, count);
  const bytes = new Uint8Array(region.length), slotOf = new Int32Array(count);
  return { ...window, client, region, slots, messageBytes, count, bytes, slotOf };
}

type Get = ReturnType<typeof createGet>;

/**
 * The program. Options: `from`, `name` of the object, `size` of a message (4096), `depth` (16),
 * `partial` (false: an incomplete object is refused), `completion`, `attempts`, `pauseUs`, `idleUs`
 * as in `put`. Reports `output` (path, bytes: the path is the object's name) and `result`.
 */
export function* get(context: ProgramContext): Steps<void> {
  const { cpu, options } = context;
  const from = textOption(options, "from");
  const name = textOption(options, "name");
  const messageBytes = countOption(options, "size", { least: 1, otherwise: 4096 });
  const depth = countOption(options, "depth", { least: 1, otherwise: RD_ATOMIC_MAX });
  const partial = options.partial === true;
  const report = { program: "get", from, name, messageBytes, depth };
  const terms = { method: "read", policy: "persistence", messageBytes, depth } as const;
  yield* runClient(context, { to: from, terms, ...waitingOptions(context) }, {
    report,
    prepare: (client) => prepare(client, { name, messageBytes, depth, partial }),
    *run(job) {
      const { startPs, endPs, error } = yield* measured(cpu, transfer(job));
      if (error === undefined) cpu.report("output", { path: name, bytes: job.bytes });
      return {
        ...report,
        ...outcomeOf(error),
        bytes: job.region.length,
        ...(job.region.incomplete && { incomplete: true }),
        messages: job.count,
        scmOffset: job.region.scmOffset,
        requests: { read: job.count },
        latencyPs: summarize(job.latency),
        startPs,
        endPs,
      };
    },
  });
}

export interface FetchOptions extends Omit<ClientOptions, "to" | "terms"> {
  readonly from: string;
  readonly name: string;
  readonly messageBytes: number;
  readonly depth: number;
}

/** Frees all its resources. */
export function* fetchObject(
  device: CmDevice,
  options: FetchOptions,
): Steps<Uint8Array<ArrayBuffer> | Failure> {
  const { from, name, messageBytes, depth, ...rest } = options;
  const terms = { method: "read", policy: "persistence", messageBytes, depth } as const;
  const client = yield* openClient(device, { ...rest, to: from, terms });
  if (isFailure(client)) return client;
  const job = yield* prepare(client, { name, messageBytes, depth });
  const outcome = isFailure(job) ? job : (yield* transfer(job)) ?? job.bytes;
  yield* releaseClient(client, isFailure(job) ? [] : [job.slots]);
  return outcome;
}

function* prepare(
  client: PersistClient,
  { name, messageBytes, depth, partial = false }: {
    readonly name: string;
    readonly messageBytes: number;
    readonly depth: number;
    readonly partial?: boolean;
  },
): Steps<Get | Failure> {
  const region = yield* openObject(client, { name, partial });
  if (isFailure(region)) return region;
  const regions = yield* makeRegions(client.pd, [
    { bytes: depth * messageBytes, access: IBV_ACCESS_LOCAL_WRITE },
  ]);
  if (isFailure(regions)) return regions;
  return createGet(client, { region, slots: regions[0]!, messageBytes, depth });
}

function readRequest(job: Get, index: number): SendRequest {
  const { slots, messageBytes, region } = job;
  const slot = job.freeSlots.pop()!;
  job.slotOf[index] = slot;
  const from = index * messageBytes;
  const length = Math.min(messageBytes, region.length - from);
  return {
    opcode: "read",
    sendFlags: IBV_SEND_SIGNALED,
    wrId: index,
    sges: [sge(slots, slot * messageBytes, length)],
    remote: { va: region.va + from, rkey: region.rkey },
  };
}

function* transfer(job: Get): Steps<Failure | undefined> {
  const { client, count, messageBytes, slots } = job;
  const { cpu } = client.device;
  let done = 0;
  while (done < count) {
    const first = job.next;
    const requests: SendRequest[] = [];
    while (job.freeSlots.length > 0 && job.next < count) {
      requests.push(readRequest(job, job.next++));
    }
    if (requests.length > 0) {
      job.postedAt.fill(cpu.now, first, job.next);
      const refusal = yield* post(client, requests);
      if (refusal !== undefined) return refusal;
    }
    const completions = yield* nextCompletions(client);
    if (isFailure(completions)) return completions;
    for (const { status, wrId } of completions) {
      if (status !== "SUCCESS") return { error: status };
      const latencyPs = cpu.now - job.postedAt[wrId]!;
      job.latency[wrId] = latencyPs;
      cpu.measured({ operation: "get", method: "read", latencyPs });
      const slot = job.slotOf[wrId]!;
      const from = wrId * messageBytes;
      const length = Math.min(messageBytes, job.bytes.length - from);
      job.bytes.set(cpu.load(slots.address + slot * messageBytes, length), from);
      job.freeSlots.push(slot);
      done++;
    }
  }
  return undefined;
}
