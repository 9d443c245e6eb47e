/**
 * Messages between coherent cards (`coherence_messages.ts`) ↔ header and payload of a packet (C-02). `FORMS`
 * (`coherence_eth.ts`) has the form of a command's header and payload; a decoded message encodes to the
 * same bytes.
 */
import { assert } from "../../base/assert.ts";
import { readFields, sizeOf, writeFields } from "../../base/fields.ts";
import { allocate, copyOf, keptCopyOf, viewOf } from "../../base/slab.ts";
import {
  type CardMessage,
  type ControlMessage,
  isControlKind,
  LOST,
  type Placement,
  type WireMessage,
} from "./coherence_messages.ts";
import type { LineChange } from "../host_bus/line_change.ts";
import { LINE_BYTES } from "../../base/cache_line.ts";
import {
  COHERENCE_CHANGES,
  COHERENCE_CODES,
  COHERENCE_COMMANDS,
  COHERENCE_PAYLOAD_FIELDS,
  COHERENCE_STATES,
  COHERENCE_STATUS,
  COHERENCE_VERSION,
  type CoherenceClass,
  type CoherenceCommand,
  coherenceCommand,
  type CoherenceEth,
  type CoherencePayload,
  coherencePayloadName,
  FORMS,
} from "./coherence_eth.ts";

/** A packet's fields beside the message. */
export interface CardContext {
  /** Of the message's region; 0 for none. */
  readonly region: number;
  /** The requester's number of the access; 0 if no answer is awaited. */
  readonly transaction: number;
}

export interface CardPacket {
  readonly operation: CoherenceClass;
  readonly header: CoherenceEth;
  readonly payload: Uint8Array<ArrayBuffer>;
}

export interface DecodedCardMessage extends CardContext {
  readonly message: CardMessage;
}

export interface CardMessageRefusal {
  readonly field: string;
  readonly found: string;
  readonly expected: string;
}

/**
 * Limit of physical addresses on every machine with this bus; a line's number is then a safe
 * integer.
 */
const ADDRESS_BITS = 52;
const LINES_END = 2 ** ADDRESS_BITS / LINE_BYTES;
const ADDRESS_END = 1n << BigInt(ADDRESS_BITS);
const EMPTY = new Uint8Array(0);

export function isCardRefusal(
  answer: DecodedCardMessage | CardMessageRefusal,
): answer is CardMessageRefusal {
  return "field" in answer;
}

/** @throws for a message that its command cannot carry. */
export function encodeCardMessage(message: CardMessage, context: CardContext): CardPacket {
  const { kind } = message, form = FORMS[kind];
  const { operation, command } = COHERENCE_CODES[kind];
  const placement = "placement" in message ? message.placement : undefined;
  const isPlaced = placement !== undefined;
  assert(
    form.placed === "maybe" || isPlaced === (form.placed === "always"),
    `Cannot encode ${kind}: a placement is ${
      isPlaced ? "given" : "missing"
    }, expected ${form.placed}`,
  );
  const line = "line" in message ? message.line : 0;
  assert(
    Number.isInteger(line) && line >= 0 && line < LINES_END && message.agent >= 1,
    `Cannot encode ${kind}: line ${line} of agent ${message.agent}, expected a line below ` +
      `${LINES_END} and an agent of 1 or more`,
  );
  const stamp = "stamp" in message ? message.stamp : undefined;
  const change = kind === "Write" ? message.change as LineChange : undefined;
  const header: CoherenceEth = {
    version: COHERENCE_VERSION,
    command,
    state: COHERENCE_STATES.indexOf(form.state),
    placed: isPlaced,
    remote: placement?.place === "remote",
    change: change === undefined ? 0 : COHERENCE_CHANGES.indexOf(change.kind),
    stamped: stamp !== undefined,
    status: COHERENCE_STATUS.indexOf(statusOf(message)),
    region: context.region,
    transaction: context.transaction,
    life: message.life,
    homeLife: message.homeLife,
    placementVersion: placement?.version ?? 0,
    agent: message.agent,
    offset: change === undefined || change.kind === "write" ? 0 : change.offset,
    lines: form.lines === "none" ? 0 : "lines" in message ? message.lines ?? 1 : 1,
    address: BigInt(line * LINE_BYTES),
    stamp: BigInt(stamp ?? 0),
  };
  checkNumbers(kind, header);
  return { operation, header, payload: payloadOf(message, change) };
}

