/** What is wrong with a fault of a scenario. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { messages, type Refusal, withLines } from "./scenario_testing.ts";

const WRONG: readonly Refusal[] = [
  [
    "an unknown node's fault",
    withLines("faults: [{ at: 1us, kill: c }]"),
    '3: faults[0].kill: found "c", expected a node of this rack (a, a-rnic, b, b-rnic or tor)',
  ],
  [
    "no switch to kill on a direct cable",
    withLines("fabric: { topology: direct }", "faults: [{ at: 1us, kill: tor }]"),
    '4: faults[0].kill: found "tor", expected a node of this rack (a, a-rnic, b or b-rnic)',
  ],
  [
    "a fault that does nothing",
    withLines("faults: [{ at: 1us }]"),
    "3: faults[0]: found no fault, expected one of kill, start, shutdown, cut and heal, or link, rnic or scm",
  ],
  [
    "a fault without time",
    withLines("faults: [{ kill: b }]"),
    "3: faults[0].at: found nothing, expected a time > 0 with its unit, like 40us",
  ],
  [
    "a shutdown of a card",
    withLines("faults: [{ at: 1us, shutdown: b-rnic }]"),
    '3: faults[0].shutdown: found "b-rnic", expected a host of this rack (a or b)',
  ],
  [
    "a shutdown of a host that has no power when it ends",
    withLines("faults:", "  - { at: 1us, kill: b }", "  - { at: 2us, shutdown: b }"),
    "5: faults[1].shutdown: found kill of b, which is dead since 1 us, expected a start before it",
  ],
  [
    "a shutdown that begins while the host has no power",
    withLines(
      "faults:",
      "  - { at: 1us, kill: b }",
      "  - { at: 3us, start: b }",
      "  - { at: 2us, shutdown: b }",
    ),
    "6: faults[2].at: found 2 us, expected a time at or after 3 us, the start of b before",
  ],
  [
    "a bound of no shutdown",
    withLines("faults: [{ at: 1us, kill: b, within: 1us }]"),
    "3: faults[0].within: found within, expected a shutdown that it bounds",
  ],
  [
    "a shutdown that is a kill",
    withLines("faults: [{ at: 1us, kill: b, shutdown: a }]"),
    "3: faults[0]: found both kill and shutdown, expected one of kill, start and shutdown",
  ],
  [
    "a kill of a host without power",
    withLines("faults:", "  - { at: 1us, kill: b }", "  - { at: 2us, kill: b }"),
    "5: faults[1].kill: found kill of b, which is dead since 1 us, expected a start before it",
  ],
  [
    "a cable that is not there",
    withLines("faults: [{ at: 1us, cut: a-rnic/top }]"),
    '3: faults[0].cut: found "a-rnic/top", expected a-rnic/tor, a cable',
  ],
  [
    "a fault of a bus",
    withLines("faults: [{ link: a/a-rnic, loss: 1% }]"),
    '3: faults[0].link: found "a/a-rnic", expected a network cable: a and a-rnic are joined by a bus, which has no faults',
  ],
  [
    "a share that is none",
    withLines("faults: [{ link: a, loss: 110% }]"),
    '3: faults[0].loss: found "110%", expected a share of the frames, like 1%, or all',
  ],
  [
    "a fault without time or share",
    withLines("faults: [{ link: a, loss: all }]"),
    "3: faults[0]: found loss of all frames for good, expected a share below all, or from, until, count or nth",
  ],
  [
    "a rate with a share",
    withLines("faults: [{ link: a, rate: 10Gbps, share: 1%, until: 1ms }]"),
    "3: faults[0].share: found share with rate, expected it with delay only",
  ],
  [
    "a rate of nothing",
    withLines("faults: [{ link: a, rate: 0bps, until: 1ms }]"),
    '3: faults[0].rate: found "0bps", expected a rate > 0 with its unit, like 100Gbps',
  ],
  [
    "a delay without time or share",
    withLines("faults: [{ link: a, delay: 1us }]"),
    "3: faults[0]: found delay of all frames for good, expected a share below all, or from, until, count or nth",
  ],
  [
    "a cable without a fault",
    withLines("faults: [{ link: a, from: 1us }]"),
    "3: faults[0]: found a cable and no fault, expected one of loss, corrupt, duplicate, reorder, delay or rate",
  ],
  [
    "two faults in one",
    withLines("faults: [{ link: a, loss: 1%, delay: 1us }]"),
    "3: faults[0]: found loss and delay, expected one of loss, corrupt, duplicate, reorder, delay or rate",
  ],
  [
    "a fault without a cable",
    withLines("faults: [{ loss: 1% }]"),
    "3: faults[0].link: found nothing, expected a text",
  ],
  [
    "a word of another fault",
    withLines("faults: [{ link: a, loss: 1%, jitter: 1us }]"),
    "3: faults[0].jitter: found jitter with loss, expected it with delay only",
  ],
  [
    "packets that there are not",
    withLines("faults: [{ link: a, loss: 1%, only: RC ACKNOWLEDG }]"),
    '3: faults[0].only: found "RC ACKNOWLEDG", expected RC ACKNOWLEDGE',
  ],
  [
    "an end before the beginning",
    withLines("faults: [{ link: a, loss: 1%, from: 2us, until: 1us }]"),
    "3: faults[0].until: found an end before the beginning, expected a time after from",
  ],
  [
    "V-08: a seal of what is no damage",
    withLines("faults: [{ link: a, loss: 1%, past: icrc }]"),
    "3: faults[0].past: found past with loss, expected it with corrupt only",
  ],
  [
    "V-08: a CRC that there is not",
    withLines("faults: [{ link: a, corrupt: 1%, past: fcs }]"),
    '3: faults[0].past: found "fcs", expected icrc',
  ],
  [
    "V-08: damage in a place that a card has not",
    withLines("faults: [{ rnic: b, flip: 1%, where: cable }]"),
    '3: faults[0].where: found "cable", expected fetch, buffer, checked or bus',
  ],
  [
    "V-08: damage in the card of an unknown host",
    withLines("faults: [{ rnic: c, flip: 1% }]"),
    '3: faults[0].rnic: found "c", expected a host or an RNIC of this rack (a, a-rnic, b or b-rnic)',
  ],
  [
    "V-08: damage in no card",
    withLines("faults: [{ flip: 1% }]"),
    "3: faults[0].rnic: found nothing, expected a text",
  ],
  [
    "V-08: a card without damage",
    withLines("faults: [{ rnic: b, where: bus }]"),
    "3: faults[0].flip: found nothing, expected a share of the frames, like 1%, or all",
  ],
  [
    "V-08: one piece of data and a share of them",
    withLines("faults: [{ rnic: b, flip: 1%, nth: 2 }]"),
    "3: faults[0].nth: found nth and a share or count, expected nth alone, with all",
  ],
  [
    "V-08: one piece of data and so many of them",
    withLines("faults: [{ rnic: b, flip: all, nth: 2, count: 2 }]"),
    "3: faults[0].nth: found nth and a share or count, expected nth alone, with all",
  ],
  [
    "V-08: damage that ends before it begins",
    withLines("faults: [{ rnic: b, flip: 1%, from: 2us, until: 1us }]"),
    "3: faults[0].until: found an end before the beginning, expected a time after from",
  ],
  [
    "V-08: a cell behind the end of the SCM",
    "name: x\nhosts: { a: {}, b: { scm: { size: 4KiB } } }\nfaults: [{ scm: b, stuck: 4096 }]",
    "3: faults[0].stuck: found 4096, expected an offset into the SCM of b, below 4 KiB",
  ],
  [
    "V-08: a cell of an unknown host",
    withLines("faults: [{ scm: c, stuck: 0 }]"),
    '3: faults[0].scm: found "c", expected a host of this rack (a or b)',
  ],
  [
    "V-08: a ninth bit",
    withLines("faults: [{ scm: b, stuck: 0, bit: 8 }]"),
    "3: faults[0].bit: found 8, expected a whole number from 0 to 7",
  ],
  [
    "V-08: a bit that is neither",
    withLines("faults: [{ scm: b, stuck: 0, value: 2 }]"),
    "3: faults[0].value: found 2, expected a whole number from 0 to 1",
  ],
  [
    "a cut of a cable that is cut",
    withLines("faults:", "  - { at: 1us, cut: a }", "  - { at: 2us, cut: a-rnic->tor }"),
    "5: faults[1].cut: found a cut of a cable that is cut already, expected a heal before it",
  ],
  [
    "a heal of a cable without a fault",
    withLines("faults: [{ at: 1us, heal: a }]"),
    "3: faults[0].heal: found a heal of a cable without a fault, expected a fault before it",
  ],
  [
    "a heal of one way of a cut of both",
    withLines("faults:", "  - { at: 1us, cut: a }", "  - { at: 2us, heal: a-rnic->tor }"),
    "5: faults[1].heal: found a heal of one way, expected both ways, as they were cut together",
  ],
  [
    "a cut without a time",
    withLines("faults: [{ cut: a }]"),
    "3: faults[0].at: found nothing, expected a time > 0 with its unit, like 40us",
  ],
  [
    "a start of a host with power",
    withLines("faults: [{ at: 1us, start: b }]"),
    "3: faults[0].start: found start of b, which is alive, expected a kill before it",
  ],
  [
    "a card's start without power",
    withLines("faults:", "  - { at: 1us, kill: b }", "  - { at: 2us, start: b-rnic }"),
    "5: faults[1].start: found start of b-rnic, which is alive, expected a kill before it",
  ],
  [
    "a kill behind a start of its machine at one time",
    withLines(
      "faults:",
      "  - { at: 1us, kill: b }",
      "  - { at: 1us, start: b }",
      "  - { at: 1us, kill: b-rnic }",
    ),
    "6: faults[2].at: found 1 us, expected a later time than the start of b before: in one instant " +
    "power goes off, then on",
  ],
  [
    "a fault after the end",
    withLines("until: 1us", "faults: [{ at: 1us, kill: b }]"),
    "4: faults[0].at: found 1 us, expected a time before until, 1 us",
  ],
];

describe("parseScenario refuses, with line and expectation,", () => {
  for (const [name, text, message] of WRONG) {
    it(name, () => assert.deepEqual(messages(text), [message]));
  }
});
