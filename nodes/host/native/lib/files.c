/*
 * Files in which a machine describes itself, in place of the machine's own: those of its RDMA devices
 * and network interfaces below /sys and /dev, its routes, its CPU, and the number of its boot. They are
 * made in the program's folder, each group when a path leads there first, and the calls that take a
 * path find them there: open, stat, access, readlink, realpath, and those of directories. What a
 * group does not have does not exist. Links' state is left out, since these files do not change.
 */
#define _GNU_SOURCE
#include "net.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NET_DEVICES "/sys/devices/virtual/net"
/* Below the program's working folder. */
#define FOLDER "/.rackmesh"
static char root[PATH_MAX];
static size_t root_length; /* 0: there is none */

void files_start(void)
{
	long length = syscall(SYS_getcwd, root, sizeof(root) - sizeof(FOLDER));

	if (length <= 0)
		return;
	strcpy(root + length - 1, FOLDER);
	root_length = strlen(root);
}

/* A path of this library's own files; too long ones are cut, and not there. */
#define PLACE(path, format, ...) \
	(snprintf(path, sizeof(path), format, __VA_ARGS__) < (int)sizeof(path))

static void make_parents(char *path)
{
	for (char *at = path + root_length; at; at = strchr(at + 1, '/')) {
		char kept = *at;
		*at = 0;
		syscall(SYS_mkdir, path, 0755);
		*at = kept;
	}
}

static void make_folder(const char *name)
{
	char path[PATH_MAX];

	if (!PLACE(path, "%s%s/", root, name))
		return;
	make_parents(path);
}

__attribute__((format(printf, 2, 3))) static void make_file(const char *name, const char *format, ...)
{
	char path[PATH_MAX], text[4096];
	va_list args;

	va_start(args, format);
	int length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!PLACE(path, "%s%s", root, name))
		return;
	make_parents(path);
	syscall(SYS_unlink, path);
	int fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
	if (fd < 0 || syscall(SYS_write, fd, text, length) != length)
		complain("%s cannot be made in the program's folder: %s", name, strerror(errno));
	if (fd >= 0)
		syscall(SYS_close, fd);
}

static void make_link(const char *name, const char *to)
{
	char path[PATH_MAX];

	if (!PLACE(path, "%s%s", root, name))
		return;
	make_parents(path);
	syscall(SYS_unlink, path);
	syscall(SYS_symlink, to, path);
}

static void make_port(struct ibv_context *context, const char *device, unsigned port)
{
	char folder[128], name[256];
	const struct interface *interface = interface_of(ibv_get_device_index(context->device));
	struct ibv_port_attr attr;
	struct ibv_gid_entry entry;
	__be16 pkey;

	if (ibv_query_port(context, port, &attr))
		return;
	snprintf(folder, sizeof(folder), "/sys/class/infiniband/%s/ports/%u", device, port);
#define PORT_FILE(file, ...)                                        \
	do {                                                        \
		snprintf(name, sizeof(name), "%s/" file, folder);   \
		make_file(name, __VA_ARGS__);                       \
	} while (0)
	PORT_FILE("link_layer", "Ethernet\n");
	PORT_FILE("lid", "0x%x\n", attr.lid);
	PORT_FILE("cap_mask", "0x%08x\n", attr.port_cap_flags);
	PORT_FILE("rate", "%u Gb/sec\n", interface->mbps / 1000);
#define TABLE_FILE(file, ...)                                           \
	do {                                                            \
		snprintf(name, sizeof(name), "%s/" file "/%d", folder, i); \
		make_file(name, __VA_ARGS__);                           \
	} while (0)
	for (int i = 0; i < attr.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(context, port, i, &entry, 0))
			continue;
		const uint8_t *raw = entry.gid.raw;
		TABLE_FILE("gids", "%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x\n",
			   raw[0], raw[1], raw[2], raw[3], raw[4], raw[5], raw[6], raw[7], raw[8],
			   raw[9], raw[10], raw[11], raw[12], raw[13], raw[14], raw[15]);
		TABLE_FILE("gid_attrs/types", "%s\n",
			   entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1");
		TABLE_FILE("gid_attrs/ndevs", "%s\n", interface->name);
	}
	for (int i = 0; i < attr.pkey_tbl_len; i++)
		if (ibv_query_pkey(context, port, i, &pkey) == 0)
			TABLE_FILE("pkeys", "0x%04x\n", ntohs(pkey));
}

