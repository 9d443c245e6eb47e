/** Shipped programs inline small messages as perftest's latency tests do. */
import { MAX_INLINE_BYTES } from "../../../../fabric/wire/host_bus/wqe.ts";
import { IBV_SEND_INLINE, IBV_SEND_SIGNALED, type SendFlags } from "../../verbs/flags.ts";

/** Queue pairs that send with {@link flagsFor} have max_inline_data of ConnectX cards. */
export const SMALL_INLINE = { maxInlineData: MAX_INLINE_BYTES } as const;

/** IBV_SEND_SIGNALED, and IBV_SEND_INLINE where a WQE has room. */
export function flagsFor(bytes: number): SendFlags {
  return IBV_SEND_SIGNALED | (bytes > 0 && bytes <= MAX_INLINE_BYTES ? IBV_SEND_INLINE : 0);
}
