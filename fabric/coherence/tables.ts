/** The three tables of the protocol: what a node runs, unless its rack has a protocol of its own (`own_rows.ts`). */
import { FAR_TABLE, type FarTable } from "./far_card_table.ts";
import { HOME_TABLE, type HomeTable } from "./home_card_table.ts";
import { HOST_TABLE, type HostTable } from "./host_agent_table.ts";

export interface Tables {
  readonly host: HostTable;
  readonly home: HomeTable;
  readonly far: FarTable;
}

export const TABLES: Tables = { host: HOST_TABLE, home: HOME_TABLE, far: FAR_TABLE };
