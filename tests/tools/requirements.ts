/**
 * Every numbered line of the five documents' pages, with what proves it: names of tests whose bodies do,
 * or the open issue that is to. `requirements_test.ts` holds the list against the tests.
 *
 * A name is given from behind its numbers, as far as it stands in the source: what a `${…}` puts in is
 * `…`. Where a line asks for several things, its tests prove them together.
 */

/** How far one line holds. */
export type Standing =
  | {
    readonly proof: readonly string[];
    /** What the line asks for besides, and no test proves. */
    readonly lacks?: string;
  }
  | {
    /** The title of the issue that is to do what the line asks for. */
    readonly open: string;
  };

/** Remote persistence: the host, the baselines, the write that persists, what a run reports. */
const PERSISTENCE: Readonly<Record<string, Standing>> = {
  "P-01": {
    proof: [
      "is one coherent memory, and records exactly what would survive",
      "under eADR flow 2 is durable when it reaches the LLC, not before",
      "a wider domain never loses what a narrower one keeps",
    ],
  },
  "P-02": {
    proof: [
      "is flow 2 where DDIO is on and, with +NS only, the packet's NS bit is 0",
      "takes flow 1 where the processor looks at the NS bit, though DDIO is on",
    ],
  },
  "P-03": {
    proof: [
      "holds a write for its time, then it is in the iMC and durable, piece by piece",
      "a read completes only after earlier writes have left, wherever they go",
    ],
  },
  "P-04": {
    proof: [
      "flow 2 leaves data in the LLC, where a power failure loses it",
      "a line that is evicted becomes persistent by it",
      "a store to SCM is volatile until its line is flushed",
    ],
  },
  "P-05": {
    proof: [
      "answers for every place and domain: eADR adds the LLC, wsp all that is on its way",
      "finds in SCM what an earlier life left, and DRAM and LLC empty",
      "killed and started again: SCM as it was",
      "after any kill holds exactly the spans that were reported",
    ],
  },
  "P-10": { proof: ["S201 to S214 in the document's order"] },
  "P-11": { proof: ["S301 to S325, from the WRITE to the answer"] },
  "P-12": {
    proof: ["…, DDIO …: loses at some instant what it took for persistent"],
  },
  "P-20": { proof: ["ONE request with the vendor's opcode carries data, address, PSN and flag"] },
  "P-21": { proof: ["ONE request with the vendor's opcode carries data, address, PSN and flag"] },
  "P-22": {
    proof: [
      "a plain WRITE into a write-persistence region is persisted, whoever asks",
      "in a region without the flag a plain WRITE is not persisted",
      "sends the page table, first VA, length and access flags",
      "grants exactly the region's range, key, domain and permissions",
    ],
  },
  "P-23": {
    proof: ["by opcode or by address: every WRITE opcode, with every set of access flags"],
  },
  "P-24": {
    proof: [
      "data, LSB read, persistence ACK with the data's PSN, one CQE",
      "LSB read and data carry NS = 1 where the processor looks at it, else 0",
      "the persistence ACK is never sent before the LSB read is complete",
      "S901 to S909",
    ],
  },
  "P-25": { proof: ["data, LSB read, persistence ACK with the data's PSN, one CQE"] },
  "P-26": {
    proof: [
      "consumes a RECV with VA, length and PSN; the CPU's SEND becomes the persistence ACK",
      "S1001 to S1019, written before persistent",
    ],
    lacks: "the RECV's WQE is cleared in the ladder only (S1007), not in the host's memory",
  },
  "P-27": {
    proof: ["policy reception completes the WRITE when received and a RECV when persisted"],
  },
  "P-28": {
    proof: [
      "after the reception ACK the next write goes out: persisting and writing overlap",
      "a repeated reception ACK is never taken for the persistence ACK",
      "a persistence ACK is laid out as an ACK is, and is told apart by its opcode",
    ],
  },
  "P-29": {
    proof: [
      "policy reception completes the WRITE when received and a RECV when persisted",
      "may complete once, at persistence, in flow 2 as well (claim 9)",
    ],
  },
  "P-30": {
    proof: [
      "works over several packets per message, with many outstanding",
      "a lost persistence ACK is answered again, reported once, executed once",
      "…, flow …, ends as without it",
      "… from … on end as without faults, or in an error",
    ],
  },
  "P-31": {
    proof: [
      "…: each completion's promise is kept, wherever the power is cut",
      "leave in the order of the messages, whichever the CPU has flushed first",
    ],
  },
  "P-40": {
    proof: [
      "…, DDIO …: writes all, with the requests counted",
      "the methods' is what a run gives, to the digit (deno task bench --only m --write)",
      "takes fewer requests and less time than the baseline of its flow",
    ],
  },
  "P-41": {
    proof: [
      "…, …: …",
      "…: what each of three was told survives, at any of 12 instants",
      "makes every check of every variant, and says how much it has looked at",
    ],
  },
  "P-50": {
    proof: [
      "WRITE, FLUSH, ATOMIC WRITE and atomics, DDIO …: what is answered is in the SCM",
      "takes one trip fewer than WRITE and READ, which wait for each other",
    ],
  },
  "P-51": {
    proof: ["…: a SEND and a READ each, no CPU in between, and all of it is persistent", "put"],
  },
};

