/** True if the value is an object with fields: neither null nor a list. Bytes are one, too. */
export function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
