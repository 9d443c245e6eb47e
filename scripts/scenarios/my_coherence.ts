/**
 * Rows that replace some of the coherent cards' protocol: a line that no card has is lent
 * exclusively to the one that reads it, as MESI's E. A program that reads a word and then writes it
 * asks once, and home's own cores pay: their next load takes the line back. Whether it holds:
 * rack explore --protocol scripts/scenarios/my_coherence.ts
 */
import { type CoherenceProtocol, HOME_TABLE, type HomeRow } from "rackmesh";

/** GetS of a line that is not lent goes on as GetM does; for a shared line the row is unchanged. */
const lendExclusively: HomeRow = (line, message) => {
  const { GetS, GetM } = HOME_TABLE["idle free"];
  return line.sharers === 0 ? GetM!(line, message) : GetS!(line, message);
};

export default {
  home: { "idle free": { GetS: lendExclusively } },
  // A reader gets E, from which a store goes on at once.
  far: { IS: { DataE: { next: "E", send: "Complete" } } },
} satisfies CoherenceProtocol;
