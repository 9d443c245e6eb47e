/**
 * The signed-in user. A one-time token becomes a bearer key; the key decides its owner's rights.
 */
import { z } from "zod";
import { name, orNull } from "./common.ts";
import { USER_LETTERS_MAX } from "./page_terms.ts";

/** A viewer may look at everything but the audit log, and change nothing. */
const role = z.enum(["operator", "viewer"]).meta({ id: "Role" });
export type Role = z.infer<typeof role>;

const userName = z.string().max(USER_LETTERS_MAX);

const user = z.object({
  session: z.string(),
  role,
  name: z.string().describe("the user's; where an invitation has given none, the session's"),
}).meta({ id: "User" });

export const users = z.object({ users: z.array(user) }).meta({ id: "Users" });

export const signIn = z.object({
  token: z.string().min(1).max(200).describe(
    "from the fragment of the printed address; works once",
  ),
}).meta({ id: "SignIn" });

export const signedIn = z.object({
  key: z.string().describe("for `Authorization: Bearer KEY`"),
  session: z.string().describe("its name in the audit log"),
  role,
  name: z.string().describe("the user's"),
}).meta({ id: "SignedIn" });
export type SignedIn = z.infer<typeof signedIn>;

export const session = z.object({
  session: z.string(),
  role,
  name: z.string().describe("the user's"),
  version: z.string(),
  rack: z.string().nullable().describe("the rack that this console was started with"),
}).meta({ id: "Session" });
export type Session = z.infer<typeof session>;

export const newLink = z.object({
  role,
  name: userName.optional().describe("of the user who is invited"),
}).meta({ id: "NewLink" });

export const link = z.object({
  url: z.string().describe("signs in one more browser, once"),
  role,
}).meta({ id: "Link" });

const auditEntry = z.object({
  number: z.number().int(),
  at: z.string().describe("wall time, ISO 8601"),
  session: z.string().describe("empty where nobody was signed in"),
  role: orNull(role),
  name: z.string().optional().describe("the user's; absent where nobody was signed in"),
  action: z.string().describe(
    "method and route, as `POST /api/v1/racks/{run}/power`; `read`: a scenario has read a file",
  ),
  target: z.string().describe("the path as it was asked for; the file that was read"),
  detail: z.unknown().describe(
    "the request's body as far as it was read; keys and contents left out",
  ),
  status: z.number().int(),
  refusedBefore: z.number().int().optional()
    .describe("so many requests without a key before this one, which have no entries"),
  result: z.string().describe("`done`, or the message of the refusal"),
}).meta({ id: "AuditEntry" });
export type AuditEntry = z.infer<typeof auditEntry>;

export const audit = z.object({ entries: z.array(auditEntry) }).meta({ id: "Audit" });

export const rackLock = z.object({
  owner: orNull(user.omit({ role: true })).describe(
    "who has brought the rack up, has locked it first, or has got it from its owner",
  ),
  isLocked: z.boolean().describe("only the owner's orders are carried out"),
  since: z.string().optional().describe("when the owner or the lock changed last, ISO 8601"),
  isHere: z.boolean().describe(
    "the owner is signed in at this console; else any operator may take the rack over",
  ),
}).meta({ id: "RackLock" });
export type RackLock = z.infer<typeof rackLock>;

export const lockOrder = z.discriminatedUnion("action", [
  z.strictObject({ action: z.literal("lock") }),
  z.strictObject({ action: z.literal("unlock") }),
  z.strictObject({ action: z.literal("take over") })
    .describe("a rack whose owner is not signed in at this console"),
  z.strictObject({
    action: z.literal("hand over"),
    to: name.describe("the session of the new owner"),
  }),
]).meta({ id: "LockOrder" });
export type LockOrder = z.infer<typeof lockOrder>;
