/** The only randomness of the models: seeded streams by name, so that none changes another. */

export interface Rng {
  /** An integer in [0, 2^32). */
  next(): number;
  /** An integer in [0, bound), without modulo bias for any bound that a model uses (< 2^32). */
  below(bound: number): number;
  /** A number in [0, 1). */
  unit(): number;
}

function hashName(name: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

/** The stream called `name` of the run with this seed (sfc32; Chris Doty-Humphrey, PractRand). */
export function rngFor(seed: number, name: string): Rng {
  let a = seed >>> 0, b = Math.floor(seed / 2 ** 32) >>> 0, c = hashName(name), counter = 1;
  function next(): number {
    const t = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + t | 0;
    return t >>> 0;
  }
  for (let i = 0; i < 15; i++) next();
  return {
    next,
    below(bound) {
      const limit = 2 ** 32 - (2 ** 32 % bound);
      let value = next();
      while (value >= limit) value = next();
      return value % bound;
    },
    unit: () => next() / 2 ** 32,
  };
}