static void make_device(struct ibv_context *context)
{
	const char *device = ibv_get_device_name(context->device);
	struct ibv_device_attr attr;
	char name[256];

	if (ibv_query_device(context, &attr))
		return;
#define DEVICE_FILE(file, ...)                                                            \
	do {                                                                              \
		snprintf(name, sizeof(name), "/sys/class/infiniband/%s/" file, device);   \
		make_file(name, __VA_ARGS__);                                             \
	} while (0)
	const uint8_t *node = (uint8_t *)&attr.node_guid, *image = (uint8_t *)&attr.sys_image_guid;
	DEVICE_FILE("node_type", "1: CA\n");
	DEVICE_FILE("node_desc", "%s\n", native.host);
	DEVICE_FILE("hca_type", "rackmesh\n");
	DEVICE_FILE("board_id", "rackmesh\n");
	DEVICE_FILE("fw_ver", "%s\n", attr.fw_ver);
	DEVICE_FILE("hw_rev", "%x\n", attr.hw_ver);
#define GUID "%02x%02x:%02x%02x:%02x%02x:%02x%02x\n"
	DEVICE_FILE("node_guid", GUID, node[0], node[1], node[2], node[3], node[4], node[5], node[6],
		    node[7]);
	DEVICE_FILE("sys_image_guid", GUID, image[0], image[1], image[2], image[3], image[4],
		    image[5], image[6], image[7]);
	DEVICE_FILE("device/vendor", "0x%04x\n", attr.vendor_id);
	DEVICE_FILE("device/device", "0x%04x\n", attr.vendor_part_id);
	for (unsigned port = 1; port <= attr.phys_port_cnt; port++)
		make_port(context, device, port);
}

/* For each device of the host, while it is open. */
static void each_device(void (*make)(struct ibv_context *))
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (unsigned i = 0; i < native.devices; i++) {
		struct ibv_context *context = ibv_open_device(list[i]);
		if (!context)
			continue;
		make(context);
		ibv_close_device(context);
	}
	ibv_free_device_list(list);
}

static void make_infiniband(void)
{
	make_folder("/sys/class/infiniband");
	each_device(make_device);
}

static void make_verbs(void)
{
	char name[128];

	make_file("/sys/class/infiniband_verbs/abi_version", "6\n");
	for (unsigned i = 0; i < native.devices; i++) {
		snprintf(name, sizeof(name), "/sys/class/infiniband_verbs/uverbs%u/ibdev", i);
		make_file(name, "%s\n", native.device[i]);
	}
}

/* To be looked at: `open` has them itself. */
static void make_nodes(void)
{
	char name[64];

	make_link("/dev/infiniband/rdma_cm", "/dev/null");
	for (unsigned i = 0; i < native.devices; i++) {
		snprintf(name, sizeof(name), "/dev/infiniband/uverbs%u", i);
		make_link(name, "/dev/null");
	}
}

/* Of each interface a link, as sysfs(5) has it: UCX passes over all else. */
static void make_net(void)
{
	char name[128], to[128];

	make_folder("/sys/class/net");
	for (int i = -1; i < (int)native.devices; i++) {
		const struct interface *interface = interface_of(i);
		const uint8_t *mac = interface->mac;
#define INTERFACE_FILE(file, ...)                                                           \
	do {                                                                                \
		snprintf(name, sizeof(name), NET_DEVICES "/%s/" file, interface->name);     \
		make_file(name, __VA_ARGS__);                                               \
	} while (0)
		INTERFACE_FILE("address", "%02x:%02x:%02x:%02x:%02x:%02x\n", mac[0], mac[1], mac[2],
			       mac[3], mac[4], mac[5]);
		INTERFACE_FILE("ifindex", "%d\n", interface->index);
		INTERFACE_FILE("mtu", "%d\n", interface->mtu);
		INTERFACE_FILE("type", "%d\n", interface->type);
		if (interface->mbps)
			INTERFACE_FILE("speed", "%u\n", interface->mbps);
		snprintf(name, sizeof(name), "/sys/class/net/%s", interface->name);
		snprintf(to, sizeof(to), "../../devices/virtual/net/%s", interface->name);
		make_link(name, to);
	}
}

static void make_routes(void)
{
	make_file("/proc/net/route",
		  "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
		  "%s\t%08X\t00000000\t0001\t0\t0\t0\t%08X\t0\t0\t0\n",
		  interface_of(0)->name, htonl(native.address & NETMASK), htonl(NETMASK));
}

/* Programs take the counter's rate from it. */
static void make_cpu(void)
{
	make_file("/proc/cpuinfo",
		  "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Rackmesh\n"
		  "cpu MHz\t\t: %lu.000\nphysical id\t: 0\nsiblings\t: 1\ncore id\t\t: 0\n"
		  "cpu cores\t: 1\nflags\t\t: fpu tsc constant_tsc nonstop_tsc rdtscp\n\n",
		  native.ticks_per_us);
}

/* UCX takes two processes with the same one for neighbours that share memory. */
static void make_boot(void)
{
	make_file("/proc/sys/kernel/random/boot_id", "7261636b-6d65-4368-8000-0000%08x\n",
		  native.address);
}

