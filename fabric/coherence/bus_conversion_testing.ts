/**
 * The protocol conversion module (C-01, C-02; [0045]) as a table: which message of a bus or of the wire makes the
 * card send which. A row is a pair, with its reason; `bus_conversion_test.ts` holds it against what the protocol's
 * tables and cards do. Names on a bus are QPI's in `qpi_messages_testing.ts`; on the wire each is a command of one of three
 * opcodes of InfiniBand (`fabric/wire/roce/coherence_eth.ts`).
 *
 * Where an arrow leads from the wire to the wire, the card answers by itself, as the document lets it: from its
 * cache [0060, 0065], or from the directory (decision 6). `nothing`: only the card's state changes.
 */
import type { CoherenceCommand } from "../wire/roce/coherence_eth.ts";
import type { BusKind } from "../wire/host_bus/region_messages.ts";
import type { CoreMessage } from "./qpi_messages_testing.ts";

/** What the card does by itself: a place or an entry is needed, a time is due, a life begins, software asks. */
export type CardEvent = "evict" | "purge" | "due" | "fenced" | "register" | "deregister";

export type Converted =
  | `bus:${BusKind}`
  | `core:${CoreMessage}`
  | `wire:${CoherenceCommand}`
  | `card:${CardEvent}`
  /** Ordinary InfiniBand operations on a region's lines: READ, WRITE and SEND, atomics. */
  | "verb:read"
  | "verb:write"
  | "verb:atomic"
  /** A report to home's core, which judges frequencies (C-04), or to software. */
  | "report"
  | "nothing";

export interface Conversion {
  /** Whose card does it. */
  readonly at: "home" | "far";
  readonly from: Converted;
  readonly to: Converted;
  readonly why: string;
  /** Where the copy is kept; where there is none, at either. */
  readonly placement?: "local" | "remote";
}

type Row = readonly [from: Converted, to: Converted, why: string];

function rows(
  given: Pick<Conversion, "at"> & { readonly placement?: "local" | "remote" },
  table: readonly Row[],
): readonly Conversion[] {
  return table.map(([from, to, why]) => ({ ...given, from, to, why }));
}

