/* Headrace: applications in the process of the stack. docs/C_API.md says how.
 * Made by cbindgen: UPDATE_HEADER=1 cargo test -p transport-ffi --test c_api */

#ifndef HEADRACE_H
#define HEADRACE_H

#include <stdint.h>

/*
 What a function returns, and why something failed. Negative but for `HEADRACE_OK`.
 */
enum headrace_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /*
   Done, or accepted.
   */
  HEADRACE_OK = 0,
  /*
   A ring or a table is full: call headrace_poll, then try again.
   */
  HEADRACE_AGAIN = -1,
  /*
   An argument that cannot be: a null pointer, a length of 0, a tag of more than 46 bits.
   */
  HEADRACE_INVALID = -2,
  /*
   DPDK, memory or devices are not to be had; headrace_error_detail says what.
   */
  HEADRACE_ENVIRONMENT = -3,
  /*
   The stack has stopped.
   */
  HEADRACE_GONE = -4,
  /*
   As many connections are open as the configuration allows, all by headrace_connect.
   */
  HEADRACE_TOO_MANY = -5,
  /*
   No such connection is open.
   */
  HEADRACE_NO_CONNECTION = -6,
  /*
   The peer acknowledged nothing through all retries.
   */
  HEADRACE_PEER_SILENT = -7,
  /*
   An earlier message of the connection failed: close it and connect again.
   */
  HEADRACE_CONNECTION_FAILED = -8,
  /*
   The peer has no address, or is this host itself.
   */
  HEADRACE_NO_SUCH_HOST = -9,
  /*
   The worker could not understand the request: a bug of this library.
   */
  HEADRACE_INTERNAL = -10,
  /*
   The peer has forgotten the connection, and may have delivered the message; the connection
   goes on.
   */
  HEADRACE_PEER_FORGOT = -11,
  /*
   The peer had no room for the connection or message through all retries.
   */
  HEADRACE_PEER_FULL = -12,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum headrace_code headrace_code;
#else
typedef int32_t headrace_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 What happened.
 */
enum headrace_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /*
   A message or a response is wholly acknowledged; `cookie` says which.
   */
  HEADRACE_SENT = 1,
  /*
   A message, a request or a response came to nothing: `cookie` and `code`.
   */
  HEADRACE_FAILED = 2,
  /*
   A connection could not be opened: `connection` and `code`.
   */
  HEADRACE_REFUSED = 3,
  /*
   A message has come in: `peer`, `tag`, `data`, `len`.
   */
  HEADRACE_MESSAGE = 4,
  /*
   A request has come in: `peer`, `token` for headrace_respond, `data`, `len`.
   */
  HEADRACE_REQUEST = 5,
  /*
   The response to a request of this application: `peer`, its `cookie`, `data`, `len`.
   */
  HEADRACE_RESPONSE = 6,
  /*
   A message of `peer` has come in part and never will be whole.
   */
  HEADRACE_ABORTED = 7,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum headrace_kind headrace_kind;
#else
typedef int32_t headrace_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 One application. Its calls belong to one thread at a time.
 */
typedef struct headrace_app headrace_app;

/*
 The bytes of a message that has come in; given back by headrace_release.
 */
typedef struct headrace_message headrace_message;

/*
 Memory of an application that devices read where it lies.
 */
typedef struct headrace_region headrace_region;

/*
 DPDK and the thread that serves the applications of this process.
 */
typedef struct headrace_stack headrace_stack;

/*
 How a stack is set up. headrace_config_init fills it in; change what should differ.
 */
typedef struct headrace_config {
  /*
   Bytes of this structure; set by headrace_config_init.
   */
  uint32_t size;
  /*
   Payload of a segment, 64 to 8960 bytes.
   */
  uint32_t payload_max;
  /*
   Rate of the hosts' links, bit/s.
   */
  uint64_t line_rate_bps;
  /*
   Round trip of the network when it is empty, nanoseconds.
   */
  uint64_t base_rtt_ns;
  /*
   The least time after which silence is a loss, nanoseconds.
   */
  uint64_t rto_min_ns;
  /*
   Connections of an application.
   */
  uint32_t connections_max;
  /*
   Messages of an application that are under way, each way.
   */
  uint32_t messages_max;
  /*
   Bytes of messages that have come in and are not released yet, above 0.
   */
  uint64_t memory_max;
  /*
   Requests and events that wait between an application and the stack, each.
   */
  uint32_t ring;
  /*
   Memory of DPDK, 2^20 bytes.
   */
  uint32_t dpdk_mb;
  /*
   1: in hugepages; 0: without; -1: as the machine has them.
   */
  int32_t hugepages;
  /*
   Cards that headrace_attach_device will open, with spaces between: DPDK probes them when it
   starts. Null for none. Read by headrace_start only.
   */
  const char *cards;
  /*
   Keys that seal the packets of every application: psk:FILE, or psk-auth:FILE to leave
   payloads readable, as `headrace --security` takes them. Null: packets are not sealed. Read
   by headrace_start; the file is looked at again every second.
   */
  const char *security;
} headrace_config;

