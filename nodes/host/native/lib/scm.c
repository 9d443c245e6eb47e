/*
 * Persistent memory: files below /scm, and libpmem's functions.
 *
 * What is persistent is the host's to say: its caches and its memory controllers decide what a power
 * failure leaves. So a mapped file is a private copy. Its pages are read-only until the program stores:
 * the first store into a page is a fault, which notes the page and what it held. The next request of
 * any kind first sends what differs, as stores of this core at that instant; while there is something
 * to send, no clock read and no poll is answered here. Only libpmem's functions flush: instructions
 * that a program has inline (clwb, clflushopt, movnt) are unseen, and what they flush is only stored.
 */
#define _GNU_SOURCE
#include "rackmesh.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096ul
/* The largest page of the card for SCM (address_map.ts): it translates a mapping that lies in it as SCM does. */
#define CARD_PAGE (2ul << 20)
#define MAPPINGS 64
#define PREFIX "/scm/"
/* Bytes of a message that brings a file's contents. */
#define PIECE (4ul << 20)

static struct mapping {
	char *at; /* NULL: free */
	uint64_t offset, length;
	char *before;         /* of each page that is noted: what it held */
	uint32_t *noted;      /* numbers of pages */
	uint32_t noted_count;
	bool *is_noted;
} mappings[MAPPINGS];
static struct file {
	int fd; /* a memfd of the file's length, so that its size and position are the kernel's; 0: free */
	uint64_t offset, length;
} files[MAPPINGS];
static int memory_fd = -1;
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

/* In a signal handler: nothing here calls malloc. */
bool scm_fault(const void *address)
{
	struct mapping *mapping = mapping_of(address, 1);
	if (!mapping)
		return false;
	uint32_t page = ((char *)address - mapping->at) / PAGE;
	if (mapping->is_noted[page])
		return false;
	memcpy(mapping->before + page * PAGE, mapping->at + page * PAGE, PAGE);
	mapping->is_noted[page] = true;
	mapping->noted[mapping->noted_count++] = page;
	scm_has_stores = true;
	mprotect(mapping->at + page * PAGE, PAGE, PROT_READ | PROT_WRITE);
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
	const struct mapping *mapping;
	uint64_t at, length;
};

/* The next span of 8-byte words that differ from what the page held; false: there is none. */
static bool next_span(const struct mapping *mapping, uint32_t page, uint64_t *from, struct span *span)
{
	const uint64_t *now = (uint64_t *)(mapping->at + page * PAGE);
	const uint64_t *before = (uint64_t *)(mapping->before + page * PAGE);
	uint64_t at = *from;

	while (at < PAGE / 8 && now[at] == before[at])
		at++;
	if (at == PAGE / 8)
		return false;
	uint64_t end = at;
	while (end < PAGE / 8 && now[end] != before[end])
		end++;
	*from = end;
	*span = (struct span){ mapping, page * PAGE + at * 8, (end - at) * 8 };
	return true;
}

/* Pages in the order of their addresses, so that stores are in it: most are already. */
static void sort_noted(struct mapping *mapping)
{
	for (uint32_t i = 1; i < mapping->noted_count; i++) {
		uint32_t page = mapping->noted[i], j = i;
		for (; j > 0 && mapping->noted[j - 1] > page; j--)
			mapping->noted[j] = mapping->noted[j - 1];
		mapping->noted[j] = page;
	}
}

static uint64_t each_span(void (*take)(const struct span *))
{
	uint64_t count = 0;
	struct span span;

	for (int i = 0; i < MAPPINGS; i++)
		for (uint32_t j = 0; mappings[i].at && j < mappings[i].noted_count; j++)
			for (uint64_t from = 0; next_span(&mappings[i], mappings[i].noted[j], &from, &span); count++)
				if (take)
					take(&span);
	return count;
}

static void add_place(const struct span *span)
{
	uint64_t *row = request_row(2);
	row[0] = span->mapping->offset + span->at;
	row[1] = span->length;
}

static void add_bytes(const struct span *span)
{
	request_bytes(span->mapping->at + span->at, span->length);
}

void scm_send_stores(void)
{
	scm_has_stores = false;
	for (int i = 0; i < MAPPINGS; i++)
		if (mappings[i].at)
			sort_noted(&mappings[i]);
	uint64_t count = each_span(NULL);
	if (count > 0) {
		request_begin(REQUEST_scm_store, ARG_scm_store_WORDS)[ARG_scm_store_spans] = count;
		each_span(add_place);
		each_span(add_bytes);
	}
	for (int i = 0; i < MAPPINGS; i++) {
		struct mapping *mapping = &mappings[i];
		for (uint32_t j = 0; mapping->at && j < mapping->noted_count; j++) {
			mprotect(mapping->at + mapping->noted[j] * PAGE, PAGE, PROT_READ);
			mapping->is_noted[mapping->noted[j]] = false;
		}
		mapping->noted_count = 0;
	}
	if (count > 0 && request_send() != 0)
		native_fail("the host refuses a store to persistent memory");
}

