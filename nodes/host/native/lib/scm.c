/*
 * Persistent memory: files below /scm, and libpmem's functions.
 *
 * What is persistent is the host's to say: its caches and its memory controllers decide what a power
 * failure leaves. So a mapped file is a copy. Its pages are read-only until the program stores:
 * the first store into a page is a fault, which notes the page and what it held. The next request of
 * any kind first sends what differs, as stores of this core at that instant; while there is something
 * to send, no clock read and no poll is answered here. Only libpmem's functions flush: instructions
 * that a program has inline (clwb, clflushopt, movnt) are unseen, and what they flush is only stored.
 */
#define _GNU_SOURCE
#include "rackmesh.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096ul
/* The largest page of the card for SCM (address_map.ts): it translates a mapping that lies in it as SCM does. */
#define CARD_PAGE (2ul << 20)
#define MAPPINGS 64
#define PREFIX "/scm/"
/* Bytes of a message that brings a file's contents. */
#define PIECE (4ul << 20)

/*
 * What the program has mapped of SCM lies in one file in memory, at SCM's offsets: so mappings of one
 * place, also those of a child, are one memory. `view` is this library's own mapping of all of it.
 */
static struct mapping {
	char *at; /* NULL: free */
	uint64_t offset, length;
	int prot;
	bool *is_open; /* of each page: the program may store */
} mappings[MAPPINGS];
static struct {
	int fd;
	uint64_t pages;
	char *view, *before;  /* `before`: what each noted page held */
	uint16_t *users;      /* mappings of each page: without one it is not kept up */
	bool *is_noted;
	uint32_t *noted;      /* numbers of pages */
	uint32_t noted_count;
} scm = { .fd = -1 };
static struct file {
	int fd; /* a memfd of the file's length, so that its size and position are the kernel's; 0: free */
	uint64_t offset, length;
} files[MAPPINGS];
bool scm_has_stores;

static struct mapping *mapping_of(const void *address, size_t length)
{
	for (int i = 0; i < MAPPINGS; i++) {
		struct mapping *mapping = &mappings[i];
		if (mapping->at && (char *)address >= mapping->at &&
		    (char *)address + length <= mapping->at + mapping->length)
			return mapping;
	}
	return NULL;
}

uint64_t scm_mapped_until(uint64_t at)
{
	struct mapping *mapping = scm_active ? mapping_of((void *)at, 1) : NULL;

	return mapping ? (uintptr_t)mapping->at + mapping->length : 0;
}

/* In a signal handler: nothing here calls malloc. */
bool scm_fault(const void *address)
{
	struct mapping *mapping = mapping_of(address, 1);
	if (!mapping || !(mapping->prot & PROT_WRITE))
		return false;
	uint64_t at = ((char *)address - mapping->at) / PAGE, page = mapping->offset / PAGE + at;
	if (mapping->is_open[at])
		return false;
	if (!scm.is_noted[page]) {
		memcpy(scm.before + page * PAGE, scm.view + page * PAGE, PAGE);
		scm.is_noted[page] = true;
		scm.noted[scm.noted_count++] = page;
		scm_has_stores = true;
	}
	mapping->is_open[at] = true;
	syscall(SYS_mprotect, mapping->at + at * PAGE, PAGE, mapping->prot);
	return true;
}

/* Before a system call stores there: the kernel answers EFAULT for a read-only page. */
void scm_will_store(void *address, size_t length)
{
	if (!scm_active || length == 0 || !mapping_of(address, length))
		return;
	for (uintptr_t at = (uintptr_t)address & -PAGE; at < (uintptr_t)address + length; at += PAGE)
		scm_fault((void *)at);
}

struct span {
	uint64_t at, length; /* in SCM */
};

/* The next span of 8-byte words that differ from what the page held; false: there is none. */
static bool next_span(uint32_t page, uint64_t *from, struct span *span)
{
	const uint64_t *now = (uint64_t *)(scm.view + page * PAGE);
	const uint64_t *before = (uint64_t *)(scm.before + page * PAGE);
	uint64_t at = *from;

	while (at < PAGE / 8 && now[at] == before[at])
		at++;
	if (at == PAGE / 8)
		return false;
	uint64_t end = at;
	while (end < PAGE / 8 && now[end] != before[end])
		end++;
	*from = end;
	*span = (struct span){ page * PAGE + at * 8, (end - at) * 8 };
	return true;
}