/** @throws for a number too large for its field: the header's writer does not check. */
function checkNumbers(kind: string, header: CoherenceEth): void {
  const { region, transaction, life, homeLife, placementVersion, agent, lines } = header;
  const isWord = (value: number) => value >>> 0 === value;
  const fits = isWord(region) && isWord(transaction) && isWord(life) && isWord(homeLife) &&
    isWord(placementVersion) && agent <= 0xff && lines <= 0xffff;
  assert(
    fits,
    `Cannot encode ${kind}: a number of its header does not fit its field: region ${region}, ` +
      `transaction ${transaction}, life ${life}, homeLife ${homeLife}, agent ${agent}, ` +
      `placementVersion ${placementVersion}, lines ${lines}`,
  );
}

function statusOf(message: CardMessage): typeof COHERENCE_STATUS[number] {
  if (message.kind === "Registered" && message.result === "refused") return "refused";
  return "data" in message && message.data === LOST ? "lost" : "ok";
}

function payloadOf(
  message: CardMessage,
  change: LineChange | undefined,
): Uint8Array<ArrayBuffer> {
  if (change !== undefined) return changePayload(change);
  switch (message.kind) {
    case "Register":
    case "Registered":
      return fieldsPayload("coherenceRegion", { bytes: BigInt(message.bytes) });
    case "Counts": {
      const { counts } = message;
      assert(counts !== undefined, "Cannot encode Counts: its counts are missing");
      return fieldsPayload("coherenceCounts", counts);
    }
    default: {
      const data = "data" in message ? message.data : undefined;
      const { data: rule } = FORMS[message.kind];
      const isGiven = data !== undefined;
      assert(
        rule === "maybe" || isGiven === (rule === "line"),
        `Cannot encode ${message.kind}: a line is ${isGiven ? "given" : "missing"}`,
      );
      return data === undefined || data === LOST ? EMPTY : copyOf(lineOf(message.kind, data));
    }
  }
}

function lineOf(kind: string, data: unknown): Uint8Array {
  const isLine = data instanceof Uint8Array && data.length === LINE_BYTES;
  assert(isLine, `Cannot encode ${kind}: its line is no ${LINE_BYTES} bytes`);
  return data;
}

function changePayload(change: LineChange): Uint8Array<ArrayBuffer> {
  switch (change.kind) {
    case "write": {
      const { mask } = change;
      return fieldsPayload("coherenceMask", { mask }, lineOf("Write", change.bytes));
    }
    case "add":
      return fieldsPayload("coherenceAdd", { operand: change.operand });
    case "compare-swap":
      return fieldsPayload("coherenceSwap", { compare: change.compare, swap: change.swap });
  }
}

function fieldsPayload(
  name: CoherencePayload,
  values: object,
  rest: Uint8Array = EMPTY,
): Uint8Array<ArrayBuffer> {
  const fields = COHERENCE_PAYLOAD_FIELDS[name], size = sizeOf(fields);
  const payload = allocate(size + rest.length);
  writeFields(fields, values as never, { view: viewOf(payload), at: 0 });
  payload.set(rest, size);
  return payload;
}

export function decodeCardMessage(packet: CardPacket): DecodedCardMessage | CardMessageRefusal {
  const { operation, header } = packet;
  const kind = coherenceCommand(operation, header.command);
  if (header.version !== COHERENCE_VERSION) {
    return refusal("version", header.version, COHERENCE_VERSION);
  }
  if (kind === undefined) {
    const count = COHERENCE_COMMANDS[operation].length;
    return refusal("command", header.command, `0…${count - 1} of ${operation}`);
  }
  const wrong = checkFields(kind, header) ?? checkChange(kind, header) ??
    checkLines(kind, header) ??
    checkPayload(kind, packet);
  if (wrong !== undefined) return wrong;
  return messageOf(kind, packet);
}

