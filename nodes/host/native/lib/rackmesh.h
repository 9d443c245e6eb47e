/*
 * What the files of the library share. It is preloaded into a native program and makes its calls
 * requests to the emulated host: channel.c has the pipes, clock.c time, spin.c loops that wait for
 * memory, verbs.c and post.c the card, net.c sockets and waits. `requests.h` is made from the table
 * in requests.ts, which says what each request means.
 */
#pragma once
#include <errno.h>
#include <infiniband/verbs.h>
#include <linux/netlink.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "requests.h"

/* A function that the program's references find before libc's and libibverbs' own. */
#define EXPORT __attribute__((visibility("default")))
#define NEVER INT64_MAX

/* What `hello` answered and how time stands. Only channel.c and clock.c write it. */
struct native {
	bool active;           /* false in a program that the rack did not start, and in a child that the rack does not have */
	bool forked;           /* in that child: its verbs answer ENODEV */
	bool is_child;         /* by fork(2) of a program of the rack, and one itself */
	bool has_relatives;    /* it is one, or has had one: memory may be shared */
	bool lease;            /* of the last reply: the thread may run ahead of the rack (ahead.c) */
	uint64_t pid;          /* virtual */
	uint64_t real_pid;
	uint64_t clock_ps;     /* cost of a clock read, of rdtsc, of a poll of an empty queue */
	uint64_t tsc_ps;
	uint64_t poll_ps;
	uint64_t ticks_per_us; /* of the time stamp counter */
	uint64_t spin_us;      /* real time between the ticks of the watchdog */
	uint64_t stuck_us;     /* real time of one turn after which the thread is stuck */
	uint64_t devices;
	uint32_t address;      /* IPv4, of the first port; host order */
	const char *host;      /* the host's name */
	const char *device[16];

	uint64_t now_ps;       /* of the last reply */
	uint64_t lease_ps;     /* of the last reply; 0: no local answers */
	bool alone;            /* as of the last reply: its core is its own */
	uint64_t ask;          /* as of the last reply: bits of queues whose polls are requests */
	uint64_t unwritten_ps; /* of the last reply: until then the card may read memory, and writes nothing */
	uint64_t used_ps;      /* by local answers since then */
	uint64_t alarm_ps;     /* SIGALRM is due; NEVER */
	int alarm_count;       /* alarms that were raised: a wait that saw one ends with EINTR */
};
extern struct native native __attribute__((visibility("hidden")));

#pragma GCC visibility push(hidden)

/*
 * A request of this thread: begin, fill, send. Not reentrant; never called with a lock held that a
 * signal handler takes. Nothing here calls malloc: spin.c sends from a signal handler.
 */
uint64_t *request_begin(int request, size_t args); /* the arguments, zeroed */
uint64_t *request_row(size_t words);               /* appends a zeroed row; earlier pointers become invalid */
void request_bytes(const void *bytes, size_t length);
/*
 * Waits for the reply and serves the host's accesses to memory meanwhile: 0, or an errno of the
 * host. Does not touch errno. An alarm that has become due meanwhile is raised when the next request
 * begins: its handler may make requests, and this one's answer must be read before.
 */
int request_send(void);
const uint64_t *answer(void); /* the words behind REPLY, valid until the next request begins */
size_t answer_bytes(void);    /* bytes behind REPLY: words, rows, bytes */
/*
 * Clears so many bytes, a multiple of 16, below the caller's frame, which grows by them. Programs send, print
 * and hash padding that they never set: what a call leaves on their stack may depend neither on the machine
 * (the numbers of its processes, how a reply came) nor on the lease. So what the library may answer itself
 * sweeps in both cases, and deeper than a request does; handlers of this library's have a stack of their own.
 */
