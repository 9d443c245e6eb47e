/**
 * Device timings by name: every duration and rate of a host, an RNIC, a switch and the cables, with
 * its source:
 *
 *   [table]   a published measurement
 *   [derived] arithmetic on such measurements, shown
 *   [choice]  no measurement available: the chosen value and its reason
 *
 * No value is tuned to influence a comparison between methods.
 *
 * Sources: Neugebauer = Neugebauer et al., SIGCOMM'18, raw data (PCIe Gen3 x8, as the device sees
 * it); MLC = Intel Memory Latency Checker on Cascade Lake, FD.io CSIT; FAST'20 = Yang et al., fig. 2 where no other
 * is named, raw data in NVSL/OptaneStudy; ATC'21 = Wei et al.; SoCC'20 = Kalia et al.; RPMA = Intel RPMA report 2021, fig. 1; NSDI'20 =
 * Yang et al.; NSDI'19 = Kalia et al.; Shen = Shen et al., 2023 (NP-RDMA); perftest = perftest logs
 * (ConnectX-3, -5; READs of one queue pair: -6, openucx/ucx issue 8852).
 */
import type { HostPlan, HostTiming, RnicPlan, RnicTiming, SwitchPlan } from "./plan.ts";
import type { Time } from "../../base/time.ts";

export interface Profile {
  readonly host: HostTiming;
  readonly rnic: RnicTiming;
  readonly bus: { readonly latencyPs: Time; readonly bitsPerSecond: number };
  /** `host`: timings that differ for cards on the coherent bus. */
  readonly coherent: {
    readonly bus: { readonly latencyPs: Time; readonly bitsPerSecond: number };
    readonly host: Partial<HostTiming>;
  };
  readonly network: { readonly latencyPs: Time; readonly bitsPerSecond: number };
  readonly switch: Pick<SwitchPlan, "latencyPs" | "queueBytes" | "mode">;
  readonly mtu: RnicPlan["mtu"];
  readonly cores: number;
  readonly blueFlame: HostPlan["blueFlame"];
  readonly llc: { readonly bytes: number; readonly ways: number; readonly ddioWays: number };
  readonly translations: { readonly entries: number };
}

