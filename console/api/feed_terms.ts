/** How the feed shows that its server is there, for the server and the page, which has no zod. */

/** The server says something at least so often, if only that nothing has happened. */
export const FEED_ALIVE_MS = 1_000;
/** A page that has heard nothing for so long says that its server does not answer. */
export const FEED_SILENCE_MS = 2_500;
