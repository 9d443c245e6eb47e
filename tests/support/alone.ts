/** Programs of one host, which need no peer. */
import assert from "node:assert/strict";
import type { Program } from "../../nodes/host/program_context.ts";
import { SimulatedRack } from "./simulated_rack.ts";

/**
 * Runs the programs beside each other on host `a` to their end; none may fail.
 * @param host options of the scenario's host.
 */
export function alone(programs: Program | readonly Program[], host: object = {}): SimulatedRack {
  const list = typeof programs === "function" ? [programs] : programs;
  const named = Object.fromEntries(list.map((program, i) => [`./p${i}.ts`, program]));
  const entries = Object.keys(named).map((path) => ({ on: "a", program: path }));
  const scenario = { name: "alone", hosts: { a: host }, programs: entries };
  const rack = new SimulatedRack(JSON.stringify(scenario), { programs: named }).run(1e11);
  assert.deepEqual(rack.reported("program-failed", "a"), []);
  return rack;
}
