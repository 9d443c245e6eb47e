/** A scenario's runs: every method, DDIO on and off. */
import type { ProgramScenario, Scenario } from "./scenario.ts";
import type { HostScenario } from "./scenario.ts";
import { valuesIn, type ValuesOf } from "../plan/option_rows.ts";
import { CHOICES, type MethodName, PROGRAMS } from "../plan/vocabulary.ts";

export interface HostVariant extends Omit<HostScenario, "ddio"> {
  readonly ddio: boolean;
}

export interface ScenarioVariant extends Omit<Scenario, "hosts"> {
  /** `persist-opcode, ddio off`; the scenario's name if it is the only variant. */
  readonly label: string;
  /** That programs vary, or all share; null without a common one. */
  readonly method: MethodName | null;
  /** Of the hosts that vary it, or that all share; null where hosts differ. */
  readonly ddio: "on" | "off" | null;
  readonly hosts: readonly HostVariant[];
}

export interface VariantChoices extends Omit<ValuesOf<typeof CHOICES>, "seed"> {
  readonly input?: string;
}

/**
 * Methods in the scenario's order, within each DDIO off, then on. A choice replaces the scenario's
 * values where they vary, else everywhere: it is a run of the whole matrix.
 */
export function variants(scenario: Scenario, choices: VariantChoices = {}): ScenarioVariant[] {
  const isMethodVaried = scenario.programs.some((program) => methodsOf(program).length > 1);
  const { method: _, ...others } = choices;
  const programs = scenario.programs.map((program) => {
    const isItsMethod = !isMethodVaried || methodsOf(program).length > 1;
    return withChoices(program, isItsMethod ? choices : others);
  });
  const varying = programs.map(methodsOf).find((methods) => methods.length > 1);
  const methods = choices.method !== undefined ? [choices.method] : varying ?? [null];
  const isDdioVaried = scenario.hosts.some(({ ddio }) => ddio === "both");
  const ddios = choices.ddio !== undefined
    ? [choices.ddio]
    : isDdioVaried
    ? ["off", "on"] as const
    : [null];
  return methods.flatMap((method) =>
    ddios.map((ddio): ScenarioVariant => {
      const resolved = programs.map((program) => withMethod(program, method));
      const hosts = scenario.hosts.map((host): HostVariant => {
        const isChosen = ddio !== null && (host.ddio === "both" || !isDdioVaried);
        return { ...host, ddio: (isChosen ? ddio : host.ddio) === "on" };
      });
      const label = [
        ...(methods.length > 1 || choices.method !== undefined ? [method] : []),
        ...(ddio !== null ? [`ddio ${ddio}`] : []),
      ];
      return {
        ...scenario,
        label: label.length === 0 ? scenario.name : label.join(", "),
        method: method ?? onlyOne(resolved.flatMap(methodsOf)) ?? null,
        ddio: ddio ?? onlyOne(hosts.map((host) => host.ddio ? "on" : "off")) ?? null,
        hosts,
        programs: resolved,
      };
    })
  );
}

function methodsOf(program: ProgramScenario): readonly MethodName[] {
  const { method } = program.options;
  if (!takes(program, "method") || method === undefined) return [];
  return Array.isArray(method) ? method : [method as MethodName];
}

/** An atomic has 8 B, whatever others have. */
export function takes({ run, options }: ProgramScenario, option: string): boolean {
  if (option === "size" && String(options.test).startsWith("ib_atomic")) return false;
  return Object.hasOwn(PROGRAMS, run) && Object.hasOwn(PROGRAMS[run]!, option);
}

function withChoices(program: ProgramScenario, choices: VariantChoices): ProgramScenario {
  const { method, ...others } = takenBy(program, choices);
  const chosen = { ...others, ...(method !== undefined && { method: [method] }) };
  return { ...program, options: { ...program.options, ...chosen } };
}

export function takenBy(
  program: ProgramScenario,
  { input, ...choices }: {
    readonly [Name in keyof VariantChoices]?: VariantChoices[Name] | undefined;
  },
): Readonly<Record<string, unknown>> {
  const given = { ...valuesIn(CHOICES, choices), ...(input !== undefined && { file: input }) };
  return Object.fromEntries(Object.entries(given).filter(([option]) => takes(program, option)));
}

function withMethod(program: ProgramScenario, method: MethodName | null): ProgramScenario {
  const methods = methodsOf(program);
  if (methods.length === 0) return program;
  const one = methods.length > 1 && method !== null ? method : methods[0]!;
  return { ...program, options: { ...program.options, method: one } };
}

function onlyOne<T>(values: readonly T[]): T | undefined {
  return new Set(values).size === 1 ? values[0] : undefined;
}
