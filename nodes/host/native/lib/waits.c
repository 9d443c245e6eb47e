/*
 * Waits: poll(2), select(2), epoll(7) and their kin, over what the host has (sockets, completion
 * channels, asynchronous events) and the machine's own descriptors, which are only looked at; and
 * sleeps. All of them let virtual time pass.
 *
 * Edges (EPOLLET) are those of sockets: what was reported is reported again when a call has tried to
 * read or to write since, as programs do until EAGAIN. Other descriptors are level-triggered.
 */
#define _GNU_SOURCE
#include "net.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define PS_PER_NS 1000ull
#define PS_PER_US 1000000ull
#define PS_PER_MS 1000000000ull
#define PS_PER_S 1000000000000ull

struct member {
	int fd;
	uint32_t events;
	uint32_t reported; /* bits of an edge that was told */
	bool disabled;     /* EPOLLONESHOT */
	epoll_data_t user;
};

struct epoll {
	struct data data;
	int count, room;
	struct member *members;
	struct epoll *next;
};
static struct epoll *epolls;

/* Of the thread, without reading the clock. */
static uint64_t now_ps(void)
{
	return native.now_ps + native.used_ps;
}

static struct epoll *epoll_of(int fd)
{
	struct descriptor *descriptor = host_descriptor(fd);
	struct data *data = descriptor ? descriptor->data : NULL;
	return data && data->type == DATA_EPOLL ? (struct epoll *)data : NULL;
}

/* A timer of timerfd_create(2). It is this library's own: the host only lets the time pass. */
struct timer {
	struct data data;
	uint64_t epoch_s;               /* of its clock */
	uint64_t due_ps, interval_ps;   /* NEVER: disarmed; 0: it expires once */
};

static struct timer *timer_of(int fd)
{
	struct descriptor *descriptor = host_descriptor(fd);
	struct data *data = descriptor ? descriptor->data : NULL;
	return data && data->type == DATA_TIMER ? (struct timer *)data : NULL;
}

/*
 * The rows of a wait at the host, each with the place in `fds` that it counts for. A descriptor
 * of epoll is its members.
 */
struct rows {
	int count, room;
	struct row {
		int place, kind, events;
		uint64_t handle;
	} *rows;
	int native_count;
	struct pollfd *natives;
	int *native_places;
	int timer_count;
	struct {
		const struct timer *timer;
		int place, events;
	} *timers;
};

static void add_timer(struct rows *rows, int place, const struct timer *timer, int events)
{
	rows->timers = realloc(rows->timers, (rows->timer_count + 1) * sizeof(*rows->timers));
	if (!rows->timers)
		native_fail("no memory for a poll of %d timers", rows->timer_count);
	rows->timers[rows->timer_count].timer = timer;
	rows->timers[rows->timer_count].events = events & (POLLIN | POLLRDNORM);
	rows->timers[rows->timer_count++].place = place;
}

static void add_native(struct rows *rows, int place, int fd, short events)
{
	rows->natives = realloc(rows->natives, (rows->native_count + 1) * sizeof(struct pollfd));
	rows->native_places = realloc(rows->native_places, (rows->native_count + 1) * sizeof(int));
	if (!rows->natives || !rows->native_places)
		native_fail("no memory for a poll of %d descriptors", rows->native_count);
	rows->natives[rows->native_count] = (struct pollfd){ fd, events, 0 };
	rows->native_places[rows->native_count++] = place;
}

static void add_row(struct rows *rows, struct row row)
{
	if (rows->count == rows->room) {
		rows->room = rows->room ? 2 * rows->room : 16;
		rows->rows = realloc(rows->rows, rows->room * sizeof(row));
		if (!rows->rows)
			native_fail("no memory for a poll of %d descriptors", rows->room);
	}
	rows->rows[rows->count++] = row;
}

/* Bits that need no request: of a socket that neither is connected nor listens. */
static short ready_without_host(const struct descriptor *descriptor, short events)
{
	struct data *data = descriptor->data;
	bool is_new = data && data->type == DATA_SOCKET && !((struct net_socket *)data)->handle;
	return is_new ? (POLLOUT | POLLWRNORM | POLLHUP) & (events | POLLHUP) : 0;
}

