/** The card's features, in the order in which a step goes through them: each is a room, `state/card_extension.ts` its door. */
import { COHERENCE } from "./coherence/extension.ts";
import { HINTS } from "./hints/extension.ts";
import { PAGING } from "./paging/extension.ts";
import type { CardExtension, HostMessages } from "./state/card_extension.ts";
import { VERIFY } from "./verify/extension.ts";

const ROOMS = [VERIFY, PAGING, HINTS, COHERENCE] as const;

export const EXTENSIONS: readonly CardExtension[] = ROOMS;

/** Of all features; the firmware adds its own commands. */
export const EXTENSION_COMMANDS = allOf("commands");

export const EXTENSION_MESSAGES: HostMessages = allOf("messages");

/** `upcalls.ts` adds those of the other floors. */
export const EXTENSION_UPCALLS = allOf("upcalls");

type Part = "commands" | "messages" | "upcalls";

/** The parts of all rooms as one object: what each has, by its own type. */
type AllOf<P extends Part> = Both<
  Extract<typeof ROOMS[number], { readonly [Name in P]: object }>[P]
>;

type Both<Union> = (Union extends object ? (each: Union) => void : never) extends
  (all: infer All) => void ? All : never;

function allOf<P extends Part>(part: P): AllOf<P> {
  return Object.assign({}, ...EXTENSIONS.map((room) => room[part]));
}
