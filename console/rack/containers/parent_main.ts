/**
 * Process 1 of a device's container: `parent_main.ts RUN PARTITION [DIRECTORY]`. The rack is the one
 * of that name on the bus that the environment names (`BUS_ENVIRONMENT`).
 */
import { EXIT } from "../../../fabric/base/exit.ts";
import { runOnBus } from "../../../fabric/process.ts";
import { busAddressFrom } from "../../../fabric/rack/assembly/run_file.ts";
import { explain } from "../failure.ts";
import { DeviceParent } from "../device_parent.ts";
import { IN_CONTAINER, READY_VARIABLE } from "./compose_file.ts";
import { serveReadiness } from "./readiness.ts";

async function main(run: string, partition: string, directory: string): Promise<void> {
  await runOnBus({ run, name: partition, title: `The parent of ${partition}` }, async (bus) => {
    const parent = await DeviceParent.open({
      bus,
      address: busAddressFrom((variable) => Deno.env.get(variable)),
      run,
      partition,
      directory,
      onOutput: (bytes) => Deno.stderr.writeSync(bytes),
      onEvent: (text) => console.log(text),
    });
    parent.over.then(() => Deno.exit(EXIT.done), fail);
    const port = Number(Deno.env.get(READY_VARIABLE) ?? 0);
    const server = port > 0 ? serveReadiness(port, () => parent.hasJoined) : undefined;
    parent.start();
    return () => {
      parent.close();
      void server?.shutdown();
    };
  });
}

function fail(error: unknown): never {
  const { message, code } = explain(error);
  console.error(message);
  Deno.exit(code);
}

if (import.meta.main) {
  const [run, partition, directory = IN_CONTAINER.state] = Deno.args;
  if (run === undefined || partition === undefined) {
    console.error("Usage: parent_main.ts RUN PARTITION [DIRECTORY]");
    Deno.exit(EXIT.usage);
  }
  await main(run, partition, directory).catch(fail);
}
