/** The map on a canvas as large as its window: rows are painted as they scroll into it. */
import { useEffect, useRef, useState } from "preact/hooks";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import {
  firstOpen,
  gridOf,
  lineAt,
  type LineMap,
  LOOKS,
  paint,
  type Palette,
  stateOf,
} from "./memory_map.ts";
import { coloursNow, useTheme } from "../frame/theme.ts";

const GUTTER_PX = 84;
const LETTER_PX = 16;

export interface MapProps {
  readonly map: LineMap;
  readonly cellPx: number;
  readonly selected: number | undefined;
  readonly onSelect: (index: number) => void;
  readonly label: string;
}

export function MapCanvas({ map, cellPx, selected, onSelect, label }: MapProps) {
  const box = useRef<HTMLDivElement>(null), canvas = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [top, setTop] = useState(0);
  const theme = useTheme();
  const grid = gridOf(map.codes.length, Math.max(cellPx, size.width - GUTTER_PX), cellPx);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry!.contentRect;
      setSize({ width: Math.floor(width), height: Math.floor(height) });
    });
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const element = canvas.current!;
    const fromRow = Math.floor(top / cellPx);
    const toRow = Math.min(grid.rows, fromRow + Math.ceil(size.height / cellPx) + 1);
    if (size.width === 0 || toRow <= fromRow) return;
    draw(element, { map, grid, fromRow, toRow, selected, width: size.width });
    element.style.top = `${fromRow * cellPx}px`;
  }, [map, grid.columns, cellPx, size.width, size.height, top, selected, theme]);

  const show = (index: number) => {
    const y = Math.floor(index / grid.columns) * cellPx, { scrollTop } = box.current!;
    if (y < scrollTop) box.current!.scrollTop = y;
    if (y + cellPx > scrollTop + size.height) box.current!.scrollTop = y + cellPx - size.height;
  };
  // Another stretch begins with its selected line, else with bytes under way.
  useEffect(() => {
    const first = selected ?? firstOpen(map);
    if (size.height > 0 && first !== undefined) show(first);
  }, [map.from, map.codes.length, grid.columns, cellPx, size.height > 0]);

  const indexAt = (event: MouseEvent): number | undefined => {
    const { left, top: from } = box.current!.getBoundingClientRect();
    const x = event.clientX - left - GUTTER_PX + box.current!.scrollLeft;
    const y = event.clientY - from + box.current!.scrollTop;
    return lineAt(grid, map.codes.length, { x, y });
  };
  const move = (by: number) => {
    const next = Math.max(0, Math.min(map.codes.length - 1, (selected ?? -by) + by));
    onSelect(next);
    show(next);
  };
  const keys: Readonly<Record<string, number>> = {
    ArrowLeft: -1,
    ArrowRight: 1,
    ArrowUp: -grid.columns,
    ArrowDown: grid.columns,
  };
  return (
    <div
      class="memory-map"
      ref={box}
      tabIndex={0}
      role="application"
      aria-label={label}
      onScroll={({ currentTarget }) => setTop(currentTarget.scrollTop)}
      onClick={(event) => {
        const index = indexAt(event);
        if (index !== undefined) onSelect(index);
      }}
      onKeyDown={(event) => {
        const by = keys[event.key];
        if (by === undefined) return;
        event.preventDefault();
        move(by);
      }}
    >
      <div style={{ height: `${grid.rows * cellPx}px` }}>
        <canvas ref={canvas} />
      </div>
    </div>
  );
}

interface Drawing {
  readonly map: LineMap;
  readonly grid: ReturnType<typeof gridOf>;
  readonly fromRow: number;
  readonly toRow: number;
  readonly selected: number | undefined;
  readonly width: number;
}

function draw(element: HTMLCanvasElement, drawing: Drawing): void {
  const { map, grid, fromRow, toRow, selected, width } = drawing;
  const { cellPx, columns } = grid;
  const height = (toRow - fromRow) * cellPx;
  element.width = width;
  element.height = height;
  const context = element.getContext("2d")!;
  const { palette, ink, quiet, ground, select } = coloursOf();
  const image = new ImageData(columns * cellPx, height);
  const pixels = new Uint32Array(image.data.buffer);
  paint(map, grid, { pixels, widthPx: columns * cellPx, fromRow, toRow, palette });
  context.putImageData(image, GUTTER_PX, 0);
  context.textBaseline = "middle";
  context.font = `11px ${getComputedStyle(element).fontFamily}`;
  context.fillStyle = quiet;
  const every = Math.max(1, Math.ceil(16 / cellPx));
  for (let row = fromRow; row < toRow; row++) {
    if (row % every !== 0) continue;
    const address = map.from + row * columns * LINE_BYTES;
    context.fillText(`0x${address.toString(16)}`, 0, (row - fromRow + 0.5) * cellPx);
  }
  if (cellPx >= LETTER_PX) {
    context.textAlign = "center";
    context.font = `600 ${Math.min(12, cellPx - 6)}px ${getComputedStyle(element).fontFamily}`;
    for (let row = fromRow; row < toRow; row++) {
      for (let column = 0; column < columns; column++) {
        const code = map.codes[row * columns + column];
        const letter = code === undefined ? "" : LOOKS[stateOf(code)].letter;
        if (letter === "") continue;
        context.fillStyle = ground;
        const x = GUTTER_PX + column * cellPx + (cellPx - 2) / 2;
        context.fillText(letter, x, (row - fromRow) * cellPx + (cellPx - 4) / 2);
      }
    }
  }
  if (selected === undefined) return;
  const row = Math.floor(selected / columns), column = selected % columns;
  context.strokeStyle = select;
  context.lineWidth = 2;
  const at = { x: GUTTER_PX + column * cellPx, y: (row - fromRow) * cellPx };
  if (cellPx < 8) {
    // A cell of few pixels is found by the cross that leads to it.
    context.strokeStyle = ink;
    context.lineWidth = 1;
    context.strokeRect(at.x - 4.5, at.y - 4.5, cellPx + 9, cellPx + 9);
    return;
  }
  context.strokeRect(at.x - 1, at.y - 1, cellPx, cellPx);
}

function coloursOf() {
  const textOf = coloursNow();
  const palette: Palette = {
    durable: numberOf(textOf("durable")),
    volatile: numberOf(textOf("volatile")),
    flight: numberOf(textOf("flight")),
    lost: numberOf(textOf("lost")),
    empty: numberOf(textOf("raised")),
    promised: numberOf(textOf("durable")),
    ground: numberOf(textOf("bg")),
  };
  const [ink, quiet, ground, select] = ["ink", "quiet", "bg", "time-line"].map(textOf) as [
    string,
    string,
    string,
    string,
  ];
  return { palette, ink, quiet, ground, select };
}

/** `rgb(47, 184, 148)` as 0xAABBGGRR. */
function numberOf(colour: string): number {
  const [red = 0, green = 0, blue = 0] = (colour.match(/\d+/g) ?? []).map(Number);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
