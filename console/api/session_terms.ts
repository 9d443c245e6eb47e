/** Limits of what users say of themselves, for the server's schemas and the page, which has no zod. */

/** Of a user's name. */
export const USER_LETTERS_MAX = 40;
