/** The small picture of a shipped scenario, from its text: its hosts below its switches. */

export interface Shape {
  /** Hosts below each leaf. */
  readonly leaves: readonly number[];
  readonly spines: number;
}

/** The shape that a scenario's text has; undefined where its lines are not written as the shipped ones are. */
export function shapeOf(text: string): Shape | undefined {
  const section = /^hosts:\n((?:[ \t]+.*\n|#.*\n|\n)+)/m.exec(text)?.[1];
  if (section === undefined) return undefined;
  const number = (name: string) => Number(new RegExp(`\\b${name}: (\\d+)`).exec(text)?.[1] ?? 0);
  const leaves = new Array<number>(Math.max(1, number("leaves"))).fill(0);
  for (const line of section.split("\n")) {
    const name = /^ {2}([\w.-]+):/.exec(line)?.[1];
    if (name === undefined) continue;
    const range = /^[a-z]*(\d+)\.\.[a-z]*(\d+)$/.exec(name);
    const leaf = Number(/leaf: (\d+)/.exec(line)?.[1] ?? 1);
    leaves[Math.min(leaf, leaves.length) - 1]! += range === null
      ? 1
      : Number(range[2]) - Number(range[1]) + 1;
  }
  return { leaves, spines: number("spines") };
}

const W = 200, H = 72;

export function Sketch({ shape }: { readonly shape: Shape | undefined }) {
  if (shape === undefined) {
    return <svg class="sketch" viewBox={`0 0 ${W} ${H}`} aria-hidden="true" />;
  }
  const { leaves, spines } = shape, room = W / leaves.length;
  const leafY = spines > 0 ? 32 : 16;
  const leafX = (leaf: number) => (leaf + 0.5) * room;
  const spineX = (spine: number) => W * (spine + 0.5) / spines;
  return (
    <svg class="sketch" viewBox={`0 0 ${W} ${H}`} aria-hidden="true">
      {Array.from({ length: spines }, (_, spine) => (
        <g key={spine}>
          {leaves.map((_, leaf) => (
            <line key={leaf} x1={spineX(spine)} y1="12" x2={leafX(leaf)} y2={leafY} />
          ))}
          <rect x={spineX(spine) - 14} y="4" width="28" height="8" />
        </g>
      ))}
      {leaves.map((hosts, leaf) => {
        const rows = hosts > 10 ? 2 : 1, columns = Math.ceil(hosts / rows);
        const step = Math.min(22, (room - 8) / columns), width = Math.min(14, step - 3);
        const left = leafX(leaf) - step * (columns - 1) / 2;
        return (
          <g key={leaf}>
            {Array.from(
              { length: columns },
              (_, i) => (
                <line key={i} x1={leafX(leaf)} y1={leafY + 8} x2={left + i * step} y2="52" />
              ),
            )}
            {Array.from({ length: hosts }, (_, i) => (
              <rect
                key={i}
                class="host"
                x={left + (i % columns) * step - width / 2}
                y={52 + Math.floor(i / columns) * 9}
                width={width}
                height={rows === 2 ? 7 : 14}
              />
            ))}
            <rect x={leafX(leaf) - 18} y={leafY} width="36" height="8" />
          </g>
        );
      })}
    </svg>
  );
}