/*
 One host of a network.
 */
typedef struct headrace_address {
  /*
   IPv4 or IPv6, as text; of one kind for all hosts.
   */
  const char *ip;
  /*
   MAC of the host, or of the next hop to it; all 0: it is asked for, and the own one is the
   device's.
   */
  uint8_t mac[6];
} headrace_address;

/*
 A device, and the hosts that are reached by it. headrace_device_init fills it in.
 */
typedef struct headrace_device {
  /*
   Bytes of this structure; set by headrace_device_init.
   */
  uint32_t size;
  /*
   The own place among `hosts`.
   */
  uint32_t own;
  /*
   A PCI address that is among the configuration's `cards`, an interface of the kernel, or a
   virtual device: 0000:3b:00.0, eth1, net_memif0,socket=name.
   */
  const char *name;
  /*
   All hosts of the network, this one among them; host numbers are places in this list.
   */
  const struct headrace_address *hosts;
  /*
   The number of hosts.
   */
  uint32_t count;
  /*
   1: the other process of a memif listens, and this one connects; 0: this one listens.
   */
  int32_t connects;
  /*
   Most time to wait for the other process, the link and the MACs that are asked for, together,
   milliseconds.
   */
  uint32_t wait_ms;
  /*
   The port that all hosts send to and receive at, 1 to 65535.
   */
  uint32_t udp_port;
} headrace_device;

/*
 One thing that happened; its kind names the fields that mean something.
 */
typedef struct headrace_event {
  /*
   The kind of event.
   */
  headrace_kind kind;
  /*
   Why it failed.
   */
  headrace_code code;
  /*
   The connection.
   */
  uint32_t connection;
  /*
   The other host.
   */
  uint32_t peer;
  /*
   The cookie that was posted.
   */
  uint64_t cookie;
  /*
   The tag that the sender posted.
   */
  uint64_t tag;
  /*
   Names a request.
   */
  uint64_t token;
  /*
   When, nanoseconds since the start of the stack.
   */
  uint64_t at_ns;
  /*
   The bytes, until headrace_release; null where there are none.
   */
  const uint8_t *data;
  /*
   The number of bytes at `data`.
   */
  uint32_t len;
  /*
   The message to release; null for events without one.
   */
  struct headrace_message *message;
} headrace_event;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The text of `code`; of a number that is no code, a text that says so.
 */
const char *headrace_strerror(int32_t code);

/*
 What was behind the last HEADRACE_ENVIRONMENT of this thread; valid until the next.
 */
const char *headrace_error_detail(void);

/*
 Fills in a configuration for two hosts on one machine.

 # Safety
 `config` is null or points to a place for a configuration.
 */
void headrace_config_init(struct headrace_config *config);

/*
 Starts DPDK and the stack's thread, which takes half a second. Once a process.

 # Safety
 `config` is null or points to a configuration whose texts end with a NUL, `stack` is null or
 points to a place for a pointer.
 */
headrace_code headrace_start(const struct headrace_config *config, struct headrace_stack **stack);

/*
 Stops the stack. Applications that are still attached get HEADRACE_GONE from then on; what they
 hold of messages stays theirs.

 # Safety
 `stack` is null or comes from headrace_start, and is not used again.
 */
void headrace_stop(struct headrace_stack *stack);

/*
 Detaches an application. Messages that it has posted are still sent.

 # Safety
 `app` is null or comes from this library, and is not used again.
 */
void headrace_detach(struct headrace_app *app);

/*
 The number of the application's host; UINT32_MAX for null.

 # Safety
 `app` is null or attached.
 */
uint32_t headrace_host(const struct headrace_app *app);

/*
 Opens a connection to host `peer` and names it in `connection`, which may be used at once.

 # Safety
 `app` is null or attached; `connection` is null or points to a place for a number.
 */
headrace_code headrace_connect(struct headrace_app *app, uint32_t peer, uint32_t *connection);

/*
 Opens a connection as `headrace_connect` does, with a label for the scheduler: connections of
 one `collective` belong together (0 is none), and a lower `prio` is more urgent (2000000 for a
 connection without a priority).

 # Safety
 As for `headrace_connect`.
 */
headrace_code headrace_connect_labelled(struct headrace_app *app,
                                        uint32_t peer,
                                        uint32_t collective,
                                        uint32_t prio,
                                        uint32_t *connection);

/*
 Closes a connection when all that was posted on it is over.

 # Safety
 `app` is null or attached.
 */
headrace_code headrace_close(struct headrace_app *app, uint32_t connection);

