/** Murphi models, checked by `rumur` and a C compiler. `scripts/test` installs both. */

function runs(command: string): boolean {
  try {
    return new Deno.Command(command, { args: ["--version"] }).outputSync().success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Why no Murphi model can be checked here; undefined where one can. */
export function rumurMissing(): string | undefined {
  const missing = ["rumur", "gcc"].filter((command) => !runs(command));
  return missing.length === 0 ? undefined : `there is no ${missing.join(" and no ")} here`;
}

async function run(command: string, args: readonly string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(command, { args: [...args] }).output();
  const text = new TextDecoder().decode(stdout);
  if (!success) {
    throw new Error(`${command} ${args.join(" ")}: ${text}${new TextDecoder().decode(stderr)}`);
  }
  return text;
}

/**
 * Makes a checker of a Murphi model and runs it.
 * @returns what the model and the checker print.
 * @throws Error with the checker's output where the model does not compile or breaks an invariant.
 */
export async function checkModel(source: string): Promise<string> {
  const directory = await Deno.makeTempDir({ prefix: "rackmesh-murphi-" });
  const path = (name: string) => `${directory}/${name}`;
  try {
    await Deno.writeTextFile(path("model.m"), source);
    await run("rumur", ["--threads", "1", "--output", path("model.c"), path("model.m")]);
    // Compiling takes longer than checking models as small as ours: `-w` as rumur's text warns of that.
    const options = ["-std=c11", "-O0", "-w", "-mcx16", "-o", path("checker"), path("model.c")];
    await run("gcc", [...options, "-lpthread"]);
    return await run(path("checker"), []);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}