/** Hints of what is coming. */
const HINT_LINES: Readonly<Record<string, Standing>> = {
  "H-01": {
    proof: [
      "in batches, up to its depth, each element once, ahead of the first of it",
      "an element has the PSN of its first packet, and both numbers of its queue pair",
      "objects go with their element",
      "the list is in the WQE, for which the ring has room however many are posted",
      "a WQE's objects are named, and brought in where the key's region has them",
      "lists of objects go in each encoding that has room for them, within the path MTU",
      "the card is told where they are; EINVAL for one outside of the region",
    ],
  },
  "H-02": {
    proof: [
      "in batches, up to its depth, each element once, ahead of the first of it",
      "has one hint about the work of several queue pairs, by the numbers of both ends",
      "adaptive ones grow while hints are there before their work's turn, shrink where it waits",
      "are announced ever more rarely, each of them answered, once the peer has said so",
      "are all announced where the card is told so",
      "none is left out where one of each row is needed",
      "a hint that is sent to learn and is needed: all is announced again",
      "one with a key of which nothing was announced so far is announced, and answered",
      "work that is sent again (fault: …): all is announced again",
    ],
  },
  "H-03": {
    proof: [
      "the document's four elements give the hint that groups them by queue pair",
      "of untagged messages the count, in their place among the others",
      "a WQE's objects are named, and brought in where the key's region has them",
      "lists of objects go in each encoding that has room for them, within the path MTU",
      "of an untagged message that names objects none is found, as it has no key",
      "of an object the part that is told is brought in, and nothing beyond the object",
      "operand data goes in each encoding that has room for it, within the path MTU",
      "so are the parts of them that it works on, one of each; else EINVAL",
      "go with their atomics, and are those of the requests",
      "an atomic's operands are behind its entry, ahead of its objects",
      "a part of an object, where it is told, is behind its name",
    ],
  },
  "H-04": {
    proof: ["one hint has a page asked for, its translations read, and an atomic's word"],
  },
  "H-05": {
    proof: [
      "figure …: all hints of a batch leave before its first element",
      "has one hint about the work of several queue pairs, by the numbers of both ends",
    ],
  },
  "H-06": {
    proof: [
      "at once: directly behind it",
      "after a delay: of all elements of the hint, and not for longer",
      "after the ACK that comes once all is prepared, whatever that takes",
      "work of all of them waits for the one answer",
      "as long as the peer asks for the kinds of the hint, and the patience here allows",
      "at an interval from each other, with the wait ahead of the first",
    ],
  },
  "H-07": {
    proof: [
      "…: the bytes that it says, pages are there, PSNs as without",
      "…: none to a peer that has not agreed, or knows no hints",
      "an extra header goes on a READ request, an extra payload does not",
      "a packet that is sent again has no hint any more",
      "a range is rounded up, and ends with its region",
      "chosen per queue pair, by its program",
      "what cannot be is refused, with the reason",
      "ends as without, by whatever way hints go: …",
      "hints_ways.yaml: each encoding by each transport, to two responders",
      "reads every hint of hints_ways.yaml, in each encoding by each transport",
    ],
  },
  "H-08": {
    proof: [
      "one that has failed carries none: each queue pair has its own",
      "the plan's transport: each its own, though there is a carrier",
      "has one hint about the work of several queue pairs, by the numbers of both ends",
      "…: packets of a carrier, …, have the hints of all",
      "a carrier of UC has the hints of …, and answers by the reverse way",
      "a card's trusted group is a privileged program's; an application's is anyone's",
      "figure …: all hints of a batch leave before its first element",
      "figure 9: datagrams to the group have the hints of all queue pairs",
      "a hint to a group that is longer than one datagram is several",
      "an application's group has the hints of its protection domain alone, at both ends",
      "the whole card's belongs to one trusted owner",
      "what is of others, of closed queue pairs or made up is passed over",
      "keys that all members can read open nothing to those who are not meant",
      "ends as without, by whatever way hints go: …",
      "hints_ways.yaml: each encoding by each transport, to two responders",
      "reads every hint of hints_ways.yaml, in each encoding by each transport",
    ],
  },
  "H-09": {
    proof: [
      "a card without hints gets none, and one that has them sends none to it",
      "what a card wants changes with its memory: peers are told, and it is taken back",
      "firmware policy: only queue pairs whose program asks",
      "a question that gets lost is asked again",
      "and not for ever: a peer that says nothing is asked three times",
      "a question of a carrier that gets lost is asked again, when others have work",
      "each preset is possible, but where it takes an IOMMU that is not there",
      "pieces that do not fit each other are refused, by the one to be moved",
      "a request follows its hint, however long firmware or a core makes it",
      "hints_who.yaml: who does the work decides what hints are worth",
    ],
  },
  "H-20": {
    proof: [
      "pages of all elements are asked for at once, so that later ones do not stall",
      "what is there already is acknowledged without a page request",
      "a translation that the host has taken back is invalid, and the next hint asks for it anew",
      "each piece has in each place a cost with its source, or the reason why it is not done there",
      "hardware and firmware take what the table says, for each element",
      "the firmware is one processor: hints wait for each other, and commands for hints",
      "a core is told by an event, and asks for pages when it has answered, past the firmware",
    ],
  },
  "H-21": {
    proof: [
      "by PRI pages come without the driver, and are where the IOMMU says",
      "contexts are read when the firmware has come to them",
      "words of atomics are read when the firmware has come to them",
      "receives are looked at when the firmware has come to them",
      "contexts that are not on the chip are read before their requests come",
      "pages of all elements are asked for at once, so that later ones do not stall",
      "a READ's pages are asked for to be read, a WRITE's to be written",
      "receives are set aside for the count of untagged messages, with their memory",
      "is answered without a DMA read, which was made when its hint came",
      "atomics of one hint on one word are one read, and each finds what the last has left",
    ],
  },
  "H-22": {
    proof: [
      "after the ACK that comes once all is prepared, whatever that takes",
      "a refusal has its reason, and changes nothing of the queue pair",
      "the reason of each element, in messages of their own, the last of which ends the wait",
      "pages that the host does not give are an error, and no preparation",
      "where the key check has not passed, all answers are alike",
      "words that are not read ahead are named, with the reason",
      "a word is acknowledged when it has been read, a refusal waits for nothing",
      "each queue pair's answer has the reasons of its own elements",
      "what a datagram has room for, and an answer has not, is answered by several",
      "after a NAK for …: requests go at once, then …",
      "a request that met what none had announced: the peer says so, all is announced again",
      "the word that they are needless is lost: it is said again, and nothing else changes",
      "by region and requester: other queue pairs, and later ones, begin with what is known",
      "a lost hint, and a lost answer: the request goes when the patience is over",
      "a peer that is silent three times gets no more hints",
    ],
  },
  "H-23": {
    proof: [
      "against …, at every instant: no outcome that is none without a hint",
      "… fails behind each event: each add is executed once, and none is told that is not",
      "power fails in the middle of hints, preloaded atomics and page requests: what is told holds",
      "a host that says nothing of its cores' stores is found out by the same measure",
      "a core's store meets an atomic whose word is in the card: as without hints, at every instant",
      "behind a WRITE of its queue pair it finds what that wrote, in front of one it does not",
      "behind a WRITE of the same hint the word is read once, and not before that",
      "a store into a line that the card keeps is told once, one beside it is not",
    ],
    lacks:
      "a copy for which cores' stores wait (IBV_ATOMIC_GLOB): on the coherent bus, too, a store is told and goes on",
  },
  "H-24": {
    proof: [
      "ends as without: hints …",
      "ends as without, where frames of all kinds are lost, doubled, damaged and late",
      "power fails in the middle of hints, preloaded atomics and page requests: what is told holds",
      "a peer that makes hints up changes no byte and no completion",
      "what was fetched for a requester and not used is no more than its quota",
      "what a core has asked for once for hints is not asked for again, however many name it",
      "contexts that hints of one card bring and no request has used are half of the cache at most",
      "answers and receives of one requester keep the firmware from the driver's commands for so long at most",
      "of one requester's hints no more words are on the chip than its quota, and no more than half",
      "a word that a late copy of a hint has had read changes nothing, and is given up in time",
      "that lie change no result: the request's own decide",
      "of one word no more are kept than a few, however often they come",
      "without valid rights nothing is started; a guesser is not listened to for long",
      "what … promises is in SCM, with hints, whenever power fails",
      "any field, damage, order or carrier: no byte, no completion of others, no page beyond the quota",
      "with a quota of … a flood of another machine delays no operation by more than one page request of it, and misses",
      "a key without rights gets one answer at one time, whatever it opens for others",
      "where a READ cannot tell two states of memory apart, a hint cannot",
      "nor does one message try more keys than all of a queue pair may, whose right one would delay its answer",
      "a queue pair of others gets the answer of one that is not there",
      "hints_hostile.yaml: a malicious host changes no byte, no completion, no latency beyond the bound",
      "hints_put.yaml: nothing that was promised is lost at any instant, by either method and flow",
    ],
  },
  "H-30": {
    proof: [
      "are what programs of hints have measured, with what their servers' cards counted",
      "hints_….yaml: faults, failures and the slowest, with and without",
      "hints_cold_pages.yaml: behind other work a cold message stalls no more",
      "a hint the round trip of a page request ahead removes 90 % of the stall of a cold WRITE of 1 MiB",
      "hints_all_reduce.yaml: what a job announces while it computes stalls it no more",
      "hints_many_queues.yaml: contexts are read before they are missed",
    ],
  },
  "H-31": {
    proof: [
      "the document's four elements give the hint that groups them by queue pair",
      "one queue pair (4) with six elements, and a prefetch hint on it [0101]",
      "figure 9: datagrams to the group have the hints of all queue pairs",
      "hints_ways.yaml: each encoding by each transport, to two responders",
      "figure …: all hints of a batch leave before its first element",
    ],
  },
};

