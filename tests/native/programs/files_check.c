/*
 * What describes a host to a native program in place of the machine: files of its devices, interfaces and
 * process, numbers of threads, and system calls by number. Each line of output is one thing that was looked at;
 * a thing that is not as it should be ends the program with the line's number.
 */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DEVICE "/sys/class/infiniband/rackmesh0"

static uint64_t began_ns;
static char name_at_begin[64];

/* Before main, and before the constructors of the program's libraries would be too late. */
__attribute__((constructor)) static void begin(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	began_ns = now.tv_sec;
	gethostname(name_at_begin, sizeof(name_at_begin));
}

static void show(const char *path)
{
	char line[256] = "";
	FILE *file = fopen(path, "r");

	CHECK(file != NULL);
	CHECK(fgets(line, sizeof(line), file) != NULL);
	fclose(file);
	printf("%s: %s", path, line);
}

static int count_in(const char *path)
{
	DIR *folder = opendir(path);
	int count = 0;

	CHECK(folder != NULL);
	for (struct dirent *entry; (entry = readdir(folder));)
		count += entry->d_name[0] != '.';
	closedir(folder);
	return count;
}

static void files(void)
{
	struct stat status;
	char path[PATH_MAX];
	glob_t found;

	show(DEVICE "/node_type");
	show(DEVICE "/node_guid");
	show(DEVICE "/ports/1/link_layer");
	show(DEVICE "/ports/1/gids/0");
	show(DEVICE "/ports/1/gid_attrs/types/0");
	show(DEVICE "/ports/1/gid_attrs/ndevs/1");
	show("/sys/class/infiniband_verbs/uverbs0/ibdev");
	show("/sys/class/net/eth0/address");
	show("/sys/class/net/eth0/mtu");
	show("/proc/sys/kernel/random/boot_id");
	show("//sys/./class/net/../net/lo/ifindex");
	CHECK(count_in("/sys/class/net") == 2);
	CHECK(count_in("/sys/class/infiniband") == 1);
	CHECK(access(DEVICE "/ports/1/gids/7", R_OK) < 0 && errno == ENOENT);
	CHECK(access("/sys/class/infiniband/mlx5_0", F_OK) < 0 && errno == ENOENT);
	CHECK(stat("/dev/infiniband/uverbs0", &status) == 0 && S_ISCHR(status.st_mode));
	CHECK(access("/dev/infiniband/rdma_cm", R_OK | W_OK) == 0);
	CHECK(open("/dev/infiniband/uverbs0", O_RDWR) < 0 && errno == ENXIO);
	CHECK(open("/sys/class/net/eth0/mtu", O_WRONLY) < 0 && errno == EACCES);
	CHECK(fopen("/proc/cpuinfo", "r+") == NULL && errno == EACCES);
	CHECK(realpath(DEVICE "/ports/../ports/1", path) && strcmp(path, DEVICE "/ports/1") == 0);
	CHECK(glob("/sys/class/net/*/type", 0, NULL, &found) == 0 && found.gl_pathc == 2);
	CHECK(strcmp(found.gl_pathv[0], "/sys/class/net/eth0/type") == 0);
	globfree(&found);
	/* What no group has is the machine's. */
	CHECK(stat("/proc/self/maps", &status) == 0 && access("/sys/class", R_OK) == 0);
	snprintf(path, sizeof(path), "/proc/%d/cmdline", getpid());
	int fd = open(path, O_RDONLY);
	CHECK(read(fd, path, sizeof(path)) > 0 && strstr(path, "files_check"));
	close(fd);
	printf("files: done\n");
}

static void interfaces(void)
{
	struct ethtool_cmd settings = { .cmd = ETHTOOL_GSET };
	struct ifreq asked = { .ifr_name = "eth0" };
	struct if_nameindex *list = if_nameindex();
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(list && strcmp(list[0].if_name, "lo") == 0 && list[1].if_index == 2 && !list[2].if_index);
	if_freenameindex(list);
	CHECK(ioctl(fd, SIOCGIFADDR, &asked) == 0);
	printf("address %08x\n", ntohl(((struct sockaddr_in *)&asked.ifr_addr)->sin_addr.s_addr));
	CHECK(ioctl(fd, SIOCGIFINDEX, &asked) == 0 && asked.ifr_ifindex == 2);
	CHECK(ioctl(fd, SIOCGIFFLAGS, &asked) == 0 && asked.ifr_flags & IFF_UP);
	socklen_t length = 0;
	CHECK(getsockname(fd, NULL, &length) == 0 && length == sizeof(struct sockaddr_in));
	asked.ifr_data = (char *)&settings;
	CHECK(ioctl(fd, SIOCETHTOOL, &asked) == 0);
	printf("speed %u\n", ethtool_cmd_speed(&settings));
	CHECK(ioctl(fd, SIOCSIFMTU, &asked) < 0 && errno == EPERM);
	strcpy(asked.ifr_name, "eth7");
	CHECK(ioctl(fd, SIOCGIFMTU, &asked) < 0 && errno == ENODEV);
	close(fd);
	printf("interfaces: done\n");
}

static void *number_of_thread(void *result)
{
	*(pid_t *)result = syscall(SYS_gettid);
	return NULL;
}

static void numbers(void)
{
	struct timespec before, after;
	pthread_t thread;
	pid_t other = 0;
	uint64_t random;

	CHECK(gettid() == getpid() && syscall(SYS_getpid) == getpid());
	CHECK(pthread_create(&thread, NULL, number_of_thread, &other) == 0);
	CHECK(pthread_join(thread, NULL) == 0 && other != getpid());
	CHECK(syscall(SYS_getrandom, &random, sizeof(random), 0) == sizeof(random));
	printf("process %d, thread %d, random %016lx\n", getpid(), other, random);
	CHECK(kill(getpid(), 0) == 0 && syscall(SYS_tgkill, getpid(), gettid(), 0) == 0);
	clock_gettime(CLOCK_MONOTONIC, &before);
	CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &after) == 0);
	CHECK(after.tv_sec == before.tv_sec && after.tv_nsec > before.tv_nsec);
	CHECK(syscall(SYS_close, 4000) < 0 && errno == EBADF);
	printf("begun at %lu as %s\n", began_ns, name_at_begin);
	printf("numbers: done\n");
}

int main(void)
{
	files();
	interfaces();
	numbers();
	return 200;
}
