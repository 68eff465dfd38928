/* Two applications in one process: messages, a request and its response, and
 * what happens when a ring is full. Prints what it did, and exits with 0 when
 * everything arrived as it should.
 *
 *   cc exchange.c -I transport/ffi/include -L target/release -lheadrace_c
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "headrace.h"

#define MESSAGES 1000u
#define LONGEST 20000u

static void check(int code, const char *what)
{
	if (code < 0) {
		fprintf(stderr, "%s: %s (%s)\n", what, headrace_strerror(code),
			code == HEADRACE_ENVIRONMENT ? headrace_error_detail() : "no detail");
		exit(1);
	}
}

static uint8_t byte_of(uint64_t message, uint32_t at)
{
	return (uint8_t)(message * 131 + at * 7);
}

static uint32_t length_of(uint64_t message)
{
	return 1 + (uint32_t)(message * 977 % LONGEST);
}

/* How many events of each kind one application has had. */
struct counts {
	uint32_t sent, messages, requests, responses;
};

/* Handles the events that are there; answers requests with their bytes reversed. */
static void handle_events(struct headrace_app *app, struct counts *counts)
{
	struct headrace_event events[16];
	int count = headrace_poll(app, events, 16);
	uint8_t answer[64];

	check(count, "headrace_poll");
	for (int i = 0; i < count; i++) {
		const struct headrace_event *event = &events[i];

		switch (event->kind) {
		case HEADRACE_SENT:
			counts->sent++;
			break;
		case HEADRACE_MESSAGE:
			if (event->len != length_of(event->tag)) {
				fprintf(stderr, "message %" PRIu64 " has %u bytes\n", event->tag,
					event->len);
				exit(1);
			}
			for (uint32_t at = 0; at < event->len; at++)
				if (event->data[at] != byte_of(event->tag, at)) {
					fprintf(stderr, "message %" PRIu64 " is damaged\n", event->tag);
					exit(1);
				}
			counts->messages++;
			break;
		case HEADRACE_REQUEST:
			if (event->len > sizeof(answer))
				exit(1);
			for (uint32_t at = 0; at < event->len; at++)
				answer[at] = event->data[event->len - 1 - at];
			check(headrace_respond(app, event->peer, event->token, answer, event->len, 7),
			      "headrace_respond");
			counts->requests++;
			break;
		case HEADRACE_RESPONSE:
			if (event->cookie != 42 || event->len != 5 ||
			    memcmp(event->data, "olleh", 5) != 0) {
				fprintf(stderr, "a wrong response\n");
				exit(1);
			}
			counts->responses++;
			break;
		default:
			fprintf(stderr, "event %d: %s\n", event->kind, headrace_strerror(event->code));
			exit(1);
		}
		headrace_release(event->message);
	}
	if (count == 0)
		sched_yield();
}

int main(void)
{
	struct headrace_config config;
	struct headrace_stack *stack;
	struct headrace_app *one, *two;
	struct counts first = { 0 }, second = { 0 };
	uint32_t connection, full = 0;
	static uint8_t bytes[LONGEST];

	headrace_config_init(&config);
	config.ring = 32;
	config.messages_max = 64;
	check(headrace_start(&config, &stack), "headrace_start");
	check(headrace_attach_pair(stack, &one, &two), "headrace_attach_pair");
	check(headrace_connect(one, headrace_host(two), &connection), "headrace_connect");

	for (uint64_t message = 0; message < MESSAGES; message++) {
		uint32_t len = length_of(message);
		int code;

		for (uint32_t at = 0; at < len; at++)
			bytes[at] = byte_of(message, at);
		while ((code = headrace_post_send(one, connection, bytes, len, message, message)) ==
		       HEADRACE_AGAIN) {
			full++;
			handle_events(one, &first);
			handle_events(two, &second);
		}
		check(code, "headrace_post_send");
	}
	while (first.sent < MESSAGES || second.messages < MESSAGES) {
		handle_events(one, &first);
		handle_events(two, &second);
	}

	check(headrace_request(one, connection, "hello", 5, 42), "headrace_request");
	while (first.responses < 1 || second.sent < 1) {
		handle_events(one, &first);
		handle_events(two, &second);
	}

	/* Arguments that are not allowed are refused, with a code that says why. */
	if (headrace_post_send(one, connection + 1, "x", 1, 0, 0) != HEADRACE_NO_CONNECTION ||
	    headrace_post_send(one, connection, NULL, 1, 0, 0) != HEADRACE_INVALID ||
	    headrace_post_send(one, connection, "x", 1, UINT64_MAX, 0) != HEADRACE_INVALID) {
		fprintf(stderr, "nonsense was taken\n");
		return 1;
	}
	check(headrace_close(one, connection), "headrace_close");
	headrace_detach(two);
	headrace_stop(stack);
	if (headrace_connect(one, 1, &connection) != HEADRACE_GONE) {
		fprintf(stderr, "a stack that has stopped takes requests\n");
		return 1;
	}
	headrace_detach(one);
	printf("%u messages, %u request, %u response, ring full %s\n", second.messages,
	       second.requests, first.responses, full > 0 ? "now and then" : "never");
	return 0;
}
