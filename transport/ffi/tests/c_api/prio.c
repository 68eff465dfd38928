/* Which of two connections is served first.
 *
 *   prio FIRST SECOND
 *
 * Opens two connections with these priorities, posts two messages on the first and then two on the
 * second, and writes the order in which they end: `a` for one of the first, `b` for one of the
 * second. An attempt counts if no message had ended when the last one was posted.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "headrace.h"

#define LEN 4000000u
#define MESSAGES 4u
#define ATTEMPTS 50

static void check(int code, const char *what)
{
	if (code < 0) {
		fprintf(stderr, "%s: %s (%s)\n", what, headrace_strerror(code),
			code == HEADRACE_ENVIRONMENT ? headrace_error_detail() : "no detail");
		exit(1);
	}
}

/* Whether a message of `app` has ended; `cookie` is that of the message. */
static int has_sent(struct headrace_app *app, uint64_t *cookie)
{
	struct headrace_event event;
	int count = headrace_poll(app, &event, 1);

	check(count, "headrace_poll");
	if (count == 0)
		return 0;
	if (event.kind != HEADRACE_SENT) {
		fprintf(stderr, "event %d: %s\n", event.kind, headrace_strerror(event.code));
		exit(1);
	}
	*cookie = event.cookie;
	return 1;
}

/* Drops the messages that have come to `app`. */
static void drop_received(struct headrace_app *app)
{
	struct headrace_event event;

	while (headrace_poll(app, &event, 1) > 0)
		headrace_release(event.message);
}

int main(int argc, char **argv)
{
	struct headrace_config config;
	struct headrace_stack *stack;
	struct headrace_app *one, *two;
	struct headrace_region *region;
	uint32_t connections[2];
	void *bytes;
	int done = 0;

	if (argc != 3)
		return 2;
	headrace_config_init(&config);
	/* Windows that hold all messages: the scheduler alone decides what leaves. */
	config.line_rate_bps = 100000000000;
	config.base_rtt_ns = 10000000;
	config.memory_max = 1 << 26;
	check(headrace_start(&config, &stack), "headrace_start");
	check(headrace_attach_pair(stack, &one, &two), "headrace_attach_pair");
	check(headrace_region_alloc(stack, LEN, &region, &bytes), "headrace_region_alloc");
	for (int i = 0; i < 2; i++) {
		uint32_t prio = (uint32_t)strtoul(argv[1 + i], NULL, 10);

		check(headrace_connect_labelled(one, headrace_host(two), 0, prio, &connections[i]),
		      "headrace_connect_labelled");
	}
	for (int attempt = 0; attempt < ATTEMPTS && !done; attempt++) {
		char order[MESSAGES + 1] = { 0 };
		uint64_t cookie;
		uint32_t ended = 0;
		int counts;

		for (uint32_t message = 0; message < MESSAGES; message++)
			check(headrace_post_region(one, connections[message / 2], region, 0, LEN, 0,
						   message / 2),
			      "headrace_post_region");
		counts = !has_sent(one, &cookie);
		ended += !counts;
		while (ended < MESSAGES) {
			drop_received(two);
			if (has_sent(one, &cookie))
				order[ended++] = cookie == 0 ? 'a' : 'b';
			else
				sched_yield();
		}
		if (counts)
			printf("%s\n", order);
		done = counts;
	}
	if (!done)
		fprintf(stderr, "no attempt of %d counts: messages end while others are posted\n",
			ATTEMPTS);
	drop_received(two);
	headrace_region_free(region);
	headrace_detach(two);
	headrace_detach(one);
	headrace_stop(stack);
	return done ? 0 : 1;
}
