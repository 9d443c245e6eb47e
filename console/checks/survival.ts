/**
 * P-41: *everything reported persisted survives*, and what goes with it. Looks at what programs
 * reported and at what is in the SCM of the host they wrote to, and at nothing else.
 */

/** What `put` reports when it ends, as far as this checker needs it. */
export interface PutResult {
  readonly program: "put";
  readonly status: "done" | "failed";
  readonly error?: string;
  readonly method: string;
  readonly to: string;
  readonly file: string;
  readonly messages: number;
  readonly messageBytes: number;
  readonly bytes: number;
  /** P-02 */
  readonly flow: 1 | 2;
  /** Whether the method's last completion promises persistence at this responder. */
  readonly promises: boolean;
  /** Byte ranges [from, to) of the file. */
  readonly confirmed: ReadonlyArray<readonly [from: number, to: number]>;
  readonly confirmedMessages: number;
  /** The same, for what the requester took for written: no promise (P-12). */
  readonly written: ReadonlyArray<readonly [from: number, to: number]>;
  /** Completions of what was not outstanding. */
  readonly unexpected: number;
  readonly object: { readonly name: string; readonly scmOffset: number; readonly length: number };
  readonly requests: Readonly<Record<string, number>>;
  /** Of a method that has its writes checked. */
  readonly verified?: VerifiedResult;
  readonly latencyPs:
    | { readonly median: number; readonly p99: number; readonly max: number }
    | undefined;
  readonly wire?: { readonly frames: number; readonly bytes: number };
  readonly cpuPs: number;
  readonly startPs: number;
  readonly endPs: number;
}

/** True for the value of a `result` report by `put`. */
export function isPutResult(value: unknown): value is PutResult {
  return (value as Partial<PutResult> | null)?.program === "put" &&
    (value as Partial<PutResult>).object !== undefined;
}

/** A byte that was reported persisted and is not there. */
export interface Loss {
  readonly host: string;
  readonly object: string;
  /** First byte of the file that differs. */
  readonly offset: number;
  readonly found: number;
  readonly expected: number;
}

/**
 * The first reported byte that did not survive, undefined if all did.
 * @param survived what is in the SCM at the object's place, as many bytes as the file has.
 */
export function firstLoss(
  result: PutResult,
  file: Uint8Array,
  survived: Uint8Array,
): Loss | undefined {
  for (const [from, to] of result.confirmed) {
    for (let offset = from; offset < to; offset++) {
      if (file[offset] === survived[offset]) continue;
      const found = survived[offset]!, expected = file[offset]!;
      return { host: result.to, object: result.object.name, offset, found, expected };
    }
  }
  return undefined;
}

/** P-41, last part: *a message reported once is not reported twice*, nor one that was never sent. */
export function isReportedOnce({ confirmed, confirmedMessages, unexpected }: PutResult): boolean {
  const ascends = confirmed.every(([from, to], i) =>
    from < to && (i === 0 || confirmed[i - 1]![1] < from)
  );
  return ascends && unexpected === 0 && (confirmed.length > 0) === (confirmedMessages > 0);
}

/** True where the whole file is there. */
export function isIntact(file: Uint8Array, survived: Uint8Array): boolean {
  return file.length === survived.length && file.every((byte, i) => byte === survived[i]);
}

/** What a `put` that has its writes checked reports of that. */
export interface VerifiedResult {
  /** V-04; `compare` where the program compares itself. */
  readonly level: string;
  /** Messages that were found to be damaged, by how. */
  readonly caught: Readonly<Record<string, number>>;
  readonly rewrites: number;
  /** V-05 */
  readonly skipped: number;
  /** Byte ranges [from, to) of the file that the verification found in memory. */
  readonly looked: ReadonlyArray<readonly [from: number, to: number]>;
}
