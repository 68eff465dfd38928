/* One of two applications, of which the test kills one in the middle of messages.
 *
 *   killed sends|receives listens|connects DEVICE MESSAGES
 *
 * The sender keeps some messages under way until MESSAGES of them were sent. When all that are
 * under way have failed, it attaches and connects again. The receiver ends when a message with the
 * last tag has come, and writes a line when the first has. Both write what they counted, and how
 * long the longest call took, without those that wait.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "headrace.h"

#define LEN 400000u
#define UNDER_WAY 8u

static double longest_ms;
static struct headrace_stack *stack;
static struct headrace_device device;

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Ends a call that began then. An error ends the process. */
static int done(int code, double began, const char *what)
{
	double took = now_ms() - began;

	if (took > longest_ms)
		longest_ms = took;
	if (code < 0) {
		fprintf(stderr, "%s: %s (%s)\n", what, headrace_strerror(code),
			code == HEADRACE_ENVIRONMENT ? headrace_error_detail() : "no detail");
		exit(1);
	}
	return code;
}

static uint8_t byte_of(uint64_t tag, uint32_t at)
{
	return (uint8_t)(tag * 131 + at * 7 + at / 256);
}

/* The next event, if there is one. */
static int next(struct headrace_app *app, struct headrace_event *event)
{
	double began = now_ms();
	int count = done(headrace_poll(app, event, 1), began, "headrace_poll");

	if (count == 0)
		usleep(500);
	return count;
}

static void receive(struct headrace_app *app, uint64_t messages)
{
	uint64_t whole = 0, aborted = 0, last = UINT64_MAX;
	struct headrace_event event;

	while (last != messages - 1) {
		if (next(app, &event) == 0)
			continue;
		aborted += event.kind == HEADRACE_ABORTED;
		if (event.kind == HEADRACE_MESSAGE) {
			uint32_t at = 0;

			while (at < event.len && event.data[at] == byte_of(event.tag, at))
				at++;
			if (at != LEN) {
				fprintf(stderr, "message %d is wrong at %u\n", (int)event.tag, at);
				exit(1);
			}
			if (whole++ == 0)
				puts("first");
			last = event.tag;
		}
		headrace_release(event.message);
	}
	printf("whole %d aborted %d longest %d\n", (int)whole, (int)aborted, (int)longest_ms);
	/* The last acknowledgement leaves meanwhile. */
	usleep(500000);
}

/* Posts message `tag`. */
static void post(struct headrace_app *app, uint32_t connection, uint64_t tag)
{
	static uint8_t bytes[LEN];
	double began;

	for (uint32_t at = 0; at < LEN; at++)
		bytes[at] = byte_of(tag, at);
	began = now_ms();
	done(headrace_post_send(app, connection, bytes, LEN, tag, tag), began, "headrace_post_send");
}

static struct headrace_app *attached(void)
{
	struct headrace_app *app;
	double longest = longest_ms;

	done(headrace_attach_device(stack, &device, &app), now_ms(), "headrace_attach_device");
	/* This call waits. */
	longest_ms = longest;
	return app;
}

static uint32_t connected(struct headrace_app *app)
{
	double began = now_ms();
	uint32_t connection;

	done(headrace_connect(app, 1 - device.own, &connection), began, "headrace_connect");
	return connection;
}

static struct headrace_app *send_all(struct headrace_app *app, uint64_t messages)
{
	uint64_t sent = 0, silent = 0, failed = 0, under_way = 0;
	uint32_t connection = connected(app);
	double heard = now_ms(), quiet_ms = 0;
	struct headrace_event event;

	while (sent < messages) {
		if (silent > 0 && under_way == 0) {
			headrace_detach(app);
			app = attached();
			connection = connected(app);
			silent = 0;
		}
		while (silent == 0 && under_way < UNDER_WAY && sent + under_way < messages)
			post(app, connection, sent + under_way++);
		if (next(app, &event) == 0)
			continue;
		if (now_ms() - heard > quiet_ms)
			quiet_ms = now_ms() - heard;
		heard = now_ms();
		under_way--;
		if (event.kind == HEADRACE_SENT) {
			sent++;
		} else if (event.kind == HEADRACE_FAILED && event.code == HEADRACE_PEER_SILENT) {
			failed++;
			if (silent++ == 0) {
				puts("silent");
				/* It fails with a code of its own. */
				post(app, connection, 0);
				under_way++;
			}
		} else if (event.kind == HEADRACE_FAILED && event.code == HEADRACE_CONNECTION_FAILED) {
			puts("failed");
		} else {
			fprintf(stderr, "event %d: %s\n", event.kind, headrace_strerror(event.code));
			exit(1);
		}
	}
	printf("sent %d silent %d quiet %d longest %d\n", (int)sent, (int)failed, (int)quiet_ms,
	       (int)longest_ms);
	return app;
}

int main(int count, char **words)
{
	struct headrace_address hosts[2] = { { .ip = "10.77.0.1" }, { .ip = "10.77.0.2" } };
	struct headrace_config config;
	struct headrace_app *app;
	uint64_t messages;

	if (count != 5)
		return 2;
	setlinebuf(stdout);
	messages = strtoull(words[4], NULL, 10);
	headrace_config_init(&config);
	done(headrace_start(&config, &stack), now_ms(), "headrace_start");
	headrace_device_init(&device);
	device.name = words[3];
	device.hosts = hosts;
	device.count = 2;
	device.own = strcmp(words[1], "sends") == 0;
	device.connects = strcmp(words[2], "connects") == 0;
	device.wait_ms = 20000;
	app = attached();
	longest_ms = 0;
	if (device.own)
		app = send_all(app, messages);
	else
		receive(app, messages);
	headrace_detach(app);
	headrace_stop(stack);
	return 0;
}
