import { parse } from "yaml";
import { namesInRange } from "../../../fabric/rack/plan/names.ts";

export interface Shape {
  readonly leaves: readonly number[];
  /** Of a fat tree, aggregation switches. */
  readonly spines: number;
  /** Of a fat tree: ports of a switch. */
  readonly k?: number;
}

/** Undefined where the scenario lists its cables. */
export function shapeOf(text: string): Shape | undefined {
  const { fabric, hosts } = Object(parse(text));
  const { topology, k: ports = 0, leaves = 1, spines = 0 } = Object(fabric);
  if (topology === "explicit") return undefined;
  const k = topology === "fat-tree" ? ports : 0, edges = k * k / 2;
  const below = new Array<number>(Math.max(leaves, edges)).fill(0);
  for (const [names, host] of Object.entries(Object(hosts))) {
    const [leaf] = [Object(host).leaf ?? 1].flat();
    below[Math.min(leaf, below.length) - 1]! += namesInRange(names).length;
  }
  return k > 0 ? { leaves: below, spines: edges, k } : { leaves: below, spines };
}

const W = 200, H = 72;

/** What is to be seen of it, at a host counted from 0. */
export interface Mark {
  readonly host: number;
  readonly as: "lost" | "kept" | "busy" | "faulty";
}

const TONES: Readonly<Record<string, string>> = {
  lost: "fill-lost",
  kept: "fill-durable",
  busy: "fill-volatile",
};

export function Sketch(
  { shape, mark }: { readonly shape: Shape | undefined; readonly mark?: Mark | undefined },
) {
  if (shape === undefined) {
    return <svg class="sketch" viewBox={`0 0 ${W} ${H}`} aria-hidden="true" />;
  }
  const { leaves, spines, k } = shape, room = W / leaves.length;
  const cores = k === undefined ? 0 : k * k / 4, half = (k ?? 0) / 2;
  const coreX = (core: number) => W * (core + 0.5) / cores;
  /** Of a fat tree, only switches of one pod are joined. */
  const isJoined = (spine: number, leaf: number) =>
    k === undefined || Math.floor(spine / half) === Math.floor(leaf / half);
  const isCoreOf = (core: number, spine: number) => Math.floor(core / half) === spine % half;
  const spineY = cores > 0 ? 16 : 4;
  const leafY = spines > 0 ? 32 : 16;
  const leafX = (leaf: number) => (leaf + 0.5) * room;
  const spineX = (spine: number) => W * (spine + 0.5) / spines;
  const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);
  const width = (count: number, most: number) => Math.min(most, W / Math.max(1, count) - 4);
  const spineW = width(spines, 28), leafW = width(leaves.length, 36);
  return (
    <svg class="sketch" viewBox={`0 0 ${W} ${H}`} aria-hidden="true">
      {upTo(cores).map((core) => (
        <g key={core}>
          {upTo(spines).filter((spine) => isCoreOf(core, spine)).map((spine) => (
            <line key={spine} x1={coreX(core)} y1="10" x2={spineX(spine)} y2={spineY} />
          ))}
          <rect x={coreX(core) - 14} y="2" width="28" height="8" />
        </g>
      ))}
      {upTo(spines).map((spine) => (
        <g key={spine}>
          {leaves.map((_, leaf) =>
            isJoined(spine, leaf) && (
              <line key={leaf} x1={spineX(spine)} y1={spineY + 8} x2={leafX(leaf)} y2={leafY} />
            )
          )}
          <rect x={spineX(spine) - spineW / 2} y={spineY} width={spineW} height="8" />
        </g>
      ))}
      {leaves.map((hosts, leaf) => {
        const rows = hosts > 10 ? 2 : 1, columns = Math.ceil(hosts / rows);
        const step = Math.min(22, (room - 8) / columns), width = Math.min(14, step - 3);
        const left = leafX(leaf) - step * (columns - 1) / 2;
        const first = leaves.slice(0, leaf).reduce((sum, each) => sum + each, 0);
        const marked = mark === undefined ? -1 : mark.host - first;
        return (
          <g key={leaf}>
            {Array.from(
              { length: columns },
              (_, i) => (
                <line
                  key={i}
                  class={i === marked ? `is-${mark!.as}` : ""}
                  x1={leafX(leaf)}
                  y1={leafY + 8}
                  x2={left + i * step}
                  y2="52"
                />
              ),
            )}
            {Array.from({ length: hosts }, (_, i) => (
              <rect
                key={i}
                class={i === marked ? TONES[mark!.as] ?? "host" : "host"}
                x={left + (i % columns) * step - width / 2}
                y={52 + Math.floor(i / columns) * 9}
                width={width}
                height={rows === 2 ? 7 : 14}
              />
            ))}
            <rect x={leafX(leaf) - leafW / 2} y={leafY} width={leafW} height="8" />
          </g>
        );
      })}
    </svg>
  );
}

const ROWS = 4, COLUMNS = 10, CELL = 14;

/** A table of verdicts, as a sign of one: which cells are which is none. */
export function MatrixSketch() {
  return (
    <svg class="sketch" viewBox={`0 0 ${W} ${H}`} aria-hidden="true">
      {Array.from({ length: ROWS * COLUMNS }, (_, i) => {
        const row = Math.floor(i / COLUMNS), column = i % COLUMNS;
        return (
          <rect
            key={i}
            class={(row * 3 + column * 5) % 7 < 2 ? "fill-lost" : "fill-durable"}
            x={(W - COLUMNS * (CELL + 3)) / 2 + column * (CELL + 3)}
            y={2 + row * (CELL + 3)}
            width={CELL}
            height={CELL}
            rx="2"
          />
        );
      })}
    </svg>
  );
}
