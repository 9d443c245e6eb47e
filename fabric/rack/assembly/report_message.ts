/** A report of a device on the bus: sent by its process, read by those who follow the run. */
import { decode, encode } from "../../bus/codec.ts";
import type { FinalReply } from "./run_file.ts";

type Report = Omit<FinalReply["reports"][number], "node">;

export function reportToBytes({ topic, value, time }: Report): Uint8Array<ArrayBuffer> {
  return encode([topic, value, time]);
}

/** Undefined for bytes that are no such message. */
export function reportFromBytes(bytes: Uint8Array): Report | undefined {
  const found = decode(bytes);
  const [topic, value, time] = Array.isArray(found) ? found as readonly unknown[] : [];
  return typeof topic === "string" && typeof time === "number" ? { topic, value, time } : undefined;
}