static struct group {
	const char *path;
	void (*make)(void);
	bool made;
} groups[] = {
	{ "/sys/class/infiniband", make_infiniband, false },
	{ "/sys/class/infiniband_verbs", make_verbs, false },
	{ "/sys/class/net", make_net, false },
	{ NET_DEVICES, make_net, false },
	{ "/dev/infiniband", make_nodes, false },
	{ "/proc/net", make_routes, false },
	{ "/proc/cpuinfo", make_cpu, false },
	{ "/proc/sys/kernel/random/boot_id", make_boot, false },
};

/* /proc/4001/maps, of this program's own number, is /proc/self/maps. */
static const char *own_process(const char *path, const char *plain, struct path_room *room)
{
	char *rest;

	if (strncmp(plain, "/proc/", 6) != 0 || strtoul(plain + 6, &rest, 10) != native.pid ||
	    rest == plain + 6 || (*rest && *rest != '/'))
		return path;
	return PLACE(room->text, "/proc/self%s", rest) ? room->text : path;
}

/* The path without empty and dotted parts; `room` of PATH_MAX. False: it is too long. */
static bool plain_path(const char *path, char *room)
{
	char *to = room;

	while (*path) {
		size_t length = strcspn(path, "/");
		if (length == 2 && strncmp(path, "..", 2) == 0) {
			while (to > room && *--to != '/')
				;
		} else if (length > 0 && !(length == 1 && *path == '.')) {
			if (to - room + length + 2 > PATH_MAX)
				return false;
			*to++ = '/';
			to = mempcpy(to, path, length);
		}
		path += length + (path[length] == '/');
	}
	*to = 0;
	return true;
}

const char *found_path(const char *path, struct path_room *room)
{
	char plain[PATH_MAX];

	if (!native.active || !path || path[0] != '/' || !root_length || !plain_path(path, plain))
		return path;
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		struct group *group = &groups[i];
		size_t length = strlen(group->path);
		if (strncmp(plain, group->path, length) != 0 || (plain[length] && plain[length] != '/'))
			continue;
		if (!group->made) {
			int saved = errno;
			group->made = true;
			group->make();
			errno = saved;
		}
		return PLACE(room->text, "%s%s", root, plain) ? room->text : path;
	}
	return own_process(path, plain, room);
}

bool is_own_file(const char *found)
{
	return root_length && strncmp(found, root, root_length) == 0 && found[root_length] == '/';
}

/* What the program sees of a path that this library has made of its own. */
static char *shown_path(char *path)
{
	if (path && is_own_file(path))
		memmove(path, path + root_length, strlen(path + root_length) + 1);
	return path;
}

/* `call` with `path` where the file is. */
#define AT_PLACE(path, call)                        \
	struct path_room room;                      \
	path = found_path(path, &room);             \
	return call

/* Of a path below /scm, which the host has: the call ends here. */
#define OF_SCM(path, look, result)                         \
	do {                                               \
		int found_ = scm_look(path, look, result); \
		if (found_ <= 0)                           \
			return found_;                     \
	} while (0)

EXPORT int access(const char *path, int mode)
{
	OF_SCM(path, NULL, NULL);
	AT_PLACE(path, LIBC(access)(path, mode));
}

EXPORT int faccessat(int folder, const char *path, int mode, int flags)
{
	OF_SCM(path, NULL, NULL);
	AT_PLACE(path, LIBC(faccessat)(folder, path, mode, flags));
}

EXPORT int euidaccess(const char *path, int mode)
{
	OF_SCM(path, NULL, NULL);
	AT_PLACE(path, LIBC(euidaccess)(path, mode));
}

EXPORT int eaccess(const char *path, int mode)
{
	return euidaccess(path, mode);
}

static int look_stat(int fd, void *status)
{
	return syscall(SYS_fstat, fd, status);
}

struct statx_call {
	int flags;
	unsigned mask;
	struct statx *status;
};

static int look_statx(int fd, void *result)
{
	struct statx_call *call = result;
	return syscall(SYS_statx, fd, "", call->flags | AT_EMPTY_PATH, call->mask, call->status);
}

/* Those of the names with 64, below, are the same on x86-64. */
EXPORT int stat(const char *restrict path, struct stat *restrict status)
{
	OF_SCM(path, look_stat, status);
	AT_PLACE(path, LIBC(stat)(path, status));
}

EXPORT int lstat(const char *restrict path, struct stat *restrict status)
{
	OF_SCM(path, look_stat, status);
	AT_PLACE(path, LIBC(lstat)(path, status));
}

EXPORT int fstatat(int folder, const char *restrict path, struct stat *restrict status, int flags)
{
	OF_SCM(path, look_stat, status);
	AT_PLACE(path, LIBC(fstatat)(folder, path, status, flags));
}

