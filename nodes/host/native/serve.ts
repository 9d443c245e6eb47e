/**
 * A native program on its host: a generator like every program. Between two of its waits the process
 * runs from a reply to its next request, in no virtual time; a request is the verb that it names, at
 * that verb's cost.
 */
// deno-lint-ignore-file require-yield -- handlers have one form
import { NEVER } from "../../../fabric/base/time.ts";
import type { ProgramPlan } from "../../../fabric/rack/plan/plan.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import type { Program, ProgramContext } from "../program_context.ts";
import { ProgramError } from "../verbs/errors.ts";
import { CM } from "./cm_requests.ts";
import { CONTROL, type Handler, type Handlers } from "./control_requests.ts";
import { DATA } from "./data_requests.ts";
import { tableVersion } from "./header.ts";
import {
  CLOCK_PS,
  type NativeError,
  NativeObjects,
  SPIN_US,
  STUCK_US,
  TICKS_PER_US,
  TSC_PS,
} from "./native_objects.ts";
import { ERRNO } from "./numbers.ts";
import { SCM } from "./scm_requests.ts";
import { type Child, Family, FORK_PS } from "./family.ts";
import { Lines } from "./output_lines.ts";
import { FILE_BYTES, type NativePort, type NativeProcess } from "./port.ts";
import type { RequestName } from "./requests.ts";
import { SOCKETS } from "./socket_requests.ts";
import { Cancelled, FUTEX_PS, ProcessEnded, THREAD_PS } from "./threads.ts";
import { type Answered, encodeReply, type ReplyHead, Request, timeOf } from "./words.ts";

/** The numbers that programs see as their process's, in the order of their start on a host. */
const FIRST_PID = 4001;
const SIGXFSZ = 25;
/** Characters of its last line with which a failed program is told. */
const LINE_MOST = 400;

