/* Names and addresses: those of the rack's hosts. Nothing asks the machine's resolver. */
#define _GNU_SOURCE
#include "net.h"

#include <arpa/inet.h>
#include <endian.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Interfaces: the loopback, and one of each device, of which the first carries TCP. */

/* Of a lane, by the code of active_speed's bit: SDR to NDR. */
static const unsigned lane_mbps[] = { 2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000 };

static unsigned port_mbps(const struct ibv_port_attr *attr)
{
	unsigned lanes = attr->active_width == 1  ? 1 :
			 attr->active_width == 2  ? 4 :
			 attr->active_width == 4  ? 8 :
			 attr->active_width == 8  ? 12 :
						    2;
	int bit = __builtin_ffs(attr->active_speed) - 1;

	return bit < 0 || bit >= (int)(sizeof(lane_mbps) / sizeof(lane_mbps[0])) ?
		       0 :
		       lanes * lane_mbps[bit];
}

/* What a card has to carry: the packets' headers, and Ethernet's own at least. */
static int mtu_of(const struct ibv_port_attr *attr)
{
	int mtu = (128 << attr->active_mtu) + 104;

	return mtu < 1500 ? 1500 : mtu;
}

static void look_at_device(unsigned place, struct interface *made)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(list[place]);
	uint64_t guid = be64toh(ibv_get_device_guid(list[place]));
	struct ibv_port_attr attr;

	for (int i = 0; i < 6; i++)
		made->mac[i] = guid >> 8 * (5 - i);
	made->mtu = 1500;
	if (context && ibv_query_port(context, 1, &attr) == 0) {
		made->mbps = port_mbps(&attr);
		made->mtu = mtu_of(&attr);
	}
	if (context)
		ibv_close_device(context);
	ibv_free_device_list(list);
}

const struct interface *interface_of(int place)
{
	static struct interface known[1 + sizeof(native.device) / sizeof(native.device[0])];
	struct interface *at = &known[place + 1];

	if (at->index)
		return at;
	at->index = place + 2;
	if (place < 0) {
		strcpy(at->name, "lo");
		at->type = ARPHRD_LOOPBACK;
		at->mtu = 65536;
		at->flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
		at->address = INADDR_LOOPBACK;
		at->netmask = 0xff000000u;
		return at;
	}
	snprintf(at->name, sizeof(at->name), "eth%d", place);
	at->type = ARPHRD_ETHER;
	at->flags = IFF_UP | IFF_RUNNING | IFF_BROADCAST | IFF_MULTICAST;
	if (place == 0) {
		at->address = native.address;
		at->netmask = NETMASK;
	}
	look_at_device(place, at);
	return at;
}

static const struct interface *interface_by_name(const char *name)
{
	for (int i = -1; i < (int)native.devices; i++)
		if (strncmp(interface_of(i)->name, name, IF_NAMESIZE) == 0)
			return interface_of(i);
	return NULL;
}

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

	if (!length)
		return;
	/* The whole length is said also where there is no room: so programs ask for it. */
	socklen_t whole = fill_address(family, address, port, &filled);
	if (shown)
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

/* Those that have an address. */
struct shown_interface {
	struct ifaddrs info;
	struct sockaddr_in6 address, netmask, broadcast;
};

