/**
 * The three tables of the protocol: a node runs them, unless its rack has a protocol of its own
 * (`own_rows.ts`).
 *
 * An access: a far card's load finds no copy: it sends `GetS` to home's card, which asks the host
 * agent (`RdData`), gets `GrantS` with memory's content, sends `DataS`, and is busy with the line
 * until `Complete`. A store asks for ownership with `GetM`: other copies are invalidated or
 * recalled, and dirty content is in memory (`WbMtoE`, `Cmp`) before it is lent again. If the
 * region's copy is kept `local`, the far card sends `Read` or `Write` instead, and home's local
 * cache, agent 0 of the same directory, does the access.
 */
import { FAR_TABLE, type FarTable } from "./far_card_table.ts";
import { HOME_TABLE, type HomeTable } from "./home_card_table.ts";
import { HOST_TABLE, type HostTable } from "./host_agent_table.ts";

export interface Tables {
  readonly host: HostTable;
  readonly home: HomeTable;
  readonly far: FarTable;
}

export const TABLES: Tables = { host: HOST_TABLE, home: HOME_TABLE, far: FAR_TABLE };