/* The host has written there: also a read-only page takes it. */
bool scm_write(uint64_t address, const void *bytes, size_t length)
{
	if (!scm_active || !mapping_of((void *)address, length))
		return false;
	if (memory_fd < 0)
		memory_fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (pwrite(memory_fd, bytes, length, address) != (ssize_t)length)
		native_fail("cannot write to mapped persistent memory: %s", strerror(errno));
	return true;
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

static void *map_pages(size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Such pages at an address that lies in a page of the card as `offset` does, as the kernel maps DAX files. */
static char *map_as(uint64_t offset, size_t bytes)
{
	char *room = map_pages(bytes + CARD_PAGE);
	if (room == MAP_FAILED)
		return MAP_FAILED;
	char *at = room + ((offset - (uintptr_t)room) & (CARD_PAGE - 1));
	if (at > room)
		syscall(SYS_munmap, room, at - room);
	syscall(SYS_munmap, at + bytes, room + CARD_PAGE - at);
	return at;
}

/* Maps part of SCM. NULL and errno where it cannot. */
static void *scm_map(uint64_t offset, uint64_t length)
{
	struct mapping *mapping = mappings;
	uint64_t pages = (length + PAGE - 1) / PAGE;

	while (mapping < mappings + MAPPINGS && mapping->at)
		mapping++;
	if (mapping == mappings + MAPPINGS) {
		errno = ENOMEM;
		return NULL;
	}
	char *at = map_as(offset, pages * PAGE), *before = map_pages(pages * PAGE);
	uint32_t *noted = map_pages(pages * sizeof(*noted));
	bool *is_noted = map_pages(pages * sizeof(*is_noted));
	if (at == MAP_FAILED || before == MAP_FAILED || (void *)noted == MAP_FAILED ||
	    (void *)is_noted == MAP_FAILED)
		return NULL;
	for (uint64_t done = 0; done < length; done += PIECE) {
		uint64_t *arg = request_begin(REQUEST_scm_load, ARG_scm_load_WORDS);
		arg[ARG_scm_load_offset] = offset + done;
		arg[ARG_scm_load_length] = length - done < PIECE ? length - done : PIECE;
		int error = request_send();
		if (error) {
			errno = error;
			return NULL;
		}
		memcpy(at + done, answer(), answer_bytes());
	}
	mprotect(at, pages * PAGE, PROT_READ);
	*mapping = (struct mapping){ at, offset, length, before, noted, 0, is_noted };
	scm_active = true;
	uint64_t *arg = request_begin(REQUEST_scm_map, ARG_scm_map_WORDS);
	arg[ARG_scm_map_offset] = offset;
	arg[ARG_scm_map_length] = length;
	arg[ARG_scm_map_addr] = (uintptr_t)at;
	int error = request_send();
	if (error) {
		mapping->at = NULL;
		errno = error;
		return NULL;
	}
	return at;
}

static int scm_unmap(struct mapping *mapping)
{
	uint64_t pages = (mapping->length + PAGE - 1) / PAGE;

	request_begin(REQUEST_scm_unmap, ARG_scm_unmap_WORDS)[ARG_scm_unmap_addr] = (uintptr_t)mapping->at;
	request_send();
	syscall(SYS_munmap, mapping->at, pages * PAGE);
	syscall(SYS_munmap, mapping->before, pages * PAGE);
	syscall(SYS_munmap, mapping->noted, pages * sizeof(*mapping->noted));
	syscall(SYS_munmap, mapping->is_noted, pages * sizeof(*mapping->is_noted));
	mapping->at = NULL;
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

EXPORT void *mmap64(void *address, size_t length, int prot, int flags, int fd, off64_t offset)
{
	for (int i = 0; native.active && fd > 0 && i < MAPPINGS; i++) {
		if (files[i].fd != fd)
			continue;
		if (offset % PAGE != 0 || offset + length > files[i].length || flags & MAP_FIXED) {
			errno = EINVAL;
			return MAP_FAILED;
		}
		void *at = scm_map(files[i].offset + offset, length);
		return at ? at : MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, address, length, prot, flags, fd, offset);
}

EXPORT void *mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset)
	__attribute__((alias("mmap64")));

EXPORT int munmap(void *address, size_t length)
{
	struct mapping *mapping = scm_active ? mapping_of(address, 1) : NULL;

	return mapping ? scm_unmap(mapping) : syscall(SYS_munmap, address, length);
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
	void *at = scm_map(offset, bytes);
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
	uint64_t *arg = request_begin(REQUEST_scm_stream, ARG_scm_stream_WORDS);
	arg[ARG_scm_stream_offset] = mapping->offset + ((char *)to - mapping->at);
	if (source)
		request_bytes(source, length);
	for (size_t i = 0; !source && i < length; i++)
		request_bytes(&(char){ byte }, 1);
	request_send();
	if (source) {
		scm_write((uintptr_t)to, source, length);
		return;
	}
	char bytes[PAGE];
	memset(bytes, byte, sizeof(bytes));
	for (size_t done = 0; done < length; done += sizeof(bytes)) {
		size_t part = length - done < sizeof(bytes) ? length - done : sizeof(bytes);
		scm_write((uintptr_t)to + done, bytes, part);
	}
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
