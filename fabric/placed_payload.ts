export interface PlacedPayload {
  readonly connection?: string;
  readonly psn: number;
  readonly inbound?: true;
  /** Physical addresses [from, to). */
  readonly from: number;
  readonly to: number;
}