static void add_descriptor(struct rows *rows, int place, struct pollfd *polled, int depth)
{
	struct descriptor *descriptor = host_descriptor(polled->fd);
	struct epoll *epoll = epoll_of(polled->fd);

	if (polled->fd < 0)
		return;
	if (epoll) {
		for (int i = 0; i < epoll->count && depth < 5 && polled->events & POLLIN; i++) {
			struct member *member = &epoll->members[i];
			struct pollfd inner = { member->fd, member->events, 0 };
			if (member->disabled)
				continue;
			add_descriptor(rows, place, &inner, depth + 1);
			if (inner.revents)
				polled->revents |= POLLIN;
		}
	} else if (!descriptor) {
		add_native(rows, place, polled->fd, polled->events);
	} else if (timer_of(polled->fd)) {
		add_timer(rows, place, timer_of(polled->fd), polled->events);
	} else if (descriptor->kind == KIND_LOST) {
		polled->revents |= POLLERR;
	} else if (descriptor->kind == KIND_COMMAND) {
		/* As Linux says of all files that know no poll. */
		polled->revents |= (POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM) & polled->events;
	} else {
		polled->revents |= ready_without_host(descriptor, polled->events);
		if (!polled->revents)
			add_row(rows, (struct row){ place, descriptor->kind, polled->events,
						    descriptor->handle });
	}
}

static void set_ready(struct pollfd *fds, int place, short ready)
{
	/* Of epoll's members only that one of them is ready. A place below 0 is no descriptor's. */
	if (ready && place >= 0)
		fds[place].revents |= epoll_of(fds[place].fd) ? POLLIN : ready;
}

static int count_ready(const struct pollfd *fds, nfds_t count)
{
	int ready = 0;

	for (nfds_t i = 0; i < count; i++)
		ready += fds[i].revents != 0;
	return ready;
}

int poll_now(struct pollfd *fds, nfds_t count)
{
	int ready;

	do
		ready = LIBC(poll)(fds, count, 0);
	while (ready < 0 && errno == EINTR);
	return ready;
}

static int look_at_natives(const struct rows *rows, struct pollfd *fds)
{
	if (rows->native_count > 0 && poll_now(rows->natives, rows->native_count) < 0)
		return -1;
	for (int i = 0; i < rows->native_count; i++)
		set_ready(fds, rows->native_places[i], rows->natives[i].revents);
	return 0;
}

/* Notes those that are due; when the next one is. */
static uint64_t look_at_timers(const struct rows *rows, struct pollfd *fds)
{
	uint64_t next = NEVER;

	for (int i = 0; i < rows->timer_count; i++) {
		uint64_t due = rows->timers[i].timer->due_ps;
		if (due <= now_ps())
			set_ready(fds, rows->timers[i].place, rows->timers[i].events);
		else if (due < next && rows->timers[i].events)
			next = due;
	}
	return next;
}

static int ask_host(const struct rows *rows, struct pollfd *fds, uint64_t timeout_ps)
{
	request_begin(REQUEST_poll, ARG_poll_WORDS)[ARG_poll_timeoutPs] = timeout_ps;
	for (int i = 0; i < rows->count; i++) {
		uint64_t *row = request_row(ROW_poll_WORDS);
		row[ROW_poll_kind] = rows->rows[i].kind;
		row[ROW_poll_handle] = rows->rows[i].handle;
		row[ROW_poll_events] = (uint16_t)rows->rows[i].events;
	}
	int error = request_send();
	if (error)
		return fail(error);
	const uint64_t *ready = answer();
	for (int i = 0; i < rows->count; i++)
		set_ready(fds, rows->rows[i].place,
			  ready[i * ANSWER_ROW_poll_WORDS + ANSWER_ROW_poll_ready]);
	return 0;
}