/* Pages in the order of their addresses, so that stores are in it: most are already. */
static void sort_noted(void)
{
	for (uint32_t i = 1; i < scm.noted_count; i++) {
		uint32_t page = scm.noted[i], j = i;
		for (; j > 0 && scm.noted[j - 1] > page; j--)
			scm.noted[j] = scm.noted[j - 1];
		scm.noted[j] = page;
	}
}

static uint64_t each_span(void (*take)(const struct span *))
{
	uint64_t count = 0;
	struct span span;

	for (uint32_t i = 0; i < scm.noted_count; i++)
		for (uint64_t from = 0; next_span(scm.noted[i], &from, &span); count++)
			if (take)
				take(&span);
	return count;
}

static void add_place(const struct span *span)
{
	uint64_t *row = request_row(2);
	row[0] = span->at;
	row[1] = span->length;
}

static void add_bytes(const struct span *span)
{
	request_bytes(scm.view + span->at, span->length);
}

/* The program's next store into the page is a fault again, in each of its mappings. */
static void close_page(uint32_t page)
{
	for (int i = 0; i < MAPPINGS; i++) {
		struct mapping *mapping = &mappings[i];
		uint64_t first = mapping->offset / PAGE;
		if (!mapping->at || page < first || page >= first + (mapping->length + PAGE - 1) / PAGE ||
		    !mapping->is_open[page - first])
			continue;
		mapping->is_open[page - first] = false;
		syscall(SYS_mprotect, mapping->at + (page - first) * PAGE, PAGE,
			mapping->prot & ~PROT_WRITE);
	}
	scm.is_noted[page] = false;
}

void scm_send_stores(void)
{
	scm_has_stores = false;
	sort_noted();
	uint64_t count = each_span(NULL);
	if (count > 0) {
		request_begin(REQUEST_scm_store, ARG_scm_store_WORDS)[ARG_scm_store_spans] = count;
		each_span(add_place);
		each_span(add_bytes);
	}
	for (uint32_t i = 0; i < scm.noted_count; i++)
		close_page(scm.noted[i]);
	scm.noted_count = 0;
	if (count > 0 && request_send() != 0)
		native_fail("the host refuses a store to persistent memory");
}

/* The host has written there: also a read-only page takes it. */
bool scm_write(uint64_t address, const void *bytes, size_t length)
{
	struct mapping *mapping = scm_active ? mapping_of((void *)address, length) : NULL;

	if (mapping)
		memcpy(scm.view + mapping->offset + (address - (uintptr_t)mapping->at), bytes, length);
	return mapping != NULL;
}

bool scm_active;

/* An errno, or 0. */
static int scm_open(const char *path, uint64_t *offset, uint64_t *length)
{
	request_begin(REQUEST_scm_open, ARG_scm_open_WORDS);
	request_bytes(path + strlen(PREFIX), strlen(path + strlen(PREFIX)));
	int error = request_send();
	if (error == 0) {
		*offset = answer()[ANSWER_scm_open_offset];
		*length = answer()[ANSWER_scm_open_length];
	}
	return error;
}

