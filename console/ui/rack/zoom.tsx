import { saveAs, svg as svgOf } from "../frame/save.ts";
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Box } from "./layout.ts";

interface Area {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

const FIT_MAX = 1.5, SCALE_MAX = 2;
const BUTTONS_PX = 40;
const STEP = 1.25;
/** A click moves the pointer by less. */
const DRAG_PX = 4;
/** Below these scales, figures and then names are too small to be read, and are left out. */
const NO_FIGURES = 0.62, NO_NAMES = 0.38;

export function Zoomed(
  { width, height, label, focus, legend, children }: {
    readonly width: number;
    readonly height: number;
    readonly label: string;
    /** Scrolled into view. */
    readonly focus: Box | undefined;
    readonly legend?: ComponentChildren;
    readonly children: ComponentChildren;
  },
) {
  const svg = useRef<SVGSVGElement>(null);
  const size = useSignal({ w: 0, h: 0 });
  const area = useSignal<Area | undefined>(undefined);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      const { width: w, height: h } = entry!.contentRect;
      size.value = { w, h };
    });
    observer.observe(svg.current!);
    return () => observer.disconnect();
  }, []);
  const { w, h } = size.value;
  const room = Math.max(1, h - BUTTONS_PX);
  const fit = w === 0 ? 1 : Math.min(FIT_MAX, w / width, room / height);
  const whole = { scale: fit, x: (width - w / fit) / 2, y: Math.min(0, (height - room / fit) / 2) };
  const shown = area.value ?? whole;

  function zoom(by: number, at: { readonly x: number; readonly y: number }): void {
    const scale = Math.min(SCALE_MAX, Math.max(fit, shown.scale * by));
    if (scale <= fit) {
      area.value = undefined;
      return;
    }
    const [x, y] = [shown.x + at.x / shown.scale, shown.y + at.y / shown.scale];
    area.value = { scale, x: x - at.x / scale, y: y - at.y / scale };
  }

  useEffect(() => {
    if (focus === undefined || area.value === undefined) return;
    const { x, y, scale } = area.value;
    const isShown = focus.x >= x && focus.x + focus.w <= x + w / scale &&
      focus.y >= y && focus.y + focus.h <= y + room / scale;
    if (isShown) return;
    area.value = {
      scale,
      x: focus.x + focus.w / 2 - w / scale / 2,
      y: focus.y + focus.h / 2 - room / scale / 2,
    };
  }, [focus?.x, focus?.y, w, h]);

  function target(): { x: number; y: number } {
    if (focus === undefined) return { x: w / 2, y: h / 2 };
    return {
      x: (focus.x + focus.w / 2 - shown.x) * shown.scale,
      y: (focus.y + focus.h / 2 - shown.y) * shown.scale,
    };
  }

  function onPointerDown(down: PointerEvent): void {
    if (down.button !== 0) return;
    const begin = shown;
    let isDragged = false;
    const move = (event: PointerEvent) => {
      const x = event.clientX - down.clientX, y = event.clientY - down.clientY;
      isDragged ||= Math.hypot(x, y) >= DRAG_PX;
      if (!isDragged) return;
      area.value = { ...begin, x: begin.x - x / begin.scale, y: begin.y - y / begin.scale };
    };
    const end = new AbortController();
    addEventListener("pointermove", move, { signal: end.signal });
    addEventListener("pointerup", () => end.abort(), { signal: end.signal });
    addEventListener("pointercancel", () => end.abort(), { signal: end.signal });
  }

  return (
    <div class="zoomed">
      <svg
        ref={svg}
        class={`drawing ${shown.scale < NO_FIGURES ? "no-figures" : ""} ${
          shown.scale < NO_NAMES ? "no-names" : ""
        }`}
        role="group"
        aria-label={label}
        viewBox={w === 0
          ? `0 0 ${width} ${height}`
          : `${shown.x} ${shown.y} ${w / shown.scale} ${h / shown.scale}`}
        onPointerDown={onPointerDown}
        onWheel={(event) => {
          event.preventDefault();
          const { left, top } = svg.current!.getBoundingClientRect();
          zoom(STEP ** (-event.deltaY / 100), { x: event.clientX - left, y: event.clientY - top });
        }}
      >
        {children}
      </svg>
      {legend}
      <div class="zoom" role="group" aria-label="Zoom">
        <button type="button" aria-label="Closer" onClick={() => zoom(STEP, target())}>+</button>
        <button type="button" aria-label="Farther" onClick={() => zoom(1 / STEP, target())}>
          −
        </button>
        <button
          type="button"
          disabled={area.value === undefined}
          onClick={() => area.value = undefined}
        >
          all
        </button>
        <button
          type="button"
          title="Save the picture as SVG"
          onClick={() => saveAs("rack.svg", svgOf(svg.current!))}
        >
          SVG
        </button>
      </div>
    </div>
  );
}
