/* Names and addresses: those of the rack's hosts. Nothing asks the machine's resolver. */
#define _GNU_SOURCE
#include "net.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The rack's network is 10.0.0.0/16 (fabric/rack/assembly/network.ts). */
#define NETMASK 0xffff0000u
/* The interface of the host's first port. */
#define INTERFACE "eth0"
enum { INDEX_LO = 1, INDEX_INTERFACE = 2 };

bool parse_address(const struct sockaddr *given, socklen_t length, uint32_t *address, uint16_t *port)
{
	if (length >= sizeof(struct sockaddr_in) && given->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)given;
		*address = ntohl(in->sin_addr.s_addr);
		*port = ntohs(in->sin_port);
		return true;
	}
	if (length < sizeof(struct sockaddr_in6) || given->sa_family != AF_INET6)
		return false;
	const struct sockaddr_in6 *in6 = (const void *)given;
	*port = ntohs(in6->sin6_port);
	if (IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr))
		*address = 0;
	else if (IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr))
		*address = INADDR_LOOPBACK;
	else if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		*address = ntohl(in6->sin6_addr.s6_addr32[3]);
	else {
		complain("hosts of the rack have IPv4 addresses alone");
		return false;
	}
	return true;
}

static socklen_t fill_address(int family, uint32_t address, uint16_t port,
			      struct sockaddr_in6 *filled)
{
	memset(filled, 0, sizeof(*filled));
	if (family == AF_INET) {
		struct sockaddr_in *in = (void *)filled;
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		in->sin_addr.s_addr = htonl(address);
		return sizeof(*in);
	}
	filled->sin6_family = AF_INET6;
	filled->sin6_port = htons(port);
	if (address == INADDR_LOOPBACK)
		filled->sin6_addr = in6addr_loopback;
	else if (address != 0) {
		filled->sin6_addr.s6_addr32[2] = htonl(0xffff);
		filled->sin6_addr.s6_addr32[3] = htonl(address);
	}
	return sizeof(*filled);
}

void show_address(int family, uint32_t address, uint16_t port, struct sockaddr *shown,
		  socklen_t *length)
{
	struct sockaddr_in6 filled;

	if (!shown || !length)
		return;
	socklen_t whole = fill_address(family, address, port, &filled);
	memcpy(shown, &filled, *length < whole ? *length : whole);
	*length = whole;
}

/* Host order; false: neither a number nor a host of the rack. */
static bool find_host(const char *name, bool numeric, uint32_t *address)
{
	struct in_addr in;
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	uint16_t port;

	if (inet_pton(AF_INET, name, &in) == 1) {
		*address = ntohl(in.s_addr);
		return true;
	}
	if (inet_pton(AF_INET6, name, &in6.sin6_addr) == 1)
		return parse_address((struct sockaddr *)&in6, sizeof(in6), address, &port);
	if (numeric)
		return false;
	request_begin(REQUEST_resolve, ARG_resolve_WORDS);
	request_bytes(name, strlen(name));
	if (request_send()) {
		complain("%s is no host of the rack", name);
		return false;
	}
	*address = answer()[ANSWER_resolve_address];
	return true;
}

/* One answer with what it points to. */
struct found {
	struct addrinfo info;
	struct sockaddr_in6 address;
	char name[256];
};

static int service_port(const char *service, int flags, uint16_t *port)
{
	char *end;

	*port = 0;
	if (!service)
		return 0;
	unsigned long number = strtoul(service, &end, 10);
	if (*service && !*end) {
		*port = number;
		return number > 0xffff ? EAI_SERVICE : 0;
	}
	struct servent *known = flags & AI_NUMERICSERV ? NULL : getservbyname(service, NULL);
	if (!known)
		return flags & AI_NUMERICSERV ? EAI_NONAME : EAI_SERVICE;
	*port = ntohs(known->s_port);
	return 0;
}

EXPORT int getaddrinfo(const char *restrict node, const char *restrict service,
		       const struct addrinfo *restrict hints, struct addrinfo **restrict result)
{
	if (!native.active)
		return LIBC(getaddrinfo)(node, service, hints, result);
	static const struct addrinfo any = { .ai_family = AF_UNSPEC };
	static const int types[][2] = { { SOCK_STREAM, IPPROTO_TCP }, { SOCK_DGRAM, IPPROTO_UDP } };
	const struct addrinfo *wanted = hints ? hints : &any;
	int family = wanted->ai_family == AF_UNSPEC ? AF_INET : wanted->ai_family;
	uint32_t address = wanted->ai_flags & AI_PASSIVE ? INADDR_ANY : INADDR_LOOPBACK;
	uint16_t port;

	if (!node && !service)
		return EAI_NONAME;
	if (family != AF_INET && family != AF_INET6)
		return EAI_FAMILY;
	int error = service_port(service, wanted->ai_flags, &port);
	if (error)
		return error;
	if (node && !find_host(node, wanted->ai_flags & AI_NUMERICHOST, &address))
		return EAI_NONAME;
	struct addrinfo **at = result;
	*at = NULL;
	for (int i = 0; i < 2; i++) {
		if (wanted->ai_socktype && wanted->ai_socktype != types[i][0])
			continue;
		if (wanted->ai_protocol && wanted->ai_protocol != types[i][1])
			continue;
		struct found *found = calloc(1, sizeof(*found));
		if (!found)
			return EAI_MEMORY;
		found->info = (struct addrinfo){
			.ai_flags = wanted->ai_flags,
			.ai_family = family,
			.ai_socktype = types[i][0],
			.ai_protocol = types[i][1],
			.ai_addrlen = fill_address(family, address, port, &found->address),
			.ai_addr = (struct sockaddr *)&found->address,
		};
		if (wanted->ai_flags & AI_CANONNAME && at == result) {
			snprintf(found->name, sizeof(found->name), "%s", node ? node : native.host);
			found->info.ai_canonname = found->name;
		}
		*at = &found->info;
		at = &found->info.ai_next;
	}
	return *result ? 0 : EAI_SOCKTYPE;
}