/* Its pages are the kernel's to give when they are used. */
static void *more_pages(void *old, size_t old_bytes, size_t bytes)
{
	void *at = old ? mremap(old, old_bytes, bytes, MREMAP_MAYMOVE) :
			 (void *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		native_fail("no memory for %zu bytes beside persistent memory", bytes);
	return at;
}

/* There is room for so many pages of SCM. */
static void scm_need(uint64_t pages)
{
	uint64_t had = scm.pages;

	if (pages <= had)
		return;
	if (scm.fd < 0) {
		int fd = memfd_create("scm", MFD_CLOEXEC);
		scm.fd = fd < 0 ? fd : (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
		syscall(SYS_close, fd);
	}
	if (scm.fd < 0 || syscall(SYS_ftruncate, scm.fd, pages * PAGE) < 0)
		native_fail("no memory for %lu bytes of persistent memory", pages * PAGE);
	if (scm.view)
		syscall(SYS_munmap, scm.view, had * PAGE);
	scm.view = (char *)syscall(SYS_mmap, NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
				   scm.fd, 0);
	if (scm.view == MAP_FAILED)
		native_fail("no memory for %lu bytes of persistent memory", pages * PAGE);
	scm.before = more_pages(scm.before, had * PAGE, pages * PAGE);
	scm.users = more_pages(scm.users, had * sizeof(*scm.users), pages * sizeof(*scm.users));
	scm.is_noted = more_pages(scm.is_noted, had, pages);
	scm.noted = more_pages(scm.noted, had * sizeof(*scm.noted), pages * sizeof(*scm.noted));
	scm.pages = pages;
}

/* What the host has there, where no mapping keeps it up: 0 or an errno. */
static int scm_fill(uint64_t offset, uint64_t length)
{
	for (uint64_t done = 0, part; done < length; done += part) {
		uint64_t left = length - done;
		bool kept = scm.users[(offset + done) / PAGE] > 0;
		part = left < PAGE ? left : PAGE;
		while (part < left && part < PIECE && (scm.users[(offset + done + part) / PAGE] > 0) == kept)
			part += left - part < PAGE ? left - part : PAGE;
		if (kept)
			continue;
		uint64_t *arg = request_begin(REQUEST_scm_load, ARG_scm_load_WORDS);
		arg[ARG_scm_load_offset] = offset + done;
		arg[ARG_scm_load_length] = part;
		int error = request_send();
		if (error)
			return error;
		memcpy(scm.view + offset + done, answer(), answer_bytes());
	}
	return 0;
}

/* An address that lies in a page of the card as `offset` does, as the kernel maps DAX files. */
static void *address_as(uint64_t offset, size_t length)
{
	char *room = (char *)syscall(SYS_mmap, NULL, length + CARD_PAGE, PROT_NONE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return NULL;
	syscall(SYS_munmap, room, length + CARD_PAGE);
	return room + ((offset - (uintptr_t)room) & (CARD_PAGE - 1));
}

/* Maps part of SCM as mmap(2) does. NULL and errno where it cannot. */
static void *scm_map(void *address, uint64_t offset, uint64_t length, int prot, int flags)
{
	struct mapping *mapping = mappings;
	uint64_t pages = (length + PAGE - 1) / PAGE, first = offset / PAGE;

	while (mapping < mappings + MAPPINGS && mapping->at)
		mapping++;
	if (mapping == mappings + MAPPINGS) {
		errno = ENOMEM;
		return NULL;
	}
	scm_need(first + pages);
	int error = scm_fill(offset, length);
	if (error) {
		errno = error;
		return NULL;
	}
	/* A private one is as the file is now, and none of the host's. */
	bool is_private = (flags & MAP_TYPE) == MAP_PRIVATE;
	int fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
	if (!address && !is_private)
		address = address_as(offset, length);
	char *at = (char *)syscall(SYS_mmap, address, length, is_private ? prot : prot & ~PROT_WRITE,
				   (is_private ? MAP_PRIVATE : MAP_SHARED) | fixed, scm.fd, offset);
	if (at == MAP_FAILED)
		return NULL;
	if (is_private)
		return at;
	*mapping = (struct mapping){ at, offset, length, prot, more_pages(NULL, 0, pages) };
	scm_active = true;
	uint64_t *arg = request_begin(REQUEST_scm_map, ARG_scm_map_WORDS);
	arg[ARG_scm_map_offset] = offset;
	arg[ARG_scm_map_length] = length;
	arg[ARG_scm_map_addr] = (uintptr_t)at;
	error = request_send();
	if (error) {
		mapping->at = NULL;
		syscall(SYS_munmap, at, length);
		errno = error;
		return NULL;
	}
	for (uint64_t i = 0; i < pages; i++)
		scm.users[first + i]++;
	return at;
}

static void scm_unmap(struct mapping *mapping)
{
	uint64_t pages = (mapping->length + PAGE - 1) / PAGE, first = mapping->offset / PAGE;

	request_begin(REQUEST_scm_unmap, ARG_scm_unmap_WORDS)[ARG_scm_unmap_addr] = (uintptr_t)mapping->at;
	request_send();
	for (uint64_t i = 0; i < pages; i++)
		scm.users[first + i]--;
	syscall(SYS_munmap, mapping->at, pages * PAGE);
	syscall(SYS_munmap, mapping->is_open, pages);
	mapping->at = NULL;
}

/* Unmaps those in a range; EINVAL where it has a part of one. */
static int scm_unmap_range(const void *address, size_t length)
{
	const char *from = address, *to = from + length;

	for (int pass = 0; scm_active && pass < 2; pass++)
		for (int i = 0; i < MAPPINGS; i++) {
			struct mapping *mapping = &mappings[i];
			if (!mapping->at || to <= mapping->at || from >= mapping->at + mapping->length)
				continue;
			if (from > mapping->at || to < mapping->at + mapping->length) {
				complain("a part of a mapping below /scm is unmapped: expected all of it");
				errno = EINVAL;
				return -1;
			}
			if (pass == 1)
				scm_unmap(mapping);
		}
	return 0;
}

static bool is_scm(const char *path)
{
	return native.active && strncmp(path, PREFIX, strlen(PREFIX)) == 0;
}

/* A descriptor of a file below /scm; -2 for other paths, -1 and errno where it is refused. */
int scm_open_file(const char *path, int flags)
{
	uint64_t offset, length;

	if (!is_scm(path))
		return -2;
	if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) {
		errno = EEXIST;
		return -1;
	}
	int error = scm_open(path, &offset, &length);
	if (error) {
		errno = error;
		return -1;
	}
	int fd = memfd_create(path, MFD_CLOEXEC), i = 0;
	while (i < MAPPINGS && files[i].fd)
		i++;
	if (fd < 0 || i == MAPPINGS || syscall(SYS_ftruncate, fd, length) < 0) {
		errno = EMFILE;
		return -1;
	}
	files[i] = (struct file){ fd, offset, length };
	return fd;
}

void scm_close(int fd)
{
	for (int i = 0; i < MAPPINGS; i++)
		if (files[i].fd == fd)
			files[i].fd = 0;
}

static struct file *file_of(int fd)
{
	for (int i = 0; native.active && fd > 0 && i < MAPPINGS; i++)
		if (files[i].fd == fd)
			return &files[i];
	return NULL;
}

EXPORT void *mmap64(void *address, size_t length, int prot, int flags, int fd, off64_t offset)
{
	struct file *file = flags & MAP_ANONYMOUS ? NULL : file_of(fd);

	if (flags & MAP_FIXED && scm_unmap_range(address, length) < 0)
		return MAP_FAILED;
	if (!file)
		return (void *)syscall(SYS_mmap, address, length, prot, flags, fd, offset);
	if (offset % PAGE != 0 || length == 0 || offset + length > file->length) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	void *at = scm_map(address, file->offset + offset, length, prot, flags);
	return at ? at : MAP_FAILED;
}

EXPORT void *mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset)
	__attribute__((alias("mmap64")));

EXPORT int munmap(void *address, size_t length)
{
	return scm_unmap_range(address, length) < 0 ? -1 : (int)syscall(SYS_munmap, address, length);
}

EXPORT int mprotect(void *address, size_t length, int prot)
{
	struct mapping *mapping = scm_active ? mapping_of(address, 1) : NULL;

	if (!mapping)
		return syscall(SYS_mprotect, address, length, prot);
	if (scm_has_stores)
		scm_send_stores();
	mapping->prot = prot;
	return syscall(SYS_mprotect, mapping->at, mapping->length, prot & ~PROT_WRITE);
}

EXPORT void *mremap(void *address, size_t length, size_t to, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	void *at = flags & MREMAP_FIXED ? va_arg(args, void *) : NULL;
	va_end(args);
	if (scm_active && mapping_of(address, 1)) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mremap, address, length, to, flags, at);
}

