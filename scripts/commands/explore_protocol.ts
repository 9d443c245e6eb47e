import { exploreProtocol } from "../../console/explore/protocol/explore_protocol.ts";
import {
  exitOfProtocol,
  protocolSuites,
  protocolText,
} from "../../console/explore/protocol/protocol_report.ts";
import { JunitFile, type JunitFlags } from "../../console/reports/junit/file.ts";
import { given } from "./options.ts";
import { type CheckFlags, checkTypesFirst } from "./rack_options.ts";
import { print, Progress } from "./output.ts";

/** @throws Refusal where the file is no protocol, or that of `--junit` cannot be written. */
export async function exploreTheProtocol(
  file: string,
  { jobs, json, junit: target, statesMax, isStopped, ...check }: JunitFlags & CheckFlags & {
    readonly jobs: number;
    readonly json: boolean;
    readonly statesMax: number | undefined;
    readonly isStopped: () => boolean;
  },
): Promise<void> {
  const progress = new Progress({ quiet: json });
  const junit = await JunitFile.open(given({ junit: target }), `rack explore --protocol ${file}`);
  await junit.of(checkTypesFirst(file, { ...check, json }));
  const exploring = exploreProtocol(file, {
    jobs,
    ...given({ statesMax }),
    stopped: isStopped,
    onProgress: (title, share) => progress.show(title, share),
  }).finally(() => progress.clear());
  const explored = await junit.of(exploring);
  await junit.write(protocolSuites(explored));
  print(json ? JSON.stringify(explored) : protocolText(explored));
  Deno.exitCode = exitOfProtocol(explored);
}
