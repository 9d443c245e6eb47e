/**
 * Schemas of a scenario file. A message is only the expectation: `reading.ts` adds the position and
 * the value found.
 */
import { z } from "zod";
import {
  ATTACHMENTS,
  BLUE_FLAME,
  type HostTiming,
  LLC_EVICTIONS,
  MEMORIES,
  MEMORY_MODELS,
  PAGE_FAULT_RULES,
  type RnicTiming,
} from "../plan/plan.ts";
import { PS_PER_S, PS_PER_US } from "../../base/time.ts";
import { isWhole, wholeText } from "../../base/whole_number.ts";
import { fatTreeSizes, TOPOLOGIES } from "../assembly/network.ts";
import {
  isObjectName,
  MAX_RNICS,
  OBJECT_NAME_BYTES_MAX,
  OBJECT_NAME_EXPECTED,
} from "../plan/names.ts";
import { DOMAIN_NAMES, PERSISTENCE_DOMAINS } from "../plan/persistence_domain.ts";
import { PROFILE_NAMES, PROFILES } from "../plan/profile.ts";
import { VERIFY_LEVELS } from "../../wire/roce/verify_eth.ts";
import { parseDuration, parseSize } from "../plan/units.ts";
import {
  EXPECTATIONS,
  MANY_QUEUES_MAX,
  type MethodName,
  METHODS,
  type OptionKind,
  PUT_METHODS,
  SERVICES,
  VALUE_KINDS,
} from "../plan/vocabulary.ts";
import {
  differentNames,
  duration,
  DURATION_SHAPE,
  flag,
  integer,
  latency,
  leaf,
  mapping,
  nameOf,
  NAMES_SHAPE,
  namesOf,
  NUMBER,
  oneOf,
  ownFile,
  positiveTime,
  rate,
  renamed,
  size,
  successRate,
  switchable,
  text,
  TEXT_SHAPE,
  textLike,
  valueSchema,
  within,
} from "./values.ts";
import { cablesSchema, switchList } from "./cables_schema.ts";
import { hintsSchema } from "./hints.ts";
import { queuesSchema } from "./queues_schema.ts";

const KIB = 2 ** 10, MIB = 2 ** 20, GIB = 2 ** 30, PAGE = 4096;

/** `receivePs` is `receive` in a scenario, `iioBitsPerSecond` `iioRate`: values have units. */
export function timingName(field: string): string {
  return field.replace(/Ps$/, "").replace(/BitsPerSecond$/, "Rate");
}

const { host, rnic } = PROFILES["clx-optane-cx5"];

function timing<Field extends keyof HostTiming | keyof RnicTiming>(fields: readonly Field[]) {
  const schemaOf = (field: Field) => {
    if (field.endsWith("Ps")) return duration;
    if (field.endsWith("BitsPerSecond")) return rate;
    return field.endsWith("Bytes") ? size(64, MIB, 8) : integer(1, PAGE);
  };
  const rows = fields.map((field) => [field, [timingName(field), schemaOf(field)]]);
  return renamed(
    Object.fromEntries(rows) as Record<Field, readonly [string, z.ZodType<number>]>,
  );
}

const region = mapping({
  at: size(0, 64 * GIB, 64).describe("where in SCM it begins"),
  size: size(64, 64 * GIB, 64).describe("how long it is"),
});
const scmSize = size(0, 64 * GIB, PAGE);
const scmMapping = mapping({
  size: scmSize.optional(),
  regions: z.record(z.string(), region, { error: "a mapping of names to regions" }).optional()
    .describe("named places, which programs of your own find in options.regions"),
});

const roceVersion = oneOf(["v1", "v2"]);

/** A choice: 8 192 hosts and 1 280 switches; every process knows the routes of all. */
export const FAT_TREE_K_MOST = 32;

