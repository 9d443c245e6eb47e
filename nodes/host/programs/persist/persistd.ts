/**
 * The service of every card of every host that keeps named objects in SCM. Requesters connect, open an object, receive
 * its region by a SEND (P-22), and write; where the method needs the responder's CPU, the service flushes and confirms
 * (P-11, P-26, P-51).
 *
 * One completion queue serves all connections. Receives are posted for twice the requester's depth, so that they may be
 * replenished a little late.
 */
import { MEMORIES } from "../../../../fabric/rack/plan/plan.ts";
import { NEVER } from "../../../../fabric/base/time.ts";
import { listen, type ListenerEvent, listening, nextEvent } from "../../cm/listen.ts";
import { waitCompletion } from "../../verbs/completion_queue.ts";
import { createCq } from "../../verbs/create_cq.ts";
import { failed, must } from "../../verbs/device.ts";
import { allocPd } from "../../verbs/memory_region.ts";
import type { Steps } from "../../cpu/program.ts";
import { countOption, wordOption } from "../common/options.ts";
import { SERVICE } from "../common/persist_protocol.ts";
import { dropClient, handleRequest, replenish } from "./persistd_client.ts";
import { type Client, freeMemory, recover, type Server } from "./persistd_memory.ts";
import { inTurn, storeOf } from "./persistd_store.ts";
import { handleRecv, handleWritten, persist } from "./persistd_requests.ts";
import { createWorkers } from "./persistd_workers.ts";
import { openDirectory, type Regions } from "../common/scm_directory.ts";
import type { Cq, Device, WorkCompletion } from "../../verbs/objects.ts";
import type { ProgramContext } from "../../program_context.ts";

/**
 * The program. Options: `completions` (4096); `copy`: `nt-store` (default) or `flush`; `receive`:
 * `dram` (default) or `scm`, the memory of the receive buffers; `regions`: named places in SCM for
 * the objects of these names. Reports `recovered` where it has stored pending messages of an
 * earlier life.
 */
export function* persistd(context: ProgramContext): Steps<void> {
  const server = yield* startServer(context);
  const also = listening(server.listener);
  yield* inTurn(server, openStore(server, context.options.regions as Regions | undefined));
  for (;;) {
    for (;;) {
      const event = nextEvent(server.listener);
      if (event === undefined) break;
      yield* inTurn(server, handleEvent(server, event));
    }
    if (server.cq === undefined) yield* server.cpu.waitSignal(also.signal, NEVER);
    else {
      const completions = yield* waitCompletion(server.cq, { also });
      yield* inTurn(server, handleCompletions(server, completions));
    }
  }
}

function* openStore(server: Server, regions: Regions | undefined): Steps<void> {
  const { store } = server;
  server.directory = store.directory ?? (yield* openDirectory(server.cpu, regions));
  if (store.directory === undefined) yield* recover(server);
  store.directory = server.directory;
}

function* startServer({ cpu, device, options }: ProgramContext): Steps<Server> {
  const room = countOption(options, "completions", { least: 64, otherwise: 4096 });
  const copy = wordOption(options, "copy", {
    words: ["nt-store", "flush"] as const,
    otherwise: "nt-store",
  });
  const receive = wordOption(options, "receive", { words: MEMORIES, otherwise: "dram" });
  // The service listens first, so that requests of early clients are not lost.
  const listener = must(listen(device, SERVICE));
  const { flow, flush } = device.state.persistence;
  const server: Server = {
    device,
    cpu: device.cpu,
    listener,
    terms: { flow, flush, receive },
    room,
    copy,
    clients: new Map(),
    directory: undefined,
    pd: allocPd(device),
    cq: yield* makeCq(device, room),
    roomLeft: room,
    freeMemory: [],
    store: storeOf(device),
    workers: createWorkers(cpu),
  };
  server.store.servers.push(server);
  return server;
}

function* handleEvent(server: Server, event: ListenerEvent): Steps<void> {
  switch (event.kind) {
    case "request":
      return yield* handleRequest(server, event.request);
    case "established":
      return;
    case "closed": {
      const clients = [...server.clients.values()];
      const client = clients.find(({ connection }) => connection.endpoint === event.endpoint);
      if (client !== undefined) yield* dropClient(server, client);
      return;
    }
    case "reset":
      for (const client of server.clients.values()) yield* freeMemory(server, client);
      server.clients.clear();
      server.roomLeft = server.room;
      server.pd = allocPd(server.device);
      server.cq = yield* makeCq(server.device, server.room);
  }
}

function* makeCq(device: Device, entries: number): Steps<Cq | undefined> {
  const cq = yield* createCq(device, { entries });
  return failed(cq) ? undefined : cq;
}

function* handleCompletions(
  server: Server,
  completions: readonly WorkCompletion[],
): Steps<void> {
  const touched = new Set<Client>();
  for (const completion of completions) {
    const client = server.clients.get(completion.qpNum);
    if (client === undefined) continue;
    if (completion.status !== "SUCCESS") {
      yield* dropClient(server, client);
      continue;
    }
    const { opcode } = completion;
    if (opcode === "write") client.isProbed = false;
    if (!opcode.startsWith("recv")) continue;
    // Other immediate data and invalidations have no meaning here.
    if (opcode === "recv-persistence") yield* persist(server, client, completion);
    else if (opcode === "recv-write-immediate") yield* handleWritten(server, client, completion);
    else if (opcode === "recv") yield* handleRecv(server, client, completion);
    client.emptied.push(completion.wrId);
    touched.add(client);
  }
  for (const client of touched) if (!client.gone) yield* replenish(server, client);
}
