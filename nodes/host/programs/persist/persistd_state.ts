/** The state of `persistd`: its own, each requester's, and that of a requester's memory. */
import type { Time } from "../../../../fabric/base/time.ts";
import type { Connection } from "../../cm/connection.ts";
import type { CmDevice } from "../../cm/gsi.ts";
import type { Listener } from "../../cm/listen.ts";
import type { Cpu } from "../../cpu/program.ts";
import type { Buffer } from "../../memory/address_map.ts";
import type { Cq, Mr, Pd } from "../../verbs/objects.ts";
import type { ServerTerms, Terms } from "../common/persist_protocol.ts";
import type { RecvRing } from "../common/recv_ring.ts";
import type { ScmDirectory } from "../common/scm_directory.ts";

/** Receive and send slots. */
export interface ClientMemory {
  readonly recvBuffer: Buffer;
  readonly sendBuffer: Buffer;
  /** Number of each. */
  readonly slots: number;
  readonly recvBytes: number;
  readonly ring: RecvRing;
}

/** One requester. */
export interface Client {
  readonly connection: Connection;
  readonly terms: Terms;
  readonly memory: ClientMemory;
  readonly recvMr: Mr;
  readonly sendMr: Mr;
  region: Mr | undefined;
  /** The object that it writes, and this program's CPU time when it was opened. */
  serving: { readonly object: string; readonly workPs: Time } | undefined;
  /** Receive slots to post again. */
  readonly emptied: number[];
  nextSend: number;
  gone: boolean;
}

export interface Server {
  readonly device: CmDevice;
  readonly cpu: Cpu;
  readonly listener: Listener;
  readonly terms: ServerTerms;
  /** Capacity of the completion queue, which limits the number of clients. */
  readonly room: number;
  /** How data of a SEND is copied to SCM. */
  readonly copy: "nt-store" | "flush";
  readonly clients: Map<number, Client>;
  /** Clients by the connection manager's endpoint number, for its events. */
  readonly byEndpoint: Map<number, Client>;
  directory: ScmDirectory | undefined;
  pd: Pd;
  /** Undefined while the RNIC has failed. */
  cq: Cq | undefined;
  roomLeft: number;
  freeMemory: ClientMemory[];
}
