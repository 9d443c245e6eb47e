/** Writes frames for Wireshark in the simplest format that there is, by nothing of our own capture. */

/** A capture of frames without stamps: they are read for what they say only. */
export function writePcap(path: string, frames: readonly Uint8Array<ArrayBuffer>[]): void {
  const header = new DataView(new ArrayBuffer(24));
  for (const [at, value] of [[0, 0xa1b2c3d4], [4, 0x0002_0004], [16, 0xffff], [20, 1]] as const) {
    header.setUint32(at, value);
  }
  const parts = [new Uint8Array(header.buffer)];
  for (const frame of frames) {
    const record = new DataView(new ArrayBuffer(16));
    record.setUint32(8, frame.length);
    record.setUint32(12, frame.length);
    parts.push(new Uint8Array(record.buffer), frame);
  }
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  Deno.writeFileSync(path, bytes);
}