/* Files below /scm: reads, and writes, which are the kernel's non-temporal stores. */

bool scm_is_file(int fd)
{
	return file_of(fd) != NULL;
}

ssize_t scm_pread(int fd, void *bytes, size_t length, off_t at)
{
	struct file *file = file_of(fd);
	size_t done = 0;

	if (at < 0) {
		errno = EINVAL;
		return -1;
	}
	if ((uint64_t)at >= file->length)
		return 0;
	if (length > file->length - at)
		length = file->length - at;
	for (size_t part; done < length; done += part) {
		part = length - done < PIECE ? length - done : PIECE;
		uint64_t *arg = request_begin(REQUEST_scm_load, ARG_scm_load_WORDS);
		arg[ARG_scm_load_offset] = file->offset + at + done;
		arg[ARG_scm_load_length] = part;
		int error = request_send();
		if (error) {
			errno = error;
			return -1;
		}
		memcpy((char *)bytes + done, answer(), part);
	}
	return done;
}

ssize_t scm_pwrite(int fd, const void *bytes, size_t length, off_t at)
{
	struct file *file = file_of(fd);

	if (at < 0 || (uint64_t)at + length > file->length) {
		errno = at < 0 ? EINVAL : ENOSPC;
		return -1;
	}
	uint64_t *arg = request_begin(REQUEST_scm_stream, ARG_scm_stream_WORDS);
	arg[ARG_scm_stream_offset] = file->offset + at;
	request_bytes(bytes, length);
	int error = request_send();
	if (error) {
		errno = error;
		return -1;
	}
	if (file->offset + at + length <= scm.pages * PAGE)
		memcpy(scm.view + file->offset + at, bytes, length);
	return length;
}

