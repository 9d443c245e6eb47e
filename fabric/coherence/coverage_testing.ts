/** For tests only: which rows of the tables were looked up. */
import { TABLES, type Tables } from "./tables.ts";

export interface Coverage {
  /** The tables, each look-up of a row noted. */
  readonly tables: Tables;
  /** Rows that no look-up has met: `home P3 free: SnpData`. */
  readonly unused: () => string[];
}

export function newCoverage(): Coverage {
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
    host: watched("host", TABLES.host),
    home: watched("home", TABLES.home),
    far: watched("far", TABLES.far),
  };
  return { tables, unused: () => [...unused] };
}
