/** A host's SCM for a user's check, whose reads are checked as a program's calls are. */
import { siteIn } from "../cpu/wait_site.ts";
import type { CrashedHost } from "../recovery/protocol.ts";
import { ProgramError } from "../verbs/errors.ts";
import { checksOf, row } from "./calls.ts";
import { length, offset } from "./values.ts";

const CHECKS = checksOf({ scm: row("thrown", { offset, length }) });

export function checkedScm(
  { host, bytes, read }: {
    readonly host: string;
    readonly bytes: number;
    readonly read: CrashedHost["scm"];
  },
): CrashedHost["scm"] {
  return (...range) => {
    CHECKS.scm!(range)?.(read as () => unknown);
    const [offset, length] = range;
    if (offset + length <= bytes) return read(offset, length);
    const { line } = siteIn(new Error().stack ?? "");
    throw new ProgramError(
      `EINVAL: scm${line === undefined ? "" : ` at ${line}`}: ${length} B at ${offset}: ` +
        `expected a part of the SCM of ${host}, ${bytes} B`,
    );
  };
}
