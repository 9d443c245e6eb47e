/**
 * For tests that post to an object of the shipped service by requests of their own: its client, and the
 * service on a core that does not flush, as a control.
 */
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { Cpu, Steps } from "../../nodes/host/cpu/program.ts";
import {
  type Failure,
  isFailure,
  openClient,
  openObject,
  type PersistClient,
  type Region,
} from "../../nodes/host/programs/persist/persist_client.ts";
import { persistd } from "../../nodes/host/programs/persist/persistd.ts";
import type { CmDevice } from "../../nodes/host/cm/gsi.ts";
import type { Program } from "../../nodes/host/program_context.ts";

export interface OpenedObject {
  readonly client: PersistClient;
  readonly region: Region;
}

/**
 * Opens a new object on host `b` with the rights of `write-flush`, which every kind of WRITE and FLUSH
 * needs (P-50); a write that persists completes at persistence (P-29).
 */
export function* openOnB(
  device: CmDevice,
  object: { readonly name: string; readonly length: number; readonly depth: number },
): Steps<OpenedObject> {
  const { name, length, depth } = object;
  const client = sound(
    yield* openClient(device, {
      to: "b",
      terms: { method: "write-flush", policy: "persistence", depth, messageBytes: length },
      mode: "poll",
      attempts: 10,
      pausePs: 100 * PS_PER_US,
      idlePs: 50_000 * PS_PER_US,
    }),
  );
  return { client, region: sound(yield* openObject(client, { name, length })) };
}

function sound<T>(answer: T | Failure): T {
  if (isFailure(answer)) throw new Error(answer.error);
  return answer;
}

const NOTHING: Pick<Cpu, "clwb" | "flush"> = { clwb: () => {}, *flush() {} };

/** `persistd` on a core on which these instructions do nothing. */
export function persistdWithout(...broken: readonly (keyof typeof NOTHING)[]): Program {
  const without = <Core extends Cpu>(core: Core): Core =>
    new Proxy(core, {
      get(cpu, name: keyof Core & string) {
        const broke = broken.find((each) => each === name);
        if (broke !== undefined) return NOTHING[broke];
        const member = cpu[name];
        return typeof member === "function" ? member.bind(cpu) : member;
      },
    });
  return (context) => {
    const { cpu, device } = context;
    // The driver's core is another one: what it notes is not looked at as a program's notes are.
    return persistd({
      ...context,
      cpu: without(cpu),
      device: { ...device, cpu: without(device.cpu) },
    });
  };
}
