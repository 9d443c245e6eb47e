/**
 * Continues stopped processes (SIGSTOP) when the process that stopped them has ended: a stopped
 * process cannot see that, and would remain for ever. A shell waits for its standard input to
 * close, and checks that a process number still belongs to that run, as the kernel may have reused
 * it.
 */

/** `$0` is on the command line of every process of the run. The shell ignores Ctrl-C. */
const WAKER = `
trap '' INT TERM HUP
pids=
while read -r pid; do pids="$pids $pid"; done
for pid in $pids; do
  tr '\\0' '\\n' <"/proc/$pid/cmdline" | grep -qxF "$0" && kill -CONT "$pid"
done
exit 0
`;

/** Of one run. Starts no shell until a process is stopped. */
export class StoppedProcessGuard {
  readonly #mark: string;
  #shell: Deno.ChildProcess | undefined;
  #list: WritableStreamDefaultWriter<Uint8Array> | undefined;

  /** @param mark a word on the command line of every process of this run: its run file. */
  constructor(mark: string) {
    this.#mark = mark;
  }

  /** To be awaited before the process is stopped. */
  async watch(pid: number): Promise<void> {
    if (this.#shell === undefined) {
      this.#shell = new Deno.Command("sh", {
        args: ["-c", WAKER, this.#mark],
        stdin: "piped",
        stdout: "null",
        stderr: "null",
      }).spawn();
      this.#list = this.#shell.stdin.getWriter();
    }
    await this.#list?.write(new TextEncoder().encode(`${pid}\n`));
  }

  /** Continues all; returns when the shell has ended. */
  async close(): Promise<void> {
    const shell = this.#shell, list = this.#list;
    this.#shell = undefined;
    this.#list = undefined;
    // The shell may have been ended from outside.
    await list?.close().catch(() => {});
    await shell?.status;
  }
}