const LEAF_MOST = fatTreeSizes({ k: FAT_TREE_K_MOST }).edges;
const LEAF_SHAPE = { type: "integer", minimum: 1, maximum: LEAF_MOST };
const leafPlaces = leaf(
  `${wholeText({ least: 1, most: LEAF_MOST })}, or a list of such, one of each RNIC`,
  { anyOf: [LEAF_SHAPE, { type: "array", items: LEAF_SHAPE, minItems: 1, maxItems: MAX_RNICS }] },
  (value): number | readonly number[] | undefined => {
    const isLeaf = (each: unknown) => isWhole(each, { least: 1, most: LEAF_MOST });
    if (!Array.isArray(value)) return isLeaf(value) ? value as number : undefined;
    return value.length > 0 && value.every(isLeaf) ? value as number[] : undefined;
  },
);

/** `defaults` has the same for all hosts. */
export const hostSchema = mapping({
  attach: oneOf(ATTACHMENTS).optional().describe(
    "how the card is attached: as a PCIe device, or to the processor's coherent bus",
  ),
  memory: oneOf(MEMORY_MODELS).optional().describe(
    "order of accesses to shared regions: sc one after the other; tso stores wait in a store buffer, and loads pass them",
  ),
  ddio: oneOf(["on", "off", "both"]).optional().describe(
    "whether inbound DMA goes into the cache; both: two runs",
  ),
  architecture: oneOf(["ddio", "ddio+ns"]).optional().describe(
    "ddio+ns: the card chooses for each write whether it goes into the cache",
  ),
  domain: oneOf(DOMAIN_NAMES).optional().describe(
    "what survives a power failure: " +
      DOMAIN_NAMES.map((name) => `${name} ${PERSISTENCE_DOMAINS[name].saves}`).join(", "),
  ),
  receive: oneOf(MEMORIES).optional().describe("where persistd's receive buffers are"),
  scm: scmMapping.optional().describe("storage class memory: its size, and named places in it"),
  dram: size(MIB, 64 * GIB, PAGE).optional().describe("bytes of DRAM"),
  cores: integer(1, 64).optional().describe("cores of the processor"),
  completion: oneOf(["poll", "interrupt"]).optional().describe(
    "how programs wait: by polling, or woken by an interrupt",
  ),
  blueFlame: oneOf(BLUE_FLAME).optional().describe(
    "whether a WQE posted alone goes to the card with its doorbell: any, one with inline data, none",
  ),
  queues: queuesSchema.optional().describe(
    "queues that the card has room for, or how host and card know their queues",
  ),
  llc: renamed({
    bytes: ["size", size(4 * KIB, GIB)],
    ways: ["ways", integer(1, 64)],
    ddioWays: ["ddioWays", integer(1, 64)],
    evict: ["evict", oneOf(LLC_EVICTIONS)],
  }).optional().describe("the last-level cache, and the ways that DDIO may use"),
  translationCache: mapping({
    entries: integer(8, 2 ** 24).optional(),
    evict: oneOf(["lru", "fifo"]).optional(),
  }).optional().describe("the card's cache of memory translations, one entry for each page"),
  pin: flag.optional().describe("false: memory is registered for on-demand paging"),
  fault: oneOf(PAGE_FAULT_RULES).optional().describe(
    "what becomes of a request whose page is not there",
  ),
  iommu: switchable({ iotlb: ["iotlb", integer(1, 65_536)] }).optional().describe(
    "an IOMMU: the card reaches registered memory alone, and misses of its cache cost time",
  ),
  pressure: renamed({
    at: ["at", duration],
    everyPs: ["every", positiveTime("a time > 0 with its unit, like 50us")],
    times: ["times", integer(1, 100_000)],
    pages: ["pages", integer(1, 2 ** 20)],
  }).optional().describe("the host takes pages of on-demand regions back, now and then"),
  hints: hintsSchema.optional().describe(
    "the card announces coming requests to peers that want it, and prepares for those of its peers",
  ),
  verifyHistory: switchable({
    thresholdPpm: ["threshold", successRate],
    samples: ["samples", integer(1, 65_536)],
    sampleOneIn: ["sample", integer(1, 1_000_000)],
  }).optional().describe("whether a past without failures stands for a read-back, and which"),
  services: oneOf([...SERVICES, "none"]).optional().describe(
    "what runs on the host besides its programs; nothing beside native ones",
  ),
  roce: roceVersion.optional().describe("what its cards speak; else as the fabric says"),
  nics: integer(1, MAX_RNICS).optional().describe(
    "number of its RNICs, each with a cable and an address of its own: b-rnic, b-rnic2 …",
  ),
  leaf: leafPlaces.optional().describe(
    "its leaf, or its edge switch in a fat tree, or a list with that of each of its RNICs; else where the fewest are",
  ),
  timing: mapping({
    host: timing(Object.keys(host) as (keyof HostTiming)[]).optional().describe(
      "of processor, IIO and memory",
    ),
    rnic: timing(Object.keys(rnic) as (keyof RnicTiming)[]).optional().describe("of the card"),
  }).optional().describe("instead of the profile's"),
});
export type HostSection = z.infer<typeof hostSchema>;