EXPORT int getifaddrs(struct ifaddrs **result)
{
	if (!native.active)
		return LIBC(getifaddrs)(result);
	struct shown_interface *made = calloc(2, sizeof(*made));
	if (!made)
		return fail(ENOMEM);
	for (int i = 0; i < 2; i++) {
		const struct interface *interface = interface_of(i - 1);
		fill_address(AF_INET, interface->address, 0, &made[i].address);
		fill_address(AF_INET, interface->netmask, 0, &made[i].netmask);
		fill_address(AF_INET, interface->address | ~interface->netmask, 0,
			     &made[i].broadcast);
		made[i].info = (struct ifaddrs){
			.ifa_next = i == 0 ? &made[1].info : NULL,
			.ifa_name = (char *)interface->name,
			.ifa_flags = interface->flags,
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
	const struct interface *interface = interface_by_name(name);
	if (!interface)
		errno = ENODEV;
	return interface ? interface->index : 0;
}

EXPORT char *if_indextoname(unsigned index, char name[IF_NAMESIZE])
{
	if (!native.active)
		return LIBC(if_indextoname)(index, name);
	if (index >= 1 && index <= native.devices + 1)
		return strcpy(name, interface_of(index - 2)->name);
	errno = ENXIO;
	return NULL;
}

EXPORT struct if_nameindex *if_nameindex(void)
{
	if (!native.active)
		return LIBC(if_nameindex)();
	struct if_nameindex *list = calloc(native.devices + 2, sizeof(*list));
	for (unsigned i = 0; list && i <= native.devices; i++)
		list[i] = (struct if_nameindex){ i + 1, (char *)interface_of(i - 1)->name };
	return list;
}

EXPORT void if_freenameindex(struct if_nameindex *list)
{
	if (native.active)
		free(list);
	else
		LIBC(if_freenameindex)(list);
}

/* netdevice(7)'s and ethtool's questions; what would change an interface is refused. */

static int ask_ethtool(const struct interface *interface, void *data)
{
	uint32_t command = *(uint32_t *)data;

	if (command == ETHTOOL_GLINK) {
		((struct ethtool_value *)data)->data = 1;
		return 0;
	}
	if (command == ETHTOOL_GDRVINFO) {
		struct ethtool_drvinfo *info = data;
		snprintf(info->driver, sizeof(info->driver), "rackmesh");
		return 0;
	}
	if (command != ETHTOOL_GSET || !interface->mbps)
		return fail(EOPNOTSUPP);
	struct ethtool_cmd *settings = data;
	memset(settings, 0, sizeof(*settings));
	settings->cmd = command;
	ethtool_cmd_speed_set(settings, interface->mbps);
	settings->duplex = DUPLEX_FULL;
	return 0;
}

static int list_interfaces(struct ifconf *list)
{
	int room = list->ifc_len / (int)sizeof(struct ifreq);

	list->ifc_len = 2 * sizeof(struct ifreq);
	if (!list->ifc_req)
		return 0;
	for (int i = 0; i < 2 && i < room; i++) {
		const struct interface *interface = interface_of(i - 1);
		socklen_t length = sizeof(struct sockaddr_in);
		memset(&list->ifc_req[i], 0, sizeof(struct ifreq));
		strcpy(list->ifc_req[i].ifr_name, interface->name);
		show_address(AF_INET, interface->address, 0, &list->ifc_req[i].ifr_addr, &length);
	}
	if (room < 2)
		list->ifc_len = room * sizeof(struct ifreq);
	return 0;
}

int interface_ioctl(unsigned long request, void *argument)
{
	struct ifreq *asked = argument;
	socklen_t length = sizeof(struct sockaddr_in);

	if (request == SIOCGIFCONF)
		return list_interfaces(argument);
	if (request == SIOCGIFNAME)
		return if_indextoname(asked->ifr_ifindex, asked->ifr_name) ? 0 : fail(ENODEV);
	if (request < SIOCGIFCONF || request > SIOCETHTOOL)
		return fail(ENOTTY);
	const struct interface *interface = interface_by_name(asked->ifr_name);
	if (!interface)
		return fail(ENODEV);
	if (!interface->address && (request == SIOCGIFADDR || request == SIOCGIFNETMASK ||
				    request == SIOCGIFBRDADDR))
		return fail(EADDRNOTAVAIL);
	switch (request) {
	case SIOCGIFADDR:
		show_address(AF_INET, interface->address, 0, &asked->ifr_addr, &length);
		return 0;
	case SIOCGIFNETMASK:
		show_address(AF_INET, interface->netmask, 0, &asked->ifr_netmask, &length);
		return 0;
	case SIOCGIFBRDADDR:
		show_address(AF_INET, interface->address | ~interface->netmask, 0,
			     &asked->ifr_broadaddr, &length);
		return 0;
	case SIOCGIFFLAGS:
		asked->ifr_flags = interface->flags;
		return 0;
	case SIOCGIFMTU:
		asked->ifr_mtu = interface->mtu;
		return 0;
	case SIOCGIFINDEX:
		asked->ifr_ifindex = interface->index;
		return 0;
	case SIOCGIFHWADDR:
		asked->ifr_hwaddr.sa_family = interface->type;
		memcpy(asked->ifr_hwaddr.sa_data, interface->mac, sizeof(interface->mac));
		return 0;
	case SIOCETHTOOL:
		return ask_ethtool(interface, asked->ifr_data);
	default:
		return fail(EPERM);
	}
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
