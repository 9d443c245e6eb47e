/**
 * A process is started for the first rack that needs it, and takes up later ones
 * (`fabric/lanes.ts`). To a rack's supervisor it is a {@link Child} that has ended when the process
 * has died, or has left that rack.
 */
import { laneVerb } from "../../fabric/bus/access.ts";
import type { Bus } from "../../fabric/bus/bus.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import type { LaneRequest, LanesFile } from "../../fabric/lanes.ts";
import { writeWhole } from "../base/files.ts";
import { type Child, type ChildOptions, endChildren, startChild } from "./children.ts";
import { laneRights } from "./device_rights.ts";
import { ControlClient } from "./live/control.ts";

export interface ProcessSetOptions {
  readonly run: string;
  readonly bus: Bus;
  /** Above those of all racks, for `lanes.json` and the processes' output in `logs/`. */
  readonly directory: string;
  readonly runFiles: readonly string[];
}

export interface LaneProcess extends Omit<ChildOptions, "logFile"> {
  readonly user: string;
  /** The rack's; `instance` names this life of the partition. */
  readonly run: string;
  readonly runFile: string;
  readonly instance: string;
}

const AGAIN_MS = 50, ATTEMPT_MS = 1_000, GRACE_MS = 3_000;
/**
 * Of a process that has left a rack, and of one that ends for a rack that it does not take up: a
 * bug of ours.
 */
const LEFT: Deno.CommandStatus = { success: true, code: EXIT.done, signal: null };
const REFUSED: Deno.CommandStatus = { success: false, code: EXIT.internal, signal: null };

export class ProcessSet {
  readonly directory: string;
  readonly mark: string;
  readonly #options: ProcessSetOptions;
  readonly #control: ControlClient;
  readonly #processes = new Map<string, Child>();
  readonly #open: Set<string>;
  #isEnding = false;

  constructor(options: ProcessSetOptions) {
    this.#options = options;
    this.directory = options.directory;
    this.mark = `${options.directory}/lanes.json`;
    this.#control = new ControlClient(options.bus, options.run);
    this.#open = new Set(options.runFiles);
  }

  /** A process of `lane.user` is started or takes this rack up. */
  take(lane: LaneProcess): Child {
    const { user, run, runFile, instance } = lane;
    const known = this.#processes.get(user);
    const process = known ?? this.#start(lane);
    const left = Promise.withResolvers<Deno.CommandStatus>();
    const exited = Promise.race([process.exited, left.promise]);
    let isOver = false, isLeaving = false;
    exited.then(() => isOver = true);
    const ask = (request: LaneRequest) => this.#ask(user, { request, until: () => isOver });
    let refused = "";
    if (known !== undefined) {
      ask({ open: { run, runFile, instance } }).then((why) => {
        if (why === undefined) return;
        refused = `It has refused the rack ${run}: ${why}`;
        left.resolve(REFUSED);
      });
    }
    return {
      name: lane.name,
      pid: process.pid,
      exited,
      lastWords: () => refused === "" ? process.lastWords() : refused,
      kill(signal) {
        if (isOver) return;
        // Other racks live in the process, however long this one takes to end.
        if (signal !== "SIGTERM") {
          return isLeaving && signal === "SIGKILL" ? undefined : process.kill(signal);
        }
        if (isLeaving) return;
        isLeaving = true;
        void ask({ close: run }).then(() => left.resolve(LEFT));
      },
    };
  }

  /**
   * Rights of a device's process, and the folder in which it runs.
   * @param hosts `host:port` of each server of the bus. @param options see {@link laneRights}.
   */
  rightsOn(
    hosts: readonly string[],
    options: { readonly isNative: boolean },
  ): Required<Pick<ChildOptions, "rights" | "cwd">> {
    const { directory, runFiles } = this.#options;
    const directories = runFiles.map((path) =>
      path.slice(directory.length + 1, path.lastIndexOf("/"))
    );
    return { rights: laneRights(hosts, { directories, ...options }), cwd: directory };
  }

  /** The rack has ended: a process that starts from now on does not prepare for it. */
  forget(runFile: string): void {
    this.#open.delete(runFile);
  }

  async end(): Promise<void> {
    this.#isEnding = true;
    await endChildren([...this.#processes.values()], GRACE_MS);
  }

  #start({ user, run: _, runFile: __, instance: ___, ...program }: LaneProcess): Child {
    const { directory, run } = this.#options;
    writeWhole(this.mark, JSON.stringify({ run, runFiles: [...this.#open] } satisfies LanesFile));
    const logFile = `${directory}/logs/${program.name}.log`;
    const child = startChild({ ...program, args: [...program.args, this.mark], logFile });
    this.#processes.set(user, child);
    child.exited.then(() => this.#processes.delete(user));
    return child;
  }

  async #ask(
    user: string,
    { request, until }: { readonly request: LaneRequest; readonly until: () => boolean },
  ): Promise<string | undefined> {
    while (!until() && !this.#isEnding) {
      const answer = await this.#control.attempt(laneVerb(user), request, {
        timeoutMs: ATTEMPT_MS,
      });
      if (answer !== undefined) return "refused" in answer ? answer.refused : undefined;
      await sleep(AGAIN_MS);
    }
    return undefined;
  }
}
