/** Options of a connection: each check returns what was found and what was expected. */
import { isWhole, type WholeRange, wholeText } from "../../../fabric/base/whole_number.ts";
import { type CmType, privateDataBytes, timeoutOfCode } from "../../../fabric/wire/roce/cm.ts";
import { RD_ATOMIC_MAX } from "../../../fabric/wire/host_bus/qp_life_cycle.ts";
import type { CmRetry } from "./cm_state.ts";

const CODE_MAX = 31;
/** REQ: Max CM Retries has four bits, and excludes the first transmission. */
const TRIES_MAX = 16;

/** `ibv_qp_attr`. */
const TRANSPORT_MOST = {
  timeout: CODE_MAX,
  retryCnt: 7,
  rnrRetry: 7,
  minRnrTimer: CODE_MAX,
} as const;

export function withDefaults<T extends object>(
  defaults: T,
  given: { readonly [Name in keyof T]?: T[Name] | undefined } = {},
): T {
  const said = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(said) };
}

export function refuseInteger(
  name: string,
  value: unknown,
  range: WholeRange,
): string | undefined {
  if (isWhole(value, range)) return undefined;
  return `${name} is ${String(value)}: expected ${wholeText(range)}`;
}

export function refuseRetry(retry: Partial<CmRetry> = {}): string | undefined {
  for (const [name, value] of Object.entries(retry)) {
    const most = name === "timeoutPs" ? timeoutOfCode(CODE_MAX) : TRIES_MAX;
    const wrong = value === undefined
      ? undefined
      : refuseInteger(`retry.${name}`, value, { least: 1, most });
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

export function refuseDepths(
  { responderResources, initiatorDepth }: {
    readonly responderResources?: number;
    readonly initiatorDepth?: number;
  },
): string | undefined {
  const range = { least: 0, most: RD_ATOMIC_MAX };
  return [{ responderResources }, { initiatorDepth }].flatMap((given) => Object.entries(given))
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => refuseInteger(name, value, range)).find((wrong) => wrong !== undefined);
}

export function refuseTransport(
  transport: { readonly [Name in keyof typeof TRANSPORT_MOST]?: number } = {},
): string | undefined {
  for (const [name, most] of Object.entries(TRANSPORT_MOST)) {
    const value = transport[name as keyof typeof TRANSPORT_MOST];
    if (value === undefined) continue;
    const wrong = refuseInteger(`transport.${name}`, value, { least: 0, most });
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

export function refusePath(
  path: { readonly trafficClass?: number; readonly hopLimit?: number } = {},
): string | undefined {
  for (const name of ["trafficClass", "hopLimit"] as const) {
    const value = path[name];
    if (value === undefined) continue;
    const wrong = refuseInteger(`path.${name}`, value, { least: 0, most: 0xff });
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

/** @param taken bytes that the connection manager uses. */
export function refusePrivateData(
  type: CmType,
  privateData: Uint8Array | undefined,
  taken = 0,
): string | undefined {
  const room = privateDataBytes(type) - taken;
  const found = privateData?.length ?? 0;
  if (found <= room) return undefined;
  return `The private data has ${found} B: expected at most ${room} B in a ${type}`;
}