function refusal(field: string, found: unknown, expected: unknown): CardMessageRefusal {
  return { field, found: String(found), expected: String(expected) };
}

function checkFields(kind: CoherenceCommand, header: CoherenceEth): CardMessageRefusal | undefined {
  const { state, stamped, stamp, status, placed, remote, placementVersion, agent } = header;
  const form = FORMS[kind];
  if (COHERENCE_STATES[state] !== form.state) {
    return refusal("state", COHERENCE_STATES[state] ?? state, `${form.state} of ${kind}`);
  }
  if (!stamped && stamp !== 0n) return refusal("stamp", stamp, "0 where it is not stamped");
  if (stamped && isControlKind(kind)) return refusal("stamped", true, `false of ${kind}`);
  const tooLate = checkWide("stamp", stamp);
  if (tooLate !== undefined) return tooLate;
  const permitted = form.data !== "none" ? 1 : kind === "Registered" ? 2 : 0;
  if (status !== 0 && status !== permitted) {
    const names = ["ok", ...(permitted === 0 ? [] : [COHERENCE_STATUS[permitted]])];
    return refusal(
      "status",
      COHERENCE_STATUS[status] ?? status,
      `${names.join(" or ")} of ${kind}`,
    );
  }
  if (form.placed !== "maybe" && placed !== (form.placed === "always")) {
    return refusal("placed", placed, `${!placed} of ${kind}`);
  }
  if (!placed && remote) return refusal("remote", remote, "false without a placement");
  if (!placed && placementVersion !== 0) {
    return refusal("placementVersion", placementVersion, "0 without a placement");
  }
  return agent === 0 ? refusal("agent", agent, "1…255, a far card") : undefined;
}

function checkChange(
  kind: CoherenceCommand,
  { change, offset }: CoherenceEth,
): CardMessageRefusal | undefined {
  const name = COHERENCE_CHANGES[change] ?? "none";
  if ((kind === "Write") !== (name !== "none")) {
    const expected = kind === "Write" ? "write, add or compare-swap" : "none";
    return refusal("change", name, `${expected} of ${kind}`);
  }
  const isAtomic = name === "add" || name === "compare-swap";
  if (isAtomic && (offset % 8 !== 0 || offset >= LINE_BYTES)) {
    return refusal("offset", offset, `a multiple of 8 below ${LINE_BYTES}`);
  }
  if (!isAtomic && offset !== 0) return refusal("offset", offset, "0 without an atomic");
  return undefined;
}

function checkLines(
  kind: CoherenceCommand,
  { lines, address }: CoherenceEth,
): CardMessageRefusal | undefined {
  const rule = FORMS[kind].lines;
  if (rule === "none" && lines !== 0) return refusal("lines", lines, `0 of ${kind}`);
  if (rule === "one" && lines !== 1) return refusal("lines", lines, `1 of ${kind}`);
  if (lines === 0 && rule === "some") return refusal("lines", lines, `1…65535 of ${kind}`);
  // `Hello` and `Welcome` may have any line.
  if (lines === 0 && kind !== "Hello" && kind !== "Welcome" && address !== 0n) {
    return refusal("address", hex(address), `0 of ${kind}`);
  }
  const at = address < ADDRESS_END ? Number(address) : NaN;
  if (at % LINE_BYTES > 0) {
    return refusal("address", hex(address), `a multiple of ${LINE_BYTES}`);
  }
  // False of NaN, too.
  if (!(at / LINE_BYTES + Math.max(lines, 1) <= LINES_END)) {
    return refusal("address", hex(address), `${lines} lines that end by 2^${ADDRESS_BITS}`);
  }
  return undefined;
}

function hex(address: bigint): string {
  return `0x${address.toString(16)}`;
}