const probability = leaf(
  "a number from 0 to 1",
  { type: "number", minimum: 0, maximum: 1 },
  (value) => typeof value === "number" ? within(value, 0, 1) : undefined,
);

const MTUS = [256, 512, 1024, 2048, 4096] as const;

/** SAI's are powers of two. [choice] The range: Mellanox's SAI goes on to 64. */
const ALPHAS: Readonly<Record<string, number>> = Object.fromEntries(
  Array.from({ length: 11 }, (_, i) => i - 7).map((power) => [
    power < 0 ? `1/${2 ** -power}` : String(2 ** power),
    2 ** power,
  ]),
);
const alpha = leaf(
  `a power of two from 1/128 to 8, like 1/8`,
  { enum: [...Object.keys(ALPHAS), ...Object.values(ALPHAS)] },
  (value) => {
    if (typeof value === "number") return Object.values(ALPHAS).find((each) => each === value);
    return typeof value === "string" && Object.hasOwn(ALPHAS, value) ? ALPHAS[value] : undefined;
  },
);

/** Of signals in fibre (SONiC's `buffer_headroom_mellanox.lua`). */
const METRES_PER_S = 198_000_000;

export type HeadroomSection =
  | { readonly kind: "bytes"; readonly bytes: number }
  | { readonly kind: "cable"; readonly latencyPs: number };

const headroom = leaf(
  "a size, like 40KiB, or a cable's length, like 5m",
  {
    anyOf: [
      { type: "integer", minimum: 0, maximum: GIB },
      textLike(NUMBER, " ?(B|KiB|MiB|GiB|m)?"),
    ],
  },
  (value): HeadroomSection | undefined => {
    const length = typeof value === "string" ? /^(\d{1,6}(?:\.\d+)?) ?m$/.exec(value.trim()) : null;
    if (length !== null) {
      const latencyPs = Math.ceil(Number(length[1]) * PS_PER_S / METRES_PER_S);
      return { kind: "cable", latencyPs };
    }
    const bytes = within(parseSize(value), 0, GIB);
    return bytes === undefined ? undefined : { kind: "bytes", bytes };
  },
).describe(
  "for what arrives after a pause: bytes, or for cables so long; else what each cable needs",
);

export const CABLES_DESCRIBED =
  "cables between each leaf and each spine; of an explicit network, the list of all";

