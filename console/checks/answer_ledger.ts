/** The answers of all RNICs of a rack, as `answer_order.ts` judges those of one port. */
import type { FrameSeen } from "../../fabric/capture/observation.ts";
import { describeFrame } from "../../fabric/trace/describe.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { decodePacket, isRefusal } from "../../fabric/wire/roce/packet.ts";
import { AnswerOrder } from "./answer_order.ts";
import { type Finding, FINDINGS_MAX } from "./finding.ts";
import { lifeAt, type Lives, unscriptedDeaths } from "./lives.ts";

interface Port {
  /** Number of the life of its node that it belongs to: a card that is switched on knows nothing. */
  life: number;
  order: AnswerOrder;
}

export class AnswerLedger {
  readonly findings: Finding[] = [];
  /** Answers that were looked at. */
  answers = 0;
  readonly #plan: RackPlan;
  readonly #lives: Lives;
  /** By index of the node; undefined of what is not looked at. */
  readonly #ports = new Map<number, Port | undefined>();
  /** Frames that cables have damaged may have come. */
  readonly #isDamaging: boolean;

  constructor(plan: RackPlan, lives: Lives) {
    this.#plan = plan;
    this.#lives = lives;
    this.#isDamaging = plan.linkFaults?.some(({ action }) => action === "corrupt") ?? false;
    for (const [index, { name, kind }] of plan.nodes.entries()) {
      // What a process received that no plan has killed is dated anew: it may have been answered before.
      const isJudged = kind === "rnic" && unscriptedDeaths(plan, lives, name).length === 0;
      this.#ports.set(index, isJudged ? { life: 0, order: new AnswerOrder() } : undefined);
    }
  }

  see(seen: FrameSeen): void {
    const port = this.#ports.get(seen.node);
    if (port === undefined) return;
    const { name } = this.#plan.nodes[seen.node]!;
    const life = lifeAt(this.#lives, name, seen.time);
    if (life !== port.life) Object.assign(port, { life, order: new AnswerOrder() });
    if (seen.kind === "received") {
      // An RNIC takes no damaged frame.
      const isWhole = !this.#isDamaging || !isRefusal(decodePacket(seen.frame));
      if (isWhole) port.order.received(seen.frame);
      return;
    }
    const before = port.order.answers;
    const wrong = port.order.sent(seen.frame);
    this.answers += port.order.answers - before;
    if (wrong === undefined || this.findings.length >= FINDINGS_MAX) return;
    const text = `${name} sends ${describeFrame(seen.frame)} at ${seen.time} ps, which ${wrong}`;
    this.findings.push({ text, time: seen.time });
  }
}
