/** A value that a program has reported: its members by name, with their units, not as JSON. */
import { counter, sentence, wordsOfCounter } from "../figures.ts";

/** @param value as JSON has it. */
export function Value({ value }: { readonly value: unknown }) {
  if (typeof value !== "object" || value === null) return <>{scalarText(value)}</>;
  const members = Object.entries(value);
  if (members.length === 0) return <span class="quiet">{Array.isArray(value) ? "none" : "–"}</span>;
  return (
    <dl class="facts value">
      {members.map(([key, member]) => (
        <div key={key}>
          <dt title={key}>{Array.isArray(value) ? key : wordsOfCounter(key)}</dt>
          <dd>
            {typeof member === "number" ? counter(key, member) : <Value value={member} />}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function scalarText(value: unknown): string {
  switch (typeof value) {
    case "string":
      return value === "" ? "empty" : sentence(value);
    case "boolean":
      return value ? "yes" : "no";
    default:
      return value === null ? "none" : String(value);
  }
}

/** @param text JSON, or its beginning. @returns undefined where it is no whole JSON. */
export function jsonOf(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}
