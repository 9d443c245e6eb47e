/** Shipped scenarios by what they are about, as their names say it. */
import type { Shipped } from "../data/api.ts";

interface Subject {
  readonly title: string;
  /** One sentence. */
  readonly about: string;
  readonly names: RegExp;
}

const SUBJECTS: readonly Subject[] = [
  {
    title: "Persistence",
    about: "what survives a power cut, and what was promised of it",
    names: /^(persist|append|checksummed|lossy|noted_log|replicated|two_queues|verify|native_scm)/,
  },
  {
    title: "Fabrics",
    about: "switches, paths, queues and many hosts",
    names: /^(rack_|leaf_spine|fat_tree|drawn|incast|two_rails|shares|memory_scale|queues)/,
  },
  {
    title: "Shared memory",
    about: "coherent cards, and programs on several computers' memory",
    names: /^(coherent|shared|stale|my_coherence)/,
  },
  {
    title: "Hints",
    about: "what a card may be told before it has to know it",
    names: /^hints/,
  },
  {
    title: "Protocols and own programs",
    about: "the verbs as a program uses them, and what one adds to them",
    names: /^(rc_|my_|paging|native)/,
  },
];

const OTHERS = { title: "Others", about: "" };

export interface Group extends Pick<Subject, "title" | "about"> {
  readonly scenarios: readonly Shipped[];
}

/** Each in one group, by name in it; groups without one are left out. */
export function bySubject(scenarios: readonly Shipped[]): Group[] {
  const groups = Map.groupBy(
    scenarios,
    ({ name }) => SUBJECTS.find(({ names }) => names.test(name))?.title ?? OTHERS.title,
  );
  return [...SUBJECTS, OTHERS].flatMap(({ title, about }) => {
    const own = groups.get(title);
    return own === undefined ? [] : [{ title, about, scenarios: own }];
  });
}

/** In their names or their sentences. */
export function withText(scenarios: readonly Shipped[], text: string): readonly Shipped[] {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word !== "");
  return scenarios.filter(({ name, about }) =>
    words.every((word) => `${name} ${about}`.toLowerCase().includes(word))
  );
}