EXPORT int statx(int folder, const char *restrict path, int flags, unsigned mask,
		 struct statx *restrict status)
{
	struct statx_call call = { flags, mask, status };
	OF_SCM(path, look_statx, &call);
	AT_PLACE(path, LIBC(statx)(folder, path, flags, mask, status));
}

/* Of programs that were linked before glibc 2.33. */
EXPORT int __xstat(int version, const char *path, struct stat *status)
{
	(void)version;
	return stat(path, status);
}

EXPORT int __lxstat(int version, const char *path, struct stat *status)
{
	(void)version;
	return lstat(path, status);
}

EXPORT int __fxstatat(int version, int folder, const char *path, struct stat *status, int flags)
{
	(void)version;
	return fstatat(folder, path, status, flags);
}

EXPORT int stat64(const char *restrict path, struct stat64 *restrict status)
	__attribute__((alias("stat")));
EXPORT int lstat64(const char *restrict path, struct stat64 *restrict status)
	__attribute__((alias("lstat")));
EXPORT int fstatat64(int folder, const char *restrict path, struct stat64 *restrict status, int flags)
	__attribute__((alias("fstatat")));
EXPORT int __xstat64(int version, const char *path, struct stat64 *status)
	__attribute__((alias("__xstat")));
EXPORT int __lxstat64(int version, const char *path, struct stat64 *status)
	__attribute__((alias("__lxstat")));
EXPORT int __fxstatat64(int version, int folder, const char *path, struct stat64 *status, int flags)
	__attribute__((alias("__fxstatat")));

EXPORT ssize_t readlink(const char *restrict path, char *restrict text, size_t size)
{
	AT_PLACE(path, LIBC(readlink)(path, text, size));
}

EXPORT ssize_t readlinkat(int folder, const char *restrict path, char *restrict text, size_t size)
{
	AT_PLACE(path, LIBC(readlinkat)(folder, path, text, size));
}

_Noreturn void __chk_fail(void);

EXPORT ssize_t __readlink_chk(const char *restrict path, char *restrict text, size_t size, size_t room)
{
	if (size > room)
		__chk_fail();
	return readlink(path, text, size);
}

EXPORT ssize_t __readlinkat_chk(int folder, const char *restrict path, char *restrict text,
				size_t size, size_t room)
{
	if (size > room)
		__chk_fail();
	return readlinkat(folder, path, text, size);
}

EXPORT char *realpath(const char *restrict path, char *restrict text)
{
	AT_PLACE(path, shown_path(LIBC(realpath)(path, text)));
}

EXPORT char *__realpath_chk(const char *path, char *text, size_t size)
{
	if (size < PATH_MAX)
		__chk_fail();
	return realpath(path, text);
}

EXPORT char *canonicalize_file_name(const char *path)
{
	return realpath(path, NULL);
}

EXPORT DIR *opendir(const char *path)
{
	AT_PLACE(path, LIBC(opendir)(path));
}

EXPORT int scandir(const char *restrict path, struct dirent ***restrict list,
		   int (*filter)(const struct dirent *),
		   int (*compare)(const struct dirent **, const struct dirent **))
{
	AT_PLACE(path, LIBC(scandir)(path, list, filter, compare));
}

EXPORT int scandir64(const char *restrict path, struct dirent64 ***restrict list,
		     int (*filter)(const struct dirent64 *),
		     int (*compare)(const struct dirent64 **, const struct dirent64 **))
{
	AT_PLACE(path, LIBC(scandir64)(path, list, filter, compare));
}

EXPORT int scandirat(int folder, const char *restrict path, struct dirent ***restrict list,
		     int (*filter)(const struct dirent *),
		     int (*compare)(const struct dirent **, const struct dirent **))
{
	AT_PLACE(path, LIBC(scandirat)(folder, path, list, filter, compare));
}

EXPORT int scandirat64(int folder, const char *restrict path, struct dirent64 ***restrict list,
		       int (*filter)(const struct dirent64 *),
		       int (*compare)(const struct dirent64 **, const struct dirent64 **))
{
	AT_PLACE(path, LIBC(scandirat64)(folder, path, list, filter, compare));
}

/* A pattern whose begin, up to its first wildcard, leads to a group. */
EXPORT int glob(const char *restrict pattern, int flags, int (*on_error)(const char *, int),
		glob_t *restrict found)
{
	struct path_room room;
	int result = LIBC(glob)(found_path(pattern, &room), flags, on_error, found);

	for (size_t i = 0; result == 0 && i < found->gl_pathc; i++)
		shown_path(found->gl_pathv[(flags & GLOB_DOOFFS ? found->gl_offs : 0) + i]);
	return result;
}

EXPORT int glob64(const char *restrict pattern, int flags, int (*on_error)(const char *, int),
		  glob64_t *restrict found)
{
	return glob(pattern, flags, on_error, (glob_t *)found);
}