static inline __attribute__((always_inline)) void stack_sweep(size_t bytes)
{
	char *left = __builtin_alloca(bytes);

	__builtin_memset(left, 0, bytes);
	__asm__ volatile("" : : "r"(left) : "memory");
}
#define SWEPT_OF_REQUEST 1024
#define SWEPT_OF_LOOK (SWEPT_OF_REQUEST + 256)
/* Of a signal and its handler: the frame has the kernel's copy of all registers. */
#define SWEPT_OF_SIGNAL 8192
/* A line on standard error: what the rack has not. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The program cannot go on: a line on standard error, and its end with code 70. */
_Noreturn void native_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The function `name` behind this library's own: libc's. */
void *libc_function(const char *name);
#define LIBC(name)                                                    \
	({                                                            \
		static typeof(&name) function_;                       \
		if (!function_)                                       \
			function_ = (typeof(&name))libc_function(#name); \
		function_;                                            \
	})

/*
 * Descriptors that stand for objects of the host: real numbers (an eventfd that is never ready), so
 * that fcntl's flags, dup's refusal of them and the kernel's limits are the kernel's. `kind` is one
 * of POLLED_*, or what no request waits for: an epoll descriptor, a device's `cmd_fd`, a timer,
 * or of a parent's cards.
 */
enum { KIND_EPOLL = 100, KIND_COMMAND, KIND_TIMER, KIND_LOST };
#define DESCRIPTORS_MOST 4096
struct descriptor {
	bool open;
	uint8_t kind;
	uint64_t handle;
	void *data; /* net.c's own */
};
int descriptor_open(int kind, uint64_t handle);  /* the number, or -1 and errno */
struct descriptor *descriptor_of(int fd);        /* NULL where the host knows nothing of it */
void descriptor_close(int fd);                   /* closes the kernel's part, too */
bool descriptor_copy(int fd, int to);            /* after dup(2); false: the table is too small */
void forget_polled(int fd);                      /* waits.c: no epoll waits for it any more */
bool descriptor_waits(int fd);                   /* not O_NONBLOCK */
bool is_own_descriptor(int fd);                  /* the library's: a program that closes all keeps it */

/* net.c's `socket` asks first: sockets of RDMA netlink would show the machine's own devices. */
static inline bool socket_refused(int domain, int protocol)
{
	return domain == AF_NETLINK && protocol == NETLINK_RDMA;
}

/* system.c: this library's own system calls; the program's `syscall` is a function of it. */
long direct_syscall(long number, ...);
#define syscall direct_syscall

/* channel.c */
extern int requests_fd, replies_fd;
extern int folder_fd;              /* the program's own folder */
int channel_before_exec(void);
void channel_after_exec(int high);
void channel_begin_child(int requests, int replies); /* in a child, whose pipes these are */
/* processes.c */
extern int forking_pipes[4];       /* those of the child that is being made; -1: none is */
void be_process(void);
void await_end(pid_t real);
/* net.c */
void sockets_leave_parent(void);    /* in a child: of its parent's descriptors it has the sockets */
int socket_handles(uint64_t (*handles)[2], int most); /* kind and handle, once each; how many there are */

/* clock.c */
void clock_begin_child(void);
void end_without_host(void);       /* ends the program where the host's process is gone */
uint64_t virtual_now_ps(void);     /* reads the clock: costs clockPs */
void virtual_pass(uint64_t ps);     /* as a clock read of that cost */
bool use_locally(uint64_t ps);     /* takes so much time without a request, where the lease has it */
void raise_alarm_if_due(void);
bool alarm_restarts(void); /* a call goes on after an alarm's handler (SA_RESTART) */
/*
 * Before a request that may wait for `events` (as poll(2) has them) of an object of kind POLLED_*:
 * waits until it will not, and raises alarms meanwhile. Without an alarm it returns at once.
 */
void wait_with_alarm(int kind, uint64_t handle, int events);
uint64_t clock_epoch_s(clockid_t clock); /* what the clock shows at the begin, in seconds */
void clock_start(void);
void clock_stop(void);
/* ahead.c */
bool ahead_may_read_clock(void);   /* a clock read beyond the lease needs no request */
bool ahead_may_look(void);         /* nor does it, or a poll, where the card only reads memory */
void ahead_note_request(int request);
void ahead_end(void);
void ahead_add_region(const void *owner, uint64_t address, uint64_t length); /* a card may write it */
void ahead_remove_region(const void *owner);
bool ahead_took_fault(const siginfo_t *info);
bool ahead_pause(void);            /* in a handler of this library's; its result goes to: */
void ahead_resume(bool was);
void ahead_start(void);
void ahead_stop(void);
void ahead_begin_child(void);
/* Whether each page of a range is mapped and readable, and writable. */
bool range_allows(uint64_t from, uint64_t to, bool writes);
/* The line of /proc/self/maps that has the address: its object and the address's offset in it. */
bool mapping_object(const volatile void *address, uint64_t *object, uint64_t *offset);
/* files.c */
void files_start(void);
/* scm.c */
extern bool scm_active;            /* a file below /scm is mapped */
extern bool scm_has_stores;        /* that the host does not know */
int scm_look(const char *path, int (*look)(int fd, void *result), void *result);
void scm_send_stores(void);
uint64_t scm_mapped_until(uint64_t at); /* the end of the mapping that has the address; 0: none has */
bool scm_fault(const void *address); /* whether a store there goes on */
void scm_will_store(void *address, size_t length);
bool scm_write(uint64_t address, const void *bytes, size_t length); /* false: not there */
bool scm_is_file(int fd);          /* a descriptor of a file below /scm */
ssize_t scm_read(int fd, void *bytes, size_t length);
ssize_t scm_file_write(int fd, const void *bytes, size_t length);
ssize_t scm_pread(int fd, void *bytes, size_t length, off_t at);
ssize_t scm_pwrite(int fd, const void *bytes, size_t length, off_t at);
int scm_open_file(const char *path, int flags); /* -2: another path */
void scm_close(int fd);
/* spin.c */
#define TICK_SIGNAL (SIGRTMAX - 2)
void spin_start(void);
void spin_stop(void);
void spin_wake(void);              /* a request has ended: the watchdog ticks again */
void spin_wait(uint64_t instruction);
void spin_begin_child(void);
extern volatile uint64_t turns;    /* calls of the library: the watchdog looks whether they move */
extern __thread volatile bool in_request;

/* threads.c */
struct thread {
	struct thread *next;
	uint64_t number;     /* at the host; the first thread's is 0 */
	unsigned long id;    /* pthread_t */
	int tid;
	void *(*function)(void *);
	void *argument;
	volatile uint32_t turn;   /* a reply is there: the thread runs on */
	volatile uint32_t parked; /* it waits for its first turn */
	char *reply;              /* its last one, behind the message's head */
	size_t reply_bytes, reply_room;
	const volatile void *waits_on;
	int rounds;               /* of destructors */
	bool detached, joined, refused;
	bool cancelled, uncancellable;
	bool defers;              /* of a cancelled wait: its caller ends the thread */
	volatile bool ended;
};
extern __thread struct thread *this_thread; /* NULL in one that the host does not know */
void threads_start(void);
void threads_begin_child(void);
pid_t thread_number(void); /* as gettid(2) */
pid_t thread_tid(pid_t number); /* the machine's; 0: no thread of this process has it */
long thread_futex(uint32_t *word, int operation, uint32_t value, const struct timespec *time,
		  uint32_t bits);
struct thread *thread_of(uint64_t number);
void thread_hand_over(struct thread *to);
void thread_await_turn(void);
void thread_asks(int request);
void thread_answered(int error);
/* As request_send, but false where another thread has the turn: this one must end. */
bool request_send_last(void);
void request_begun(void); /* the thread has its first turn */
void spin_start_thread(void);

#pragma GCC visibility pop

/*
 * For programs that can be compiled for the rack: waits until the card has written to this process's
 * memory, as a loop that loads the byte at `address` does. Returns at once without the rack.
 */
EXPORT void rackmesh_spin(const volatile void *address);