/* At the position that the descriptor has, which is the kernel's. */

ssize_t scm_read(int fd, void *bytes, size_t length)
{
	off_t at = syscall(SYS_lseek, fd, 0, SEEK_CUR);
	ssize_t done = scm_pread(fd, bytes, length, at);

	if (done > 0)
		syscall(SYS_lseek, fd, at + done, SEEK_SET);
	return done;
}

ssize_t scm_file_write(int fd, const void *bytes, size_t length)
{
	off_t at = syscall(SYS_lseek, fd, 0, SEEK_CUR);
	ssize_t done = scm_pwrite(fd, bytes, length, at);

	if (done > 0)
		syscall(SYS_lseek, fd, at + done, SEEK_SET);
	return done;
}

EXPORT ssize_t pread64(int fd, void *bytes, size_t length, off64_t at)
{
	scm_will_store(bytes, length);
	return scm_is_file(fd) ? scm_pread(fd, bytes, length, at) :
				 syscall(SYS_pread64, fd, bytes, length, at);
}

EXPORT ssize_t pread(int fd, void *bytes, size_t length, off_t at) __attribute__((alias("pread64")));

EXPORT ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at)
{
	return scm_is_file(fd) ? scm_pwrite(fd, bytes, length, at) :
				 syscall(SYS_pwrite64, fd, bytes, length, at);
}

EXPORT ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at)
	__attribute__((alias("pwrite64")));

/* A region has the length that the scenario gives it; a shorter one is the descriptor's alone. */

EXPORT int ftruncate64(int fd, off64_t length)
{
	struct file *file = file_of(fd);

	if (!file)
		return syscall(SYS_ftruncate, fd, length);
	if (length < 0 || (uint64_t)length > file->length) {
		errno = length < 0 ? EINVAL : EFBIG;
		return -1;
	}
	file->length = length;
	return syscall(SYS_ftruncate, fd, length);
}

EXPORT int ftruncate(int fd, off_t length) __attribute__((alias("ftruncate64")));

EXPORT int fallocate64(int fd, int mode, off64_t at, off64_t length)
{
	struct file *file = file_of(fd);

	if (!file)
		return syscall(SYS_fallocate, fd, mode, at, length);
	if (mode == 0 && at >= 0 && length > 0 && (uint64_t)at + length <= file->length)
		return 0;
	errno = mode ? EOPNOTSUPP : ENOSPC;
	return -1;
}

EXPORT int fallocate(int fd, int mode, off_t at, off_t length) __attribute__((alias("fallocate64")));

EXPORT int posix_fallocate64(int fd, off64_t at, off64_t length)
{
	int saved = errno, error = 0;

	if (!file_of(fd))
		return LIBC(posix_fallocate64)(fd, at, length);
	if (fallocate64(fd, 0, at, length) < 0)
		error = errno;
	errno = saved;
	return error;
}

EXPORT int posix_fallocate(int fd, off_t at, off_t length) __attribute__((alias("posix_fallocate64")));

/* The kernel writes back what lies in caches. */
EXPORT int fsync(int fd)
{
	struct file *file = file_of(fd);

	if (!file)
		return syscall(SYS_fsync, fd);
	uint64_t *arg = request_begin(REQUEST_scm_flush, ARG_scm_flush_WORDS);
	arg[ARG_scm_flush_offset] = file->offset;
	arg[ARG_scm_flush_length] = file->length;
	arg[ARG_scm_flush_drain] = 1;
	errno = request_send();
	return errno ? -1 : 0;
}

EXPORT int fdatasync(int fd)
{
	return scm_is_file(fd) ? fsync(fd) : (int)syscall(SYS_fdatasync, fd);
}

