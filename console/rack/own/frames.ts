/**
 * Frames between the command and a process with own programs, on that process's standard streams: a
 * length of four bytes, then CBOR. A frame to it is a job, or {@link STOP}.
 */
import { decode, encode } from "../../../fabric/bus/codec.ts";
import { RackError } from "../../base/rack_error.ts";

/** To the command: one answer or failure ends a job. */
export type Said =
  | readonly ["progress", unknown]
  | readonly ["answer", unknown]
  | readonly ["failed", { readonly message: string; readonly code: number }];

/** False for what a program wrote that has found a way to stdout. */
export function isSaid(frame: unknown): frame is Said {
  if (!Array.isArray(frame)) return false;
  const [kind, value] = frame;
  if (kind !== "failed") return kind === "progress" || kind === "answer";
  const { message, code } = Object(value);
  return typeof message === "string" && typeof code === "number";
}

/** To the process: end each job so far early, with an answer. */
export const STOP = "stop";

/** Sent before a program is loaded for a trial; the answer follows (`probe_main.ts`). */
export const PROBE_BEGINS = "begins\n";

export function framed(value: unknown): Uint8Array<ArrayBuffer> {
  const body = encode(value);
  const frame = new Uint8Array(4 + body.length);
  new DataView(frame.buffer).setUint32(0, body.length);
  frame.set(body, 4);
  return frame;
}

/** Up to the stream's end. @throws RackError for invalid bytes. */
export async function* framesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<unknown> {
  let parts: Uint8Array[] = [], length = 0, wanted = 4, isHead = true;
  for await (const part of stream) {
    parts.push(part);
    length += part.length;
    while (length >= wanted) {
      const bytes = joined(parts, length);
      const first = bytes.subarray(0, wanted);
      parts = [bytes.subarray(wanted)];
      length -= wanted;
      if (isHead) {
        wanted = new DataView(first.buffer, first.byteOffset).getUint32(0);
      } else {
        const value = decode(first);
        if (value === undefined) throw new RackError("Found damaged bytes: expected a message");
        yield value;
        wanted = 4;
      }
      isHead = !isHead;
    }
  }
}

function joined(parts: readonly Uint8Array[], length: number): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