export const fabricSchema = mapping({
  topology: oneOf(TOPOLOGIES).optional().describe(
    "star: one switch; direct: two hosts, one cable; leaf-spine: two layers of switches; " +
      "fat-tree: three layers, in pods; explicit: switches and cables as listed",
  ),
  leaves: integer(1, 64).optional().describe("leaf switches of a leaf-spine network"),
  spines: integer(1, 64).optional().describe("spine switches of a leaf-spine network"),
  k: leaf(
    `an even number from 2 to ${FAT_TREE_K_MOST}`,
    { type: "integer", minimum: 2, maximum: FAT_TREE_K_MOST, multipleOf: 2 },
    (value) =>
      isWhole(value, { least: 2, most: FAT_TREE_K_MOST }) && value % 2 === 0 ? value : undefined,
  ).optional().describe("ports of each switch of a fat tree, which has room for k³/4 hosts"),
  switches: switchList.optional().describe("names of the switches of an explicit network"),
  cables: cablesSchema.optional().describe(CABLES_DESCRIBED),
  uplinks: renamed({ bitsPerSecond: ["rate", rate], latencyPs: ["latency", latency] }).optional()
    .describe("cables between switches; else as those of hosts"),
  convergence: duration.optional().describe(
    "until switches leave out one that has lost its last cable to a leaf",
  ),
  roce: roceVersion.optional().describe(
    "what cards speak: v2, over UDP and IP, or v1, over Ethernet alone",
  ),
  rate: rate.optional().describe("of hosts' cables, like 100Gbps"),
  latency: latency.optional().describe("of hosts' cables, > 0, like 25ns"),
  mtu: leaf(
    "256, 512, 1024, 2048 or 4096",
    { enum: MTUS },
    (value) => MTUS.find((mtu) => mtu === value),
  ).optional().describe("payload bytes of a packet"),
  switch: renamed({
    mode: ["mode", oneOf(["cut-through", "store-and-forward"])],
    latencyPs: ["latency", latency],
    queueBytes: ["queue", size(0, GIB).describe("most lossy bytes that wait for one port")],
    bufferBytes: [
      "buffer",
      size(0, GIB).describe(
        "a switch's memory, which its ports share; else the sum of all queues and all headroom",
      ),
    ],
    reservedBytes: [
      "reserved",
      size(0, MIB).describe(
        "of the buffer, for each input port's lossless priority and each output's lossy frames",
      ),
    ],
    alpha: [
      "alpha",
      alpha.describe("most lossy bytes that wait for one port, as a share of the free buffer"),
    ],
  }).optional().describe("what switches do with frames"),
  ecn: switchable({
    kminBytes: ["kmin", size(0, GIB)],
    kmaxBytes: ["kmax", size(0, GIB)],
    pmax: ["pmax", probability],
  }).optional().describe("marks of congestion: all defaults, none, or these"),
  pfc: switchable({
    xoffBytes: [
      "xoff",
      size(0, GIB).describe(
        "bytes of an input port's lossless priority that may wait before a pause",
      ),
    ],
    xonBytes: ["xon", size(0, GIB).describe("bytes that may still wait when the sender goes on")],
    alpha: ["alpha", alpha.describe("in place of xoff: a share of the free buffer")],
    xonOffsetBytes: [
      "xonOffset",
      size(0, GIB).describe("in place of xon: so much below the threshold the sender goes on"),
    ],
    headroom: ["headroom", headroom],
    headroomPoolBytes: [
      "headroomPool",
      size(0, GIB).describe("all ports' headroom together; else each port has its own"),
    ],
  }).optional().describe("pauses of a priority: all defaults, none, or these"),
  dcqcn: switchable({
    g: ["g", probability],
    cnpIntervalPs: ["cnpInterval", duration],
    alphaTimerPs: ["alphaTimer", latency],
    rateTimerPs: ["rateTimer", latency],
    byteCounterBytes: ["byteCounter", size(1, GIB)],
    fastRecovery: ["fastRecovery", integer(1, 100)],
    additiveBps: ["additive", rate],
    hyperBps: ["hyper", rate],
    minBps: ["minRate", rate],
    decreaseIntervalPs: ["decreaseInterval", duration],
  }).optional().describe("rate control by marks: all defaults, none, or these"),
  priorities: mapping({
    dscp: integer(0, 63).optional(),
    cnp: integer(0, 63).optional(),
    lossless: z.array(integer(0, 7), { error: "a list of priorities from 0 to 7" }).optional()
      .describe("where PFC is on"),
  }).optional().describe("of frames, of congestion notifications, and where PFC is on"),
  bus: renamed({ latencyPs: ["latency", latency], bitsPerSecond: ["rate", rate] }).optional()
    .describe("PCIe between a host and its RNIC"),
  coherentBus: renamed({ latencyPs: ["latency", latency], bitsPerSecond: ["rate", rate] })
    .optional().describe("between a host and its RNIC with attach: coherent"),
});
export type FabricSection = z.infer<typeof fabricSchema>;

/** Part of a subject, of a file name and of a process name. */
export const NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9-]{0,39}$/;
export const NAME_EXPECTED = "a name of letters, digits and '-', at most 40";
const name = leaf(
  NAME_EXPECTED,
  { type: "string", pattern: NAME_PATTERN.source },
  (value) => typeof value === "string" && NAME_PATTERN.test(value) ? value : undefined,
);
const HOST_NAMES_EXPECTED = "a host's name, a range like s1..s4, a list of them, or all";
const hostNames = leaf(HOST_NAMES_EXPECTED, NAMES_SHAPE, namesOf);

