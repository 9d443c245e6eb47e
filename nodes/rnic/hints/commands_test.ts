/** What commands about hints are refused for: each reason, and the wish beside it that is granted. */
import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { HINT_PLAN, type HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import type { CommandOf, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { HINT_ETH_BYTES } from "../../../fabric/wire/roce/hint_eth.ts";
import { encodeHint, type HintMessage } from "../../../fabric/wire/roce/hint.ts";
import { HintCard } from "../testing/hint_card_testing.ts";
import { resetQueuePair } from "../state/queue_pair.ts";
import { endOf } from "./agree.ts";
import { refuseHints, sendOwnHint, takeHostWork } from "./commands.ts";

type Wish = Pick<CommandOf<"create-qp">, "type" | "hints" | "hintEncoding" | "privileged">;

function cardOf(plan: Partial<HintPlan> | undefined): HintCard {
  return new HintCard(plan === undefined ? {} : { hints: { ...HINT_PLAN, ...plan } });
}

/** Why a reply is no yes: its errno and the reason's last words. */
function told(reply: RnicReply | undefined, words: number): string {
  if (reply === undefined || reply.status === "ok") return "ok";
  return `${reply.errno} ${reply.reason.split(" ").slice(-words).join(" ")}`;
}

describe("what a new queue pair may have of hints (H-07, H-08, H-20)", () => {
  const MADE_BY_FIRMWARE = {
    work: { look: "firmware", build: "firmware", send: "firmware" },
  } as const;
  const TAKEN_BY_FIRMWARE = {
    work: { parse: "firmware", check: "firmware", decide: "firmware" },
  } as const;
  const TRUSTED = { transport: "trusted" } as const;
  const ROWS: readonly (readonly [string, Partial<HintPlan> | undefined, Wish])[] = [
    ["ok", {}, { type: "rc" }],
    ["ok", undefined, { type: "rc", hints: "on", hintEncoding: "header" }],
    ["ok", {}, { type: "uc", hints: "on", hintEncoding: "flagged" }],
    ["EINVAL have agreed to get them", {}, { type: "ud", hints: "on", hintEncoding: "opcode" }],
    ["EINVAL no other queue pair", {}, { type: "rc", hints: "carrier", hintEncoding: "flagged" }],
    ["EINVAL other takes a receive", {}, { type: "ud", hints: "group", hintEncoding: "payload" }],
    ["ok", {}, { type: "rc", hints: "carrier", hintEncoding: "header" }],
    ["EINVAL uc: it is ud", {}, { type: "ud", hints: "carrier" }],
    ["ok", {}, { type: "ud", hints: "group", hintEncoding: "opcode" }],
    ["EINVAL ud: it is rc", {}, { type: "rc", hints: "group" }],
    // A card's own group has one trusted owner, an application's any.
    ["ok", {}, { type: "ud", hints: "group" }],
    ["EPERM this one is not", TRUSTED, { type: "ud", hints: "group" }],
    ["ok", TRUSTED, { type: "ud", hints: "group", privileged: true }],
    // Work that costs time makes hints of their own packets only.
    ["EINVAL is, by the hardware", MADE_BY_FIRMWARE, { type: "rc", hintEncoding: "header" }],
    ["EINVAL is, by the hardware", MADE_BY_FIRMWARE, { type: "rc", hintEncoding: "payload" }],
    ["ok", MADE_BY_FIRMWARE, { type: "rc", hintEncoding: "opcode" }],
    ["ok", MADE_BY_FIRMWARE, { type: "rc", hintEncoding: "flagged" }],
    ["ok", TAKEN_BY_FIRMWARE, { type: "rc", hintEncoding: "header" }],
  ];

  it("is refused for its reason alone", () => {
    for (const [expected, plan, wish] of ROWS) {
      const { device } = cardOf(plan);
      const found = told(refuseHints(device, wish as CommandOf<"create-qp">), 4);
      const [errno, ...words] = expected.split(" ");
      same(
        [found.split(" ")[0], found.endsWith(words.slice(-3).join(" "))],
        [errno, true],
        `${JSON.stringify(wish)}: ${found}`,
      );
    }
  });

  it("H-08: the card's hints have one owner, and another when that is gone", () => {
    const card = cardOf(TRUSTED), { device } = card;
    const wish = { type: "ud", hints: "group", privileged: true } as CommandOf<"create-qp">;
    same(told(refuseHints(device, wish), 3), "ok");
    const member = card.connect({ qpn: 20, address: 9, destQpn: 20, type: "ud", hints: "group" });
    same(told(refuseHints(device, wish), 4), "EBUSY of the whole card");
    device.queuePairs.delete(member.qpn);
    card.connect({ qpn: 21, address: 9, destQpn: 21, hints: "on" });
    same(told(refuseHints(device, wish), 3), "ok");
  });
});

describe("a program's own hint (H-09)", () => {
  const qpn = 20;

  function opened(plan: Partial<HintPlan> | undefined = {}) {
    const card = cardOf(plan), { device, hints } = card;
    const qp = card.connect({ qpn, address: 9, destQpn: 30, pathMtu: 256 });
    const end = plan && endOf(hints, qp);
    if (end !== undefined) end.agreed = 1;
    const send = (message: Uint8Array<ArrayBuffer>, to = qpn) =>
      sendOwnHint(device, { op: "send-hint", qpn: to, message });
    return { card, device, hints, qp, end, send };
  }

  /** An announcement of so many elements. */
  function hintOf(elements: number): Uint8Array<ArrayBuffer> {
    const entry = { kinds: 1, messages: 1, sequence: 1, va: 0n, rkey: 1, length: 8, objects: [] };
    const entries = Array.from(
      { length: elements },
      () => ({ ...entry, operation: "write" as const }),
    );
    const message = { type: "announce", sequence: 7, answer: false, reason: "none", kinds: 1 };
    const groups = [{ sourceQpn: qpn, destQpn: 30, entries }];
    return encodeHint({ ...message, groups } as HintMessage);
  }

  it("leaves as it is, and counts", () => {
    const { card, hints, send } = opened();
    same(told(send(hintOf(2)), 1), "ok");
    same(hints.counters.hintsSent, 1);
    const [sent, ...others] = card.takeSent();
    same([sent!.message!.sequence, sent!.message!.groups[0]!.entries.length], [7, 2]);
    same(others, []);
  });

  it("is refused where it is none, is too long, or the queue pair has none", () => {
    const { hints, qp, end, send } = opened();
    same(told(send(hintOf(1), 99), 0).split(" ")[0], "ENOENT");
    let longest = 1;
    while (hintOf(longest + 1).length <= HINT_ETH_BYTES + 256) longest++;
    same(told(send(hintOf(longest)), 1), "ok");
    same(told(send(hintOf(longest + 1)), 2), `EINVAL ${HINT_ETH_BYTES + 256} B`);
    same(told(send(new Uint8Array(40)), 2), `EINVAL ${HINT_ETH_BYTES + 256} B`);
    same(hints.counters.hintsSent, 1);
    end!.agreed = undefined;
    same(told(send(hintOf(1)), 4), "EINVAL which hints it wants");
    resetQueuePair(qp);
    same(told(send(hintOf(1)), 2), "EINVAL with them");
    const none = new HintCard({});
    none.connect({ qpn, address: 9, destQpn: 30 });
    same(none.device.hints, undefined);
    const message = hintOf(1);
    same(told(sendOwnHint(none.device, { op: "send-hint", qpn, message }), 2), "EINVAL with them");
    const off = opened();
    Object.assign(off.qp, { hints: "off" });
    same(told(off.send(hintOf(1)), 2), "EINVAL with them");
  });

  it("H-20: a core's work that the card does not wait for is refused", () => {
    for (const plan of [{}, { work: { parse: "driver", check: "driver" } } as const]) {
      const reply = takeHostWork(cardOf(plan).device, { op: "hint-work", id: 3 });
      same(told(reply, 3), "ENOENT is waited for");
    }
  });
});
