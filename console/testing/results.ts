/** Results of a run and of an exploration as a test sees them, and how they fail it. */
import { RackFailure } from "./failure.ts";
import type {
  Check,
  ExploreAnswer,
  Explored,
  ExploreTestOptions,
  MemoryAnswer,
  Packet,
  PacketChoice,
  ProgramReport,
  RackReport,
  RunAnswer,
  RunTestOptions,
  VariantAnswer,
} from "./types.ts";

const EXIT = { failed: 1, unclear: 2, usage: 64 } as const;

/** The name in `fails` of a run in which nothing was done. */
const UNCHECKED = "unchecked";

/** A run of all variants of a scenario; all checks hold, but for those that the test expects to fail. */
export class RackRun {
  /** The report: a part of what `rack run --json` prints. */
  readonly report: RackReport;
  /** The output of `rack run`. */
  readonly text: string;
  /** One for each method and DDIO that the scenario stands for. */
  readonly variants: readonly RackVariant[];

  private constructor({ report, text, variants }: RunAnswer) {
    this.report = report;
    this.text = text;
    this.variants = variants.map((variant) => new RackVariant(variant));
  }

  /**
   * @throws RackFailure where other checks fail than `fails` names.
   * @ignore
   */
  static of(answer: RunAnswer, { fails = [] }: RunTestOptions): RackRun {
    const run = new RackRun(answer);
    const { unchecked: [nothing] = [] } = run.report;
    for (const name of fails) {
      if (name === UNCHECKED && nothing !== undefined) continue;
      if (run.check(name).holds) {
        throw new RackFailure(
          `Found that ${name} holds: expected that it fails\n${run.text}`,
          EXIT.failed,
        );
      }
    }
    const broken = run.report.checks.filter(({ name, holds }) => !holds && !fails.includes(name));
    if (broken.length > 0) {
      const names = broken.map(({ name }) => name).join(", ");
      throw new RackFailure(`The run does not hold: ${names}\n${run.text}`, EXIT.failed);
    }
    if (nothing === undefined || fails.includes(UNCHECKED)) return run;
    throw new RackFailure(
      `The run says nothing of ${nothing.variant}: ${nothing.why}\n${run.text}`,
      EXIT.unclear,
    );
  }

  /** Over all events of all variants: equal runs have equal digests. */
  get digest(): string {
    return this.report.digest;
  }

  /**
   * One check of the run.
   * @param name such as `protocol-holds`.
   * @throws RackFailure with the checks that were made.
   */
  check(name: string): Check {
    const found = this.report.checks.find((check) => check.name === name);
    if (found !== undefined) return found;
    throw notFound(`check ${name}`, this.report.checks.map((check) => check.name));
  }

  /**
   * One variant of the run.
   * @param label as the report names it.
   * @throws RackFailure with the labels that there are.
   */
  variant(label: string): RackVariant {
    const found = this.variants.find((variant) => variant.label === label);
    if (found !== undefined) return found;
    throw notFound(`variant "${label}"`, this.variants.map((variant) => `"${variant.label}"`));
  }

  /**
   * {@link RackVariant.reports} of the only variant.
   * @throws RackFailure where there are several.
   */
  reports<Value = unknown>(topic?: string, node?: string): ProgramReport<Value>[] {
    return this.#only().reports(topic, node);
  }

  /**
   * {@link RackVariant.results} of the only variant.
   * @throws RackFailure where there are several.
   */
  results<Value = unknown>(node?: string): Value[] {
    return this.#only().results(node);
  }

  /**
   * {@link RackVariant.memory} of the only variant.
   * @throws RackFailure where there are several.
   */
  memory(host: string): HostMemory {
    return this.#only().memory(host);
  }

  /**
   * {@link RackVariant.packets} of the only variant.
   * @throws RackFailure where there are several.
   */
  packets(choice?: PacketChoice): Packet[] {
    return this.#only().packets(choice);
  }

  #only(): RackVariant {
    const [first, ...more] = this.variants;
    if (first !== undefined && more.length === 0) return first;
    const labels = this.variants.map(({ label }) => `variant("${label}")`);
    throw new RackFailure(
      `Found ${labels.length} variants: expected that one is meant: ${labels.join(", ")}`,
      EXIT.usage,
    );
  }
}

/** One variant of a run. */
export class RackVariant {
  /** Its method and DDIO, such as `write-flush, ddio on`; the scenario's name where it has one variant. */
  readonly label: string;
  /** Over all of its events. */
  readonly digest: string;
  /** Virtual time at its end, in ps. */
  readonly virtualPs: number;
  readonly #answer: VariantAnswer;

  /** @ignore */
  constructor(answer: VariantAnswer) {
    const { label, digest, virtualPs } = answer;
    this.label = label;
    this.digest = digest;
    this.virtualPs = virtualPs;
    this.#answer = answer;
  }