/** Home's card: a directory between the wire and home's bus. One line of the directory, one transaction. */
// deno-fmt-ignore
const AT_HOME: readonly Conversion[] = rows({ at: "home" }, [
  // Far requests become coherent requests to the CPU [0057, 0063].
  ["wire:GetS", "bus:RdData", "[0063]: the far request becomes a coherent one to the local CPU"],
  ["wire:GetS", "wire:RecS", "C-09: another card may have written: its data first"],
  ["wire:GetM", "bus:RdInvOwn", "[0058]: exclusive was asked for"],
  ["wire:GetM", "wire:RecI", "C-09: a single writer: the last one gives the line up"],
  ["wire:Put", "bus:WbMtoI", "C-09: data in M are never lost by eviction"],
  ["wire:Put", "bus:BusFlush", "decision 12: recalled before; memory is asked whether it has what is promised"],
  ["wire:Put", "wire:WbAck", "Tables, HC: dropped, as the line is lent to another by now"],
  ["wire:Flush", "bus:BusFlush", "decision 12: no card has it dirty, perhaps the LLC"],
  ["wire:Flush", "wire:RecS", "decision 12: wherever the dirty copy is"],
  ["wire:FlushRange", "bus:BusFlush", "decision 8: one message for a range, a line at a time at home"],
  ["wire:FlushRange", "wire:RecS", "decision 8: the same, where a card may have it dirty"],
  // The CPU's answers become InfiniBand messages [0064].
  ["bus:GrantS", "wire:DataS", "[0064]: the answer goes to the far card with its data"],
  ["bus:GrantE", "wire:DataE", "[0064]: the answer goes to the far card with its data"],
  ["bus:GrantE", "wire:Inv", "C-09: other readers' copies go before there is a writer"],
  ["bus:Cmp", "wire:DataS", "decision 11: recalled data are in memory, and are lent again"],
  ["bus:Cmp", "wire:DataE", "decision 11: recalled data are in memory, and are lent again"],
  ["bus:Cmp", "wire:WbAck", "decision 12: not before memory has what the far card is promised"],
  ["bus:Cmp", "wire:FlushAck", "decision 12: the answer comes after the memory controller's acceptance"],
  ["bus:Cmp", "nothing", "decision 18: a purge ends; no card awaits it"],
  // The CPU changes a state [0067].
  ["bus:SnpInv", "wire:Inv", "[0067]: the CPU's change becomes an InfiniBand message"],
  ["bus:SnpInv", "wire:RecI", "[0067]: the same, to the one card that may have written"],
  ["bus:SnpInv", "bus:RspI", "[0061]: no far card has it: the card's protocol layer answers by itself"],
  ["bus:SnpInv", "nothing", "decision 9: deferred while a transaction of the line is under way"],
  ["bus:SnpData", "wire:RecS", "[0067]: home's core reads what a far card may have written"],
  ["bus:SnpData", "bus:RspS", "[0061]: shared copies may stay: the card answers by itself"],
  ["bus:SnpData", "bus:RspI", "[0061]: no far card has it: the card's protocol layer answers by itself"],
  ["bus:SnpData", "nothing", "decision 9: deferred while a transaction of the line is under way"],
  // Answers of far cards go to the CPU [0067], or are lent on by way of memory.
  ["wire:InvAck", "bus:RspI", "[0067]: the last far card's answer goes back to the CPU"],
  ["wire:InvAck", "wire:DataE", "C-09: the last reader is gone: now there may be a writer"],
  ["wire:InvAck", "nothing", "C-09: others have not answered"],
  ["wire:RecIData", "bus:RspI", "[0067]: the answer, with what was written, goes back to the CPU"],
  ["wire:RecIData", "bus:WbMtoI", "decision 11: to memory, before anything else; none is to have it"],
  ["wire:RecIData", "bus:WbMtoS", "decision 11: to memory, before the reader gets it"],
  ["wire:RecIData", "bus:WbMtoE", "decision 11: to memory, before the next owner gets it"],
  ["wire:RecSData", "bus:RspS", "[0067]: the answer, with what was written, goes back to the CPU"],
  ["wire:RecSData", "bus:WbMtoS", "decision 11: to memory, before the reader gets it"],
  // Notices.
  ["wire:Dirty", "bus:BusDirty", "[0065]: a write in E: an InfiniBand message notifies the local CPU"],
  ["wire:Dirty", "nothing", "Races, late Dirty: another transaction has dealt with the line"],
  ["wire:Complete", "nothing", "Races, P3: the line's next transaction, or a snoop that waits, may begin"],
  // The card itself.
  ["card:purge", "wire:Inv", "decisions 9, 18: an entry is needed, or the copy moves"],
  ["card:purge", "wire:RecI", "decisions 9, 18: an entry is needed, or the copy moves; what is dirty comes home"],
  ["card:purge", "nothing", "decision 18: nothing is lent"],
  // Ordinary InfiniBand operations on a region's lines become coherent requests too.
  ["verb:read", "bus:RdInvOwn", "decision 6: by agent 0, which takes the line and leaves nothing behind"],
  ["verb:write", "bus:RdInvOwn", "decision 6: the same; other copies are recalled and invalidated"],
  ["verb:atomic", "bus:RdInvOwn", "decision 15: done where the line is owned, so it is atomic for cores, too"],
  ["verb:read", "wire:RecI", "decision 6: what a far card has written is what a READ returns"],
  ["verb:write", "wire:RecI", "decision 6: what a far card has written of the line's other bytes"],
  ["verb:atomic", "wire:RecI", "decision 15: the last value is with a far card"],
  ["bus:GrantE", "bus:WbMtoI", "decision 4: the operation is done, and written back at once"],
  // Firmware.
  ["wire:Hello", "wire:Welcome", "decision 14: a far card's new life is known from here on"],
  ["wire:Renew", "wire:Renewed", "decision 13: the lease's stamp goes back where no other message takes it"],
  ["wire:Counts", "report", "[0026]: the local CPU judges; it cannot see hits in the remote cache (decision 17)"],
  ["wire:Register", "wire:Registered", "[0053]: the far computer registers a region in the local one"],
  ["wire:Deregister", "wire:Deregistered", "decision 21: the far card has written back what it had"],
  ...(["GetS", "GetM", "Read", "Write"] as const).map((kind): Row =>
    [`wire:${kind}`, "wire:Retry", "decision 18: the copy has moved, and the sender does not know"]),
]);

/** Home's card where the copy is kept in its local cache [0056 to 0061]: agent 0 asks as a far card does. */
// deno-fmt-ignore
const AT_HOME_LOCALLY: readonly Conversion[] = rows({ at: "home", placement: "local" }, [
  ["wire:Read", "bus:RdData", "[0060]: invalid here: data are asked of the local CPU again"],
  ["wire:Read", "wire:Value", "[0060]: valid in the local cache: read from there"],
  ["wire:Write", "bus:RdInvOwn", "[0060]: shared or invalid: ownership first (C-09)"],
  ["wire:Write", "wire:Value", "[0059]: only a write-done goes back"],
  ["bus:GrantS", "wire:Value", "[0059]: the kept request is served: read data"],
  ["bus:GrantE", "wire:Value", "[0059]: the kept request is served: a write-done"],
  ["bus:GrantE", "bus:BusDirty", "[0060]: the kept write is done in E: the local CPU is told"],
  ["card:evict", "bus:WbMtoI", "C-09: data in M are never lost by eviction"],
]);

