/*
 * Loops that wait for memory without a call. Instructions take no virtual time, so such a loop would
 * run for ever: it has to become a request that waits until the card has written.
 *
 * A timer in real time looks whether the thread has called the library since the last look. Where it
 * has not, the thread is single-stepped (the trap flag) and its state compared with an earlier one
 * that moves (Brent's search for a cycle): instruction, registers, flags, vector registers. When
 * they recur four times at one distance, and every store of a round has left the same bytes at the
 * same place as in the round before, then nothing but another's store ends the loop. The request is
 * made at the loop's lowest instruction, so that it does not matter when the timer found it.
 *
 * When the card has written, the thread is stepped through one more round. Where that comes to the same state,
 * with the same stores, it has not read what was written, and asks again at once, without another search.
 *
 * All of this only costs real time. It changes nothing that the program or the host can see.
 */
#define _GNU_SOURCE
#include "rackmesh.h"

#include <asm/prctl.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#define TRAP_FLAG 0x100
#define ROUNDS 4
#define STORES 32
#define PAGE 4096
#define VECTORS 4096

struct store {
	uint64_t instruction, hash;
};
struct round {
	struct store store[STORES];
	unsigned stores;
	uint64_t lowest, lowest_hash; /* its lowest instruction, and the registers there */
};

static bool ticks; /* there is a watchdog */
static __thread int timer = -1;
static __thread volatile bool timer_rests; /* a tick came in a request: it is set again when that ends */
static uint64_t tick_us, tick_turn, turn_began_us;
static uint64_t storing; /* an instruction of a loop that would be a fixpoint but for its store */
static unsigned steps_most;

static struct {
	bool on, found;
	bool again; /* the round after a wait */
	uint64_t turn;
	unsigned step, power, matched, distance, rounds;
	greg_t reference[NGREG];
	char vectors[VECTORS];
	struct round round, before;
	/* The store of the instruction that is being stepped. */
	uint64_t store_at, store_by;
	unsigned store_size;
	bool store_relative; /* to the next instruction */
} search;

static uint64_t real_us(void)
{
	struct timespec now;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000ull + now.tv_nsec / 1000;
}

static void set_timer(uint64_t us)
{
	struct itimerspec spec = { .it_value = { us / 1000000, us % 1000000 * 1000 } };

	if (timer >= 0)
		syscall(SYS_timer_settime, timer, 0, &spec, NULL);
}

static void begin_turn(void)
{
	tick_turn = turns;
	tick_us = native.spin_us;
	turn_began_us = real_us();
	steps_most = 256;
	storing = 0;
}

void spin_wake(void)
{
	if (!timer_rests)
		return;
	timer_rests = false;
	begin_turn();
	set_timer(native.spin_us);
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3ull;
	return hash;
}

/*
 * Where the instruction at `code` stores. Its length needs no decoding: the next step shows it.
 * 0: it does not store; 1: at search.store_at; -1: it does, at a place that this does not work out.
 */