/** A program that starts the process of a native one and serves it until its end. */
export function nativeProgram(port: NativePort, { native }: ProgramPlan): Program {
  const { file, argv, env } = native!;
  return function* native(context) {
    const { cpu } = context;
    // A folder's name: the number tells programs of one name apart.
    const name = cpu.program.replaceAll(/[^A-Za-z0-9.#_-]/g, "_");
    const process = port.start({ name, file, argv, env });
    const family = new Family(cpu.program);
    const output: Output = {
      process,
      stdout: new Lines((line) => output.by.log(line)),
      stderr: new Lines((line) => output.by.log(line)),
      by: cpu,
    };
    const pid = FIRST_PID + Number(/#(\d+)/.exec(cpu.program)?.[1] ?? 0);
    const serving = new Serving({ context, process, family, output, pid });
    family.enter(serving.objects);
    try {
      yield* serving.run();
    } finally {
      process.kill();
      family.end();
      yield* serving.end();
    }
  };
}

/** What the processes of a program print: files that they share. */
interface Output {
  /** The first process. */
  readonly process: NativeProcess;
  readonly stdout: Lines;
  readonly stderr: Lines;
  /** The process that has shown it has printed it, or another one before. */
  by: Cpu;
}

class Serving {
  readonly objects: NativeObjects;
  readonly #context: ProgramContext;
  readonly #process: NativeProcess;
  /** Children that do not run yet, by their numbers. */
  readonly #opened = new Map<number, NativeProcess>();
  readonly #output: Output;

  constructor({ context, process, family, output, pid }: {
    readonly context: ProgramContext;
    readonly process: NativeProcess;
    readonly family: Family;
    readonly output: Output;
    readonly pid: number;
  }) {
    this.#context = context;
    this.#process = process;
    this.#output = output;
    this.objects = new NativeObjects(context, process, { family, pid });
  }

  *run(): Steps<void> {
    const { cpu } = this.#context;
    yield* this.#untilOver(this.#process.first);
    cpu.outside!.acted();
    this.#show();
    for (const lines of [this.#output.stdout, this.#output.stderr]) lines.end();
    const code = this.#process.end();
    const { steps } = this.objects;
    cpu.report("native-ended", { program: cpu.program, code, ...(steps > 0 && { steps }) });
    if (code !== 0) throw ended(this.#ended(code));
    // A loader may leave the library out, as that of a file with capabilities does.
    if (this.#process.first === undefined) {
      throw ended(
        "It has ended without the library of native programs: expected one that loads it",
      );
    }
  }

  /** A child begins with a reply, to its parent's `forked`; its parent waits for its code. */
  *runChild(): Steps<void> {
    const { outside } = this.#context.cpu;
    outside!.acted();
    yield* this.#untilOver(this.#process.main.resume(this.#firstReply("forked")));
    // What it has printed since its last request is shown by its parent, as that of a program in its place.
    outside!.acted();
  }

  *#untilOver(first: Uint8Array<ArrayBuffer> | undefined): Steps<void> {
    const { cpu } = this.#context, { threads } = this.objects;
    try {
      yield* this.#serve(0, first);
      // The first thread has ended alone: its process lives as long as the others.
      while (!threads.isOver) yield* cpu.waitSignal(`native-over:${cpu.program}`, NEVER);
    } catch (error) {
      if (!(error instanceof ProcessEnded)) throw error;
    } finally {
      if (!threads.isOver) threads.end(0);
    }
  }

  /** The process is no more: what it had is taken from it. */
  *end(): Steps<void> {
    const { cpu } = this.#context, { objects } = this;
    this.#process.kill();
    for (const process of this.#opened.values()) process.kill();
    objects.end();
    yield* objects.sockets.end(cpu);
    objects.family.leave(objects);
  }

  #firstReply(name: "forked" | "thread_create"): Uint8Array<ArrayBuffer> {
    return encodeReply(name, this.#head());
  }

  /** Starts a process of the host that serves the child. @returns whether there can be one. */
  #fork(
    { pid, real }: { readonly pid: number; readonly real: number },
    sockets: readonly number[],
  ): boolean {
    const { cpu, options } = this.#context, { objects } = this, { family } = objects;
    const process = this.#opened.get(pid);
    this.#opened.delete(pid);
    if (process === undefined || cpu.spawnProcess === undefined) return false;
    const output = this.#output;
    const entry: Child = { pid, parent: objects.pid, real, process, hasEnded: false };
    try {
      cpu.spawnProcess(family.newName(cpu.program), function* (context) {
        if (entry.hasEnded) return;
        const child = new Serving({
          context: { ...context, options },
          process,
          family,
          output,
          pid,
        });
        child.objects.inherit(objects);
        for (const handle of sockets) child.objects.sockets.share(handle);
        entry.objects = child.objects;
        family.enter(child.objects);
        try {
          yield* child.runChild();
        } finally {
          yield* child.end();
        }
      });
      family.enterChild(entry);
      return true;
    } catch (error) {
      if (!(error instanceof ProgramError)) throw error;
      process.kill();
      return false;
    }
  }

  /** A thread's requests, from this one on, until it or the process ends. */
  *#serve(thread: number, first: Uint8Array<ArrayBuffer> | undefined): Steps<void> {
    const { cpu } = this.#context, { threads } = this.objects;
    let bytes = first;
    while (bytes !== undefined) {
      // A copy: other threads may ask while this one waits.
      const request = new Request(bytes.slice());
      // What the library has answered itself lies before the request.
      cpu.charge(request.head("usedPs"));
      yield* cpu.settle();
      const reply = yield* this.#answer(request, thread);
      if (request.name === "thread_exit" && threads.served.size > 1) {
        threads.served.delete(thread);
        return;
      }
      if (threads.isOver) return;
      bytes = this.#process.main.resume(reply, thread);
    }
    threads.end(thread);
  }

  /** Starts a thread of the host that serves the process's thread of this number. */
  #spawn(number: number): void {
    const { cpu } = this.#context, { threads } = this.objects;
    const name = `thread-${number}`;
    const serve = this.#serve.bind(this), process = this.#process;
    const begin = () => this.#firstReply("thread_create");
    threads.add(number, `${cpu.program}/${name}`);
    cpu.spawn(name, function* () {
      cpu.outside!.acted();
      try {
        if (!threads.isOver) yield* serve(number, process.main.resume(begin(), number));
      } catch (error) {
        if (!(error instanceof ProcessEnded)) throw error;
      } finally {
        threads.served.delete(number);
      }
    });
  }

  #ended(code: number): string {
    const { stdout, stderr } = this.#output;
    const last = (stderr.last ?? stdout.last)?.slice(0, LINE_MOST);
    // exit(3) gives any code: also one that a shell has for a signal.
    const signal = code > 128 && code !== this.objects.exitCode ? code - 128 : 0;
    const how = signal === SIGXFSZ
      ? `has written a file of more than ${FILE_BYTES >> 20} MiB`
      : signal > 0
      ? `ended by signal ${signal}`
      : `exit code ${code}`;
    return last === undefined ? how : `${how}: ${last}`;
  }

  /** Shows what the program has printed, up to these numbers of bytes. */
  #show(stdout?: number, stderr?: number): void {
    const output = this.#output;
    output.by = this.#context.cpu;
    output.stdout.take(output.process.output("stdout", stdout));
    output.stderr.take(output.process.output("stderr", stderr));
  }

  /** The begin of a reply that is sent now. */
  #head(error = 0): ReplyHead {
    const { cpu } = this.#context, { quietUntil, isAlone } = cpu.outside!;
    const ask = this.objects.polls.ask(), alone = isAlone() ? 1 : 0;
    const leasePs = quietUntil("reads"), unwrittenPs = quietUntil("writes");
    return { error, nowPs: cpu.now, leasePs, unwrittenPs, alone, ask };
  }

  *#answer(request: Request, thread: number): Steps<Uint8Array<ArrayBuffer>> {
    const { cpu } = this.#context, { name } = request;
    this.objects.isReplaced = name === "exec";
    if (name === undefined) {
      throw new ProgramError(
        `The library has sent request ${request.head("request")}: there is none`,
      );
    }
    const isLook = name === "clock" || name === "poll_cq";
    if (!isLook) this.#acts(request);
    this.#stirs(name, thread);
    const answered = yield* this.#handle(name, request, thread);
    const isError = "errno" in answered;
    if (isError) this.#note(name, answered);
    if (isLook && (isError || (answered.rows?.length ?? 0) > 0)) this.#acts(request);
    yield* cpu.settle();
    const head = this.#head(isError ? ERRNO[answered.errno] : 0);
    if (isError) {
      const bad = "bad" in answered ? { words: { bad: answered.bad as number } } : {};
      return encodeReply(name, head, bad as Answered<RequestName>);
    }
    return encodeReply(name, head, answered);
  }

  *#handle(
    name: RequestName,
    request: Request,
    thread: number,
  ): Steps<Answered<RequestName> | NativeError> {
    const handler = HANDLERS[name] as Handler<RequestName>, args = request.args(name);
    const served = this.objects.threads.served.get(thread)!;
    if (name === "thread_create") {
      const { number } = request.args(name);
      if (this.#refuses(number)) return { errno: "EAGAIN", reason: "The host has no room for it" };
    }
    if (name === "fork" && this.#process.fork === undefined) {
      return { errno: "ENOSYS", reason: "The rack has no children here" };
    }
    if (name === "open_child") {
      const { pid } = request.args(name);
      this.#opened.set(pid, this.#process.fork!(pid));
    }
    if (name === "forked") {
      const sockets = request.rows(name).map(({ handle }) => handle);
      if (!this.#fork(request.args(name), sockets)) {
        return { errno: "EAGAIN", reason: "The host has no room for it" };
      }
    }
    served.isCancellable = CANCELLABLE.has(name) &&
      (name !== "futex_wait" || request.args(name).cancellable !== 0);
    try {
      return yield* handler(args, this.objects, request);
    } catch (error) {
      if (!(error instanceof Cancelled)) throw error;
      return { errno: "ECANCELED", reason: "cancelled" };
    } finally {
      served.isCancellable = false;
    }
  }

  /** Whether the host runs as many threads as it can; else it runs this one, too. */
  #refuses(number: number): boolean {
    try {
      this.#spawn(number);
      return false;
    } catch (error) {
      if (!(error instanceof ProgramError)) throw error;
      this.objects.threads.served.delete(number);
      return true;
    }
  }

  /**
   * The program does more than look at its clock or an empty queue. How often it looks by a request
   * depends on the lease, and so on the packing: its output is shown here alone.
   */
  #acts(request: Request): void {
    this.#context.cpu.outside!.acted();
    this.#show(request.head("stdout"), request.head("stderr"));
  }

  /**
   * Others that wait for memory look at it again: not for one that has waited for memory as well and seen
   * nothing, else two of them would go on for ever.
   */
  #stirs(name: RequestName, thread: number): void {
    const { threads, family } = this.objects, served = threads.served.get(thread)!;
    const hasSeen = name !== "spin" || !served.hasSpun;
    if (name === "clock" || name === "poll_cq") return;
    served.hasSpun = name === "spin";
    if (hasSeen) family.stirred();
  }

  /** Refusals are the program's to handle; the trace has the reasons. */
  #note(name: RequestName, { errno, reason }: NativeError): void {
    const { cpu } = this.#context;
    if (cpu.tracing) cpu.trace({ step: "native-refused", text: `${name}: ${errno}: ${reason}` });
  }
}

