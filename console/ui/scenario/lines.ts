/**
 * Numbers, from 1, of the lines of `now` that are not in `before`: by their longest common
 * subsequence.
 */
export function changedLines(before: string, now: string): Set<number> {
  const old = before.split("\n"), lines = now.split("\n");
  let head = 0;
  while (head < old.length && head < lines.length && old[head] === lines[head]) head++;
  let tail = 0;
  while (
    tail < old.length - head && tail < lines.length - head &&
    old[old.length - 1 - tail] === lines[lines.length - 1 - tail]
  ) tail++;
  const left = old.slice(head, old.length - tail), right = lines.slice(head, lines.length - tail);
  const kept = commonOf(left, right);
  const changed = new Set<number>();
  for (let i = 0; i < right.length; i++) if (!kept.has(i)) changed.add(head + i + 1);
  // A line that is only gone is marked at the one that has taken its place.
  if (right.length === 0 && left.length > 0) changed.add(Math.min(head + 1, lines.length));
  return changed;
}

function commonOf(left: readonly string[], right: readonly string[]): Set<number> {
  const width = right.length + 1;
  const lengths = new Uint32Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      lengths[i * width + j] = left[i] === right[j]
        ? lengths[(i + 1) * width + j + 1]! + 1
        : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
    }
  }
  const kept = new Set<number>();
  for (let i = 0, j = 0; i < left.length && j < right.length;) {
    if (left[i] === right[j]) {
      kept.add(j);
      i++;
      j++;
    } else if (lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!) i++;
    else j++;
  }
  return kept;
}