static int decode_store(const uint8_t *code, const greg_t *reg)
{
	static const uint8_t names[] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
					 REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
					 REG_R12, REG_R13, REG_R14, REG_R15 };
	uint8_t rex = 0, prefix = 0, map = 0, op;
	uint64_t base = 0;
	bool vex = false;

	search.store_size = 8;
	search.store_relative = false;
	for (;; code++) {
		if (*code == 0x64)
			syscall(SYS_arch_prctl, ARCH_GET_FS, &base);
		else if (*code == 0x65 || *code == 0x67)
			prefix = 0xff; /* gs, 32-bit addresses: not worked out */
		else if (*code == 0x66 || *code == 0xf2 || *code == 0xf3)
			prefix = *code;
		else if (*code != 0xf0 && *code != 0x2e && *code != 0x36 && *code != 0x3e &&
			 *code != 0x26)
			break;
	}
	if ((*code & 0xf0) == 0x40)
		rex = *code++;
	if (*code == 0x62) {
		uint8_t evex = code[4];
		bool may = evex == 0x11 || evex == 0x13 || evex == 0x17 || evex == 0x29 ||
			   evex == 0x2b || evex == 0x7e || evex == 0x7f || evex == 0xd6 ||
			   evex == 0xe7 || (code[1] & 7) != 1;
		return may && (code[5] & 0xc0) != 0xc0 ? -1 : 0;
	}
	if (*code == 0xc5) {
		vex = true;
		map = 1;
		rex = (code[1] & 0x80) ? 0 : 4;
		prefix = (code[1] & 3) == 2 ? 0xf3 : 0;
		code += 2;
	} else if (*code == 0xc4) {
		vex = true;
		map = code[1] & 0x1f;
		rex = (~code[1] >> 5) & 7;
		prefix = (code[2] & 3) == 2 ? 0xf3 : 0;
		code += 3;
	} else if (*code == 0x0f) {
		map = code[1] == 0x38 ? 2 : code[1] == 0x3a ? 3 : 1;
		code += map == 1 ? 1 : 2;
	}
	op = *code++;
	uint8_t mod = code[0] >> 6, field = (code[0] >> 3) & 7, rm = code[0] & 7;
	bool memory = mod != 3, push = false, stores = false;
	if (vex)
		search.store_size = 32;
	else if (map)
		search.store_size = 16;

	if (map == 0)
		switch (op) {
		case 0x00 ... 0x37: /* arithmetic; from 0x38 on it compares */
			stores = (op & 7) < 2;
			break;
		case 0x50 ... 0x57: case 0x68: case 0x6a: case 0x9c: case 0xe8:
			push = true;
			break;
		case 0x80: case 0x81: case 0x83:
			stores = field != 7;
			break;
		case 0x86 ... 0x89: case 0x8c: case 0x8f: case 0xc0: case 0xc1: case 0xc6: case 0xc7:
		case 0xd0 ... 0xd3:
			stores = true;
			break;
		case 0x6c: case 0x6d: case 0xa2 ... 0xa5: case 0xaa: case 0xab: case 0xc8:
			return -1;
		case 0xd9:
			stores = field == 2 || field == 3 || field >= 6;
			break;
		case 0xdb: case 0xdd: case 0xdf:
			stores = field != 0 && field != 4 && field != 5;
			break;
		case 0xf6: case 0xf7:
			stores = field == 2 || field == 3;
			break;
		case 0xfe: case 0xff:
			stores = field < 2;
			push = op == 0xff && (field == 2 || field == 3 || field == 6);
			break;
		}
	else if (map == 1)
		switch (op) {
		case 0x11: case 0x13: case 0x17: case 0x29: case 0x2b: case 0x7f: case 0xd6: case 0xe7:
		case 0x90 ... 0x9f: case 0xa4: case 0xa5: case 0xac: case 0xad: case 0xb0: case 0xb1:
		case 0xc0: case 0xc1: case 0xc3:
			stores = true;
			break;
		case 0x7e:
			stores = prefix != 0xf3;
			break;
		case 0xa0: case 0xa8:
			push = true;
			break;
		case 0xba:
			stores = field >= 5;
			break;
		case 0xab: case 0xb3: case 0xbb: /* the bit's number is part of the address */
		case 0xf7:
			return memory || op == 0xf7 ? -1 : 0;
		case 0xae:
			return memory && field != 1 && field != 2 && field != 5 && field != 7 ? -1 : 0;
		case 0xc7:
			return memory && field < 6 && field != 3 ? -1 : 0;
		case 0x01:
			return memory && field != 2 && field != 3 && field != 7 ? -1 : 0;
		}
	else if (map == 2)
		switch (op) {
		case 0x2e: case 0x2f: case 0x8e: case 0xf8: case 0xf9:
			return memory ? -1 : 0;
		case 0xf1:
			stores = prefix != 0xf2 && !vex;
			break;
		case 0xf5: case 0xf6: /* wrss; with VEX they are arithmetic */
			return memory && !vex && prefix != 0xf3 && prefix != 0x66 ? -1 : 0;
		}
	else
		stores = (op >= 0x14 && op <= 0x17) || op == 0x19 || op == 0x1d || op == 0x39;

	if (push) {
		search.store_at = reg[REG_RSP] - 8;
		return 1;
	}
	if (!stores || !memory)
		return 0;
	if (prefix == 0xff)
		return -1;
	code++;
	if (rm == 4) {
		uint8_t sib = *code++, index = ((sib >> 3) & 7) | (rex & 2) << 2;
		if (index != 4)
			base += (uint64_t)reg[names[index]] << (sib >> 6);
		rm = sib & 7;
		if (rm == 5 && mod == 0)
			mod = 4; /* no base, 32 bits */
		else
			base += reg[names[rm | (rex & 1) << 3]];
	} else if (rm == 5 && mod == 0) {
		search.store_relative = true;
		mod = 4;
	} else {
		base += reg[names[rm | (rex & 1) << 3]];
	}
	int32_t wide;
	memcpy(&wide, code, sizeof(wide));
	search.store_at = base + (mod == 1 ? (int8_t)*code : mod == 0 ? 0 : wide);
	return 1;
}

