/**
 * The library that is preloaded into native programs (`nodes/host/native/lib/`), against a host that is
 * only this test: the pipes, the service of memory, clocks, and loops that wait for memory.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe } from "@std/testing/bdd";
import { isThere } from "../../console/base/files.ts";
import { nativeLibrary } from "../../console/rack/native/library.ts";
import { sandboxHere } from "../../console/rack/native/sandbox.ts";
import type { Time } from "../../fabric/base/time.ts";
import { createNativePort } from "../../nodes/native_process.ts";
import type { NativeProcess } from "../../nodes/host/native/port.ts";
import type { RequestName } from "../../nodes/host/native/requests.ts";
import { type Answered, encodeReply, Request } from "../../nodes/host/native/words.ts";
import { processesNaming } from "../support/command.ts";
import { nativeMissing } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const SOURCES = "nodes/host/native/lib";
const CLOCK_PS = 20_000, TSC_PS = 10_000, POLL_PS = 50_000;
const ASK_ALL = 2 ** 16 + 3;
const FOREVER = 2n ** 63n - 1n;

function compile(...args: readonly string[]): void {
  const { success, stderr } = new Deno.Command("cc", { args: [...args] }).outputSync();
  assert.ok(success, new TextDecoder().decode(stderr));
}

const hello = (stuckUs: number): Reply => ({
  words: {
    pid: 4001,
    clockPs: CLOCK_PS,
    tscPs: TSC_PS,
    pollPs: POLL_PS,
    ticksPerUs: 2500,
    spinUs: 200,
    stuckUs,
    devices: 1,
    address: 0x0a000001,
  },
  bytes: new TextEncoder().encode("host\nmlx\n"),
});

interface Turn {
  readonly request: Request;
  readonly name: RequestName;
  readonly process: NativeProcess;
  /** Virtual time, with what the program has used. */
  readonly nowPs: number;
}
type Reply = Answered<RequestName> & {
  readonly error?: number;
  readonly takesPs?: number;
  /** The lease's end, and the queues of which the host must be asked within it. */
  readonly untilPs?: number;
  readonly unwrittenPs?: number;
  readonly ask?: number;
};
/** The host ends the program. */
const KILL = "kill";

const pause = () => new Promise((resolve) => setTimeout(resolve, 20));

/** A module that starts a program and lets it run, without a limit of time: the host is in its turn. */
function hostOf(
  { library, directory, name, file, wrap }: {
    readonly library: string;
    readonly directory: string;
    readonly name: string;
    readonly file: string;
    /** Source text of a function. */
    readonly wrap?: string | undefined;
  },
): string {
  const at = (module: string) =>
    JSON.stringify(new URL(`../../nodes/${module}`, import.meta.url).href);
  const { words, bytes } = hello(600_000_000);
  return `
    const { createNativePort } = await import(${at("native_process.ts")});
    const { sandboxWords } = await import(${at("native_sandbox.ts")});
    const { encodeReply } = await import(${at("host/native/words.ts")});
    const { main } = createNativePort({
      library: ${JSON.stringify(library)},
      directory: ${JSON.stringify(directory)},
      wrap: ${wrap},
    }).start(${JSON.stringify({ name, file, argv: [name], env: {} })});
    const head = { error: 0, nowPs: 0, leasePs: Infinity, unwrittenPs: Infinity, alone: 1, ask: 0 };
    const answered = { words: ${JSON.stringify(words)}, bytes: new Uint8Array([${bytes}]) };
    main.resume(encodeReply("hello", head, answered));`;
}

const reason = await nativeMissing();
const it = itUnless(reason, "nodes/host/native/lib");