/*
 * Parts of a round trip over the bus. A read of 64 B takes 427–440 ns from the LLC, 480–520 ns
 * from DRAM (Neugebauer), so 434 and 500 in the middle:
 *
 *   request 26 B + completion 90 B at 126 Gb/s      2 + 6 ns
 *   twice the latency of the bus                    2 · 150 ns   [choice] of the split
 *   host, line in the LLC                           434 − 308 = 126 ns
 *   host, line in DRAM                              500 − 308 = 192 ns
 *   host, line in SCM, buffered by its module   192 + 124 − 101 = 215 ns (FAST'20: Optane less DRAM, see below);
 *                      on the medium            181 ns more, 192 + 305 − 101
 *
 * A write of 64 B and a read behind it take 547–560 ns in a window that the LLC holds (Neugebauer),
 * 120 ns more than the read alone, which waits for the write ahead of it (P-03): 6 ns until that is off
 * the bus, 110 ns in the IIO, 1 ns to leave it.
 *
 * Parts of an operation, post → CQE taken. Of a measured sum, the remainder for cores and RNICs is
 * [derived]; its split over instructions and modules is a [choice].
 *
 *   core   post 40, a line's store 5 or load 20, fence behind write-combined stores 50, two looks at a CQ
 *          2 · (10 + 20)
 *   RNIC   scheduling 30 for each DMA read and WQE, sending 40, receiving 50, data read by a key 400
 *
 * A WQE posted alone travels with its doorbell, as drivers send it (BlueFlame), even if its data does
 * not; an RNIC that fetches a WQE, as for a list, needs one more DMA read, 0.46 µs.
 *
 *   WRITE 64 B inline, one switch: 1.3 µs (SoCC'20)
 *     core 195 + RNICs 210 + WQE and doorbell 163 + CQE 156 and its IIO 111 + cables 4 · 25 + switch
 *     2 · 150 + serialisation 30 + the ACK behind the data on the bus 6 = 1.26 µs
 *   READ of DRAM, direct cable (RPMA)
 *     256 B 1.86–1.99 µs, 1 KiB 1.98–2.17 µs, 4 KiB 2.79–2.97 µs
 *   Crossing the inline limit: +0.74 … +0.91 µs (perftest): the payload is fetched
 *
 * With the bus's round trip alone, a READ of 256 B would take 1.47 µs and the crossing 0.43 µs. Both
 * lack the RNIC's work for data read by a key (check, translation, arbitration): 0.39–0.52 and
 * 0.31–0.48 µs; READs of 1 and 4 KiB allow 0.39–0.47 µs. Small READs of one queue pair follow each
 * other by 0.39 µs, however many are outstanding (a perftest log, ConnectX-6: 2.55 million a second,
 * 2 B to 128 B): the same work, one READ at a time. 0.40 fits all of them.
 *
 * A card on the coherent bus (C-01, C-02) is as far away as a second socket. Latency checker, Cascade Lake, two
 * sockets (gjbex/Code-optimization, info/cascadelake_mlc.txt): DRAM 80.8 ns, the other socket's 140.4; a line that
 * another socket's core has modified 114:
 *
 *   there and back                                 140.4 − 80.8 = 60 ns
 *   of which flits 1 + 9 of 80 bits at 192 Gb/s     4 ns
 *   the bus, one way                                28 ns   [derived]
 *   host, line in DRAM                              81 ns; in the LLC 114 − 60 = 54 ns
 *   host, line in SCM, buffered by its module       81 + 124 − 101 = 104 ns; on the medium 181 ns more (FAST'20)
 *
 * A whole write asks for its lines (54 ns in the host) and sends their bytes, which the iMC accepts 52 ns later (the
 * wait of a core's fence for the same).
 *
 * `profile_sums_testing.ts` has these sums in full; `tests/programs/perftest_test.ts` holds runs of
 * `ib_write_lat` and `ib_read_lat` against them, which agree within 5 %.
 */