/* What the instruction before has stored; false where a fixpoint can no longer be told. */
static bool note_store(uint64_t rip)
{
	struct round *round = &search.round;
	uint64_t at = search.store_at + (search.store_relative ? rip : 0);

	if (!search.store_by)
		return true;
	if (round->stores == STORES || at % PAGE > PAGE - search.store_size)
		return false;
	uint64_t hash = mix(mix(0, &at, sizeof(at)), (const void *)at, search.store_size);
	round->store[round->stores++] = (struct store){ search.store_by, hash };
	search.store_by = 0;
	return true;
}

static bool same_stores(void)
{
	struct round *now = &search.round, *before = &search.before;

	if (now->stores != before->stores)
		return false;
	for (unsigned i = 0; i < now->stores; i++)
		if (now->store[i].hash != before->store[i].hash) {
			storing = now->store[i].instruction;
			return false;
		}
	return true;
}

/* The legacy area's registers; all of the kernel's frame where there are wider ones. */
static size_t vectors_length(const struct _libc_fpstate *vectors)
{
	uint32_t magic, size;

	memcpy(&magic, (const char *)vectors + 464, sizeof(magic)); /* fpx_sw_bytes */
	memcpy(&size, (const char *)vectors + 464 + 16, sizeof(size));
	if (magic != 0x46505853 || size < 576)
		return 416;
	return size < VECTORS ? size : VECTORS;
}

static bool same_state(const greg_t *reg, const struct _libc_fpstate *vectors)
{
	for (int i = 0; i <= REG_EFL; i++)
		if (reg[i] != search.reference[i])
			return false;
	if (!vectors)
		return true;
	size_t length = vectors_length(vectors);
	if (memcmp(vectors, search.vectors, length < 416 ? length : 416) != 0)
		return false;
	/* What the header (at 512) says to be in use is there; the rest of the frame is old. */
	uint64_t used = 0;
	if (length > 576)
		memcpy(&used, (const char *)vectors + 512, sizeof(used));
	size_t end = used & ~7ull ? length : used & 4 ? 832 : 0;
	return end == 0 || memcmp((const char *)vectors + 576, search.vectors + 576, end - 576) == 0;
}

/* Not stepped: it would block without another tick, and around clone glibc blocks the trap. */
static bool is_system_call(const uint8_t *code)
{
	return code[0] == 0x0f && code[1] == 0x05;
}

static void end_search(greg_t *reg, bool found)
{
	search.on = false;
	reg[REG_EFL] &= ~TRAP_FLAG;
	if (!found) {
		/* The next one later and longer: a program that computes is not slowed for ever. */
		tick_us *= 4;
		if (tick_us > native.stuck_us / 8 + 1)
			tick_us = native.stuck_us / 8 + 1;
		if (steps_most < 1 << 14)
			steps_most *= 4;
	}
	set_timer(tick_us);
}

static void begin_search(greg_t *reg)
{
	search.on = true;
	search.found = search.again = false;
	search.turn = turns;
	search.step = search.matched = search.distance = search.rounds = 0;
	search.power = 1;
	search.store_by = 0;
	search.round = search.before = (struct round){ .lowest = UINT64_MAX };
	memset(search.reference, 0, sizeof(search.reference));
	reg[REG_EFL] |= TRAP_FLAG;
}

/* At an earlier state again: counts rounds of equal length and equal stores. */
static void match(void)
{
	unsigned distance = search.step - search.matched;
	bool same = distance >= 2 && distance == search.distance && same_stores();

	search.rounds = same ? search.rounds + 1 : 1;
	search.distance = distance;
	search.matched = search.step;
	search.before = search.round;
	search.round = (struct round){ .lowest = UINT64_MAX };
	search.found = search.rounds == ROUNDS;
}

