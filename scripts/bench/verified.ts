/**
 * V-10: a verified write at each level, compared with a WRITE (one that persists, for persistent
 * writes) and a READ that the program compares.
 */
import {
  DDIOS,
  type PerMessage,
  putCells,
  putHeader,
  type PutTable,
  runPut,
  SIZES,
} from "./put_table.ts";

export interface VerifiedFigure extends PerMessage {
  readonly way: string;
}

const BASELINE = "WRITE, READ, compare", PERSISTED_BASELINE = "the same, persisted";
const PERSISTED = "verify-crc, persisted";

/** Baselines first. `history`: the receiver skips read-backs by the sender's history (V-05). */
const WAYS = [
  { way: BASELINE, put: "method: write-compare" },
  { way: PERSISTED_BASELINE, put: "method: persist-compare" },
  { way: "none", put: "method: write-verify, level: none" },
  { way: "check", put: "method: write-verify, level: check" },
  { way: "verify", put: "method: write-verify, level: verify" },
  { way: "verify-crc", put: "method: write-verify, level: verify-crc" },
  { way: "read-back", put: "method: write-verify, level: read-back" },
  { way: "crc-after", put: "method: write-verify, level: crc-after" },
  {
    way: "verify-crc, history",
    put: "method: write-verify, level: verify-crc",
    hosts: "verifyHistory: { samples: 4, sample: 16 }",
  },
  { way: PERSISTED, put: "method: verify-persist, level: verify-crc" },
] as const;

export function measureVerified(seed: number): VerifiedFigure[] {
  return DDIOS.flatMap((ddio) =>
    WAYS.flatMap(({ way, ...rest }) =>
      SIZES.map((size): VerifiedFigure => ({ way, ...runPut({ ddio, size, seed, ...rest }) }))
    )
  );
}

export function verifiedTable(figures: readonly VerifiedFigure[]): PutTable {
  const rows = figures.map((figure) => {
    const { ddio, way, size } = figure;
    const isPersistent = way === PERSISTED || way === PERSISTED_BASELINE;
    const baseline = figures.find((other) =>
      other.ddio === ddio && other.size === size &&
      other.way === (isPersistent ? PERSISTED_BASELINE : BASELINE)
    )!;
    return putCells(figure, way, baseline);
  });
  return { name: "verified", header: putHeader("level"), rows };
}