/* Looks at a path below /scm by a descriptor of it: 1 for other paths, -1 and errno where it is refused. */
int scm_look(const char *path, int (*look)(int fd, void *result), void *result)
{
	int fd = path && is_scm(path) ? scm_open_file(path, O_RDWR) : -2;

	if (fd < 0)
		return fd == -2 ? 1 : -1;
	int found = look ? look(fd, result) : 0;
	scm_close(fd);
	syscall(SYS_close, fd);
	return found;
}

static int flush(const void *address, size_t length, bool drain)
{
	struct mapping *mapping = mapping_of(address, length);

	if (!mapping)
		return 0;
	uint64_t *arg = request_begin(REQUEST_scm_flush, ARG_scm_flush_WORDS);
	arg[ARG_scm_flush_offset] = mapping->offset + ((char *)address - mapping->at);
	arg[ARG_scm_flush_length] = length;
	arg[ARG_scm_flush_drain] = drain;
	return request_send();
}

EXPORT int msync(void *address, size_t length, int flags)
{
	if (scm_active && mapping_of(address, length))
		return flush(address, length, true) ? -1 : 0;
	return syscall(SYS_msync, address, length, flags);
}

/* libpmem 1.12, whose header is not needed: its functions and flags are its ABI. */

#define PMEM_FILE_EXCL (1 << 1)
#define PMEM_F_MEM_NODRAIN (1u << 0)
#define PMEM_F_MEM_NONTEMPORAL (1u << 1)
#define PMEM_F_MEM_TEMPORAL (1u << 2)
#define PMEM_F_MEM_WC (1u << 3)
#define PMEM_F_MEM_WB (1u << 4)
#define PMEM_F_MEM_NOFLUSH (1u << 5)
/* libpmem's default: from here on it uses non-temporal stores. */
#define MOVNT_THRESHOLD 256

EXPORT void *pmem_map_file(const char *path, size_t length, int flags, mode_t mode,
			   size_t *mapped, int *is_pmem)
{
	if (!is_scm(path)) {
		void *(*real)(const char *, size_t, int, mode_t, size_t *, int *) =
			libc_function("pmem_map_file");
		return real(path, length, flags, mode, mapped, is_pmem);
	}
	uint64_t offset, room;
	int error = flags & PMEM_FILE_EXCL ? EEXIST : scm_open(path, &offset, &room);
	if (!error && length > room)
		error = ENOSPC;
	if (error) {
		errno = error;
		return NULL;
	}
	uint64_t bytes = length ? length : room;
	void *at = scm_map(NULL, offset, bytes, PROT_READ | PROT_WRITE, MAP_SHARED);
	if (at && mapped)
		*mapped = bytes;
	if (at && is_pmem)
		*is_pmem = 1;
	return at;
}

EXPORT int pmem_unmap(void *address, size_t length)
{
	return munmap(address, length);
}

EXPORT int pmem_is_pmem(const void *address, size_t length)
{
	return scm_active && mapping_of(address, length) != NULL;
}

EXPORT int pmem_has_auto_flush(void)
{
	return 0;
}

EXPORT int pmem_has_hw_drain(void)
{
	return 0;
}

EXPORT void pmem_flush(const void *address, size_t length)
{
	flush(address, length, false);
}

EXPORT void pmem_drain(void)
{
	request_begin(REQUEST_scm_drain, ARG_scm_drain_WORDS);
	request_send();
}

EXPORT void pmem_persist(const void *address, size_t length)
{
	flush(address, length, true);
}

EXPORT int pmem_msync(const void *address, size_t length)
{
	return flush(address, length, true) ? -1 : 0;
}

EXPORT void pmem_deep_flush(const void *address, size_t length)
{
	flush(address, length, false);
}

EXPORT int pmem_deep_drain(const void *address, size_t length)
{
	(void)address, (void)length;
	pmem_drain();
	return 0;
}

EXPORT int pmem_deep_persist(const void *address, size_t length)
{
	return pmem_msync(address, length);
}

/* Non-temporal stores of `source`, or of a byte, to a mapped range. */
static void stream(struct mapping *mapping, void *to, const void *source, int byte, size_t length)
{
	uint64_t offset = mapping->offset + ((char *)to - mapping->at);
	uint64_t *arg = request_begin(REQUEST_scm_stream, ARG_scm_stream_WORDS);

	arg[ARG_scm_stream_offset] = offset;
	if (source)
		request_bytes(source, length);
	for (size_t i = 0; !source && i < length; i++)
		request_bytes(&(char){ byte }, 1);
	request_send();
	if (source)
		memmove(scm.view + offset, source, length);
	else
		memset(scm.view + offset, byte, length);
}