/** A far card: between its cores' non-coherent requests and the wire. */
// deno-fmt-ignore
const AT_FAR: readonly Conversion[] = rows({ at: "far" }, [
  ["core:flush", "wire:Flush", "decision 12: home knows where the dirty copy is, and where memory is"],
  ["core:flush", "wire:FlushRange", "decision 8: many lines, one message"],
  ["core:flush", "core:answer", "decision 12: E and unwritten: what was granted came from memory"],
  ["wire:FlushAck", "core:answer", "decision 12: in home's persistence domain"],
  // The CPU at home changes a state [0067].
  ["wire:Inv", "wire:InvAck", "[0067]: the state changes, and an InfiniBand answer goes back"],
  ["wire:Inv", "core:invalidate", "decision 19: a load that waits for a change looks again"],
  ["wire:RecI", "wire:RecIData", "[0067]: the state changes, the answer has what was written"],
  ["wire:RecI", "core:invalidate", "decision 19: a load that waits for a change looks again"],
  ["wire:RecS", "wire:RecSData", "[0067]: the state changes, the answer has what was written"],
  ["wire:RecS", "wire:RecIData", "Races: it is being written back: nothing is left here"],
  // The copy moves, lives and leases end.
  ["wire:Retry", "wire:GetS", "decision 18: asked again at the new place"],
  ["wire:Retry", "wire:GetM", "decision 18: asked again at the new place"],
  ["wire:Retry", "wire:Read", "decision 18: asked again at the new place"],
  ["wire:Retry", "wire:Write", "decision 18: asked again at the new place"],
  ["wire:WbAck", "nothing", "decision 9: the write-back's buffer is free"],
  ["wire:Welcome", "nothing", "decision 14: requests may go out"],
  ["wire:Renewed", "nothing", "decision 13: the lease counts from the stamp"],
  ["card:due", "wire:Renew", "decision 13: a lease that no message has renewed"],
  ["card:due", "wire:Counts", "decision 17: a window of counts is over"],
  ["card:fenced", "wire:Hello", "decision 14: the card has dropped all, and begins its next life"],
  ["card:fenced", "core:answer", "decision 13: accesses may or may not have been done"],
  ["card:register", "wire:Register", "[0053]: the far computer registers a region in the local one"],
  ["card:deregister", "wire:Deregister", "decision 21: behind the write-backs"],
  ["wire:Deregister", "wire:Deregister", "decision 21: home takes the region back, and the card leaves it"],
  ["wire:Registered", "report", "C-03: software learns where the region is, and where its copy"],
  ["wire:Deregistered", "report", "decision 21: software may reuse the region's address range"],
]);

// deno-fmt-ignore
const AT_FAR_REMOTELY: readonly Conversion[] = rows({ at: "far", placement: "remote" }, [
  ["core:load", "core:answer", "[0065]: valid in the remote cache: served here"],
  ["core:own", "core:answer", "[0065]: E or M: served here"],
  ["core:store", "core:answer", "[0065]: E or M: served here"],
  ["core:load", "wire:GetS", "[0063]: the request becomes an InfiniBand message"],
  ["core:own", "wire:GetM", "[0058]: exclusive is asked for"],
  ["core:store", "wire:GetM", "[0066]: shared can only be read: ownership first (C-09)"],
  ["core:store", "wire:Dirty", "[0065]: a write in E becomes M, and the local CPU is told"],
  ["wire:DataS", "core:answer", "[0065]: the result goes to the core as a QPI answer"],
  ["wire:DataS", "wire:Complete", "Races, P3: snoops of the line may go out from here on"],
  ["wire:DataE", "core:answer", "[0065]: the result goes to the core as a QPI answer"],
  ["wire:DataE", "wire:Complete", "Races, P3: snoops of the line may go out from here on"],
  ["wire:DataE", "wire:Dirty", "[0065]: the store that asked is done in E at once"],
  ["card:evict", "wire:Put", "C-09: E may be M (decision 10): data go home"],
]);

// deno-fmt-ignore
const AT_FAR_LOCALLY: readonly Conversion[] = rows({ at: "far", placement: "local" }, [
  ["core:load", "wire:Read", "[0057]: the request becomes an InfiniBand message; no copy is kept here"],
  ["core:own", "wire:Read", "[0057]: the same; what is owned is the local cache's copy"],
  ["core:store", "wire:Write", "[0057]: the same, with the bytes, or an atomic's operands"],
  ["wire:Value", "core:answer", "[0059]: the InfiniBand answer becomes a QPI answer"],
]);

/** Every conversion of a card, home's first. */
export const CONVERSIONS: readonly Conversion[] = [
  ...AT_HOME,
  ...AT_HOME_LOCALLY,
  ...AT_FAR,
  ...AT_FAR_REMOTELY,
  ...AT_FAR_LOCALLY,
];