/** Write with verification. */
const VERIFY: Readonly<Record<string, Standing>> = {
  "V-01": {
    proof: [
      "…: every level writes all and is told so once",
      "brings the answer: status and checks, as a success or as VERIFY_ERR",
    ],
  },
  "V-02": {
    proof: ["a CRC that does not fit is told, nothing is written, the connection goes on"],
  },
  "V-03": {
    proof: [
      "sees each byte behind its write, and the last one behind all of them",
      "on …: …: …",
    ],
  },
  "V-04": {
    proof: [
      "…: every level writes all and is told so once",
      "…: each level says what it has checked",
    ],
    lacks: "read-back without any CRC, and the CRC after placing alone (claims 2 and 3)",
  },
  "V-05": {
    proof: [
      "good checks stand for later ones, which takes less time and is told",
      "a sample that fails ends the skipping until the window is clean again",
    ],
  },
  "V-06": {
    proof: [
      "the ladder of a verified write has the document's steps in its order",
      "verified writes are RC's writes without immediate, a word and a CRC more",
    ],
  },
  "V-07": { proof: ["…: every level writes all and is told so once"] },
  "V-08": {
    proof: [
      "on …: …: …",
      "…: …: …",
      "verify_faults.yaml, DDIO …: each fault strikes, all of it is caught",
      "a lost answer is no failure, and nothing is written or looked at twice",
    ],
  },
  "V-09": {
    proof: [
      "…: what verify-persist reported survives a power failure at any instant",
      "in flow 1 the read-back is the flush, and no LSB read goes beside it",
    ],
  },
  "V-10": {
    proof: [
      "…: half the requests, fewer packets and bytes, hardly ever more latency",
      "of many, each is caught or missed, and the counts add up",
      "good checks stand for later ones, which takes less time and is told",
    ],
  },
};

