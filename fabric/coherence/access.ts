/** An access of a line, as an agent of the protocol is asked for it, and its end. */
import type { Change, Data } from "../wire/roce/coherence_messages.ts";

/** How stores change lines. */
export interface Contents {
  /** The new content; null if `change` needs lost bytes (decision 13). */
  readonly apply: (data: Data, change: Change) => Data | null;
  /** True if the access is told the old content: an atomic is, a plain write is not. */
  readonly tellsOld: (change: Change) => boolean;
}

/** An access of a core, or of a verb at the local cache; each ends with one {@link Answer}. */
export interface Access {
  /**
   * `own`: a load that asks for ownership, as a prefetch for writing (decision 10: only it and
   * stores give E). `flush`: brings the line into home's persistence domain, wherever its dirty
   * copy is (decision 12).
   */
  readonly kind: "load" | "own" | "store" | "flush";
  readonly line: number;
  /** For `flush` (decision 8): number of lines from `line` on; 1 by default. */
  readonly lines?: number | undefined;
  /** For `store`. An atomic is a store: it is done where E or M is (decision 15). */
  readonly change?: Change;
  /** Leaves nothing behind in the cache (decision 4): it takes the line, and writes it back. */
  readonly passes?: true;
  /** The caller's number of it, returned with the answer. */
  readonly ticket: number;
}

/** The result of an access. */
export interface Answer {
  readonly access: Access;
  /**
   * `lost`: the line's content is gone; `fenced`: the lease is over, and the access may have had
   * its effect or not.
   */
  readonly result: "done" | "lost" | "fenced";
  /** The line as a load saw it, or before a store: an atomic's return value. */
  readonly data?: Data | undefined;
}
