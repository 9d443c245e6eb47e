/** The card's features, in the order in which a step goes through them: each is a room, `state/card_extension.ts` its door. */
import { COHERENCE } from "./coherence/extension.ts";
import { HINTS } from "./hints/extension.ts";
import { PAGING } from "./paging/extension.ts";
import type { CardExtension, HostMessages } from "./state/card_extension.ts";
import { VERIFY } from "./verify/extension.ts";

export const EXTENSIONS: readonly CardExtension[] = [VERIFY, PAGING, HINTS, COHERENCE];

/** Of all features; the firmware adds its own commands. */
export const EXTENSION_COMMANDS = { ...HINTS.commands, ...COHERENCE.commands };

export const EXTENSION_MESSAGES: HostMessages = { ...HINTS.messages, ...COHERENCE.messages };