static void set_reference(const ucontext_t *ucontext)
{
	const struct _libc_fpstate *vectors = ucontext->uc_mcontext.fpregs;

	memcpy(search.reference, ucontext->uc_mcontext.gregs, sizeof(search.reference));
	if (vectors)
		memcpy(search.vectors, vectors, vectors_length(vectors));
}

/* At the loop's lowest instruction; the round that follows is looked at. */
static void wait_in_loop(const ucontext_t *ucontext)
{
	spin_wait(ucontext->uc_mcontext.gregs[REG_RIP]);
	set_reference(ucontext);
	search.again = true;
	search.turn = turns;
	search.step = 0;
	search.round = (struct round){ .lowest = UINT64_MAX };
}

static void step(int number, siginfo_t *info, ucontext_t *ucontext)
{
	greg_t *reg = ucontext->uc_mcontext.gregs;
	const uint8_t *code = (const uint8_t *)reg[REG_RIP];
	uint64_t rip = reg[REG_RIP], hash = mix(0, reg, REG_RIP * sizeof(*reg));

	if (!search.on) {
		if (info->si_code != TRAP_TRACE) { /* the program's own breakpoint */
			signal(number, SIG_DFL);
			raise(number);
		}
		reg[REG_EFL] &= ~TRAP_FLAG;
		return;
	}
	if (in_request || turns != search.turn || search.step++ == steps_most ||
	    is_system_call(code) || !note_store(rip))
		return end_search(reg, false);

	if (search.again) {
		if (search.step < search.distance)
			goto next;
		if (!same_state(reg, ucontext->uc_mcontext.fpregs) || !same_stores())
			return end_search(reg, true);
		wait_in_loop(ucontext);
		goto next;
	}
	if (search.found) {
		if (rip == search.before.lowest && hash == search.before.lowest_hash)
			wait_in_loop(ucontext);
		goto next;
	}
	if (rip < search.round.lowest || (rip == search.round.lowest && hash < search.round.lowest_hash)) {
		search.round.lowest = rip;
		search.round.lowest_hash = hash;
	}
	if (same_state(reg, ucontext->uc_mcontext.fpregs)) {
		match();
	} else if (search.step >= search.power) {
		search.power *= 2;
		search.rounds = search.distance = 0;
		search.matched = search.step;
		search.round = (struct round){ .lowest = UINT64_MAX };
		set_reference(ucontext);
	}
next:
	switch (decode_store(code, reg)) {
	case 1:
		search.store_by = rip;
		break;
	case -1:
		return end_search(reg, false);
	}
	reg[REG_EFL] |= TRAP_FLAG;
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	bool was_ahead = ahead_pause();
	step(number, info, context);
	ahead_resume(was_ahead);
}

static int name_of(char *text, size_t room, uint64_t address)
{
	Dl_info info;

	if (!dladdr((void *)address, &info) || !info.dli_fname)
		return snprintf(text, room, "0x%lx", address);
	const char *file = strrchr(info.dli_fname, '/');
	file = file ? file + 1 : info.dli_fname;
	uint64_t offset = address - (uint64_t)info.dli_fbase;
	if (info.dli_sname)
		return snprintf(text, room, "%s (0x%lx in %s)", info.dli_sname, offset, file);
	return snprintf(text, room, "0x%lx in %s", offset, file);
}

