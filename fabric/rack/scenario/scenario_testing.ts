/** Texts of scenarios for tests, and the problems of those that are wrong. */
import * as problem from "../plan/problem.ts";
import { parseScenario } from "./parse_scenario.ts";

/** What the texts are read as; messages begin with it. */
export const FILE = "x.yaml";

/** A text that is wrong, mostly in one place, and the messages for it. */
export type Refusal = readonly [name: string, text: string, ...messages: string[]];

/** The messages for a text that is wrong, without the file's name. */
export function messages(text: string): string[] {
  try {
    parseScenario(text, FILE);
  } catch (error) {
    if (!(error instanceof problem.Refusal)) throw error;
    return error.message.split("\n").map((line) => line.replace(`${FILE}:`, ""));
  }
  return [];
}

/** A right scenario of two hosts with these lines added. */
export function withLines(...lines: string[]): string {
  return ["name: x", "hosts: { a: {}, b: {} }", ...lines].join("\n");
}

/** A scenario of two hosts, the second one with these options. */
export function hostWith(options: string): string {
  return `name: x\nhosts:\n  a: {}\n  b: ${options}\n`;
}
