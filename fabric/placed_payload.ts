/** Payload that a card writes into its host's memory, for observers of bytes. */
export interface PlacedPayload {
  /** As in `TraceStep` (`node.ts`). */
  readonly connection?: string;
  readonly psn: number;
  readonly inbound?: true;
  /** Physical addresses [from, to). */
  readonly from: number;
  readonly to: number;
}
