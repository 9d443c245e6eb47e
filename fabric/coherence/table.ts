/** Tables of the protocol: state × event → row. A pair without a row is an error (decision 20). */
import { InvariantError } from "../base/assert.ts";

export type Table<State extends string, Event extends string, Row> = Readonly<
  Record<State, Readonly<Partial<Record<Event, Row>>>>
>;

/** A message or an event in a state for which its table has no row. */
export class MissingRow extends InvariantError {}

/**
 * The row of a state and an event.
 * @throws MissingRow if the table has none; `who` is the table's owner.
 */
export function rowOf<State extends string, Event extends string, Row>(
  table: Table<State, Event, Row>,
  { state, event, who, agent, line }: {
    readonly state: State;
    readonly event: Event;
    readonly who: string;
    readonly agent?: number;
    readonly line: number;
  },
): Row {
  const row = table[state][event];
  if (row !== undefined) return row;
  const whose = agent === undefined ? who : `${who} ${agent}`;
  throw new MissingRow(`${whose}, line ${line}: ${event} in state ${state} has no row`);
}
