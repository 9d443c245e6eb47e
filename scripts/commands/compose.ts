import type { Command } from "commander";
import { PROCESS_PACKINGS } from "../../fabric/rack/assembly/topology.ts";
import { LIVENESS_RANGE } from "../../console/rack/elsewhere.ts";
import { composeRack } from "../../console/rack/containers/compose.ts";
import { onInterrupt } from "./interrupt.ts";
import {
  addCheckOption,
  addPackOption,
  addVariantOptions,
  checkedScenario,
  type CheckFlags,
  prepareOptions,
  type VariantFlags,
  whole,
  wordOf,
} from "./options.ts";
import { print, say } from "./output.ts";

interface ComposeFlags extends VariantFlags, CheckFlags {
  readonly out: string;
  readonly image: string;
  readonly natsImage: string;
  readonly liveness: string;
  readonly pack: string;
  readonly trace?: boolean;
  readonly up?: boolean;
  readonly consolePort: string;
  readonly json?: boolean;
}

/** A heartbeat comes every half second; on a busy machine it may be this late. */
const LIVENESS_MS = 5_000;

export function addCompose(program: Command): void {
  const command = addCheckOption(addVariantOptions(program.command("compose <scenario>")));
  addPackOption(command, { words: PROCESS_PACKINGS, normal: "node", what: "nodes to containers" })
    .description("write a folder from which docker-compose runs the scenario")
    .requiredOption("--out <dir>", "the folder: a new or an empty one")
    .option("--image <name>", "the image built from docker/Dockerfile", "rackmesh:local")
    .option("--nats-image <name>", "with nats-server; may be the same as --image", "nats:2.14")
    .option("--liveness <ms>", "a process that is silent for so long is dead", String(LIVENESS_MS))
    .option(
      "--up",
      "the rack stays up, as that of rack up: for the console, with no report at its end",
    )
    .option("--console-port <n>", "the console's, on 127.0.0.1 of Docker's machine", "4280")
    .option("--trace", "keep every step of every operation in the containers' volumes")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      "\nExample:\n  rack compose scripts/scenarios/persist_pair.yaml --method persist-opcode --ddio off \\\n" +
        "    --input ./data.bin --out ./rack\n  cd rack && docker-compose run --rm -T report" +
        "\n  rack compose scripts/scenarios/persist_pair.yaml --method persist-opcode --ddio on --up --out ./rack\n" +
        "  cd rack && docker-compose up -d, then http://127.0.0.1:4280/#token=KEY with the key of .env",
    )
    .action(compose);
}

async function compose(path: string, flags: ComposeFlags): Promise<void> {
  const { out, image, natsImage, liveness, trace = false, up: stayUp = false } = flags;
  const packing = wordOf("--pack", flags.pack, PROCESS_PACKINGS);
  const livenessMs = whole("--liveness", liveness, LIVENESS_RANGE);
  const onNotice = flags.json ? () => {} : say;
  const prepare = {
    ...prepareOptions(flags, packing),
    native: { kind: "containers", onNotice } as const,
  };
  const options = { prepare, out, image, natsImage, livenessMs };
  const consolePort = whole("--console-port", flags.consolePort, { least: 1, most: 65_535 });
  const scenario = await checkedScenario(path, flags);
  const run = await composeRack(scenario, {
    ...options,
    signal: onInterrupt("stopping"),
    ...{ trace, stayUp, consolePort },
    onLeftOut: (hosts) => {
      if (flags.json !== true) say(`put on ${hosts.join(", ")} is left out as it has no file`);
    },
  });
  if (flags.json) print(JSON.stringify({ run, directory: out, image, natsImage }));
  else {
    const first = stayUp ? "docker-compose up -d" : "docker-compose run --rm -T report";
    say(`${out}: now ${first}, then docker-compose down -v`);
  }
}