EXPORT void freeaddrinfo(struct addrinfo *found)
{
	if (!native.active) {
		LIBC(freeaddrinfo)(found);
		return;
	}
	while (found) {
		struct addrinfo *next = found->ai_next;
		free(found);
		found = next;
	}
}

/* Numbers, but for the host's own address. */
EXPORT int getnameinfo(const struct sockaddr *restrict given, socklen_t length, char *restrict host,
		       socklen_t host_room, char *restrict service, socklen_t service_room, int flags)
{
	if (!native.active)
		return LIBC(getnameinfo)(given, length, host, host_room, service, service_room,
					 flags);
	uint32_t address;
	uint16_t port;

	if (!parse_address(given, length, &address, &port))
		return EAI_FAMILY;
	if (host && host_room) {
		struct in_addr in = { htonl(address) };
		bool is_own = address == native.address && !(flags & NI_NUMERICHOST);
		char number[INET_ADDRSTRLEN];
		if (flags & NI_NAMEREQD && !is_own)
			return EAI_NONAME;
		inet_ntop(AF_INET, &in, number, sizeof(number));
		if (snprintf(host, host_room, "%s", is_own ? native.host : number) >= (int)host_room)
			return EAI_OVERFLOW;
	}
	if (service && service_room &&
	    snprintf(service, service_room, "%u", port) >= (int)service_room)
		return EAI_OVERFLOW;
	return 0;
}

EXPORT struct hostent *gethostbyname2(const char *name, int family)
{
	static char known[256];
	static struct in_addr in;
	static char *addresses[] = { (char *)&in, NULL }, *aliases[] = { NULL };
	static struct hostent found;
	uint32_t address;

	if (!native.active)
		return LIBC(gethostbyname2)(name, family);
	if (family != AF_INET || !find_host(name, false, &address)) {
		h_errno = HOST_NOT_FOUND;
		return NULL;
	}
	in.s_addr = htonl(address);
	snprintf(known, sizeof(known), "%s", name);
	found = (struct hostent){ known, aliases, AF_INET, sizeof(in), addresses };
	return &found;
}

EXPORT struct hostent *gethostbyname(const char *name)
{
	return native.active ? gethostbyname2(name, AF_INET) : LIBC(gethostbyname)(name);
}

/* Two interfaces: the loopback, and that of the host's first port. */
struct interface {
	struct ifaddrs info;
	struct sockaddr_in6 address, netmask, broadcast;
};

EXPORT int getifaddrs(struct ifaddrs **result)
{
	if (!native.active)
		return LIBC(getifaddrs)(result);
	static char lo[] = "lo", eth[] = INTERFACE;
	struct {
		char *name;
		uint32_t address, netmask;
		unsigned flags;
	} rows[] = {
		{ lo, INADDR_LOOPBACK, 0xff000000u, IFF_UP | IFF_RUNNING | IFF_LOOPBACK },
		{ eth, native.address, NETMASK,
		  IFF_UP | IFF_RUNNING | IFF_BROADCAST | IFF_MULTICAST },
	};
	struct interface *made = calloc(2, sizeof(*made));
	if (!made)
		return fail(ENOMEM);
	for (int i = 0; i < 2; i++) {
		fill_address(AF_INET, rows[i].address, 0, &made[i].address);
		fill_address(AF_INET, rows[i].netmask, 0, &made[i].netmask);
		fill_address(AF_INET, rows[i].address | ~rows[i].netmask, 0, &made[i].broadcast);
		made[i].info = (struct ifaddrs){
			.ifa_next = i == 0 ? &made[1].info : NULL,
			.ifa_name = rows[i].name,
			.ifa_flags = rows[i].flags,
			.ifa_addr = (struct sockaddr *)&made[i].address,
			.ifa_netmask = (struct sockaddr *)&made[i].netmask,
			.ifa_broadaddr = i == 1 ? (struct sockaddr *)&made[i].broadcast : NULL,
		};
	}
	*result = &made[0].info;
	return 0;
}

EXPORT void freeifaddrs(struct ifaddrs *found)
{
	if (native.active)
		free(found);
	else
		LIBC(freeifaddrs)(found);
}

EXPORT unsigned if_nametoindex(const char *name)
{
	if (!native.active)
		return LIBC(if_nametoindex)(name);
	if (strcmp(name, "lo") == 0)
		return INDEX_LO;
	if (strcmp(name, INTERFACE) == 0)
		return INDEX_INTERFACE;
	errno = ENODEV;
	return 0;
}

EXPORT char *if_indextoname(unsigned index, char name[IF_NAMESIZE])
{
	if (!native.active)
		return LIBC(if_indextoname)(index, name);
	if (index == INDEX_LO || index == INDEX_INTERFACE)
		return strcpy(name, index == INDEX_LO ? "lo" : INTERFACE);
	errno = ENXIO;
	return NULL;
}

EXPORT int gethostname(char *name, size_t room)
{
	if (!native.active)
		return LIBC(gethostname)(name, room);
	size_t length = strlen(native.host) + 1;
	memcpy(name, native.host, length < room ? length : room);
	return length > room ? fail(ENAMETOOLONG) : 0;
}

EXPORT int uname(struct utsname *shown)
{
	int result = LIBC(uname)(shown);
	if (result == 0 && native.active)
		snprintf(shown->nodename, sizeof(shown->nodename), "%s", native.host);
	return result;
}