  /**
   * All reports, oldest first, under every topic (`progress` too).
   *
   * @param topic such as `result`; absent: any.
   * @param node such as `a`; absent: any.
   */
  reports<Value = unknown>(topic?: string, node?: string): ProgramReport<Value>[] {
    const { reports } = this.#answer;
    return reports.filter((each) =>
      (topic ?? each.topic) === each.topic && (node ?? each.node) === each.node
    ) as ProgramReport<Value>[];
  }

  /** Values that programs reported as `result`, oldest first. */
  results<Value = unknown>(node?: string): Value[] {
    return this.reports<Value>("result", node).map(({ value }) => value);
  }

  /**
   * The SCM of a host after the run, as a power failure at its end would leave it: what is in a cache
   * is not there.
   * @throws RackFailure with the hosts that there are.
   */
  memory(host: string): HostMemory {
    const { memory } = this.#answer;
    if (Object.hasOwn(memory, host)) return new HostMemory(host, memory[host]!);
    throw notFound(`host ${host}`, Object.keys(memory));
  }

  /**
   * The frames that cards have sent, by time.
   * @throws RackFailure where the run was made without `capture: true`.
   */
  packets({ from, to, name }: PacketChoice = {}): Packet[] {
    const { packets } = this.#answer;
    if (packets === undefined) throw notFound("packets", ["a run with `capture: true`"]);
    return packets.filter((each) =>
      (from ?? each.from) === each.from && (to ?? each.to) === each.to &&
      (name === undefined ||
        (typeof name === "string" ? each.name === name : each.name.search(name) >= 0))
    );
  }
}

/** The SCM of a host. */
export class HostMemory {
  /** Address of its first byte, as programs have it in `cpu.scm.address`. */
  readonly address: number;
  /** In bytes. */
  readonly length: number;
  readonly #host: string;
  readonly #answer: MemoryAnswer;

  /** @ignore */
  constructor(host: string, answer: MemoryAnswer) {
    this.#host = host;
    this.#answer = answer;
    this.address = answer.address;
    this.length = answer.length;
  }

  /**
   * A copy of some bytes.
   * @param address as programs have it: `memory.address` is the first byte's.
   * @throws RackFailure where they are not all in SCM.
   */
  read(address: number, length: number): Uint8Array<ArrayBuffer> {
    const from = address - this.address, end = from + length;
    if (!Number.isSafeInteger(from) || !Number.isSafeInteger(length) || length < 0) {
      throw notFound(`${length} B at ${address}`, ["whole numbers"]);
    }
    if (from < 0 || end > this.length) {
      const last = hex(this.address + this.length);
      throw notFound(`${length} B at ${hex(address)} in the SCM of ${this.#host}`, [
        `places from ${hex(this.address)} to ${last}`,
      ]);
    }
    const bytes = new Uint8Array(length);
    for (const [at, piece] of this.#answer.pieces) {
      if (at >= end || at + piece.length <= from) continue;
      const part = piece.subarray(Math.max(0, from - at), Math.min(piece.length, end - at));
      bytes.set(part, Math.max(0, at - from));
    }
    return bytes;
  }

  /**
   * A copy of a region that the scenario names (`scm: { regions: … }`).
   * @throws RackFailure with its names.
   */
  region(name: string): Uint8Array<ArrayBuffer> {
    const { regions } = this.#answer;
    if (!Object.hasOwn(regions, name)) {
      throw notFound(`region ${name} of ${this.#host}`, Object.keys(regions));
    }
    const { at, bytes } = regions[name]!;
    return this.read(this.address + at, bytes);
  }
}

/** An exploration of all variants of a scenario; each has the verdict that the test expects. */
export class RackExploration {
  /** One for each variant. */
  readonly explored: readonly Explored[];
  /** The output of `rack explore`. */
  readonly text: string;

  private constructor({ explored, text }: ExploreAnswer) {
    this.explored = explored;
    this.text = text;
  }

  /**
   * @throws RackFailure where a variant has another verdict.
   * @ignore
   */
  static of(answer: ExploreAnswer, { verdict = "safe" }: ExploreTestOptions): RackExploration {
    const found = new RackExploration(answer);
    const others = found.explored.filter((each) => each.verdict !== verdict);
    if (others.length === 0 && found.explored.length > 0) return found;
    const texts = others.map((each) => `${each.label} is ${each.verdict}`).join(", ");
    const isBroken = others.some((each) => each.verdict === "unsafe" || each.verdict === "failed");
    throw new RackFailure(
      `Found that ${texts}: expected ${verdict}\n${found.text}`,
      isBroken ? EXIT.failed : EXIT.unclear,
    );
  }

  /** The first counterexample; null where there is none. */
  get counterexample(): Explored["counterexample"] {
    return this.explored.find((each) => each.counterexample !== null)?.counterexample ?? null;
  }
}

function notFound(what: string, there: readonly string[]): RackFailure {
  const expected = there.length === 0 ? "none: there is none" : there.join(", ");
  return new RackFailure(`Found no ${what}: expected ${expected}`, EXIT.usage);
}

function hex(address: number): string {
  return `0x${address.toString(16)}`;
}
