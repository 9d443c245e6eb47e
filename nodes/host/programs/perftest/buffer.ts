/**
 * The buffers of one end: for each queue pair a send place and, in the following lines, a receive
 * place.
 */
import type { Memory } from "../../../../fabric/rack/plan/plan.ts";
import { LINE_BYTES } from "../../../../fabric/base/cache_line.ts";
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_ATOMIC,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
} from "../../verbs/flags.ts";
import { allocated, failed, verbError } from "../../verbs/device.ts";
import { allocPd, regMr } from "../../verbs/memory_region.ts";
import { sge } from "../../verbs/post.ts";
import type { Steps } from "../../cpu/program.ts";
import type { Sge } from "../../../../fabric/wire/host_bus/wqe.ts";
import type { RemotePlace } from "./terms.ts";
import type { Device, Mr, Pd, VerbError } from "../../verbs/objects.ts";

export interface TestBuffer {
  readonly pd: Pd;
  readonly mr: Mr;
  readonly placeBytes: number;
  readonly reportAddress: number;
}

const ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
  IBV_ACCESS_REMOTE_ATOMIC;

/** SCM is used from its end. */
export function* makeBuffer(
  device: Device,
  wanted: {
    readonly bytes: number;
    readonly count: number;
    readonly memory: Memory;
    /** A line behind the places, for the peer's figures. */
    readonly report?: boolean;
  },
): Steps<TestBuffer | VerbError> {
  const { cpu } = device;
  const placeBytes = Math.ceil(wanted.bytes / LINE_BYTES) * LINE_BYTES;
  const length = 2 * placeBytes * wanted.count + (wanted.report ? LINE_BYTES : 0);
  if (wanted.memory === "scm" && length > cpu.scm.length) {
    const found = `${cpu.host} has ${cpu.scm.length} B`;
    return verbError("ENOMEM", `The test needs ${length} B of SCM: ${found}`);
  }
  const buffer = wanted.memory === "scm" ? cpu.scm : allocated(() => cpu.allocate(length));
  if (failed(buffer)) return buffer;
  const offset = wanted.memory === "scm" ? cpu.scm.length - length : 0;
  // perftest fills its buffers, too: as far as they fit, payloads are in the LLC.
  if (wanted.memory === "dram") fill(device, buffer, length);
  const pd = allocPd(device);
  const mr = yield* regMr(pd, buffer, { offset, length, access: ACCESS });
  const reportAt = 2 * placeBytes * wanted.count;
  return failed(mr) ? mr : { pd, mr, placeBytes, reportAddress: mr.address + reportAt };
}

const PIECE_BYTES = 1 << 16;

function fill({ cpu }: Device, { address }: { readonly address: number }, length: number): void {
  const piece = new Uint8Array(PIECE_BYTES);
  for (let at = 0; at < length; at += PIECE_BYTES) {
    cpu.store(address + at, piece.subarray(0, Math.min(PIECE_BYTES, length - at)));
  }
}

export function sendSge({ mr, placeBytes }: TestBuffer, index: number, bytes: number): Sge {
  return sge(mr, 2 * index * placeBytes, bytes);
}

export function recvSge({ mr, placeBytes }: TestBuffer, index: number, bytes: number): Sge {
  return sge(mr, (2 * index + 1) * placeBytes, bytes);
}

export function recvPlace(buffer: TestBuffer, index: number): RemotePlace {
  return { va: recvSge(buffer, index, 0).address, rkey: buffer.mr.rkey };
}
