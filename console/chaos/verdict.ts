/** What the rounds of a campaign come to, together. */
import { EXIT } from "../../fabric/rack/build/run_file.ts";

/** So many rounds without a result in a row end the campaign: the machine fails, not the rack. */
export const UNTOLD_MOST = 3;

/** Exit code of a campaign that was not interrupted: 0 only where each round has held, and there was one. */
export function exitOf({ held, broken, untold }: {
  readonly held: number;
  readonly broken: number;
  readonly untold: number;
}) {
  if (broken > 0) return EXIT.failed;
  return untold > 0 || held === 0 ? EXIT.unclear : EXIT.done;
}

/**
 * Rounds without a result. Whether a round has one is known when it is reported, or, of one that nothing replays, when
 * it was played, before reports on earlier rounds.
 */
export class UntoldRounds {
  readonly #untold = new Set<number>();
  #isStuck = false;

  /** @param place of the round: 0, 1, 2, … */
  add(place: number): void {
    this.#untold.add(place);
    let from = place, to = place + 1;
    while (this.#untold.has(from - 1)) from--;
    while (this.#untold.has(to)) to++;
    this.#isStuck ||= to - from >= UNTOLD_MOST;
  }

  /** Whether {@link UNTOLD_MOST} in a row have none. */
  get isStuck(): boolean {
    return this.#isStuck;
  }
}