describe("the library of native programs", () => {
  let folder: string, library: string, runs = 0;

  beforeAll(async () => {
    if (reason !== undefined) return;
    folder = Deno.makeTempDirSync();
    library = await nativeLibrary();
  });
  afterAll(() => {
    if (reason === undefined) Deno.removeSync(folder, { recursive: true });
  });

  /** Runs C code, with `leasePs` in each reply; `serve` answers what is not `hello` and time. */
  function run(
    code: string,
    { serve, lease = true, leasePs = 0, flags = ["-O2"], stuckUs = 600_000_000 }: {
      readonly serve?: (turn: Turn) => Reply | typeof KILL | undefined;
      readonly lease?: boolean;
      readonly leasePs?: number;
      readonly flags?: readonly string[];
      readonly stuckUs?: number;
    } = {},
  ) {
    const name = `program${runs++}`, file = `${folder}/${name}`;
    Deno.writeTextFileSync(`${file}.c`, HEAD + code);
    compile(...flags, "-w", `-I${SOURCES}`, "-o", file, `${file}.c`, "-libverbs", "-rdynamic");
    const port = createNativePort({ library, directory: `${folder}/runs` });
    const env: Record<string, string> = lease ? {} : { RACKMESH_LEASE: "off" };
    const process = port.start({ name, file, argv: [name], env });
    const requests: string[] = [];
    let bytes = process.first, nowPs = 0;
    while (bytes !== undefined) {
      const request = new Request(bytes), asked = request.name!;
      requests.push(asked);
      nowPs += request.head("usedPs");
      const served = serve?.({ request, name: asked, process, nowPs });
      if (served === KILL) {
        process.kill();
        break;
      }
      const said: Reply = served ?? (asked === "hello" ? hello(stuckUs) : {});
      const { error = 0, takesPs = 0, untilPs, unwrittenPs, ask = ASK_ALL, ...answered } = said;
      nowPs += takesPs;
      const endPs = untilPs ?? nowPs + leasePs;
      const head = {
        error,
        nowPs,
        leasePs: endPs,
        unwrittenPs: unwrittenPs ?? endPs,
        alone: 1,
        ask,
      };
      const reply = encodeReply(asked, head, answered);
      bytes = process.main.resume(reply);
    }
    const text = (stream: "stdout" | "stderr") => new TextDecoder().decode(process.output(stream));
    return {
      code: process.end(),
      stdout: text("stdout"),
      stderr: text("stderr"),
      requests,
      nowPs,
    };
  }

  it("starts a program with its own descriptors and tells the host its code", () => {
    const { code, stdout, requests } = run(`int main(void) {
      printf("%d %d %s\\n", dup(1), getpid(), getenv("LD_PRELOAD") ? "preloaded" : "clean");
      return 3;
    }`);
    assert.deepEqual([code, stdout, requests], [3, "3 4001 clean\n", ["hello", "exit"]]);
  });

  it("says how far each request's output is", () => {
    const seen: number[] = [];
    const serve = ({ request, name }: Turn) => {
      if (name === "open_device") seen.push(request.head("stdout"), request.head("stderr"));
      return undefined;
    };
    run(
      `int main(void) {
        struct ibv_device *device = ibv_get_device_list(NULL)[0];
        printf("one\\n"); ibv_get_device_guid(device);
        fprintf(stderr, "three"); printf("tw"); ibv_get_device_guid(device);
      }`,
      { serve },
    );
    assert.deepEqual(seen, [4, 0, 4, 5]);
  });

  it("reads and writes the program's memory while it waits, and EFAULT does not end it", () => {
    const serve = ({ request, name, process }: Turn): Reply | undefined => {
      if (name !== "reg_mr") return undefined;
      const { addr, length } = request.args("reg_mr");
      assert.equal(new TextDecoder().decode(process.main.read(addr, length)), "before\0");
      assert.equal(process.main.read(4096, 8), undefined, "no memory at all");
      assert.equal(process.main.read(addr, 1 << 30), undefined, "beyond its end");
      process.main.write(8, new Uint8Array(3));
      process.main.write(addr, new TextEncoder().encode("after!"));
      process.main.write(addr + 8, new Uint8Array(200_000).fill(7));
      assert.equal(process.main.read(addr + 100_000, 1)![0], 7);
      return { words: { handle: 1, lkey: 2, rkey: 3 } };
    };
    const { stdout, code } = run(
      `char bytes[300000] = "before";
      int main(void) {
        struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);
        struct ibv_mr *mr = ibv_reg_mr(ibv_alloc_pd(context), bytes, 7, 1);
        printf("%s %d %d %u %u\\n", bytes, bytes[200007], bytes[200008], mr->lkey, mr->rkey);
      }`,
      { serve },
    );
    assert.deepEqual([stdout, code], ["after! 7 0 2 3\n", 0]);
  });

  const CLOCKS = `int main(void) {
    struct timespec now; struct timeval day; unsigned core;
    uint64_t sum = 0;
    for (int i = 0; i < 100; i++) {
      clock_gettime(i % 4, &now); sum += now.tv_nsec;
      gettimeofday(&day, NULL); sum += day.tv_usec;
      sum += __rdtsc() + __rdtscp(&core) + time(NULL) + clock();
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%lu %ld %d %ld\\n", sum, now.tv_nsec, core, (long)time(NULL));
  }`;

  it("answers clocks within the lease with the same numbers as the host, to the end", () => {
    const [with_, without] = [
      run(CLOCKS, { leasePs: 777_777 }),
      run(CLOCKS, { lease: false }),
    ];
    assert.equal(with_.stdout, without.stdout);
    assert.equal(with_.nowPs, without.nowPs);
    // 100 rounds of 4 clocks and 2 reads of the counter, and two clocks behind them.
    assert.equal(without.nowPs, 402 * CLOCK_PS + 200 * TSC_PS);
    assert.equal(without.requests.length, 604);
    assert.ok(with_.requests.length < 20, `${with_.requests.length} requests`);
  });

  it("reads clocks beyond the lease without requests, and loads what the card has written meanwhile", () => {
    // A page for the flag alone, and a loop that looks at it each 100, then each time.
    const code = `int main(void) {
      struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);
      char *page = aligned_alloc(4096, 4096);
      volatile uint32_t *flag = (uint32_t *)(page + 8);
      struct timespec now; int reads = 0;
      *flag = 0;
      ibv_reg_mr(ibv_alloc_pd(context), page, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
      while (!*flag) for (int i = 0; i < 100; i++, reads++) clock_gettime(CLOCK_MONOTONIC, &now);
      printf("%d %ld\\n", reads, now.tv_nsec);
      *flag = 0;
      do { clock_gettime(CLOCK_MONOTONIC, &now); reads++; } while (*flag != 2 && __rdtsc());
      printf("%d %ld\\n", reads, now.tv_nsec);
      for (int i = 0; i < 1000; i++) { clock_gettime(CLOCK_MONOTONIC, &now); if (i == 500) write(1, flag, 4); }
      putchar(10);
      while (now.tv_nsec < 900000) clock_gettime(CLOCK_MONOTONIC, &now);
    }`;
    // The card writes at these instants, whichever request tells the host that they are over.
    const writing = () => {
      let address = 0;
      const due = [[50_000_000, 1], [150_000_000, 2]];
      return ({ request, name, nowPs, process }: Turn): Reply | undefined => {
        if (name === "reg_mr") address = request.args("reg_mr").addr;
        while (due.length > 0 && nowPs >= due[0]![0]!) {
          process.main.write(address + 8, new Uint8Array([due.shift()![1]!]));
        }
        return undefined;
      };
    };
    const with_ = run(code, { serve: writing() });
    const without = run(code, { serve: writing(), lease: false });
    assert.equal(with_.stdout, without.stdout);
    assert.equal(with_.nowPs, without.nowPs);
    // deno-lint-ignore no-control-regex -- the bytes that the program prints
    assert.match(without.stdout, /^2500 50000\n\d+ 1500\d\d\n\x02\0\0\0\n$/);
    assert.ok(without.requests.length > 40_000);
    assert.ok(with_.requests.length < 10_000, `${with_.requests.length} requests`);
  });

  it("polls where the card only reads its memory, and lets the host catch up before it stores there", () => {
    const code = `static char page[4096] __attribute__((aligned(4096)));
    int main(void) {
      struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);
      struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
      struct ibv_wc wc; struct timespec now;
      page[7] = 1;
      ibv_reg_mr(ibv_alloc_pd(context), page, sizeof(page), IBV_ACCESS_LOCAL_WRITE);
      for (int i = 0; i < 100; i++) {
        ibv_poll_cq(cq, 1, &wc);
        if (i == 60) page[7] = 2;
      }
      clock_gettime(CLOCK_MONOTONIC, &now);
      printf("%ld %d\\n", now.tv_nsec, page[7]);
    }`;
    const FAR = 1e12;
    let at = 0;
    /** What the card finds at each poll and each clock read that is a request, and when. */
    const looks: { readonly nowPs: Time; readonly found: number }[] = [];
    const serve = ({ request, name, process, nowPs }: Turn): Reply | undefined => {
      if (name === "create_cq") return { words: { handle: 1, cqe: 8, bit: 1 } };
      if (name === "reg_mr") at = request.args("reg_mr").addr + 7;
      if (name === "poll_cq" || name === "clock") {
        looks.push({ nowPs, found: process.main.read(at, 1)![0]! });
        const takesPs = name === "poll_cq" ? POLL_PS : 0;
        return { takesPs, unwrittenPs: FAR, ask: 2 ** 16 };
      }
      return undefined;
    };
    const without = run(code, { serve, lease: false });
    const each = looks.splice(0);
    const leased = run(code, { serve });
    assert.deepEqual([leased.stdout, leased.nowPs], [without.stdout, without.nowPs]);
    assert.ok(looks.length < each.length / 5, `${looks.length} requests`);
    // At the instant of the store itself the host catches up before it.
    const changedAt = each.find(({ found }) => found === 2)!.nowPs;
    for (const { nowPs, found } of looks) {
      if (nowPs !== changedAt) assert.equal(found, nowPs < changedAt ? 1 : 2);
    }
    assert.ok(looks.some(({ nowPs, found }) => found === 1 && nowPs === changedAt));
  });

  it("raises the alarm at the same call with a lease and without one", () => {
    const code = `volatile int rang; struct timeval now;
    void ring(int signal) { rang++; gettimeofday(&now, NULL); }
    int main(void) {
      int reads = 0; struct timeval day;
      struct itimerval value = { { 0, 10 }, { 0, 20 } };
      signal(SIGALRM, ring);
      setitimer(ITIMER_REAL, &value, NULL);
      while (rang < 4) { gettimeofday(&day, NULL); reads++; }
      printf("%d %ld %ld\\n", reads, (long)day.tv_usec, (long)now.tv_usec);
    }`;
    const with_ = run(code, { leasePs: 1_234_567 }), without = run(code, { lease: false });
    assert.equal(with_.stdout, without.stdout);
    assert.match(with_.stdout, /^\d+ 5\d 5\d\n$/);
  });

  const FLAG = `volatile uint32_t flag; volatile uint64_t count;
    __attribute__((noinline)) int ready(void) { return flag; }
    int main(void) {
      struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);
      ibv_reg_mr(ibv_alloc_pd(context), (void *)&flag, 4, 1);
      LOOP;
      printf("%u %lu\\n", flag, count);
    }`;
  /** Two writes of the flag, at the first two spins: the first one ends no loop. */
  const writes = () => {
    let address = 0, written = 0;
    return ({ request, name, process }: Turn): Reply | undefined => {
      if (name === "reg_mr") address = request.args("reg_mr").addr;
      if (name !== "spin") return undefined;
      assert.equal(BigInt(request.args("spin").timeoutPs), FOREVER + 1n, "as a number");
      process.main.write(address + written, new Uint8Array([0, 1].slice(written, written + 1)));
      written++;
      return { takesPs: 1000 };
    };
  };

  for (
    const [what, loop, flags] of [
      ["plain", "while (!flag)", ["-O2"]],
      ["with a pause", "while (!flag) __builtin_ia32_pause()", ["-O2"]],
      ["of unoptimized code", "while (!flag)", ["-O0"]],
      ["with a call, which stores the return address", "while (!ready())", ["-O2"]],
      ["with a call of unoptimized code", "while (!ready()) ready()", ["-O0"]],
      ["of two loads", "while (!flag && !count)", ["-O2"]],
      ["with vector registers", 'while (!flag) asm volatile("pxor %%xmm1, %%xmm1" ::: "xmm1")', [
        "-O2",
      ]],
    ] as const
  ) {
    it(`makes a loop ${what} a request, at the same instruction each time`, () => {
      const results = [1, 2].map(() => {
        const places: number[] = [], serve = writes();
        const watched = (turn: Turn) => {
          if (turn.name === "spin") places.push(turn.request.args("spin").instruction);
          return serve(turn);
        };
        return { ...run(FLAG.replace("LOOP", loop), { serve: watched, flags }), places };
      });
      for (const { stdout, requests, places } of results) {
        assert.equal(stdout, "256 0\n");
        assert.equal(requests.filter((name) => name === "spin").length, 2);
        assert.deepEqual(places, results[0]!.places);
      }
    });
  }

  it("does not wait for memory in a loop that counts in memory: it is stuck, with the store's place", () => {
    let said = "";
    const serve = (turn: Turn) => {
      assert.notEqual(turn.name, "spin");
      if (turn.name !== "stuck") return undefined;
      said = new TextDecoder().decode(turn.request.bytes("stuck"));
      return KILL;
    };
    const { code } = run(FLAG.replace("LOOP", "while (!flag) count++"), {
      serve,
      stuckUs: 300_000,
    });
    assert.match(
      said,
      /^a loop that stores, at main \(0x[0-9a-f]+ in program\d+\)\nmain \(0x[0-9a-f]+ in program\d+\)\n/,
    );
    assert.equal(code, 128 + 9);
  });

  it("names the function that waits outside the library", () => {
    let said = "";
    const serve = (turn: Turn) => {
      if (turn.name !== "stuck") return undefined;
      said = new TextDecoder().decode(turn.request.bytes("stuck"));
      return KILL;
    };
    run("int main(void) { int ends[2]; pipe(ends); read(ends[0], ends, 4); }", {
      serve,
      stuckUs: 300_000,
    });
    assert.match(
      said,
      /read \(0x[0-9a-f]+ in libc\.so\.6\)\n(read \(\S+ in librackmesh-\w+\.so\)\n)?main \(\S+ in program\d+\)\n/,
    );
  });

  it("leaves a bounded loop alone, and the documented function waits without a loop", () => {
    const bounded = run(
      `int main(void) { for (volatile long i = 0; i < 30000000; i++); puts("done"); }`,
      { flags: ["-O0"] },
    );
    assert.deepEqual(bounded.requests, ["hello", "exit"]);
    const called = run(
      `void rackmesh_spin(const volatile void *); int main(void) { rackmesh_spin(main); }`,
      { flags: ["-O2", "-Wl,--unresolved-symbols=ignore-all"] },
    );
    assert.deepEqual(called.requests, ["hello", "spin", "exit"]);
  });

  it("has no devices in a child that the rack does not have, which ends as it likes and runs other programs", () => {
    const { stdout, code, requests } = run(
      `int main(void) {
      struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);
      int count = -1, status;
      fflush(stdout);
      if (fork() == 0) {
        struct ibv_device *device = *ibv_get_device_list(&count);
        __rdtsc();
        printf("%d %p %d\\n", count, device, ibv_alloc_pd(context) ? 0 : errno);
        exit(5);
      }
      wait(&status);
      printf("%d\\n", WEXITSTATUS(status));
      fflush(stdout);
      system("echo from a shell");
      __rdtsc();
    }`,
      { serve: ({ name }) => name === "fork" ? { error: 38 } : undefined },
    );
    assert.equal(stdout, "0 (nil) 19\n5\nfrom a shell\n");
    assert.equal(code, 0);
    assert.deepEqual(requests, ["hello", "open_device", "fork", "clock", "exit"]);
  });

  it("refuses a region whose pages are not all there, or not for the card to write", () => {
    const { stdout, requests } = run(`int main(void) {
      struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);
      struct ibv_pd *pd = ibv_alloc_pd(context);
      char *at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      #define TRY(from, length, access) do { errno = 0; \
        struct ibv_mr *mr_ = ibv_reg_mr_iova2(pd, at + from, length, 0, access); \
        printf("%d ", mr_ ? 0 : errno); } while (0)
      TRY(0, 1 << 20, 1);
      munmap(at + 40960, 4096);
      TRY(0, 1 << 20, 1); TRY(0, 40960, 1); TRY(100, 40861, 1); TRY(45056, 4096, 1);
      mprotect(at + 8192, 4096, PROT_READ);
      TRY(0, 40960, 1); TRY(0, 40960, 0);
      mprotect(at + 8192, 4096, PROT_NONE);
      TRY(0, 40960, 0);
    }`);
    assert.equal(stdout, "0 14 0 14 0 14 0 14 ");
    assert.equal(requests.filter((name) => name === "reg_mr").length, 4);
  });

  it("has the name that was typed, once it is begun anew", () => {
    const { stdout } = run(`int main(int argc, char **argv) {
      printf("%s %s %s\\n", argv[0], program_invocation_short_name, getenv("RACKMESH_NAME"));
    }`);
    assert.match(stdout, /^(program\d+) \1 \(null\)\n$/);
  });

  it("leaves nothing on the program's stack, which may be sent as padding, when the watchdog comes", () => {
    const { stdout } = run(`
      static __attribute__((noinline)) int below(int fill) {
        volatile char bytes[16384]; int left = 0;
        for (int i = 0; i < 16384; i++) { if (fill) bytes[i] = 0x5a; else left += bytes[i] == 0x5a; }
        return left;
      }
      int main(void) {
        below(1);
        for (volatile long i = 0; i < 300000000; i++);
        printf("%d\\n", below(0));
      }`);
    assert.equal(stdout, "16384\n");
  });

  it("leaves the same on the program's stack whether it answers itself or the host does", () => {
    const code = `
      static __attribute__((noinline)) void below(const char *name) {
        volatile unsigned char bytes[32768]; uint64_t hash = 0xcbf29ce484222325; int first = 0;
        while (first < sizeof(bytes) && bytes[first] == 0x5a) first++;
        for (int i = first; i < sizeof(bytes); i++) hash = (hash ^ bytes[i]) * 0x100000001b3;
        if (name) printf("%s %lx\\n", name, hash);
        for (int i = 0; i < sizeof(bytes); i++) bytes[i] = 0x5a;
      }
      int main(void) {
        static char page[4096];
        struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);
        struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
        struct ibv_pd *pd = ibv_alloc_pd(context);
        struct timespec now; struct timeval day; struct ibv_wc wc[4];
        setvbuf(stdout, malloc(65536), _IOFBF, 65536);
        for (int i = 0; i < 3; i++) {
          below(NULL); clock_gettime(CLOCK_MONOTONIC, &now); below("clock_gettime");
          below(NULL); gettimeofday(&day, NULL); below("gettimeofday");
          below(NULL); time(NULL); below("time");
          below(NULL); __rdtsc(); below("rdtsc");
          below(NULL); ibv_poll_cq(cq, 4, wc); below("poll");
          below(NULL); ibv_reg_mr(pd, page, sizeof(page), 1); below("reg_mr");
        }
      }`;
    // The host reads and writes the program's memory meanwhile.
    const serve = ({ request, name, process }: Turn): Reply | undefined => {
      if (name === "create_cq") return { words: { handle: 1, cqe: 8, bit: 1 }, ask: 0 };
      if (name === "hello") return undefined;
      if (name !== "reg_mr") return { ask: 0 };
      const { addr, length } = request.args("reg_mr");
      process.main.write(addr, process.main.read(addr, length)!);
      return { words: { handle: 2, lkey: 3, rkey: 4 }, ask: 0 };
    };
    // The loader leaves nothing there when a function is first called.
    const flags = ["-O2", "-Wl,-z,now"];
    const own = run(code, { serve, flags, leasePs: 1e9 });
    const asked = run(code, { serve, flags, lease: false });
    assert.deepEqual(own.requests.filter((name) => name === "poll_cq" || name === "clock"), []);
    assert.equal(asked.requests.filter((name) => name === "poll_cq").length, 3);
    assert.equal(own.stdout, asked.stdout);
    // Another process of the machine.
    assert.equal(run(code, { serve, flags, leasePs: 1e9 }).stdout, own.stdout);
  });

  it("gives each run the same addresses, numbers and random bytes", () => {
    const code = `int main(void) {
      uint64_t random, device; char line[256]; int local;
      getrandom(&random, 8, 0);
      FILE *file = fopen("/dev/urandom", "r"); fread(&device, 8, 1, file);
      file = fopen("/proc/cpuinfo", "r");
      printf("%p %p %p %lx %lx\\n", &local, malloc(100), main, random, device);
      while (fgets(line, sizeof(line), file)) if (!strncmp(line, "cpu MHz", 7)) printf(line);
    }`;
    const first = run(code), second = run(code.replace("main,", "main ,"));
    assert.match(first.stdout, /cpu MHz\t\t: 2500\.000\n$/);
    assert.equal(first.stdout, second.stdout);
  });

  it("ends with the host, and a fault of the program is its own", () => {
    const { code } = run(`int main(void) { for (;;) time(NULL); }`, {
      serve: ({ name }) => name === "clock" ? KILL : undefined,
    });
    assert.equal(code, 128 + 9);
    assert.equal(run("int main(void) { *(volatile int *)0 = 1; }").code, 128 + 11);
    assert.equal(run("int main(void) { abort(); }").code, 128 + 6);
    assert.equal(run("int main(void) { _exit(9); }").code, 9);
    const handled = run(`jmp_buf there;
      void caught(int signal) { siglongjmp(there, 1); }
      int main(void) {
        signal(SIGSEGV, caught);
        if (sigsetjmp(there, 1) == 0) *(volatile int *)0 = 1;
        puts("caught");
      }`);
    assert.equal(handled.stdout, "caught\n");
  });

  it("leaves no process behind a host's process that dies in a turn, whatever the program does in it", async () => {
    const sandbox = await sandboxHere();
    const sandboxed = "bwrap" in sandbox &&
      `(folder) => sandboxWords({ bwrap: ${JSON.stringify(sandbox.bwrap)}, hidden: [], folder })`;
    const ways = [undefined, ...(sandboxed ? [sandboxed] : [])];
    const loops = { clocks: "time(NULL)", stores: "n++", sleep: "syscall(SYS_pause)" };
    for (const [name, loop] of Object.entries(loops)) {
      const file = `${folder}/endless-${name}`;
      Deno.writeTextFileSync(
        `${file}.c`,
        `${HEAD}#include <sys/syscall.h>
        volatile long n; int main(void) { puts("runs"); for (;;) ${loop}; }`,
      );
      compile("-w", "-o", file, `${file}.c`);
      for (const [i, wrap] of ways.entries()) {
        await dies({ directory: `${folder}/orphans-${i}`, name, file, wrap });
      }
    }
  });

  it("leaves no process behind a host's process that dies as the sandbox of a program begins", async () => {
    // As bwrap: what is in the sandbox waits for the process outside, and would not end with it.
    const begin = 'sh -c "echo begins; sleep 600; :" sh "$@" & wait';
    const wrap = `() => ["sh", "-c", ${JSON.stringify(begin)}, "sh"]`;
    await dies({ directory: `${folder}/begun`, name: "begun", file: `${folder}/begun-in`, wrap });
  });

  /** Starts a program, kills its host's process as soon as it has said something, and waits for the end of all. */
  async function dies(program: Omit<Parameters<typeof hostOf>[0], "library">): Promise<void> {
    const { directory, name, file } = program;
    const host = new Deno.Command(Deno.execPath(), {
      args: ["eval", hostOf({ library, ...program })],
    }).spawn();
    const stdout = `${directory}/${name}/stdout`;
    while (!isThere(stdout) || Deno.readTextFileSync(stdout) === "") await pause();
    host.kill("SIGKILL");
    await host.status;
    while (processesNaming(file).length > 0) await pause();
  }

  it("polls an empty queue within the lease at the same instants as the host", () => {
    const code = `int main(void) {
      struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);
      struct ibv_cq *one = ibv_create_cq(context, 8, NULL, NULL, 0);
      struct ibv_cq *two = ibv_create_cq(context, 8, NULL, NULL, 0);
      struct ibv_wc wc[4]; int polls = 0, found; struct timespec now;
      do {
        polls++;
        found = ibv_poll_cq(one, 4, wc);
      } while (!found && !(found = ibv_poll_cq(two, 4, wc)));
      clock_gettime(CLOCK_MONOTONIC, &now);
      printf("%d %d %lx %ld\\n", polls, found, wc[0].wr_id, now.tv_nsec);
    }`;
    const COMES = 6_000_000;
    let handles = 0;
    /** The second queue has an entry at that time, which one is lost of those that poll before it. */
    const serve =
      (what: "none" | "both" | "first") => ({ request, name, nowPs }: Turn): Reply | undefined => {
        if (name === "create_cq") {
          const place = handles++ % 2;
          return { words: { handle: 1 + place, cqe: 8, bit: 1 + place } };
        }
        if (name !== "poll_cq") return undefined;
        const isThere = request.args("poll_cq").cq === 2 && nowPs >= COMES;
        const isSoon = nowPs + POLL_PS >= COMES;
        return {
          takesPs: POLL_PS,
          rows: isThere ? [{ wr_id: 0xfedcba9876543210n, status: 0 }] : [],
          ...(what !== "none" && {
            untilPs: isSoon ? 2 * COMES : COMES,
            ask: 2 ** 16 + (isSoon || what === "first" ? 2 : 0),
          }),
        };
      };
    const without = run(code, { serve: serve("none"), lease: false });
    assert.match(without.stdout, /^\d+ 1 fedcba9876543210 \d+\n$/);
    const polls = (what: Parameters<typeof serve>[0]) => {
      const { stdout, requests } = run(code, { serve: serve(what) });
      assert.equal(stdout, without.stdout, what);
      return requests.filter((name) => name === "poll_cq").length;
    };
    // Before the lease's end and behind it, and each poll of a queue of which the host must be asked.
    const each = polls("none");
    assert.ok(each > 100);
    assert.ok(polls("both") <= 4);
    assert.equal(polls("first"), each / 2 + 1);
  });
});

const HEAD = `#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>
`;