int wait_for(struct pollfd *fds, nfds_t count, uint64_t timeout_ps)
{
	struct rows rows = { 0 };
	int result = 0, alarms = native.alarm_count;

	raise_alarm_if_due();
	uint64_t until = timeout_ps < NEVER - now_ps() ? now_ps() + timeout_ps : NEVER;
	for (nfds_t i = 0; i < count; i++) {
		fds[i].revents = 0;
		add_descriptor(&rows, i, &fds[i], 0);
	}
	bool is_shared = rows.native_count + rows.timer_count > 0 && threads_share_descriptors();
	if (is_shared)
		add_row(&rows, (struct row){ -1, POLLED_futex, POLLIN, (uintptr_t)&descriptors_key });
	result = look_at_natives(&rows, fds);
	look_at_timers(&rows, fds);
	bool is_look = timeout_ps == 0 || count_ready(fds, count) > 0;
	do {
		uint64_t timer = look_at_timers(&rows, fds);
		uint64_t end = native.alarm_ps < until ? native.alarm_ps : until;
		end = timer < end ? timer : end;
		if (is_shared && !is_look)
			thread_waits_on(&descriptors_key);
		if (result == 0)
			result = ask_host(&rows, fds, is_look ? 0 : end == NEVER ? NEVER : end - now_ps());
		if (is_shared && !is_look) {
			thread_waits_on(NULL);
			result = result == 0 ? look_at_natives(&rows, fds) : result;
		}
		raise_alarm_if_due();
		look_at_timers(&rows, fds);
		if (result == 0)
			result = count_ready(fds, count);
	} while (result == 0 && !is_look && now_ps() < until && native.alarm_count == alarms);
	free(rows.rows);
	free(rows.natives);
	free(rows.native_places);
	free(rows.timers);
	/* poll(2) and its kin never go on after a handler. */
	if (result == 0 && native.alarm_count != alarms && timeout_ps != 0)
		return fail(EINTR);
	return result;
}

static uint64_t timespec_ps(const struct timespec *time)
{
	if (!time)
		return NEVER;
	if (time->tv_sec > 1000000)
		return NEVER;
	return time->tv_sec * PS_PER_S + time->tv_nsec * PS_PER_NS;
}

static bool is_valid(const struct timespec *time)
{
	return !time || (time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < 1000000000);
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	if (!native.active)
		return LIBC(poll)(fds, count, timeout);
	return wait_for(fds, count, timeout < 0 ? NEVER : timeout * PS_PER_MS);
}

/* Runs `wait` with the signal mask of ppoll and its kin. */
#define WITH_MASK(mask, wait)                                              \
	({                                                                 \
		sigset_t before_;                                          \
		if (mask)                                                  \
			pthread_sigmask(SIG_SETMASK, mask, &before_);      \
		int result_ = (wait), error_ = errno;                      \
		if (mask)                                                  \
			pthread_sigmask(SIG_SETMASK, &before_, NULL);      \
		errno = error_;                                            \
		result_;                                                   \
	})

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		 const sigset_t *mask)
{
	if (!native.active)
		return LIBC(ppoll)(fds, count, timeout, mask);
	if (!is_valid(timeout))
		return fail(EINVAL);
	return WITH_MASK(mask, wait_for(fds, count, timespec_ps(timeout)));
}

_Noreturn void __chk_fail(void);

EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
	if (room / sizeof(*fds) < count)
		__chk_fail();
	return poll(fds, count, timeout);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		       const sigset_t *mask, size_t room)
{
	if (room / sizeof(*fds) < count)
		__chk_fail();
	return ppoll(fds, count, timeout, mask);
}

/* As Linux maps them (fs/select.c). */
#define SELECT_IN (POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR)
#define SELECT_OUT (POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR)
#define SELECT_EX POLLPRI