#define FRAMES 32
struct trace {
	void *frames[FRAMES];
	int count;
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *data)
{
	struct trace *trace = data;

	trace->frames[trace->count++] = (void *)_Unwind_GetIP(context);
	return trace->count == FRAMES ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/*
 * The names of the functions from the program counter outwards, a line each. Not by backtrace(3): that
 * loads a library, which in the first of all constructors begins libc without the program's arguments.
 */
static void say_stuck(uint64_t rip)
{
	char text[2048];
	struct trace trace = { .count = 0 };
	size_t length = 0;
	int at = 0;

	_Unwind_Backtrace(add_frame, &trace);
	while (at < trace.count && (uint64_t)trace.frames[at] != rip)
		at++;
	/* No frame shows it: the program's code has no unwind table. */
	if (at == trace.count) {
		at = at > 0 ? at - 1 : trace.count++;
		trace.frames[at] = (void *)rip;
	}
	if (storing) {
		length += snprintf(text, sizeof(text), "a loop that stores, at ");
		length += name_of(text + length, sizeof(text) - length, storing);
		text[length++] = '\n';
	}
	for (; at < trace.count && length < sizeof(text) - 512; at++) {
		length += name_of(text + length, 500, (uint64_t)trace.frames[at]);
		text[length++] = '\n';
	}
	request_begin(REQUEST_stuck, ARG_stuck_WORDS)[ARG_stuck_instruction] = rip;
	request_bytes(text, length);
	request_send();
}

static void on_tick(int number, siginfo_t *info, void *context)
{
	ucontext_t *ucontext = context;
	greg_t *reg = ucontext->uc_mcontext.gregs;

	(void)number;
	(void)info;
	if (in_request || !native.active) {
		timer_rests = true;
		return;
	}
	bool was_ahead = ahead_pause();
	/* Its system call would be trapped, and the host asked in the middle of a clock read. */
	end_without_host();
	if (turns != tick_turn) {
		begin_turn();
	} else if (real_us() - turn_began_us > native.stuck_us) {
		say_stuck(reg[REG_RIP]);
	} else if (!sigismember(&ucontext->uc_sigmask, SIGTRAP) &&
		   !is_system_call((const uint8_t *)reg[REG_RIP])) {
		begin_search(reg);
		ahead_resume(was_ahead);
		return;
	}
	set_timer(tick_us);
	ahead_resume(was_ahead);
}

void spin_wait(uint64_t instruction)
{
	uint64_t *arg = request_begin(REQUEST_spin, ARG_spin_WORDS);

	arg[ARG_spin_instruction] = instruction;
	arg[ARG_spin_timeoutPs] = native.alarm_ps == NEVER ? NEVER :
				  native.alarm_ps - native.now_ps - native.used_ps;
	request_send();
	raise_alarm_if_due();
}

EXPORT void rackmesh_spin(const volatile void *address)
{
	(void)address;
	if (native.active)
		spin_wait((uint64_t)__builtin_return_address(0));
}

void spin_start(void)
{
	struct sigaction tick = { .sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };
	struct sigaction trap = { .sa_sigaction = on_trap,
				  .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER };

	if (native.spin_us == 0)
		return;
	ticks = true;
	sigaction(TICK_SIGNAL, &tick, NULL);
	sigaction(SIGTRAP, &trap, NULL);
	spin_start_thread();
}

/*
 * The stack of this thread's handlers (see stack_sweep). It is not among the thread's variables, which
 * lie on the stack that the program has chosen for the thread, and may be most of it.
 */
#define HANDLER_STACK_BYTES (1 << 16)
static __thread struct handler_stack {
	struct handler_stack *next;
} *handler_stack;
/* Of threads that have ended. */
static struct handler_stack *unused_stacks;

static void take_handler_stack(void)
{
	if (handler_stack)
		return;
	handler_stack = unused_stacks;
	if (handler_stack)
		unused_stacks = handler_stack->next;
	else
		handler_stack = (void *)syscall(SYS_mmap, NULL, HANDLER_STACK_BYTES, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (handler_stack == MAP_FAILED)
		native_fail("no memory for a thread's handlers: %s", strerror(errno));
	stack_t stack = { .ss_sp = handler_stack, .ss_size = HANDLER_STACK_BYTES };
	sigaltstack(&stack, NULL);
}

static void leave_handler_stack(void)
{
	stack_t none = { .ss_flags = SS_DISABLE };

	if (!handler_stack)
		return;
	/* A signal that is on its way comes on the thread's own stack. */
	sigaltstack(&none, NULL);
	handler_stack->next = unused_stacks;
	unused_stacks = handler_stack;
	handler_stack = NULL;
}

/* Each thread has a timer of its own, whose signal is for it alone. */
void spin_start_thread(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TICK_SIGNAL };

	take_handler_stack();
	if (!ticks)
		return;
	event._sigev_un._tid = syscall(SYS_gettid);
	if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) < 0)
		native_fail("no timer for the watchdog: %s", strerror(errno));
	begin_turn();
	set_timer(tick_us);
}

void spin_begin_child(void)
{
	/* The timers are its parent's. */
	timer = -1;
	search.on = false;
	spin_start_thread();
}

void spin_stop(void)
{
	/* A fork's child has no timer; deleting one that is not there does nothing. */
	if (timer >= 0)
		syscall(SYS_timer_delete, timer);
	timer = -1;
	search.on = false;
	leave_handler_stack();
}