const CLX_OPTANE_CX5: Profile = {
  host: {
    // [choice] Without an L1 this is the cost of any load that hits. Upper bound: MLC's 55.6 ns for
    // a line that another core modified.
    llcHitPs: 20_000,
    // [table] MLC: DRAM idle, local.
    dramLoadPs: 81_000,
    // [derived] FAST'20: a random read of Optane, all from the medium, takes 305 ns; of sequential ones, 169 ns, every
    // fourth does, as blocks have four lines: (4 · 169 − 305) / 3. Their deviations, 28 and 68 ns, say the same: two
    // kinds of reads among the latter. VANS, a simulator held against Optane, has 135 ns.
    scmLoadPs: 124_000,
    scmMediumPs: 181_000,
    // [derived] FAST'20: store + clwb + fence of one line to Optane is 62 ns = store 5 + issue 5 +
    // fence 52. The split is a [choice]: the accepting iMC dominates.
    storePs: 5_000,
    // [table] Intel, 64 and IA-32 Architectures Optimization Reference Manual, Skylake.
    storeBufferEntries: 56,
    // [choice] From a store's execution to its retirement: some tens of cycles. A store stays
    // longer only if earlier ones wait for their lines.
    storeBufferPs: 10_000,
    // [derived] With the store, above; the split is a [choice].
    flushIssuePs: 5_000,
    fencePs: 52_000,
    // [table] SoCC'20: one core writes 4.3 GB/s to PM; FAST'20, fig. 4, raw data: 4.1.
    ntStoreBitsPerSecond: 34_400_000_000,
    // [derived] FAST'20, fig. 14, raw data: store + clwb + fence of 2 KiB takes 1 015 ns, of 4 KiB 1 774, so a line 23.7,
    // of which the store is 5. The rest includes that its store misses, which no store of the model does.
    clwbStoredBitsPerSecond: 27_400_000_000,
    // [choice] No measurement of lines that DDIO has put into the LLC was found. Nothing but a core's ten line fill
    // buffers (Intel's optimisation manual) is assumed to limit it, each in use for the 57 ns until the iMC has the line.
    clwbDeviceBitsPerSecond: 89_800_000_000,
    // [derived] The remainder of the sums above; the split is a [choice].
    postPs: 40_000,
    pollPs: 10_000,
    mmioPs: 50_000,
    // [choice] The lower end of Shen's minor fault with a driver's help, 3.5–5.7 µs, which also
    // includes an interrupt, a driver and a thread wake-up.
    interruptPs: 3_500_000,
    // [derived] Above: 434, 500 ns and FAST'20's difference, less the bus.
    dmaReadLlcPs: 126_000,
    dmaReadDramPs: 192_000,
    dmaReadScmPs: 215_000,
    // [derived] Neugebauer: 64 B → 2 KiB costs 573 ns for 1984 B = 0.289 ns/B, of which the x8 bus
    // with its packet overhead has 8 · 282/256 / 63 Gb/s = 0.140.
    dmaReadBitsPerSecond: 53_700_000_000,
    // [derived] See above.
    iioPs: 110_000,
    // [choice] Four times the bus: in the model a DMA write arrives with its last byte; in reality
    // its first bytes begin to drain long before.
    iioBitsPerSecond: 504_000_000_000,
    // [choice] One bus packet's payload; also Optane's granularity (FAST'20).
    iioDrainBytes: 256,
    // [table] FAST'20, §2: two controllers with three channels each, interleaved by 4 KiB for Optane.
    memoryChannels: 6,
    scmInterleaveBytes: 4096,
    // [choice] For DRAM, what systems are set up with differs, from a line on; a packet of the bus does not straddle.
    dramInterleaveBytes: 256,
    // [choice] Its content survives, so it only affects back-pressure. VANS (Wang et al., MICRO'20) has 64 lines in a
    // module before its buffer, beside those of the controller.
    wpqLines: 64,
    // [table] FAST'20, fig. 4, raw data: one module reads 6.5 GB/s and writes 2.22 (2.3 in the text).
    // Six: 39 and 13.3 GB/s; measured 38 and 12.5 to 13.4 (figs. 4 and 14).
    scmReadBitsPerSecond: 52_000_000_000,
    scmWriteBitsPerSecond: 17_760_000_000,
    // [table] FAST'20, fig. 4, raw data: 24 threads write 76.8 GB/s to six channels of DRAM.
    dramWriteBitsPerSecond: 102_400_000_000,
    // [derived] 64 B at 2 666 MT/s of 8 B (FAST'20, table of the machine).
    scmLinePs: 3_000,
    // [derived] NSDI'20: registering a page takes 5 µs. The split, driver 4 + firmware 1, is a
    // [choice].
    commandPs: 4_000_000,
    // [choice] Shen's 3.5 µs of a minor fault also include an interrupt and a driver.
    minorFaultPs: 1_000_000,
    // [derived] Shen: a major fault costs 60 µs where a minor one costs 3.5: the rest is the page's
    // device.
    majorFaultPs: 57_500_000,
    // [table] Linux, commit 4ca9b3859dac (MADV_POPULATE_WRITE), its message: 2 MiB of absent
    // private memory populated in 158 us, 512 pages without a trap for each (222 us with it); 4
    // GiB: 0.55 us a page. [choice]: the card's driver is as fast (`hmm_range_fault`), and a
    // present page costs as much as an absent one.
    rangePagePs: 309_000,
    // [derived] Three commercial CXL memory expanders have 2 to 5 times local DRAM's latency
    // (Exploring and Evaluating Real-world CXL, arXiv 2405.14209, read in a summary). 3 times 81 ns
    // is a [choice].
    pluggedLoadPs: 243_000,
    // [table] Neugebauer: an IOTLB miss costs 227 to 294 ns more; the middle.
    iotlbMissPs: 260_000,
    // [choice] A real boot time has no meaning for RDMA; short, so that a ladder begins early.
    bootPs: 1_000_000,
  },
  rnic: {
    // [derived] The remainder of the sums above; the split is a [choice].
    receivePs: 50_000,
    schedulePs: 30_000,
    sendPs: 40_000,
    // [derived] See above.
    dataReadPs: 400_000,
    // [choice] As a scheduling step.
    persistPs: 30_000,
    // [derived] NSDI'20, with the host's commandPs.
    commandPs: 1_000_000,
    // [derived] NSDI'20: a WRITE of 8 B to a page that is not mapped takes 475 µs on a ConnectX-4,
    // 1.4 µs to one that is. Interrupt 3.5, kernel 1, the command that maps the page 4 + 1 and bus
    // 0.6 are known; the rest is the firmware's, all before the event: a [choice].
    pageFaultPs: 463_500_000,
    // [choice] Twenty times the 5 µs of a store and a command's round trip, for the core's other
    // programs. A peer that is refused meanwhile waits ten RNR timers and does not reach its local
    // ACK time-out, 1.05 ms.
    space2LockPs: 100_000_000,
    // [choice] The payload of one bus packet.
    wqeFetchUnits: 4,
    // [choice] One read request of the bus (`MAX_READ_REQUEST_BYTES`).
    dmaReadBytes: 512,
    // [derived] RPMA: large READs run at 87 Gb/s. 512 B from DRAM take 500 + 67 (its lines) + 30
    // (bus) = 597 ns, so 13 of them are in flight.
    dmaReadsMax: 13,
    // [choice] The largest payload of a packet: its read requests are issued together.
    gatherReadBytes: 4096,
    // [choice] PCIe's five-bit tags. WRITEs reach the port's rate, unlike READs (perftest: 97–98
    // Gb/s on ConnectX-5), so fetches must not be the limit: 256 B take 529 ns, and 100 Gb/s need
    // 26 in flight at every path MTU except 256.
    gatherReadsMax: 32,
    // [choice] As a scheduling step.
    convertPs: 30_000,
    // [choice] Some cycles of block RAM. CCI-P's soft caches and Enzian's directory are given as
    // tens of nanoseconds, surroundings included.
    lookUpPs: 30_000,
    // [derived] A read line is under way for 0.2 µs, a written one for 0.3 µs: a port's 100 Gb/s
    // need 59, the bus's own 137 Gb/s 80. The next power of two.
    busLinesMax: 128,
  },
  bus: {
    // [choice] The split of a measured round trip.
    latencyPs: 150_000,
    // [derived] 87 Gb/s (RPMA) do not fit Gen3 x8's 63 Gb/s, so x16: 16 · 8 GT/s · 128/130.
    bitsPerSecond: 126_000_000_000,
  },
  coherent: {
    bus: {
      // [derived] See above.
      latencyPs: 28_000,
      // [table] QPI at its fastest, 9.6 GT/s on 20 lanes.
      bitsPerSecond: 192_000_000_000,
    },
    host: {
      // [derived] See above.
      dmaReadLlcPs: 54_000,
      dmaReadDramPs: 81_000,
      dmaReadScmPs: 104_000,
      iioPs: 52_000,
      // [derived] The latency checker's 34.3 GB/s between two sockets, over two links.
      dmaReadBitsPerSecond: 137_000_000_000,
    },
  },
  network: {
    // [choice] Five metres at 5 ns/m; the measurements include it.
    latencyPs: 25_000,
    // [table] A 100 Gb/s port.
    bitsPerSecond: 100_000_000_000,
  },
  switch: {
    mode: "cut-through",
    // [table] SoCC'20: 150–400 ns a crossing; a WRITE in 1.3 µs permits no more than the lower end.
    latencyPs: 150_000,
    // [choice] A twelfth of the 12 MiB that all ports share (`rocev2.md` §3.9).
    queueBytes: 1 << 20,
  },
  // [choice] The largest that there is.
  mtu: 4096,
  // [choice] A few, for programs beside services.
  cores: 4,
  // rdma-core, `providers/mlx5`: `prefer_bf` is on unless MLX5_POST_SEND_PREFER_BF says otherwise.
  blueFlame: "on",
  // [choice] One slice of the CPU's LLC: 11 ways of 2048 sets. DDIO has two ways, Intel's default.
  // Small, so that evictions occur within microseconds.
  llc: { bytes: 11 * 2048 * 64, ways: 11, ddioWays: 2 },
  // [choice] 1 MiB of entries of 8 B (Linux, mlx5: `umem_dma_to_mtt`): 512 MiB in pages of 4 KiB.
  // NSDI'19 is said to give a ConnectX-5 2 MB for state of all kinds; neither that paper nor a
  // manufacturer's number could be opened. Memory of queues: `CACHED_QUEUES`.
  translations: { entries: 2 ** 17 },
};

