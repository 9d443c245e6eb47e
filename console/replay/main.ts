/** The process of a replay; it ends with its parent, `client.ts`. */
import type { SimulatedOrder } from "../../fabric/partition/simulator.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { Records } from "../../nodes/native_records.ts";
import { giveUpRights, readInputs } from "../../nodes/files.ts";
import { loadOwnPrograms } from "../../nodes/load_own_programs.ts";
import { RackError } from "../base/rack_error.ts";
import { explain } from "../rack/failure.ts";
import { framed, framesOf } from "../rack/own/frames.ts";
import { watchLoops } from "../rack/own/loop_watch.ts";
import { ReplayEngine } from "./engine.ts";
import type { ReplayHead } from "./job.ts";
import type { Loaded } from "./recording.ts";
import { Spool, spooled } from "./spool.ts";
import type { ReplayProgress } from "./job.ts";
import { METHODS, type ReplayReply, type ReplayRequest } from "./protocol.ts";

async function main(): Promise<void> {
  // The parent ends this process in order; a terminal sends SIGINT to both.
  Deno.addSignalListener("SIGINT", () => {});
  let engine: ReplayEngine | undefined, loaded: Loaded | undefined;
  const orders: SimulatedOrder[] = [], spool = takeSpool(), records = new Records();
  let trouble: RackError | undefined;
  for await (const frame of framesOf(Deno.stdin.readable)) {
    const request = frame as ReplayRequest;
    try {
      if (request.kind === "orders") {
        try {
          for (const order of request.orders) orders.push(spooled(order, spool));
        } catch (error) {
          // The sender of orders waits for the request that uses them.
          trouble ??= new RackError(
            `The replay cannot keep what was put: ${(error as Error).message}`,
          );
        }
      } else if (request.kind === "record") {
        records.take([request.record]);
      } else if (request.kind === "open") {
        if (trouble !== undefined) throw trouble;
        const job = { ...request.head, orders: [...orders] };
        loaded ??= await load(job, { spool, records });
        const onProgress = (progress: ReplayProgress) => say({ kind: "progress", progress });
        if (engine?.canExtend(job)) await engine.extend(job, onProgress);
        else {
          engine = new ReplayEngine(job, loaded);
          await engine.run(job.until, onProgress);
        }
        say({ kind: "opened" });
      } else {
        const { id, method, given } = request;
        if (!METHODS.includes(method)) throw new Error(`Found a call of ${method}`);
        const ask = engine![method].bind(engine) as (...given: readonly unknown[]) => unknown;
        say({ kind: "answer", id, value: await ask(...given) });
      }
    } catch (error) {
      const { message, code } = explain(error);
      const id = request.kind === "call" ? { id: request.id } : {};
      say({ kind: "failed", ...id, message, code, isRefusal: error instanceof Refusal });
    }
  }
  // The parent has closed this process's input, or has ended.
  Deno.exit(EXIT.done);
}

/** The client's file loses its name at once, and goes with the process. */
function takeSpool(): Spool {
  const [path] = Deno.args;
  const file = Deno.openSync(path!, { read: true, write: true });
  Deno.removeSync(path!);
  return new Spool(file);
}

async function load(
  { runFile, plan }: ReplayHead,
  { spool, records }: { readonly spool: Spool; readonly records: Records },
): Promise<Loaded> {
  const hosts = plan.nodes.flatMap(({ kind, name }) => kind === "host" ? [name] : []);
  const inputs = readInputs(runFile, hosts);
  const isOwn = Object.keys(runFile.programs).length > 0;
  const loops = isOwn ? await watchLoops() : undefined;
  await giveUpRights([runFile.directory]);
  await Deno.permissions.revoke({ name: "write", path: Deno.args[0]! });
  const own = await loadOwnPrograms(runFile);
  return {
    spool,
    inputs,
    own,
    native: (host, life) => records.port(host, life),
    replace: (create) => loops?.steps(create, plan, own) ?? create,
  };
}

function say(reply: ReplayReply): void {
  const frame = framed(reply);
  for (let at = 0; at < frame.length;) at += Deno.stdout.writeSync(frame.subarray(at));
}

if (import.meta.main) await main();