function checkPayload(
  kind: CoherenceCommand,
  { header, payload }: CardPacket,
): CardMessageRefusal | undefined {
  const name = coherencePayloadName(kind, header.change), { data } = FORMS[kind];
  const { length } = payload;
  const isLine = name === "coherenceMask" || (data !== "none" && header.status === 0);
  const expected = (name === undefined ? 0 : sizeOf(COHERENCE_PAYLOAD_FIELDS[name])) +
    (isLine ? LINE_BYTES : 0);
  if (data === "maybe" && length === 0) return undefined;
  if (length !== expected) return refusal("payload", `${length} B`, `${expected} B of ${kind}`);
  if (name === "coherenceRegion") return checkWide("bytes", valuesOf(name, payload).bytes);
  return undefined;
}

function checkWide(field: string, value: bigint): CardMessageRefusal | undefined {
  return value <= Number.MAX_SAFE_INTEGER ? undefined : refusal(field, value, "below 2^53");
}

function messageOf(
  kind: CoherenceCommand,
  { header, payload }: CardPacket,
): DecodedCardMessage {
  const { region, transaction } = header;
  const message = isControlKind(kind)
    ? controlMessage(kind, { header, payload })
    : wireMessage(kind, { header, payload });
  return { message, region, transaction };
}

type Parts = Pick<CardPacket, "header" | "payload">;

function lineNumber({ address }: CoherenceEth): number {
  return Number(address) / LINE_BYTES;
}

function placementOf({ remote, placementVersion }: CoherenceEth): Placement {
  return { place: remote ? "remote" : "local", version: placementVersion };
}

function wireMessage(kind: WireMessage["kind"], { header, payload }: Parts): WireMessage {
  const { agent, life, homeLife, region, status, placed, lines } = header;
  const isLost = status === COHERENCE_STATUS.indexOf("lost");
  const hasData = FORMS[kind].data !== "none" && (isLost || payload.length > 0);
  const line = lineNumber(header);
  const message: { -readonly [Field in keyof WireMessage]: WireMessage[Field] } = {
    kind,
    line,
    agent,
    life,
    homeLife,
  };
  if (header.stamped) message.stamp = Number(header.stamp);
  if (kind === "FlushRange" || (kind === "FlushAck" && lines > 1)) message.lines = lines;
  if (kind === "Counts") {
    message.region = region;
    message.counts = valuesOf("coherenceCounts", payload);
  }
  if (hasData) message.data = isLost ? LOST : keptCopyOf(payload);
  if (kind === "Write") message.change = changeOf({ header, payload });
  if (placed) {
    message.placement = placementOf(header);
    if (kind === "Retry" || kind === "Welcome") message.region = region;
  }
  return message;
}

function valuesOf<Name extends CoherencePayload>(name: Name, payload: Uint8Array) {
  return readFields<typeof COHERENCE_PAYLOAD_FIELDS[Name]>(COHERENCE_PAYLOAD_FIELDS[name], {
    view: viewOf(payload),
    at: 0,
  });
}

function changeOf({ header: { change, offset }, payload }: Parts): LineChange {
  switch (COHERENCE_CHANGES[change]) {
    case "add":
      return { kind: "add", offset, ...valuesOf("coherenceAdd", payload) };
    case "compare-swap":
      return { kind: "compare-swap", offset, ...valuesOf("coherenceSwap", payload) };
    default: {
      const { mask } = valuesOf("coherenceMask", payload);
      const bytes = copyOf(payload.subarray(sizeOf(COHERENCE_PAYLOAD_FIELDS.coherenceMask)));
      return { kind: "write", mask, bytes };
    }
  }
}

function controlMessage(kind: ControlMessage["kind"], { header, payload }: Parts): ControlMessage {
  const { agent, life, homeLife, status } = header;
  const pair = { agent, life, homeLife };
  switch (kind) {
    case "Register":
      return { kind, ...pair, bytes: Number(valuesOf("coherenceRegion", payload).bytes) };
    case "Registered": {
      const bytes = Number(valuesOf("coherenceRegion", payload).bytes);
      const result = status === 0 ? "done" : "refused";
      const placement = placementOf(header);
      return { kind, ...pair, result, line: lineNumber(header), bytes, placement };
    }
    case "Deregister":
    case "Deregistered":
      return { kind, ...pair };
  }
}
