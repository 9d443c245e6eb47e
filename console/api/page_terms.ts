/** Words and limits that the server, its schemas and the page share: the page has no zod. */

/** The server says something at least so often, if only that nothing has happened. */
export const FEED_ALIVE_MS = 1_000;
/** A page that has heard nothing for so long says that its server does not answer. */
export const FEED_SILENCE_MS = 2_500;

export const PROJECT_LETTERS_MAX = 40;
/** A project's, also its folder's. */
export const PROJECT_NAME = new RegExp(`^[a-z0-9][a-z0-9-]{0,${PROJECT_LETTERS_MAX - 1}}$`);
export const PROJECT_EXPECTED =
  `1 to ${PROJECT_LETTERS_MAX} small letters, digits and -, no - first`;
export const DEFAULT_PROJECT = "default";

/** A file's: no folders, nothing hidden. */
export const FILE_NAME = /^[A-Za-z0-9_][\w.-]{0,99}$/;
export const FILE_EXPECTED = "1 to 100 letters, digits, _, . and -, no . or - first";

export const PROJECT_LIMITS = {
  projects: 20,
  files: 100,
  fileBytes: 64 << 20,
  projectBytes: 256 << 20,
} as const;

/** Larger than any that a person or a program writes. */
export const SCENARIO_BYTES_MAX = 4 << 20;

/** Of a user's name. */
export const USER_LETTERS_MAX = 40;
