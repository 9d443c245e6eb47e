/** Wireshark's reading of a capture, by its command. `scripts/test` installs it. */
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";

/** Why there is no tshark here; undefined where there is one. */
export function tsharkMissing(): string | undefined {
  try {
    const { success } = new Deno.Command("tshark", { args: ["--version"] }).outputSync();
    return success ? undefined : "tshark does not run here";
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "there is no tshark here";
    throw error;
  }
}

async function tshark(args: readonly string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command("tshark", {
    // Nobody's settings but the defaults, with which people read.
    args: [...args],
    env: { WIRESHARK_CONFIG_DIR: "/nonexistent" },
  }).output();
  if (!success) throw new Error(`tshark ${args}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

const LUA = fromFileUrl(projectFile("scripts/wireshark/rackmesh.lua"));

/** Values of these fields for every packet, "" where it has none of the name. */
export async function tsharkFields<const Name extends string>(
  path: string,
  options: {
    readonly fields: readonly Name[];
    readonly lua?: boolean;
    readonly filter?: string;
    /** Further arguments. */
    readonly args?: readonly string[];
  },
): Promise<Record<Name, string>[]> {
  const { fields, lua, filter, args = [] } = options;
  const text = await tshark([
    ...args,
    ...(lua ? ["-X", `lua_script:${LUA}`] : []),
    "-r",
    path,
    "-n",
    ...(filter === undefined ? [] : ["-Y", filter]),
    ...["-T", "fields", "-E", "separator=/t", "-E", "occurrence=f"],
    ...fields.flatMap((field) => ["-e", field]),
  ]);
  return text.split("\n").slice(0, -1).map((line) => {
    const values = line.split("\t");
    return Object.fromEntries(fields.map((field, i) => [field, values[i] ?? ""])) as Record<
      Name,
      string
    >;
  });
}

/** Packets of which Wireshark complains, each with what it says; comments are no complaint. */
export async function complaints(path: string, lua = false): Promise<string[]> {
  const rows = await tsharkFields(path, {
    fields: ["frame.number", "_ws.col.Info", "_ws.expert.message"],
    filter: '_ws.malformed or _ws.expert.severity > "Comment"',
    lua,
  });
  return rows.map((row) => Object.values(row).join(" "));
}