static void *copy(void *to, const void *source, int byte, size_t length, unsigned flags)
{
	struct mapping *mapping = scm_active && length > 0 ? mapping_of(to, length) : NULL;
	bool streams = flags & (PMEM_F_MEM_NONTEMPORAL | PMEM_F_MEM_WC) ||
		       (length >= MOVNT_THRESHOLD && !(flags & (PMEM_F_MEM_TEMPORAL | PMEM_F_MEM_WB)));

	if (mapping && streams && !(flags & PMEM_F_MEM_NOFLUSH)) {
		stream(mapping, to, source, byte, length);
	} else {
		if (source)
			memmove(to, source, length);
		else
			memset(to, byte, length);
		if (mapping && !(flags & PMEM_F_MEM_NOFLUSH))
			flush(to, length, false);
	}
	if (mapping && !(flags & (PMEM_F_MEM_NODRAIN | PMEM_F_MEM_NOFLUSH)))
		pmem_drain();
	return to;
}

EXPORT void *pmem_memcpy(void *to, const void *source, size_t length, unsigned flags)
{
	return copy(to, source, 0, length, flags);
}

EXPORT void *pmem_memmove(void *to, const void *source, size_t length, unsigned flags)
{
	return copy(to, source, 0, length, flags);
}

EXPORT void *pmem_memset(void *to, int byte, size_t length, unsigned flags)
{
	return copy(to, NULL, byte, length, flags);
}

EXPORT void *pmem_memcpy_persist(void *to, const void *source, size_t length)
{
	return copy(to, source, 0, length, 0);
}

EXPORT void *pmem_memmove_persist(void *to, const void *source, size_t length)
{
	return copy(to, source, 0, length, 0);
}

EXPORT void *pmem_memset_persist(void *to, int byte, size_t length)
{
	return copy(to, NULL, byte, length, 0);
}

EXPORT void *pmem_memcpy_nodrain(void *to, const void *source, size_t length)
{
	return copy(to, source, 0, length, PMEM_F_MEM_NODRAIN);
}

EXPORT void *pmem_memmove_nodrain(void *to, const void *source, size_t length)
{
	return copy(to, source, 0, length, PMEM_F_MEM_NODRAIN);
}

EXPORT void *pmem_memset_nodrain(void *to, int byte, size_t length)
{
	return copy(to, NULL, byte, length, PMEM_F_MEM_NODRAIN);
}

/*
 * libpmem2, whose mappings come by mmap(2): a program asks for the functions of a mapping, and gets
 * these for one below /scm. Its own have their instructions inline.
 */

#define PMEM2(type, name, ...)                                            \
	({                                                                \
		static type (*function_)(__VA_ARGS__);                    \
		if (!function_)                                           \
			function_ = (type(*)(__VA_ARGS__))libc_function(name); \
		function_;                                                \
	})

static bool pmem2_is_scm(void *map)
{
	if (!scm_active)
		return false;
	void *at = PMEM2(void *, "pmem2_map_get_address", void *)(map);
	return mapping_of(at, 1) != NULL;
}

#define PMEM2_GETTER(name, own)                                                        \
	EXPORT void *name(void *map)                                                   \
	{                                                                              \
		return pmem2_is_scm(map) ? (void *)own : PMEM2(void *, #name, void *)(map); \
	}

PMEM2_GETTER(pmem2_get_persist_fn, pmem_persist)
PMEM2_GETTER(pmem2_get_flush_fn, pmem_flush)
PMEM2_GETTER(pmem2_get_drain_fn, pmem_drain)
/* The flags of libpmem2's are those of libpmem's. */
PMEM2_GETTER(pmem2_get_memmove_fn, pmem_memmove)
PMEM2_GETTER(pmem2_get_memcpy_fn, pmem_memcpy)
PMEM2_GETTER(pmem2_get_memset_fn, pmem_memset)

EXPORT int pmem2_deep_flush(void *map, void *address, size_t length)
{
	return pmem2_is_scm(map) ? pmem_deep_persist(address, length) :
				   PMEM2(int, "pmem2_deep_flush", void *, void *, size_t)(map, address, length);
}