/** Queue information and write pointers. */
const QUEUE_LINES: Readonly<Record<string, Standing>> = {
  "Q-01": {
    proof: [
      "says how deep both queues are, in front of the program's own data",
      "says that no send of a one-sided queue pair takes a receive",
      "who accepts makes room for all that the peer may send",
      "an end with fewer receives than the peer has sends is warned of, and the connection works",
      "compares WQEs, not units, of which an inline WQE takes several",
      "shared receive queues and one-sided queue pairs are exempt; these send nothing",
      "a warning is in the report, once for each of its kind, and a line of the text",
    ],
  },
  "Q-02": {
    proof: [
      "a payload is in the WQE with IBV_SEND_INLINE and not otherwise, whatever its lkey",
      "the driver's own rule, by size or by type, inlines what does not ask for it",
    ],
  },
  "Q-03": {
    proof: [
      "what is encoded in three entries is decoded again, whatever lies where",
      "in space … it stands behind the last unit when all are taken, through three passes of the ring",
      "a program sees what the RNIC has taken, and never more room than there is, round the ring, at …",
      "by … in …: the same completions, memory, rules and errors at the host, plugged in, and at the card; each at its own cost",
    ],
  },
  "Q-04": {
    proof: [
      "of every field of every queue, core and device may write what their space permits",
      "by … a store into space 1, or into space 2 without its lock, is an error that changes nothing",
      "is one queue's: granted until a time, refused to a second host, released once",
      "a lock ends with its queue: reset or destroyed, it is not the program's any more",
      "of a program that dies with it the RNIC takes the lock back after its time, answered by … at …: old values stay, the queue goes on",
      "the depth by value and under the lock, by …",
      "the host's death leaves at the card what is stored there, until the number is used again",
      "it goes with the card's power, and elsewhere with the host",
      "a lock granted by message counts from the grant's arrival, not from when its program has a core",
    ],
  },
  "Q-05": {
    proof: [
      "the shipped rules place each field where it may lie",
      "by … in …, with one entry cached and without a cache, every WQE completes once and in order",
      "by … a store into space 1, or into space 2 without its lock, is an error that changes nothing",
      "the depth by value and under the lock, by …",
    ],
  },
  "Q-06": {
    proof: [
      "as … with the …, cached or not, all that is posted is done once and in order",
      "lost doorbells are rung for again by the driver, read pointer …",
      "a doorbell that finds the doorbell space full is dropped, and rung for again",
    ],
  },
  "Q-07": {
    proof: [
      "a cold queue costs three reads in areas, one as a record; without a cache every doorbell is cold",
      "oldest makes room by the one cached first",
      "several-oldest evicts that many at once",
      "older-than evicts all of an age, and the oldest where none has it",
      "random draws from the seed: the same for one seed, not the same for all",
    ],
  },
  "Q-08": {
    proof: [
      "agrees with the order of posting in every history of a ring",
      "with wrap and recycling no WQE is lost, doubled or reordered, and no pointer older than its doorbell's is used",
      "it grows in place, the last doorbell before the command and behind it",
      "it grows elsewhere, the last doorbell before the command and behind it",
      "a doorbell that rings while space 3 is on its way is not answered by that older read",
      "times of one queue's pointers rise strictly, also at one instant",
    ],
  },
  "Q-09": {
    proof: [
      "recycling: WQE 11 takes data 5 only after data 1 was sent; WQE 21 names a new place",
      "expansion: data 5 goes into a new WQE 15, and from there to the place of WQE 25",
      "it grows in place, the last doorbell before the command and behind it",
      "it grows elsewhere, the last doorbell before the command and behind it",
      "SQ and RQ grow under traffic, in place and in new memory: all complete once, in order",
      "a shared receive queue grows and shrinks in use; all that is posted is taken once",
      "shrinking is refused while the part to be cut holds WQEs, else accepted",
      "survives the cache: the read pointer goes to space 1 first, the new depth is read again",
      "random traffic, locks, dead lock holders, resizes: all complete once, in order",
    ],
  },
  "Q-10": {
    proof: [
      "a pointer costs two reads, one behind the other: its address, then the pointer",
      "by … in … it has stale pointers, and recovers; three-space has none",
      "stale_pointer.yaml: the classic scheme has stale pointers and loses nothing, three-space has none",
    ],
  },
  "Q-11": {
    proof: [
      "have counters, bytes of queue information, latency and throughput",
      "are those that many-queues has measured, where it ran, and stand in its result's place",
      "doorbells cost nothing while the cache has all queues, else a read for each area or one for the record",
      "stale_pointer.yaml: the classic scheme has stale pointers and loses nothing, three-space has none",
      "65 536 queue pairs fit, and each costs as many looks for its numbers as the first",
      "a client that fails, that dies with its host, or whose server does, holds up no other: all are served, or get an error",
      "shows shares of the line by weight, equal and unequal, within 2 %",
    ],
  },
  "Q-12": {
    proof: [
      "the receive queue has WQEs, a write pointer and a doorbell as the send queue has",
      "in a completion queue the roles turn: the RNIC moves the write pointer, the host the read pointer",
      "passes of the ring turn the owner bit, and the host's pointer is read when it looks full",
      "tells how far it is every quarter of the ring, in space 3",
      "a paused completion queue holds its completions, in order; others go on",
    ],
  },
};