/*
 Posts a message of `len` bytes, which are copied. It ends in one HEADRACE_SENT or
 HEADRACE_FAILED with `cookie`; its receiver sees `tag`, which has at most 46 bits.

 # Safety
 `app` is null or attached; `bytes` is null or points to `len` bytes.
 */
headrace_code headrace_post_send(struct headrace_app *app,
                                 uint32_t connection,
                                 const void *bytes,
                                 uint32_t len,
                                 uint64_t tag,
                                 uint64_t cookie);

/*
 Posts a request of `len` bytes, which are copied. It ends in one HEADRACE_RESPONSE or
 HEADRACE_FAILED with `cookie`; nothing else ends it, so a peer that never answers is waited for.

 # Safety
 `app` is null or attached; `bytes` is null or points to `len` bytes.
 */
headrace_code headrace_request(struct headrace_app *app,
                               uint32_t connection,
                               const void *bytes,
                               uint32_t len,
                               uint64_t cookie);

/*
 Answers the request `token` of `peer` with `len` bytes, which are copied. It ends in one
 HEADRACE_SENT or HEADRACE_FAILED with `cookie`.

 # Safety
 `app` is null or attached; `bytes` is null or points to `len` bytes.
 */
headrace_code headrace_respond(struct headrace_app *app,
                               uint32_t peer,
                               uint64_t token,
                               const void *bytes,
                               uint32_t len,
                               uint64_t cookie);

/*
 Fills in a device without name and hosts.

 # Safety
 `device` is null or points to a place for a device.
 */
void headrace_device_init(struct headrace_device *device);

/*
 Attaches two applications, each at a host of its own, whose devices are joined by rings.

 # Safety
 `stack` is null or comes from headrace_start; `first` and `second` are null or point to places
 for pointers.
 */
headrace_code headrace_attach_pair(struct headrace_stack *stack,
                                   struct headrace_app **first,
                                   struct headrace_app **second);

/*
 Attaches an application at a device of its own: a card, an interface of the kernel, one end of a
 memif. Waits for the link, for the other process of a memif, and for the MACs of hosts that have
 not given theirs, for `wait_ms` in all; this host answers requests for its own from then on.

 # Safety
 `stack` is null or comes from headrace_start; `device` is null or points to a device whose name
 and addresses are null or end with a NUL, and whose `hosts` are `count`; `app` is null or points
 to a place for a pointer.
 */
headrace_code headrace_attach_device(struct headrace_stack *stack,
                                     const struct headrace_device *device,
                                     struct headrace_app **app);

/*
 Writes what has happened to `events`, at most `room` of them, and returns how many; negative, a
 headrace_code. Never waits. HEADRACE_GONE comes when the stack has stopped and all was reported.

 # Safety
 `app` is null or attached; `events` is null or points to `room` places for events.
 */
int32_t headrace_poll(struct headrace_app *app, struct headrace_event *events, uint32_t room);

/*
 Gives the bytes of a message back. Until then they count against `memory_max`.

 # Safety
 `message` is null or comes from an event, and is not used again, nor are its bytes.
 */
void headrace_release(struct headrace_message *message);

/*
 Makes a region of `len` bytes, all 0, and says where they are. Cards read it where it lies if
 they are attached before; it is moved nowhere, and takes pages of its own then, so make few and
 large ones, and send parts of them.

 # Safety
 `stack` is null or comes from headrace_start; `region` and `data` are null or point to places
 for pointers.
 */
headrace_code headrace_region_alloc(struct headrace_stack *stack,
                                    uint64_t len,
                                    struct headrace_region **region,
                                    void **data);

/*
 Uses of a region: messages that are under way, and failed ones of which a card has frames left.
 While there are any the bytes that they were posted with must not be changed. 0 for null.

 # Safety
 `region` is null or comes from headrace_region_alloc.
 */
uint64_t headrace_region_uses(const struct headrace_region *region);

/*
 Gives a region up. Its memory goes with its last use.

 # Safety
 `region` is null or comes from headrace_region_alloc, and neither it nor its bytes are used
 again.
 */
void headrace_region_free(struct headrace_region *region);

/*
 Posts a message of the `len` bytes of `region` from `first` on, which are not copied, and must
 not be changed until it ends: in one HEADRACE_SENT, or HEADRACE_FAILED, with `cookie`, behind
 which headrace_region_uses may say that a card still reads them.

 # Safety
 `app` is null or attached; `region` is null or comes from headrace_region_alloc of its stack.
 */
headrace_code headrace_post_region(struct headrace_app *app,
                                   uint32_t connection,
                                   const struct headrace_region *region,
                                   uint64_t first,
                                   uint32_t len,
                                   uint64_t tag,
                                   uint64_t cookie);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HEADRACE_H */