/** The program's own failure: where this side has noticed it says nothing. */
function ended(why: string): ProgramError {
  return Object.assign(new ProgramError(why), { stack: "" });
}

const TIME: Handlers<"hello" | "clock" | "sleep" | "spin" | "stuck" | "exit"> = {
  *hello({ version }, objects) {
    if (version !== tableVersion()) {
      throw new ProgramError(
        `The library is of table ${version}: expected ${tableVersion()}, build it anew`,
      );
    }
    const { cpu, device, pid } = objects;
    const names = device.verbs.getDeviceList(device).map(({ name }) => name);
    return {
      words: {
        pid,
        clockPs: CLOCK_PS,
        tscPs: TSC_PS,
        ticksPerUs: TICKS_PER_US,
        pollPs: objects.emptyPollPs,
        spinUs: SPIN_US,
        stuckUs: STUCK_US,
        devices: names.length,
        address: device.state.address,
      },
      bytes: new TextEncoder().encode([cpu.host, ...names, ""].join("\n")),
    };
  },

  *clock() {
    return {};
  },

  *sleep({ ps }, { cpu }) {
    yield* cpu.sleep(ps);
    return {};
  },

  *spin({ timeoutPs }, objects) {
    yield* objects.written(timeOf(timeoutPs));
    objects.cpu.charge(objects.device.state.timing.pollPs);
    return {};
  },

  *stuck({ instruction }, _, request) {
    const where = new TextDecoder().decode(request.bytes("stuck")).trim().replaceAll("\n", ", in ");
    const seconds = STUCK_US / 1e6, at = instruction.toString(16);
    throw ended(`It has run for ${seconds} s of real time without a call, at 0x${at}: ${where}`);
  },

  *exit({ code }, objects) {
    const { cpu } = objects;
    objects.exitCode = code;
    if (cpu.tracing) cpu.trace({ step: "native-exit", text: `exit code ${code}` });
    return {};
  },
};

