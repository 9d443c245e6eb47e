/** Both ends of a connection, for a program's result. */
import { machineOf, rnicName } from "../../../../fabric/rack/plan/names.ts";
import type { Cpu } from "../../cpu/program.ts";

export interface Ends {
  readonly to: string;
  /** The other end's RNIC, where the program names it. */
  readonly toRnic?: string;
  /** The program's RNIC, unless it is its host's first. */
  readonly rnic?: string;
}

/** @param to a host, or one of its RNICs. */
export function endsOf({ host, rnic = 0 }: Pick<Cpu, "host" | "rnic">, to: string): Ends {
  const machine = machineOf(to);
  return {
    to: machine,
    ...(machine !== to && { toRnic: to }),
    ...(rnic > 0 && { rnic: rnicName(host, rnic) }),
  };
}
