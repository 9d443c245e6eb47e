/** Files that the browser is to keep. A link cannot be used: it would carry no key. */

/** Hands `content` to the user as a file. */
export function saveAs(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // The browser has taken it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Rows as comma-separated values (RFC 4180). */
export function csv(rows: readonly (readonly (string | number | boolean | null)[])[]): Blob {
  const cell = (value: string | number | boolean | null) => {
    const text = value === null ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const text = rows.map((row) => row.map(cell).join(",")).join("\r\n");
  return new Blob([text, "\r\n"], { type: "text/csv" });
}
