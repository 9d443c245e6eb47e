/**
 * The `cm` service: passes the connection manager's messages between QP 1 and the state machine in
 * `cm_agent.ts`. Programs use `connect.ts` and `listen.ts`.
 */
import { expire, receive } from "./cm_agent.ts";
import { type CmOutput, nextDeadline } from "./cm_state.ts";
import { waitCompletion } from "../verbs/completion_queue.ts";
import { CM_SIGNAL } from "./connection.ts";
import { type CmDevice, gsiOf, receivedMessage, recycleRecv, sendMessage } from "./gsi.ts";
import type { Steps } from "../cpu/program.ts";

/** Runs on every host: passes QP 1's messages, and serves all timeouts. */
export function* cm({ device }: { readonly device: CmDevice }): Steps<void> {
  const { cpu, cm: { agent } } = device;
  const also = { signal: CM_SIGNAL, ready: () => agent.stirred };
  for (;;) {
    // A failure of the RNIC replaces it: read in each iteration.
    const gsi = gsiOf(device);
    const deadline = nextDeadline(agent);
    agent.stirred = false;
    const completions = yield* waitCompletion(gsi.cq, { mode: "interrupt", deadline, also });
    const output: CmOutput = { send: [], signals: new Set() };
    const slots: number[] = [];
    for (const { opcode, status, wrId, byteLen } of completions) {
      if (opcode !== "recv" || status !== "SUCCESS") continue;
      const received = receivedMessage(gsi, { slot: wrId, byteLen });
      slots.push(wrId);
      if (received === undefined) continue;
      receive(agent, received.message, { from: received.from, now: cpu.now, output });
    }
    expire(agent, cpu.now, output);
    if (slots.length > 0) yield* recycleRecv(gsi, slots);
    for (const datagram of output.send) yield* sendMessage(gsi, datagram);
    for (const signal of output.signals) cpu.signal(signal);
  }
}
