/** The command of bubblewrap in front of a native program's own. */

export interface SandboxOptions {
  /** The path of `bwrap`. */
  readonly bwrap: string;
  /** Folders that are empty for the program, but for its own: credentials of racks are in them. */
  readonly hidden: readonly string[];
  /** The program's own folder, which alone it may write to. */
  readonly folder: string;
}

/**
 * No network, no processes but its own, all files to read only. Open files are handed on: a program's
 * pipes are there, and its folder is the current one.
 */
export function sandboxWords({ bwrap, hidden, folder }: SandboxOptions): string[] {
  return [
    bwrap,
    ...["--unshare-net", "--unshare-pid", "--unshare-ipc", "--die-with-parent"],
    ...["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"],
    ...hidden.flatMap((directory) => ["--tmpfs", directory]),
    ...["--bind", folder, folder, "--chdir", folder],
  ];
}
