/**
 * Waits for a change of files, also where an editor puts a new file in the place of the old one.
 */

const QUIET_MS = 100;

export interface WatchedFiles {
  /** The first file that has changed since the watch began, when it has been quiet for a moment. */
  readonly changed: Promise<string>;
  close(): void;
}

/** @param files absolute paths, which need not be there, in folders that are. */
export function watchFiles(files: readonly string[]): WatchedFiles {
  const names = new Set(files);
  const folders = new Set(files.map((file) => file.slice(0, file.lastIndexOf("/")) || "/"));
  const watcher = Deno.watchFs([...folders], { recursive: false });
  const { promise, resolve } = Promise.withResolvers<string>();
  const wait = async () => {
    let first: string | undefined, timer: ReturnType<typeof setTimeout> | undefined;
    for await (const { kind, paths } of watcher) {
      const found = kind === "access" ? undefined : paths.find((path) => names.has(path));
      if (found === undefined) continue;
      const name = first ??= found;
      clearTimeout(timer);
      timer = setTimeout(() => resolve(name), QUIET_MS);
    }
  };
  void wait();
  return {
    changed: promise,
    close() {
      try {
        watcher.close();
      } catch (error) {
        if (!(error instanceof Deno.errors.BadResource)) throw error;
      }
    },
  };
}