const METHODS_EXPECTED = "a method, a list of different ones, or all";

function methodsOf(names: readonly MethodName[]) {
  const method = nameOf(names);
  const list = { type: "array", items: { enum: names }, minItems: 1, uniqueItems: true };
  return z.unknown().transform((value, context): readonly MethodName[] => {
    if (value === "all") return METHODS;
    const list: readonly unknown[] = Array.isArray(value) ? value : [value];
    if (list.length === 0 || new Set(list).size < list.length) {
      context.addIssue({ code: "custom", message: METHODS_EXPECTED });
      return z.NEVER;
    }
    return list.map((each, i) => {
      const parsed = method.safeParse(each);
      if (parsed.success) return parsed.data;
      const path = Array.isArray(value) ? [i] : [];
      context.addIssue({ code: "custom", message: parsed.error.issues[0]!.message, path });
      return z.NEVER;
    });
  }).meta({ description: METHODS_EXPECTED, anyOf: [{ enum: ["all", ...names] }, list] });
}

const QUEUE_PAIRS_EXPECTED =
  `a number of queue pairs from 1 to ${MANY_QUEUES_MAX}, or a list of different ones`;
const QUEUE_PAIRS_SHAPE = { type: "integer", minimum: 1, maximum: MANY_QUEUES_MAX };

const VALUE_SCHEMAS = Object.fromEntries(
  Object.entries(VALUE_KINDS).map(([name, kind]) => [name, valueSchema(kind)]),
) as Readonly<Record<keyof typeof VALUE_KINDS, z.ZodType>>;

export const OPTION_SCHEMAS: Readonly<Record<OptionKind, z.ZodType>> = {
  ...VALUE_SCHEMAS,
  "host": text,
  "hosts": leaf(
    "a list of different hosts' names, or a range like s1..s4",
    NAMES_SHAPE,
    differentNames,
  ),
  "method": methodsOf(METHODS),
  "put-method": methodsOf(PUT_METHODS),
  "verify-level": oneOf(VERIFY_LEVELS),
  "queue-pairs": leaf(
    QUEUE_PAIRS_EXPECTED,
    { anyOf: [QUEUE_PAIRS_SHAPE, { type: "array", items: QUEUE_PAIRS_SHAPE, minItems: 1 }] },
    (value) => {
      const list: readonly unknown[] = Array.isArray(value) ? value : [value];
      const isRight = list.length > 0 && new Set(list).size === list.length &&
        list.every((each) =>
          Number.isInteger(each) && (each as number) >= 1 && (each as number) <= MANY_QUEUES_MAX
        );
      return isRight ? value as number | number[] : undefined;
    },
  ),
  "microseconds": leaf("a time with its unit, like 200us", DURATION_SHAPE, (value) => {
    const ps = parseDuration(value);
    return ps === undefined ? undefined : ps / PS_PER_US;
  }),
  "object": leaf(
    `an object's name of ${OBJECT_NAME_EXPECTED}`,
    { type: "string", minLength: 1, maxLength: OBJECT_NAME_BYTES_MAX },
    (value) => typeof value === "string" && isObjectName(value) ? value : undefined,
  ),
  "text": text,
};

const programName = leaf(
  "a shipped program's name, or in its place program: with the path of your own, or native: with a command",
  TEXT_SHAPE,
  (value) => typeof value === "string" && value !== "" ? value : undefined,
);

/** Keys of every program of a scenario. */
const COMMON_KEYS = {
  on: hostNames.describe("the host that runs it, a range like s1..s4, a list of hosts, or all"),
  at: duration.optional().describe("so long after its host's boot, like 200us"),
  restart: flag.optional().describe("whether it starts again at every later boot of its host"),
  service: flag.optional().describe("whether it only serves, so that it need not end"),
  privileged: flag.optional().describe(
    "whether it may do what a kernel asks CAP_NET_RAW for, like having a card's trusted group",
  ),
  weight: integer(1, 255).optional().describe(
    "its queue pairs' share of the line beside the host's others; 1 unless given",
  ),
};

