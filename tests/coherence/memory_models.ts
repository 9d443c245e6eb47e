/**
 * Litmus programs on abstract machines: all outcomes of sequential consistency, and of x86-TSO as a machine with a
 * store buffer for each core (Sewell, Sarkar, Owens, Zappa Nardelli, Myreen: "x86-TSO", CACM 53(7), 2010, section 3).
 */

export type Variable = "x" | "y";

/** A store of a value, a load into the thread's next register, MFENCE, or a locked addition (its old value is no register). */
export type Op =
  | readonly ["store", Variable, number]
  | readonly ["load", Variable]
  | readonly ["fence"]
  | readonly ["add", Variable, number];

export type Threads = readonly (readonly Op[])[];

interface Machine {
  readonly done: readonly number[];
  readonly memory: Readonly<Record<Variable, number>>;
  readonly registers: readonly (readonly number[])[];
  readonly buffers: readonly (readonly (readonly [Variable, number])[])[];
}

/** As {@link outcomesOf} writes it: registers by thread, then the final content. */
export function outcomeText(
  registers: readonly (readonly number[])[],
  { x, y }: Readonly<Record<Variable, number>>,
): string {
  return `${registers.map((own) => own.join(" ") || "-").join(", ")}; x=${x} y=${y}`;
}

/** Every outcome that the model allows. */
export function outcomesOf(threads: Threads, model: "sc" | "tso"): ReadonlySet<string> {
  const found = new Set<string>(), seen = new Set<string>();
  const open: Machine[] = [{
    done: threads.map(() => 0),
    memory: { x: 0, y: 0 },
    registers: threads.map(() => []),
    buffers: threads.map(() => []),
  }];
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    const key = JSON.stringify(state);
    if (seen.has(key)) continue;
    seen.add(key);
    const next = threads.flatMap((ops, at) =>
      stepsOf(state!, { at, op: ops[state!.done[at]!], model })
    );
    if (next.length === 0) found.add(outcomeText(state.registers, state.memory));
    open.push(...next);
  }
  return found;
}

function stepsOf(
  state: Machine,
  { at, op, model }: {
    readonly at: number;
    readonly op: Op | undefined;
    readonly model: "sc" | "tso";
  },
): Machine[] {
  const buffer = state.buffers[at]!, [oldest] = buffer;
  const after = { ...state, done: state.done.with(at, state.done[at]! + 1) };
  const steps: Machine[] = oldest === undefined ? [] : [{
    ...state,
    memory: { ...state.memory, [oldest[0]]: oldest[1] },
    buffers: state.buffers.with(at, buffer.slice(1)),
  }];
  switch (op?.[0]) {
    case "store": {
      const [, to, value] = op;
      if (model === "sc") steps.push({ ...after, memory: { ...state.memory, [to]: value } });
      else steps.push({ ...after, buffers: state.buffers.with(at, [...buffer, [to, value]]) });
      break;
    }
    case "load": {
      const [, from] = op;
      const own = buffer.findLast(([variable]) => variable === from);
      const value = own?.[1] ?? state.memory[from];
      steps.push({
        ...after,
        registers: state.registers.with(at, [...state.registers[at]!, value]),
      });
      break;
    }
    case "fence":
      if (oldest === undefined) steps.push(after);
      break;
    case "add": {
      const [, to, value] = op;
      if (oldest !== undefined) break;
      steps.push({ ...after, memory: { ...state.memory, [to]: state.memory[to] + value } });
    }
  }
  return steps;
}
