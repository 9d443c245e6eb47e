/** Reads pcapng files as their format says, knowing nothing of how ours are written. */
import assert from "node:assert/strict";

export interface ReadFrame {
  /** Name of its interface. */
  readonly port: string;
  /** In the interface's own unit, which is ns. */
  readonly stamp: bigint;
  readonly direction: "in" | "out";
  readonly comment: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export interface ReadCapture {
  readonly ports: readonly string[];
  readonly frames: readonly ReadFrame[];
}

/** All of a file. Fails on anything that the format does not allow. */
export function readCapture(file: Uint8Array<ArrayBuffer>): ReadCapture {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const ports: string[] = [];
  const frames: ReadFrame[] = [];
  for (let at = 0; at < file.length;) {
    const type = view.getUint32(at, true), length = view.getUint32(at + 4, true);
    assert.equal(length % 4, 0, "blocks are whole words");
    assert.equal(view.getUint32(at + length - 4, true), length, "the length stands at both ends");
    const end = at + length - 4;
    if (at === 0) assert.equal(type, 0x0a0d0d0a, "a section comes first");
    if (type === 1) {
      const options = optionsOf(view, { from: at + 16, end });
      assert.equal(view.getUint16(at + 8, true), 1, "Ethernet");
      assert.deepEqual([...options.get(9)!], [9], "nanoseconds");
      ports.push(text(options.get(2)));
    }
    if (type === 6) {
      const bytes = view.getUint32(at + 20, true);
      const options = optionsOf(view, { from: at + 28 + bytes + (-bytes & 3), end });
      const [flags] = options.get(2)!;
      frames.push({
        port: ports[view.getUint32(at + 8, true)]!,
        stamp: (BigInt(view.getUint32(at + 12, true)) << 32n) |
          BigInt(view.getUint32(at + 16, true)),
        direction: flags === 1 ? "in" : "out",
        comment: text(options.get(1)),
        bytes: file.slice(at + 28, at + 28 + bytes),
      });
    }
    at += length;
  }
  return { ports, frames };
}

function optionsOf(
  view: DataView<ArrayBuffer>,
  { from, end }: { from: number; end: number },
): Map<number, Uint8Array> {
  const options = new Map<number, Uint8Array>();
  for (let at = from; at < end;) {
    const code = view.getUint16(at, true), length = view.getUint16(at + 2, true);
    if (code === 0) break;
    options.set(code, new Uint8Array(view.buffer, view.byteOffset + at + 4, length));
    at += 4 + length + (-length & 3);
  }
  return options;
}

function text(value: Uint8Array | undefined): string {
  return value === undefined ? "" : new TextDecoder().decode(value);
}
