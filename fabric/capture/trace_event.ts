/** Chrome's trace event format ("Trace Event Format", Google), as far as it is used here. */

export interface TraceEvent {
  /** Complete slice, instant, flow start, step and end, metadata. */
  readonly ph: "X" | "i" | "s" | "t" | "f" | "M";
  readonly name: string;
  readonly cat?: string;
  readonly pid: number;
  readonly tid: number;
  /** In microseconds. */
  readonly ts?: number;
  readonly dur?: number;
  readonly id?: number;
  /** A flow's end binds to the enclosing slice. */
  readonly bp?: "e";
  /** The scope of an instant: its thread. */
  readonly s?: "t";
  readonly args?: Readonly<Record<string, unknown>>;
}
