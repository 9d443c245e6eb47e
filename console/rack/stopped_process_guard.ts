/**
 * Continues processes that were stopped (SIGSTOP) when whoever stopped them is gone: a stopped process
 * cannot see that its parent has ended, and would be left for ever. A shell waits beside for its standard
 * input to close, as the one beside nats-server does. It looks whether a number still is a process of
 * that run: it may have been given to another since.
 */

/** `$0` stands on the command line of every process of the run. Ctrl-C is not for this shell. */
const WAKER = `
trap '' INT TERM HUP
pids=
while read -r pid; do pids="$pids $pid"; done
for pid in $pids; do
  tr '\\0' '\\n' <"/proc/$pid/cmdline" | grep -qxF "$0" && kill -CONT "$pid"
done
exit 0
`;

/** Watches over stopped processes of one run. Costs nothing until there is one. */
export class StoppedProcessGuard {
  readonly #mark: string;
  #shell: Deno.ChildProcess | undefined;
  #list: WritableStreamDefaultWriter<Uint8Array> | undefined;

  /** @param mark a word of the command line of every process of this run: its run file. */
  constructor(mark: string) {
    this.#mark = mark;
  }

  /** To be awaited before the process is stopped: from then on it does not stay so for ever. */
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

  /** Continues all of them; returns when there is nobody left to do it. */
  async close(): Promise<void> {
    const shell = this.#shell, list = this.#list;
    this.#shell = undefined;
    this.#list = undefined;
    // Somebody may have ended the shell: then there is nothing to close.
    await list?.close().catch(() => {});
    await shell?.status;
  }
}
