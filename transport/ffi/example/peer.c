/* One of two processes that a device joins. The one that connects sends parts
 * of a region, which are not copied, then asks how many arrived. The one that
 * listens checks every byte and answers. Exits with 0 when everything arrived as
 * it should.
 *
 *   peer listens  net_memif0,socket=example &
 *   peer connects net_memif0,socket=example
 *
 * On two machines, each with the name of a card or of an interface of the kernel
 * in the place of the memif, it does the same over a cable.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "headrace.h"

#define PARTS 16u
#define PART 500000u

static void check(int code, const char *what)
{
	if (code < 0) {
		fprintf(stderr, "%s: %s (%s)\n", what, headrace_strerror(code),
			code == HEADRACE_ENVIRONMENT ? headrace_error_detail() : "no detail");
		exit(1);
	}
}

static uint8_t byte_of(uint32_t part, uint32_t at)
{
	return (uint8_t)(part * 131 + at * 7 + at / 256);
}

/* Waits for the next event. */
static struct headrace_event next(struct headrace_app *app)
{
	struct headrace_event event;
	int count;

	while ((count = headrace_poll(app, &event, 1)) == 0)
		sched_yield();
	check(count, "headrace_poll");
	if (event.kind == HEADRACE_FAILED || event.kind == HEADRACE_REFUSED) {
		fprintf(stderr, "event %d: %s\n", event.kind, headrace_strerror(event.code));
		exit(1);
	}
	return event;
}

/* Checks messages until a request asks how many arrived whole. */
static void listen_to_peer(struct headrace_app *app)
{
	uint32_t whole = 0;

	for (;;) {
		struct headrace_event event = next(app);

		if (event.kind == HEADRACE_MESSAGE) {
			uint32_t at = 0;

			while (at < event.len && event.data[at] == byte_of((uint32_t)event.tag, at))
				at++;
			whole += at == PART && event.len == PART;
		} else if (event.kind == HEADRACE_REQUEST) {
			check(headrace_respond(app, event.peer, event.token, &whole, sizeof(whole), 0),
			      "headrace_respond");
		} else if (event.kind == HEADRACE_SENT) {
			printf("%" PRIu32 " parts came whole\n", whole);
			return;
		}
		headrace_release(event.message);
	}
}

/* Sends all parts twice, the second time from bytes that were used before. */
static void send_to_peer(struct headrace_stack *stack, struct headrace_app *app, uint32_t peer)
{
	struct headrace_region *region;
	uint32_t connection, whole = 0;
	void *data;

	check(headrace_region_alloc(stack, (uint64_t)PARTS * PART, &region, &data),
	      "headrace_region_alloc");
	check(headrace_connect(app, peer, &connection), "headrace_connect");
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t part = 0; part < PARTS; part++) {
			uint32_t tag = round * PARTS + part;
			uint64_t first = (uint64_t)part * PART;

			for (uint32_t at = 0; at < PART; at++)
				((uint8_t *)data)[first + at] = byte_of(tag, at);
			check(headrace_post_region(app, connection, region, first, PART, tag, tag),
			      "headrace_post_region");
		}
		for (uint32_t sent = 0; sent < PARTS; sent += next(app).kind == HEADRACE_SENT)
			;
		if (headrace_region_uses(region) != 0) {
			fprintf(stderr, "a region is in use that was sent\n");
			exit(1);
		}
	}
	if (headrace_post_region(app, connection, region, (uint64_t)PARTS * PART - 1, 2, 0, 0) !=
	    HEADRACE_INVALID) {
		fprintf(stderr, "bytes behind a region were taken\n");
		exit(1);
	}
	check(headrace_request(app, connection, "how many?", 9, 1), "headrace_request");
	for (;;) {
		struct headrace_event event = next(app);

		if (event.kind == HEADRACE_RESPONSE && event.len == sizeof(whole))
			memcpy(&whole, event.data, sizeof(whole));
		headrace_release(event.message);
		if (event.kind == HEADRACE_RESPONSE)
			break;
	}
	headrace_region_free(region);
	printf("%" PRIu32 " of %u parts came whole\n", whole, 2 * PARTS);
	if (whole != 2 * PARTS)
		exit(1);
}

int main(int count, char **words)
{
	struct headrace_address hosts[2] = { { .ip = "10.77.0.1" }, { .ip = "10.77.0.2" } };
	struct headrace_device device;
	struct headrace_config config;
	struct headrace_stack *stack;
	struct headrace_app *app;
	int connects;

	if (count < 3 || count > 4 || (strcmp(words[1], "listens") != 0 && strcmp(words[1], "connects") != 0)) {
		fprintf(stderr, "usage: %s listens|connects DEVICE [psk:FILE]\n", words[0]);
		return 2;
	}
	connects = strcmp(words[1], "connects") == 0;
	headrace_config_init(&config);
	/* A card has ':' in its name; DPDK probes it at the start. */
	config.cards = strchr(words[2], ':') ? words[2] : NULL;
	/* Both processes must have the same keys. */
	config.security = count == 4 ? words[3] : NULL;
	check(headrace_start(&config, &stack), "headrace_start");
	headrace_device_init(&device);
	device.name = words[2];
	device.hosts = hosts;
	device.count = 2;
	device.own = connects ? 1 : 0;
	device.connects = connects;
	device.wait_ms = 20000;
	check(headrace_attach_device(stack, &device, &app), "headrace_attach_device");
	if (connects)
		send_to_peer(stack, app, 0);
	else
		listen_to_peer(app);
	headrace_detach(app);
	headrace_stop(stack);
	return 0;
}