static int select_ps(int count, fd_set *in, fd_set *out, fd_set *ex, uint64_t timeout_ps)
{
	struct pollfd fds[FD_SETSIZE];
	nfds_t polled = 0;

	if (count < 0 || count > FD_SETSIZE)
		return fail(EINVAL);
	for (int fd = 0; fd < count; fd++) {
		short events = (in && FD_ISSET(fd, in) ? POLLIN | POLLRDNORM : 0) |
			       (out && FD_ISSET(fd, out) ? POLLOUT | POLLWRNORM : 0) |
			       (ex && FD_ISSET(fd, ex) ? POLLPRI : 0);
		if (events)
			fds[polled++] = (struct pollfd){ fd, events, 0 };
	}
	if (wait_for(fds, polled, timeout_ps) < 0)
		return -1;
	for (nfds_t i = 0; i < polled; i++)
		if (fds[i].revents & POLLNVAL)
			return fail(EBADF);
	int ready = 0;
	for (nfds_t i = 0; i < polled; i++) {
		int fd = fds[i].fd;
		struct {
			fd_set *set;
			int bits;
		} kinds[] = { { in, SELECT_IN }, { out, SELECT_OUT }, { ex, SELECT_EX } };
		for (int kind = 0; kind < 3; kind++) {
			if (!kinds[kind].set || !FD_ISSET(fd, kinds[kind].set))
				continue;
			if (fds[i].revents & kinds[kind].bits)
				ready++;
			else
				FD_CLR(fd, kinds[kind].set);
		}
	}
	return ready;
}

EXPORT int select(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict ex,
		  struct timeval *restrict timeout)
{
	if (!native.active)
		return LIBC(select)(count, in, out, ex, timeout);
	if (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0))
		return fail(EINVAL);
	uint64_t from = now_ps();
	uint64_t ps = timeout ? timeout->tv_sec * PS_PER_S + timeout->tv_usec * PS_PER_US : NEVER;
	int ready = select_ps(count, in, out, ex, ps);
	/* Linux shows what is left. */
	if (timeout) {
		uint64_t passed = now_ps() - from, left = passed < ps ? ps - passed : 0;
		*timeout = (struct timeval){ left / PS_PER_S, left % PS_PER_S / PS_PER_US };
	}
	return ready;
}

EXPORT int pselect(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict ex,
		   const struct timespec *restrict timeout, const sigset_t *restrict mask)
{
	if (!native.active)
		return LIBC(pselect)(count, in, out, ex, timeout, mask);
	if (!is_valid(timeout))
		return fail(EINVAL);
	return WITH_MASK(mask, select_ps(count, in, out, ex, timespec_ps(timeout)));
}

EXPORT int epoll_create1(int flags)
{
	if (!native.active)
		return LIBC(epoll_create1)(flags);
	if (flags & ~EPOLL_CLOEXEC)
		return fail(EINVAL);
	struct epoll *made = calloc(1, sizeof(*made));
	if (!made)
		return fail(ENOMEM);
	int fd = descriptor_open(KIND_EPOLL, 0);
	if (fd < 0) {
		free(made);
		return -1;
	}
	made->data = (struct data){ DATA_EPOLL, 1 };
	made->next = epolls;
	epolls = made;
	descriptor_of(fd)->data = made;
	if (!(flags & EPOLL_CLOEXEC))
		syscall(SYS_fcntl, fd, F_SETFD, 0);
	return fd;
}

EXPORT int epoll_create(int size)
{
	if (!native.active)
		return LIBC(epoll_create)(size);
	return size > 0 ? epoll_create1(0) : fail(EINVAL);
}

static struct member *member_of(struct epoll *epoll, int fd)
{
	for (int i = 0; i < epoll->count; i++)
		if (epoll->members[i].fd == fd)
			return &epoll->members[i];
	return NULL;
}

static int add_member(struct epoll *epoll, int fd, const struct epoll_event *event)
{
	if (epoll->count == epoll->room) {
		int room = epoll->room ? 2 * epoll->room : 8;
		struct member *grown = realloc(epoll->members, room * sizeof(*grown));
		if (!grown)
			return fail(ENOMEM);
		epoll->members = grown;
		epoll->room = room;
	}
	epoll->members[epoll->count++] =
		(struct member){ .fd = fd, .events = event->events, .user = event->data };
	return 0;
}

static void remove_member(struct epoll *epoll, struct member *member)
{
	int at = member - epoll->members;

	memmove(member, member + 1, (--epoll->count - at) * sizeof(*member));
}