/*
 * The same server with a card that is an FPGA, on PCIe or on the coherent bus. Sources: Enzian = enzian.systems, How
 * fast is ECI really (2022): its coherent logic runs at around 300 MHz, and is sooner than PCIe x16 at transfers below
 * 2 KiB; Gemieux = Gemieux et al., IEEE Access 6 (2018), abstract: Broadwell with an Arria 10 on its UPI and two PCIe
 * links, whose FPGA cache answers after 25 cycles at 400 MHz; GROVF = BittWare's page of that RoCEv2 core for FPGAs:
 * software to software and back in less than 2.7 µs.
 *
 *   a cycle at 300 MHz                               3.33 ns
 *   the FPGA's cache or directory, 25 cycles         83 ns
 *   a SEND there and back, ConnectX-3                2 · 1.07 … 1.16 = 2.14 … 2.32 µs (perftest, half of it)
 *   the same of GROVF's core, less than 2.7 µs       0.47 µs more, by four passages of a card: 118 ns each
 *   a passage of a ConnectX-5: receive, schedule, send   50 + 30 + 40 = 120 ns
 *
 * So a passage of the FPGA takes twice as long. A coherent read of a line of DRAM then takes 83 + 83 + 60 + 81 = 307 ns
 * as the FPGA sees it; that of an Agilex 7's CXL.cache takes some 300 cycles (a user's report in Altera's forum, 2025).
 */
