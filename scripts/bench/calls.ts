/** How often functions are called, counted by V8: exact, whatever else the machine does. */
import { Session } from "node:inspector";

interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly functionName: string;
      readonly ranges: readonly { readonly count: number }[];
    }[];
  }[];
}

/**
 * Of named functions while something runs, which takes longer meanwhile. @param part text in the
 * URLs of the counted modules.
 */
export async function countCalls(part: string, run: () => void): Promise<number> {
  const session = new Session();
  session.connect();
  const ask = (method: string, params: object = {}) =>
    new Promise<unknown>((resolve, reject) => {
      session.post(method, params, (error, answer) => error ? reject(error) : resolve(answer));
    });
  try {
    await ask("Profiler.enable");
    await ask("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    await ask("Profiler.takePreciseCoverage");
    run();
    const { result } = await ask("Profiler.takePreciseCoverage") as Coverage;
    await ask("Profiler.stopPreciseCoverage");
    return result.filter(({ url }) => url.includes(part))
      .flatMap(({ functions }) => functions)
      // A module's own run has no name.
      .filter(({ functionName }) => functionName !== "")
      .reduce((sum, { ranges }) => sum + (ranges[0]?.count ?? 0), 0);
  } finally {
    session.disconnect();
  }
}