EXPORT int epoll_ctl(int fd, int operation, int of, struct epoll_event *event)
{
	if (!native.active)
		return LIBC(epoll_ctl)(fd, operation, of, event);
	struct epoll *epoll = epoll_of(fd);
	if (!epoll || syscall(SYS_fcntl, of, F_GETFD) < 0)
		return fail(epoll || syscall(SYS_fcntl, fd, F_GETFD) < 0 ? EBADF : EINVAL);
	if (fd == of)
		return fail(EINVAL);
	struct member *member = member_of(epoll, of);
	switch (operation) {
	case EPOLL_CTL_ADD:
		return member ? fail(EEXIST) : add_member(epoll, of, event);
	case EPOLL_CTL_MOD:
		if (!member)
			return fail(ENOENT);
		*member = (struct member){ .fd = of, .events = event->events, .user = event->data };
		return 0;
	case EPOLL_CTL_DEL:
		if (!member)
			return fail(ENOENT);
		remove_member(epoll, member);
		return 0;
	default:
		return fail(EINVAL);
	}
}

void forget_polled(int fd)
{
	struct epoll *closing = epoll_of(fd);

	for (struct epoll **at = &epolls; *at;) {
		struct member *member = member_of(*at, fd);
		if (member)
			remove_member(*at, member);
		if (*at == closing && closing->data.users == 1) {
			free(closing->members);
			*at = closing->next;
		} else {
			at = &(*at)->next;
		}
	}
}

void note_tried(int fd, unsigned events)
{
	for (struct epoll *epoll = epolls; epoll; epoll = epoll->next) {
		struct member *member = member_of(epoll, fd);
		if (member)
			member->reported &= ~events;
	}
}

/* EPOLL* are the bits of POLL*; those behind bit 16 say how. */
#define EPOLL_BITS 0xffffu

static bool has_edges(const struct member *member)
{
	struct descriptor *descriptor = host_descriptor(member->fd);
	struct data *data = descriptor ? descriptor->data : NULL;
	return member->events & EPOLLET && data && data->type == DATA_SOCKET;
}

/* The events of one look; those of an edge that was told are left out. */
static int take_events(struct epoll *epoll, const struct pollfd *fds, struct epoll_event *events,
		       int most)
{
	int taken = 0;

	for (int i = 0; i < epoll->count && taken < most; i++) {
		struct member *member = &epoll->members[i];
		uint32_t ready = (uint16_t)fds[i].revents, told = ready;
		if (has_edges(member)) {
			told = ready & ~member->reported;
			member->reported |= ready;
		}
		if (!told)
			continue;
		events[taken++] = (struct epoll_event){ ready, member->user };
		if (member->events & EPOLLONESHOT)
			member->disabled = true;
	}
	return taken;
}

static int epoll_wait_ps(int fd, struct epoll_event *events, int most, uint64_t timeout_ps)
{
	struct epoll *epoll = epoll_of(fd);

	if (!epoll)
		return fail(syscall(SYS_fcntl, fd, F_GETFD) < 0 ? EBADF : EINVAL);
	if (most <= 0)
		return fail(EINVAL);
	struct pollfd *fds = calloc(epoll->count + 1, sizeof(*fds));
	if (!fds)
		return fail(ENOMEM);
	uint64_t from = now_ps();
	int taken;
	do {
		for (int i = 0; i < epoll->count; i++) {
			struct member *member = &epoll->members[i];
			/* An edge that was told ends no wait. */
			uint32_t told = has_edges(member) ? member->reported : 0;
			short wanted = member->events & EPOLL_BITS & ~told;
			bool is_over = member->disabled || (told & (EPOLLERR | EPOLLHUP));
			fds[i] = (struct pollfd){ is_over ? -1 : member->fd, wanted, 0 };
		}
		uint64_t passed = now_ps() - from;
		uint64_t left = timeout_ps == NEVER  ? NEVER :
				passed < timeout_ps ? timeout_ps - passed :
						      0;
		taken = wait_for(fds, epoll->count, left);
		if (taken > 0)
			taken = take_events(epoll, fds, events, most);
	} while (taken == 0 && timeout_ps != 0 && now_ps() - from < timeout_ps);
	free(fds);
	return taken;
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int most, int timeout)
{
	if (!native.active)
		return LIBC(epoll_wait)(fd, events, most, timeout);
	return epoll_wait_ps(fd, events, most, timeout < 0 ? NEVER : timeout * PS_PER_MS);
}

