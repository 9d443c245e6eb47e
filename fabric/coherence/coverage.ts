/** Records the rows of the tables that were looked up. */
import { TABLES, type Tables } from "./tables.ts";

export interface Coverage {
  /** The tables, which record each look-up. */
  readonly tables: Tables;
  /** Rows without a look-up: `home P3 free: SnpData`. */
  readonly unused: () => string[];
}

/** @param all the tables, which may have the user's own rows. */
export function newCoverage(all: Tables = TABLES): Coverage {
  const unused = new Set<string>();
  function watched<T extends object>(who: string, table: T): T {
    const states = Object.entries(table).map(([state, rows]: [string, object]) => {
      for (const event of Object.keys(rows)) unused.add(`${who} ${state}: ${event}`);
      const handler: ProxyHandler<object> = {
        get(target, event) {
          if (typeof event === "string") unused.delete(`${who} ${state}: ${event}`);
          return Reflect.get(target, event);
        },
      };
      return [state, new Proxy(rows, handler)];
    });
    return Object.fromEntries(states) as T;
  }
  const tables: Tables = {
    host: watched("host", all.host),
    home: watched("home", all.home),
    far: watched("far", all.far),
  };
  return { tables, unused: () => [...unused] };
}
