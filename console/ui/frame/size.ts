/** A small window: the style sheet has the same width. */
import { signal } from "@preact/signals";

const small = matchMedia("(max-width: 1279px)");

export const isSmall = signal(small.matches);

small.addEventListener("change", ({ matches }) => isSmall.value = matches);