EXPORT int epoll_pwait(int fd, struct epoll_event *events, int most, int timeout,
		       const sigset_t *mask)
{
	if (!native.active)
		return LIBC(epoll_pwait)(fd, events, most, timeout, mask);
	return WITH_MASK(mask, epoll_wait(fd, events, most, timeout));
}

EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int most,
			const struct timespec *timeout, const sigset_t *mask)
{
	if (!native.active)
		return LIBC(epoll_pwait2)(fd, events, most, timeout, mask);
	if (!is_valid(timeout))
		return fail(EINVAL);
	return WITH_MASK(mask, epoll_wait_ps(fd, events, most, timespec_ps(timeout)));
}

/* Sleeps until `end`; what an alarm has left of it. */
static uint64_t sleep_until(uint64_t end)
{
	int alarms = native.alarm_count;

	raise_alarm_if_due();
	while (now_ps() < end && native.alarm_count == alarms) {
		uint64_t until = native.alarm_ps < end ? native.alarm_ps : end;
		request_begin(REQUEST_sleep, ARG_sleep_WORDS)[ARG_sleep_ps] = until - now_ps();
		request_send();
		raise_alarm_if_due();
	}
	return now_ps() < end ? end - now_ps() : 0;
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
			   struct timespec *left)
{
	if (!native.active)
		return LIBC(clock_nanosleep)(clock, flags, time, left);
	if (!is_valid(time))
		return EINVAL;
	uint64_t end = now_ps() + timespec_ps(time);
	if (flags & TIMER_ABSTIME) {
		struct timespec since = *time;
		since.tv_sec -= clock_epoch_s(clock);
		end = since.tv_sec < 0 ? 0 : timespec_ps(&since);
	}
	uint64_t rest = sleep_until(end);
	if (rest && left && !(flags & TIMER_ABSTIME))
		*left = (struct timespec){ rest / PS_PER_S, rest % PS_PER_S / PS_PER_NS };
	return rest ? EINTR : 0;
}

EXPORT int nanosleep(const struct timespec *time, struct timespec *left)
{
	if (!native.active)
		return LIBC(nanosleep)(time, left);
	int error = clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
	return error ? fail(error) : 0;
}

EXPORT int usleep(useconds_t us)
{
	if (!native.active)
		return LIBC(usleep)(us);
	return sleep_until(now_ps() + us * PS_PER_US) ? fail(EINTR) : 0;
}

EXPORT unsigned sleep(unsigned seconds)
{
	if (!native.active)
		return LIBC(sleep)(seconds);
	uint64_t rest = sleep_until(now_ps() + seconds * PS_PER_S);
	return (rest + PS_PER_S - 1) / PS_PER_S;
}

EXPORT int pause(void)
{
	if (!native.active)
		return LIBC(pause)();
	return wait_for(NULL, 0, NEVER);
}

/* There is no other thread that could run. It takes what a clock read takes, so that a loop ends. */
EXPORT int sched_yield(void)
{
	if (!native.active)
		return LIBC(sched_yield)();
	virtual_now_ps();
	return 0;
}

/* Timers of the kernel would tell real time. */
EXPORT int timer_create(clockid_t clock, struct sigevent *restrict event, timer_t *restrict timer)
{
	if (!native.active)
		return LIBC(timer_create)(clock, event, timer);
	complain("timer_create is refused: of timers the rack has alarm, setitimer and timerfd_create");
	return fail(ENOTSUP);
}

