/** Places in the code of native programs, as the library names them (`lib/spin.c`), with their lines in the source. */
import { executableInPath } from "../../base/executables.ts";

const PLACE = /(0x[0-9a-f]+) in ([^\s,():]+)/g;

/**
 * Adds to each place, `0x114b in my_program`, the line of the source (`: wait.c:6`) where the binary has debug
 * information, and this machine addr2line (Debian's package binutils).
 * @param files the programs' binaries.
 */
export function withSourceLines(text: string, files: readonly string[]): string {
  return text.replaceAll(PLACE, (place, address: string, name: string) => {
    const file = files.find((each) => each.endsWith(`/${name}`));
    const line = file && lineAt(file, address);
    return line === undefined ? place : `${place}: ${line}`;
  });
}

interface Reports {
  readonly reports: ReadonlyArray<{ readonly topic: string; readonly value: unknown }>;
}

/** An outcome with {@link withSourceLines} in what is reported of failed programs. */
export function failuresWithSources<
  Outcome extends { readonly finals: readonly Reports[]; readonly record?: Reports },
>(outcome: Outcome, files: readonly string[]): Outcome {
  if (files.length === 0) return outcome;
  const withLines = <Of extends Reports>(of: Of): Of => ({
    ...of,
    reports: of.reports.map((each) => {
      if (each.topic !== "program-failed") return each;
      const { message, ...others } = each.value as { readonly message: string };
      return { ...each, value: { ...others, message: withSourceLines(message, files) } };
    }),
  });
  const { finals, record } = outcome;
  return {
    ...outcome,
    finals: finals.map(withLines),
    ...(record !== undefined && { record: withLines(record) }),
  };
}

function lineAt(file: string, address: string): string | undefined {
  const command = executableInPath("addr2line");
  if (command === undefined) return undefined;
  const args = ["--basenames", `--exe=${file}`, address];
  const { success, stdout } = new Deno.Command(command, { args, stderr: "null" }).outputSync();
  const [, line] = /^([^?\s]\S*:\d+)/.exec(new TextDecoder().decode(stdout)) ?? [];
  return success ? line : undefined;
}