/** Requests of calls that are cancellation points (pthreads(7)). */
const CANCELLABLE: ReadonlySet<RequestName> = new Set([
  "futex_wait",
  "sleep",
  "poll",
  "get_cq_event",
  "get_async_event",
  "cm_get_event",
  "socket_accept",
  "socket_connect",
  "socket_send",
  "socket_receive",
  "wait_child",
]);

const THREADS: Handlers<
  | "thread_create"
  | "thread_exit"
  | "thread_cancel"
  | "futex_wait"
  | "futex_wake"
  | "fork"
  | "open_child"
  | "forked"
  | "exec"
  | "wait_child"
  | "child_killed"
> = {
  *thread_create(_, { cpu }) {
    cpu.charge(THREAD_PS);
    return {};
  },

  *thread_exit({ key }, { cpu, threads }) {
    threads.futexes.wake(cpu, key, Infinity);
    return {};
  },

  *thread_cancel({ of }, { cpu, threads }) {
    cpu.charge(FUTEX_PS);
    threads.cancel(of);
    return {};
  },

  *futex_wait(
    { object, key, timeoutPs },
    { cpu, threads, family },
  ): Steps<Answered<"futex_wait"> | NativeError> {
    const timeout = timeOf(timeoutPs);
    const isWoken = object === 0
      ? yield* threads.futexes.wait(cpu, key, timeout)
      : yield* family.futexes.wait(cpu, `${object}:${key}`, timeout);
    return isWoken ? {} : { errno: "ETIMEDOUT", reason: "No thread has woken it" };
  },

  *futex_wake({ object, key, count }, { cpu, threads, family }) {
    cpu.charge(FUTEX_PS);
    if (object === 0) threads.futexes.wake(cpu, key, count);
    else family.futexes.wake(cpu, `${object}:${key}`, count);
    return {};
  },

  *fork(_, objects) {
    return { words: { pid: objects.family.newPid(objects) } };
  },

  *open_child() {
    return {};
  },

  *forked(_, { cpu }) {
    cpu.charge(FORK_PS);
    return {};
  },

  *exec() {
    return {};
  },

  *wait_child({ pid, timeoutPs, keep }, objects): Steps<Answered<"wait_child"> | NativeError> {
    const { cpu, family, pid: of } = objects;
    const wanted = { of, pid, timeoutPs: timeOf(timeoutPs), keep: keep !== 0 };
    const found = yield* family.wait(cpu, wanted);
    if (typeof found === "number") return { words: { pid: found } };
    return { errno: found, reason: "No child has ended" };
  },

  *child_killed({ pid }, objects): Steps<Answered<"child_killed"> | NativeError> {
    objects.cpu.charge(FUTEX_PS);
    if (objects.family.kill(objects.pid, pid)) return {};
    return { errno: "ECHILD", reason: `There is no child of number ${pid}` };
  },
};

/** The compiler demands one for each request. */
const HANDLERS: Handlers<RequestName> = {
  ...TIME,
  ...CONTROL,
  ...DATA,
  ...SOCKETS,
  ...SCM,
  ...CM,
  ...THREADS,
};
