/** A sign stands beside the colour. */
import type { Run } from "../../api/runs.ts";

export function Verdict({ verdict }: Pick<Run, "verdict">) {
  if (verdict === "none") return <span class="quiet">none</span>;
  if (verdict === "unchecked") return <span class="would-lose">? unchecked</span>;
  return verdict === "holds"
    ? <span class="is-durable">✓ holds</span>
    : <span class="is-lost">✗ fails</span>;
}