/** Keys of every shipped program, and every one of the user's own; `options` depends on the program. */
export const programSchema = z.preprocess(
  // `program: ./my_protocol.ts` is an alias of `run:` for a user's own file.
  (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    const { program, ...rest } = value as Record<string, unknown>;
    return program === undefined || "run" in rest ? value : { run: program, ...rest };
  },
  z.looseObject({
    ...COMMON_KEYS,
    run: programName.describe(
      "a shipped program's name, or the path of your own, like ./my_protocol.ts",
    ),
    nic: integer(1, MAX_RNICS).optional().describe(
      "which of its host's RNICs it uses, counted from 1; the first one unless given",
    ),
  }, { error: "a mapping with on and run" }),
);

const argument = leaf(
  'a text, a number in quotes, like "100"',
  { type: "string" },
  (value) => typeof value === "string" && !value.includes("\0") ? value : undefined,
);
const NATIVE_EXPECTED = 'a list of a program and its arguments, like [ib_write_lat, -x, "1"]';
const nativeCommand = z.array(argument, { error: NATIVE_EXPECTED })
  .min(1, { error: NATIVE_EXPECTED });

/** The names that are the rack's own: what is preloaded, and the pipes of a program. */
const RESERVED_VARIABLE = /^(LD_PRELOAD|LD_AUDIT|RACKMESH_.*)$/;
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const environment = z.record(z.string(), argument, { error: "a mapping of variables to texts" })
  .superRefine((variables, context) => {
    for (const name of Object.keys(variables)) {
      const message = !VARIABLE.test(name)
        ? "a variable's name: letters, digits and _, no digit first"
        : RESERVED_VARIABLE.test(name)
        ? "another variable, as this one is the rack's own"
        : undefined;
      if (message !== undefined) context.addIssue({ code: "custom", message, path: [name] });
    }
  });

/** Keys of a native program. */
export const nativeSchema = mapping({
  on: COMMON_KEYS.on,
  native: nativeCommand.describe("a binary of this machine, by name or path, and its arguments"),
  recover: nativeCommand.optional().describe(
    "another one, which rack explore runs on what a power failure leaves of the host's SCM",
  ),
  env: environment.optional().describe("its environment, besides PATH, HOME and LANG"),
  at: COMMON_KEYS.at,
  restart: COMMON_KEYS.restart,
  service: COMMON_KEYS.service,
  privileged: COMMON_KEYS.privileged,
  weight: COMMON_KEYS.weight,
});

/** `true` denotes the run's own directory. */
const captureTarget = leaf(
  "true, or a path",
  { anyOf: [{ enum: [true] }, TEXT_SHAPE] },
  (value) => value === true || (typeof value === "string" && value !== "") ? value : undefined,
);
const captureSchema = mapping({
  pcap: captureTarget.optional()
    .describe("every frame at every port, for Wireshark: a folder, or true for the run's own"),
  perfetto: captureTarget.optional()
    .describe("who was busy when, for ui.perfetto.dev: a file, or true for the run's directory"),
});
export type CaptureSection = z.infer<typeof captureSchema>;

export const expectationSchema = nameOf(EXPECTATIONS);

/** Items of lists have schemas of their own. */
export const SECTIONS = {
  name,
  seed: integer(0, Number.MAX_SAFE_INTEGER).optional()
    .describe("of all that is drawn by chance; 1 unless given"),
  profile: nameOf(PROFILE_NAMES).optional().describe("timings of devices by name"),
  fabric: fabricSchema.nullish().describe("the network, and the buses of the hosts"),
  defaults: hostSchema.nullish(),
  hosts: z.unknown(),
  programs: z.unknown(),
  faults: z.unknown(),
  shared: z.unknown(),
  coherence: ownFile("./my_coherence.ts").optional().describe(
    "rows of the coherent cards' protocol in the place of its own: the path of your file",
  ),
  expect: z.array(expectationSchema).nullish()
    .describe("checks that the scenario is about: each must find something to look at"),
  until: positiveTime("a time > 0 with its unit, like 1ms").optional()
    .describe("the rack ends at this virtual time, if not before"),
  capture: captureSchema.nullish().describe("what every run leaves to look at"),
} as const;
