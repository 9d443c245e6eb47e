/** Options for a nats-server of another owner, and its credentials. */
import type { Command } from "commander";
import {
  type ExistingNats,
  existingNats,
  type NatsFlags,
} from "../../console/rack/existing_nats.ts";

export type NatsCredentialFlags = Omit<NatsFlags, "nats">;

export function addNatsOptions(command: Command): Command {
  return command
    .option("--nats-users <file>", "its users of this rack, as rack nats-config writes them")
    .option("--nats-creds <file>", "a credentials file of NATS (JWT and key)")
    .option("--nats-ca <file>", "certificates in PEM that sign those of the server");
}

/** @param urls as `--nats` takes them. @throws Refusal */
export function natsOf(urls: string, flags: NatsCredentialFlags): ExistingNats {
  return existingNats({ ...flags, nats: urls })!;
}
