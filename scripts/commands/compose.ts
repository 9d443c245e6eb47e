import type { Command } from "commander";
import { PROCESS_PACKINGS } from "../../fabric/rack/assembly/topology.ts";
import { LIVENESS_RANGE } from "../../console/rack/elsewhere.ts";
import {
  type Composed,
  composeRack,
  type Format,
  FORMATS,
} from "../../console/rack/containers/compose.ts";
import { onInterrupt } from "./interrupt.ts";
import { given, whole, wordOf } from "./options.ts";
import {
  addCheckOption,
  addPackOption,
  addVariantOptions,
  checkedScenario,
  type CheckFlags,
  prepareOptions,
  type VariantFlags,
} from "./rack_options.ts";
import { print, say } from "./output.ts";

interface ComposeFlags extends VariantFlags, CheckFlags {
  readonly format: string;
  readonly out: string;
  readonly image: string;
  readonly natsImage: string;
  readonly liveness: string;
  readonly pack: string;
  readonly trace?: boolean;
  readonly pcap?: boolean;
  readonly perfetto?: boolean;
  readonly up?: boolean;
  readonly consolePort: string;
  readonly json?: boolean;
}

/** A heartbeat comes every half second; on a busy machine it may be this late. */
const LIVENESS_MS = 5_000;

const CAPTURED = "for a capture that rack down --run RUN writes where rack attach has attached it";

export function addCompose(program: Command): void {
  const command = addCheckOption(addVariantOptions(program.command("compose <scenario>")));
  addPackOption(command, { words: PROCESS_PACKINGS, normal: "node", what: "nodes to containers" })
    .description(
      "write a folder from which docker-compose, Docker Swarm or Kubernetes runs the scenario",
    )
    .option("--format <word>", `for what: ${FORMATS.join(", ")}`, "compose")
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
    .option("--pcap", `devices record every frame, ${CAPTURED}`)
    .option("--perfetto", `devices record every step for a timeline, ${CAPTURED}`)
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
  const format = wordOf("--format", flags.format, FORMATS);
  const packing = wordOf("--pack", flags.pack, PROCESS_PACKINGS);
  const livenessMs = whole("--liveness", liveness, LIVENESS_RANGE);
  const onNotice = flags.json ? () => {} : say;
  const prepare = {
    ...prepareOptions(flags, packing),
    native: { kind: "containers", onNotice } as const,
  };
  const options = { format, prepare, out, image, natsImage, livenessMs };
  const consolePort = whole("--console-port", flags.consolePort, { least: 1, most: 65_535 });
  const scenario = await checkedScenario(path, flags);
  const composed = await composeRack(scenario, {
    ...options,
    signal: onInterrupt("stopping"),
    ...{ trace, stayUp, consolePort, ...given({ pcap: flags.pcap, perfetto: flags.perfetto }) },
    onLeftOut: (hosts) => {
      if (flags.json !== true) say(`put on ${hosts.join(", ")} is left out as it has no file`);
    },
  });
  const { run, layerImage } = composed;
  if (flags.json) {
    const layer = layerImage === undefined ? {} : { layerImage };
    return print(JSON.stringify({ run, format, directory: out, image, natsImage, ...layer }));
  }
  if (layerImage !== undefined) {
    say(
      `${out}/layer has what is too large for ${format}: docker build -t ${layerImage} ${out}/layer`,
    );
  }
  say(`${out}: ${nextSteps(format, { out, stayUp, ...composed })}`);
}

function nextSteps(
  format: Format,
  { run, out, stayUp }: Composed & { readonly out: string; readonly stayUp: boolean },
): string {
  switch (format) {
    case "compose": {
      const first = stayUp ? "docker-compose up -d" : "docker-compose run --rm -T report";
      return `now ${first}, then docker-compose down -v`;
    }
    case "stack":
      return `now docker stack deploy -c ${out}/stack.yaml ${run}; stack.yaml says the rest`;
    case "kubernetes":
      return `now kubectl apply --server-side -k ${out}; kustomization.yaml says the rest`;
  }
}