const CLX_OPTANE_FPGA: Profile = {
  ...CLX_OPTANE_CX5,
  rnic: {
    ...CLX_OPTANE_CX5.rnic,
    // [derived] See above: twice the ASIC's; the split is a [choice].
    receivePs: 100_000,
    schedulePs: 60_000,
    sendPs: 80_000,
    // [choice] As a scheduling step.
    persistPs: 60_000,
    // [choice] As a look-up: Gemieux's measurement includes the conversion.
    convertPs: 83_000,
    // [derived] Gemieux's 25 cycles at Enzian's 300 MHz.
    lookUpPs: 83_000,
  },
  coherent: {
    ...CLX_OPTANE_CX5.coherent,
    bus: {
      ...CLX_OPTANE_CX5.coherent.bus,
      // [derived] A data path of 512 bits (CCI-P, Intel 683292) at 300 MHz, less than the link's 192 Gb/s.
      bitsPerSecond: 153_600_000_000,
    },
  },
};

export const PROFILES = {
  "clx-optane-cx5": CLX_OPTANE_CX5,
  "clx-optane-fpga": CLX_OPTANE_FPGA,
} as const satisfies Readonly<Record<string, Profile>>;

export type ProfileName = keyof typeof PROFILES;

export const PROFILE_NAMES = Object.keys(PROFILES) as ProfileName[];