EXPORT int timerfd_create(int clock, int flags)
{
	if (!native.active)
		return LIBC(timerfd_create)(clock, flags);
	if (flags & ~(TFD_CLOEXEC | TFD_NONBLOCK))
		return fail(EINVAL);
	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME &&
	    clock != CLOCK_REALTIME_ALARM && clock != CLOCK_BOOTTIME_ALARM)
		return fail(EINVAL);
	struct timer *made = calloc(1, sizeof(*made));
	if (!made)
		return fail(ENOMEM);
	int fd = descriptor_open(KIND_TIMER, 0);
	if (fd < 0) {
		free(made);
		return -1;
	}
	*made = (struct timer){ { DATA_TIMER, 1 }, clock_epoch_s(clock), NEVER, 0 };
	descriptor_of(fd)->data = made;
	if (!(flags & TFD_CLOEXEC))
		syscall(SYS_fcntl, fd, F_SETFD, 0);
	if (flags & TFD_NONBLOCK)
		syscall(SYS_fcntl, fd, F_SETFL, O_RDWR | O_NONBLOCK);
	return fd;
}

/* The timer of a call, or NULL and errno. */
static struct timer *timer_at(int fd)
{
	struct timer *timer = timer_of(fd);

	if (!timer)
		errno = syscall(SYS_fcntl, fd, F_GETFD) < 0 ? EBADF : EINVAL;
	return timer;
}

static struct timespec ps_timespec(uint64_t ps)
{
	return (struct timespec){ ps / PS_PER_S, ps % PS_PER_S / PS_PER_NS };
}

/* Until it expires next. */
static struct itimerspec timer_left(const struct timer *timer)
{
	uint64_t due = timer->due_ps, now = now_ps(), left = 0;

	if (due != NEVER && due > now)
		left = due - now;
	else if (due != NEVER && timer->interval_ps)
		left = timer->interval_ps - (now - due) % timer->interval_ps;
	return (struct itimerspec){ ps_timespec(timer->interval_ps), ps_timespec(left) };
}

EXPORT int timerfd_gettime(int fd, struct itimerspec *left)
{
	if (!native.active)
		return LIBC(timerfd_gettime)(fd, left);
	struct timer *timer = timer_at(fd);
	if (!timer)
		return -1;
	virtual_now_ps();
	*left = timer_left(timer);
	return 0;
}

EXPORT int timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old)
{
	if (!native.active)
		return LIBC(timerfd_settime)(fd, flags, value, old);
	struct timer *timer = timer_at(fd);
	if (!timer)
		return -1;
	if (flags & ~(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET) || !is_valid(&value->it_value) ||
	    !is_valid(&value->it_interval))
		return fail(EINVAL);
	virtual_now_ps();
	if (old)
		*old = timer_left(timer);
	struct timespec at = value->it_value;
	timer->interval_ps = timespec_ps(&value->it_interval);
	if (at.tv_sec == 0 && at.tv_nsec == 0) {
		timer->due_ps = NEVER;
	} else if (flags & TFD_TIMER_ABSTIME) {
		at.tv_sec -= timer->epoch_s;
		timer->due_ps = at.tv_sec < 0 ? 0 : timespec_ps(&at);
	} else {
		uint64_t ps = timespec_ps(&at);
		timer->due_ps = ps == NEVER ? NEVER : now_ps() + ps;
	}
	/* Threads that wait for it look again. */
	descriptors_changed();
	return 0;
}

ssize_t timer_read(int fd, void *bytes, size_t length)
{
	struct timer *timer = timer_of(fd);
	uint64_t expired = 1;

	if (length < sizeof(expired))
		return fail(EINVAL);
	while (timer->due_ps > now_ps()) {
		struct pollfd polled = { fd, POLLIN, 0 };
		if (!descriptor_waits(fd)) {
			/* A loop of such calls takes time. */
			virtual_now_ps();
			return fail(EAGAIN);
		}
		if (wait_for(&polled, 1, NEVER) < 0)
			return -1;
	}
	if (timer->interval_ps) {
		expired += (now_ps() - timer->due_ps) / timer->interval_ps;
		timer->due_ps += expired * timer->interval_ps;
	} else {
		timer->due_ps = NEVER;
	}
	memcpy(bytes, &expired, sizeof(expired));
	return sizeof(expired);
}
