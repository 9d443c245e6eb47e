/**
 * Which promise holds where, written down by hand from the documents: what the explorer's matrix is held
 * against, cell by cell.
 */
import type { MatrixPlace } from "../../console/explore/matrix.ts";

/** Methods that ask for the persistence of some bytes, not of all that was written before. */
const NAMES_A_RANGE: readonly MatrixPlace["method"][] = [
  "write-send",
  "write-flush",
  "librpma-gpspm",
  "write-send-workers",
  "write-imm-flush",
];

/** Methods that do not have the CPU flush or store their data. */
const BY_WRITES_ALONE: readonly MatrixPlace["method"][] = [
  "write-only",
  "write-read",
  "librpma-apm",
  "emulated-flush",
  "write-imm",
];

/** Why what the method takes for persistence is not that here; undefined where it is. */
export function whyUnsafe(place: MatrixPlace): string | undefined {
  const { method, receiveBuffer, update } = place;
  const leaves = whatMovesIt(place);
  if (update === "mixed" && leaves === "the CPU" && NAMES_A_RANGE.includes(method)) {
    return "P-11, P-50: a mark and a FLUSH name a range, and the CPU flushes that one alone";
  }
  if (update === "replaced") {
    // Everything else is in memory when the CPU has taken the SEND that asks for the new object: what the
    // CPU stored itself, and what this SEND has pushed out of the I/O controller.
    return leaves === "the CPU" && BY_WRITES_ALONE.includes(method)
      ? "P-12, P-04: the object becomes complete though its bytes may still be in the cache"
      : undefined;
  }
  switch (method) {
    case "write-only":
      return leaves === "nothing"
        ? undefined
        : "P-12: a WRITE's completion says that the card has it, not that it is persistent";
    case "write-read":
    case "librpma-apm":
    case "emulated-flush":
      return leaves === "the CPU"
        ? "P-04: a READ pushes writes out of the I/O controller, not out of the cache"
        : undefined;
    case "write-imm":
      return leaves === "the CPU"
        ? "P-04: that the CPU knows of a WRITE pushes nothing out of its cache"
        : undefined;
    case "send-read":
      if (receiveBuffer === "dram") {
        return "P-05: what a SEND has brought is in DRAM, which is lost";
      }
      return leaves === "the CPU"
        ? "P-04: a READ pushes the SEND out of the I/O controller, not out of the cache"
        : undefined;
    default:
      // P-51, P-11, P-50, P-24, P-26: what has to be flushed is flushed before it is told. P-31: of the
      // write that persists this is all that its queue pair has written before.
      return undefined;
  }
}

/** P-01, P-02: what has to happen before a DMA write into SCM survives a power failure. */
function whatMovesIt({ arch, ddio, domain }: MatrixPlace): "nothing" | "a read" | "the CPU" {
  if (domain === "wsp") return "nothing";
  // With `ddio+ns` the card marks its writes into SCM, so that they go past the cache.
  const isInCache = ddio === "on" && arch === "ddio";
  return isInCache && domain === "adr" ? "the CPU" : "a read";
}