/** The coherent RNIC. */
const COHERENCE_LINES: Readonly<Record<string, Standing>> = {
  "C-01": {
    proof: [
      "builds cards of RoCEv1 for a rack, or for a host, and says nothing of RoCEv2's",
      "does all that RoCEv2 does, packet for packet, in frames that are 12 B longer",
      "a card drops the other version's frames, and counts them; the sender gives up",
      "leaves the same memory as RoCEv2 by every method, DDIO …",
      "has one digest as a process per node, per machine and in all",
      "tshark reads the same of RoCEv1, global route headers and tags",
      "gives back every message that coherentToArray is given",
      "a flit of 10 B a line for requests and answers, nine of them for a line of content",
      "draws each message from who sends it to who gets it, and ends with the core",
      "has a track for each line of both caches, a slice for each state, and how many are there",
    ],
    lacks: "the bus's own CRC and retries: its two lower layers are flits, a rate and credits",
  },
  "C-02": {
    proof: [
      "…, DDIO …: the same promises, requests and surviving bytes",
      "…: holds where PCIe's rules say so, and nowhere else",
      "… of …: … ns on PCIe, … ns on the coherent bus",
      "writes take effect in order, reads and interrupts see them, with any number of credits",
      "at every instant, a core that sees the flag sees the data",
      "the flow bit leads past the LLC where the architecture looks at it",
      "each is a form of a message that is converted, or has a reason why it is not",
      "has no pair twice, and a reason that cites its source in each row",
      "each message of the wire is made by a row, and met by a row",
      "at home it is what the directory's table does, pair for pair",
      "at a far card it is what the remote cache's table sends, pair for pair",
      "cards are seen to do what each row says",
      "is what decodeCardMessage takes, through a packet's bytes, for each message",
      "takes a damaged message only as one that has exactly these bytes, and names what is wrong",
      "reads each message between coherent cards, with all its fields",
      "draws each message from who sends it to who gets it, and ends with the core",
    ],
  },
  "C-03": {
    proof: [
      "gives home and far hosts, and their cards, the regions that they have a part in",
      "reads home's memory by three messages, and serves the next reads by itself",
      "a greeting that is lost, or whose answer is, is repeated",
      "a home that does not answer is an error of the command, in bounded time",
      "a host without a part in it, and ranges beyond it, are refused",
      "has one digest in one process, in one per machine and in one per node: a lock that computers share",
      "a handle that has deregistered is refused, and a new one registers again",
      "under traffic: loads see what stores have left: begun …",
      "each placement's costs are seen after it: begun …",
      "is refused on far hosts, where home's judge moves them, and for a place that is none",
    ],
  },
  "C-04": {
    proof: [
      "moves copies where the more accesses come from, after windows that agree",
      "requests with the old placement are sent back, and lose nothing",
      "local costs less below the crossover, remote above, and auto is moved to what does",
      "a far core's wait ends after a move to home's card, too: begun …",
      "nothing old is seen, and every access is answered: seed …",
    ],
  },
  "C-05": {
    proof: [
      "states, changes and statuses fit their fields, and the document's four states are named",
      "each side sees the other's stores, and its cores are told that a copy is gone",
      "a far store takes the line from the LLC, and its cores are told",
      "has a track for each line of both caches, a slice for each state, and how many are there",
    ],
  },
  "C-06": {
    proof: [
      "has the document's steps where the copy is kept locally",
      "reads and writes by home's local cache, and keeps nothing",
      "cards are seen to do what each row says",
      "who keeps a copy serves it alone; others ask over the network",
      "home stores, the far host loads; it stores, home loads",
      "the same of the local cache",
      "a write-done carries no bytes, an atomic's old value and a lost line are told apart",
    ],
  },
  "C-07": {
    proof: [
      "has the document's steps where the copy is kept remotely",
      "reads home's memory by three messages, and serves the next reads by itself",
      "cards are seen to do what each row says",
      "who keeps a copy serves it alone; others ask over the network",
      "home stores, the far host loads; it stores, home loads",
    ],
  },
  "C-08": {
    proof: [
      "has the document's steps where the copy is kept locally",
      "has the document's steps where the copy is kept remotely",
      "each side sees the other's stores, and its cores are told that a copy is gone",
      "a grant goes before a later snoop of its line, though the snoop is ready first",
    ],
  },
  "C-09": {
    proof: [
      "…, either side first, each placement: sequential consistency",
      "two computers, one line: loads, stores, ownership, flushes, evictions",
      "two computers, one line: verbs beside the cores",
      "two computers, one line: the copy moves at any time, the first 8 000 states",
      "many agents, few lines, false sharing: loads return the last store",
      "returns the last store, and zeros before the first",
      "is judged for each pair of states",
      "follows 10 000 atomics of one word by what they found",
      "hosts that access the same lines of a rack keep every promise, copies kept …",
      "home stores, the far host loads; it stores, home loads",
      "two far hosts and home hand a line round, and none sees an old value",
      "loads see what stores have left, and each atomic is done once: …, seed …",
      "deregistration writes back what the far host has written",
      "ends, and far hosts are told by the region's name: …",
      "of a far host brings its lines home, copies kept …",
      "of home brings far lines and its LLC's to SCM, copies kept …",
      "ends programs, which have not failed, and refuses their accesses",
      "writes back what caches have of SCM where no region is",
      "has one digest in one process and in one per machine: a far host and home shut down",
      "fails the verdict, which names the region that was to be given back",
      "names how many programs had not ended",
      "names how many lines of SCM were not written back",
      "is not judged where another power failure cuts it short, or the run ends before",
      "rack run says so, and its exit code is 1",
      "leaves out the promise about shutdowns where no host is shut down",
      "orders it as soon as now is defined, and turns the power off so much later",
      "is for one life of the host: neither it nor its power failure is for the next",
      "by its command, of a host that may be started again",
      "by its command, which fails where it has too little time, and says what was left",
      "goes on where the timekeeper is killed between the order and the power failure",
      "is replayed in one process to the same digests, and written as a fault",
      "goes on in a rack that is brought up in the middle of it",
    ],
  },
  "C-10": {
    proof: [
      "two computers, one line: one fault at any time, with its return: a lease, a cable, a card, a host, on either side",
      "is safe at every instant at which either computer's power may fail",
      "a line that a dead computer had alone, and that keeps its old content, is found",
      "cables, cards on either side: never old data, no second writer, each access answered in time",
      "without a fault nothing is fenced or lost, and at last no message goes",
      "the far card stops at L after sending, and home gives away at L + ε after receiving",
      "are reported as ranges",
      "ends within the bound, to the picosecond",
      "never finds old data once the loss is reported",
      "…, copies kept …: survivors are answered, and told what is lost",
      "survives power failures of either host at every instant, and survivors are answered, copies kept …",
      "that is answered before memory has accepted it is found",
      "every access is answered, and nothing old is seen: …, …, …",
      "a cut that outlasts the lease fences, and a shorter one does not",
      "home's card dies: home's cores wait for the leases, and never see old bytes",
      "the far card dies: its host is told at once, and home after the lease",
      "home's host dies and comes back: far accesses end within leases, and it serves again",
      "has one digest in one process and in one per machine: cables lose, double, damage, reorder and are cut, home dies and comes back",
      "a far host's flush of several lines covers each of them, copies kept …",
      "directory on the card, …: home shows what it received last, the far card says what it had",
      "directory in SCM: the line is poison, and home says so by range, as the far card does",
      "poison outlasts a second power failure, until a store to the whole line is persistent",
      "random accesses around home's power failure, directory in SCM, copies kept …",
      "nothing old is seen, and every access is answered: seed …",
      "has its own host, home, a card of theirs, or the switch fail",
      "ends where a far host …",
      "a far host that was cut off meanwhile is refused when it is back",
    ],
  },
  "C-11": {
    proof: [
      "joins what both computers tell of accesses, and counts messages and hits of each access",
      "a crossover is the range of measured shares in which the cheaper placement changes",
      "a queue has both computers' looks and messages, a lock a row for each that locks",
      "who keeps a copy serves it alone; others ask over the network",
      "behind PCIe cards a far access is a message each way, and home's meet no other computer",
      "every message comes in order, soon where its consumer has the memory, late where it polls",
      "no section's addition is lost, and its check finds one that is",
      "those of shared memory are what a run gives (deno task bench --only s --write)",
    ],
  },
  "C-12": {
    proof: [
      "all pairs of programs return what some order of them allows: …",
      "two computers, one line: loads, stores, ownership, flushes, evictions",
      "two computers, two lines, all tables one entry long: from everywhere it goes on",
      "three computers, one line, the first 8 000 states",
      "is found out, whichever of its rules it is",
      "many agents, few lines, false sharing: loads return the last store",
      "leases end at any time: never old data, every access is answered",
      "cables, cards on either side: never old data, no second writer, each access answered in time",
      "holds, and has the states and the steps of the code, no more and no less: two computers",
    ],
    lacks: "every state of a rack: exploration is of the tables, a rack's accesses are drawn",
  },
};

export const REQUIREMENTS: Readonly<Record<string, Standing>> = {
  ...PERSISTENCE,
  ...HINT_LINES,
  ...VERIFY,
  ...QUEUE_LINES,
  ...COHERENCE_LINES,
};

/** The conformance list of the transport: `rocev2.md` §7, as tests name its rows (`§7 #49`). */
export const CONFORMANCE: readonly string[] = Array.from({ length: 90 }, (_, i) => `#${i + 1}`);
