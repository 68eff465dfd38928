/* Headrace: applications in the process of the stack. docs/C_API.md says how.
 * Made by cbindgen: UPDATE_HEADER=1 cargo test -p transport-ffi --test c_api */

#ifndef HEADRACE_H
#define HEADRACE_H

#include <stdint.h>

/*
 The result of a function, or the reason of a failure. All but `HEADRACE_OK` are negative.
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
   An argument has a value that is not allowed: a null pointer, a length of 0, a tag of more
   than 46 bits.
   */
  HEADRACE_INVALID = -2,
  /*
   DPDK, memory or a device is not available; headrace_error_detail says which, and why.
   */
  HEADRACE_ENVIRONMENT = -3,
  /*
   The stack has stopped.
   */
  HEADRACE_GONE = -4,
  /*
   The application itself has opened as many connections as the configuration allows.
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
   The worker refused the request as malformed: a bug of this library.
   */
  HEADRACE_INTERNAL = -10,
  /*
   The peer has forgotten the connection. It may have delivered the message before that. The
   connection goes on.
   */
  HEADRACE_PEER_FORGOT = -11,
  /*
   The peer had no room for the connection or message through all retries.
   */
  HEADRACE_PEER_FULL = -12,
  /*
   Connections that were closed still take all places of this host, until their peers forget
   them: connect again later.
   */
  HEADRACE_TABLE_FULL = -13,
  /*
   No request with this cookie waits for its response: it has ended already, or there was none.
   */
  HEADRACE_NO_REQUEST = -14,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum headrace_code headrace_code;
#else
typedef int32_t headrace_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 The kind of an event.
 */
enum headrace_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /*
   A message or a response is acknowledged in full: `cookie` says which one.
   */
  HEADRACE_SENT = 1,
  /*
   A message, a request or a response has failed: `cookie` says which one, `code` why.
   */
  HEADRACE_FAILED = 2,
  /*
   A connection could not be opened: `connection` says which one, `code` why.
   */
  HEADRACE_REFUSED = 3,
  /*
   A message has arrived; its fields are `peer`, `tag`, `data` and `len`.
   */
  HEADRACE_MESSAGE = 4,
  /*
   A request has arrived; its fields are `peer`, `data`, `len`, and `token`, which
   headrace_respond takes.
   */
  HEADRACE_REQUEST = 5,
  /*
   The response to a request of this application has arrived; its fields are `peer`, `data`,
   `len`, and the `cookie` of the request.
   */
  HEADRACE_RESPONSE = 6,
  /*
   A message of `peer` has arrived in part, and the rest will not come.
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
 One application. One thread at a time may call functions with it.
 */
typedef struct headrace_app headrace_app;

/*
 The bytes of a message that has arrived; headrace_release gives them back.
 */
typedef struct headrace_message headrace_message;

/*
 Memory of an application that devices read in place.
 */
typedef struct headrace_region headrace_region;

/*
 DPDK and the thread that serves the applications of this process.
 */
typedef struct headrace_stack headrace_stack;

/*
 The settings of a stack. headrace_config_init fills in defaults, which may be changed then.
 */
typedef struct headrace_config {
  /*
   The size of this structure in bytes; set by headrace_config_init.
   */
  uint32_t size;
  /*
   The largest payload of a segment, 64 to 8960 bytes.
   */
  uint32_t payload_max;
  /*
   The rate of the hosts' links, bit/s.
   */
  uint64_t line_rate_bps;
  /*
   The round trip of the empty network, nanoseconds.
   */
  uint64_t base_rtt_ns;
  /*
   The shortest silence after which a segment counts as lost, nanoseconds.
   */
  uint64_t rto_min_ns;
  /*
   The most connections of an application.
   */
  uint32_t connections_max;
  /*
   The most messages of an application that are under way at a time, in each direction.
   */
  uint32_t messages_max;
  /*
   The most bytes of messages that an application has received and not released, above 0.
   */
  uint64_t memory_max;
  /*
   The most requests that wait between an application and the stack, and the most events; at
   least 2.
   */
  uint32_t ring;
  /*
   The memory that DPDK takes, in units of 2^20 bytes.
   */
  uint32_t dpdk_mb;
  /*
   Whether that memory is in hugepages: 1, it is; 0, it is not; -1, it is where the machine has
   hugepages.
   */
  int32_t hugepages;
  /*
   The names of the cards that headrace_attach_device is to open, with spaces between; null for
   none. DPDK probes cards when it starts, so headrace_start alone reads this text.
   */
  const char *cards;
  /*
   The keys that seal the packets of every application, as `headrace --security` takes them:
   psk:FILE, or psk-auth:FILE, which leaves payloads readable. Null: packets are not sealed.
   headrace_start reads this text; the stack looks every second whether the file has changed.
   */
  const char *security;
} headrace_config;

/*
 One host of a network.
 */
typedef struct headrace_address {
  /*
   The IPv4 or IPv6 address as text. All hosts of a network have addresses of one kind.
   */
  const char *ip;
  /*
   The MAC of the host, or of the next hop to it. All 0: the network is asked for the MAC of
   another host, and this host has that of its device.
   */
  uint8_t mac[6];
} headrace_address;

/*
 A device, and the hosts that it reaches. headrace_device_init fills in defaults.
 */
typedef struct headrace_device {
  /*
   The size of this structure in bytes; set by headrace_device_init.
   */
  uint32_t size;
  /*
   The place of this host in `hosts`.
   */
  uint32_t own;
  /*
   The name of the device: a PCI address that is among the configuration's `cards`
   (0000:3b:00.0), an interface of the kernel (eth1), or a virtual device
   (net_memif0,socket=name).
   */
  const char *name;
  /*
   All hosts of the network with this one among them. The number of a host is its place here.
   */
  const struct headrace_address *hosts;
  /*
   The number of hosts.
   */
  uint32_t count;
  /*
   For a memif: 1, this process connects and the other one listens; 0, this one listens.
   */
  int32_t connects;
  /*
   The longest wait for the other process, the link and the MACs of other hosts together,
   milliseconds.
   */
  uint32_t wait_ms;
  /*
   The UDP port at which all hosts receive, 1 to 65535.
   */
  uint32_t udp_port;
} headrace_device;

/*
 One event. Its kind says which of the other fields are set.
 */
typedef struct headrace_event {
  /*
   The kind of event.
   */
  headrace_kind kind;
  /*
   The reason of a failure.
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
   The number of a request.
   */
  uint64_t token;
  /*
   The time of the event, nanoseconds since the start of the stack.
   */
  uint64_t at_ns;
  /*
   The bytes, which are valid until headrace_release; null where there are none.
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
 The text of `code`. For a number that is no code, the text says so.
 */
const char *headrace_strerror(int32_t code);

/*
 The reason of the last HEADRACE_ENVIRONMENT in this thread. The text is valid until the next.
 */
const char *headrace_error_detail(void);

/*
 Fills in a configuration for two hosts on one machine.

 # Safety
 `config` is null or points to a place for a configuration.
 */
void headrace_config_init(struct headrace_config *config);

/*
 Starts DPDK and the stack's thread, which takes half a second. A process can do so once.

 # Safety
 `config` is null or points to a configuration, whose texts are null or end with a NUL. `stack`
 is null or points to a place for a pointer.
 */
headrace_code headrace_start(const struct headrace_config *config, struct headrace_stack **stack);

/*
 Stops the stack. Applications that are still attached get HEADRACE_GONE from then on. Messages
 that they have not released stay valid.

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
 Opens a connection to host `peer` and writes its number to `connection`. The number may be used
 at once.

 # Safety
 `app` is null or attached; `connection` is null or points to a place for a number.
 */
headrace_code headrace_connect(struct headrace_app *app, uint32_t peer, uint32_t *connection);

/*
 Opens a connection as `headrace_connect` does, with a label for the scheduler. Connections of
 one `collective` belong together; 0 is no collective. A lower `prio` is more urgent; 2000000 is
 that of a connection without a priority.

 # Safety
 As for `headrace_connect`.
 */
headrace_code headrace_connect_labelled(struct headrace_app *app,
                                        uint32_t peer,
                                        uint32_t collective,
                                        uint32_t prio,
                                        uint32_t *connection);

/*
 Closes a connection once all messages that were posted on it have ended.

 # Safety
 `app` is null or attached.
 */
headrace_code headrace_close(struct headrace_app *app, uint32_t connection);

/*
 Fills in the defaults of a device, which has no name and no hosts yet.

 # Safety
 `device` is null or points to a place for a device.
 */
void headrace_device_init(struct headrace_device *device);

/*
 Attaches two applications, each at a host of its own. Rings join the devices of the two hosts.

 # Safety
 `stack` is null or comes from headrace_start; `first` and `second` are null or point to places
 for pointers.
 */
headrace_code headrace_attach_pair(struct headrace_stack *stack,
                                   struct headrace_app **first,
                                   struct headrace_app **second);

/*
 Attaches an application at a device of its own: a card, an interface of the kernel, or one end
 of a memif. Waits at most `wait_ms` in all: for the link, for the other process of a memif, and
 for the MACs of other hosts that are all 0 in `hosts`. From then on this host answers requests
 for its own MAC.

 # Safety
 `stack` is null or comes from headrace_start. `device` is null or points to a device: its name
 and its hosts' addresses are null or end with a NUL, and `hosts` is null or points to `count`
 hosts. `app` is null or points to a place for a pointer.
 */
headrace_code headrace_attach_device(struct headrace_stack *stack,
                                     const struct headrace_device *device,
                                     struct headrace_app **app);

/*
 Writes at most `room` events to `events`, and returns how many. A negative result is a
 headrace_code: HEADRACE_GONE once the stack has stopped and all events were reported. Never
 waits.

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
 Posts a message of `len` bytes, which are copied. One event with `cookie` ends it, HEADRACE_SENT
 or HEADRACE_FAILED. Its receiver gets `tag`, which has at most 46 bits.

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
 Posts a request of `len` bytes, which are copied. One event with `cookie` ends it,
 HEADRACE_RESPONSE or HEADRACE_FAILED. A request has no time limit: while its peer goes on and
 does not answer, it stays open until headrace_cancel.

 # Safety
 `app` is null or attached; `bytes` is null or points to `len` bytes.
 */
headrace_code headrace_request(struct headrace_app *app,
                               uint32_t connection,
                               const void *bytes,
                               uint32_t len,
                               uint64_t cookie);

/*
 Gives up a request with `cookie` that has no response yet. After HEADRACE_OK no event of it
 comes, and a response that is under way is dropped. Where several requests have the cookie, one
 of them is given up.

 # Safety
 `app` is null or attached.
 */
headrace_code headrace_cancel(struct headrace_app *app, uint64_t cookie);

/*
 Answers the request `token` of `peer` with `len` bytes, which are copied. One event with
 `cookie` ends the response, HEADRACE_SENT or HEADRACE_FAILED.

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
 Makes a region of `len` bytes, all 0, and writes their address to `data`. Cards that were
 attached before read it in place. The system then keeps its pages in place, and no other memory
 is in them: make few and large regions, and send parts of them.

 # Safety
 `stack` is null or comes from headrace_start; `region` and `data` are null or point to places
 for pointers.
 */
headrace_code headrace_region_alloc(struct headrace_stack *stack,
                                    uint64_t len,
                                    struct headrace_region **region,
                                    void **data);

/*
 The number of uses of a region; 0 for null. A message that is under way is a use, and so is a
 failed one of which a card still has frames. The bytes of these messages must not be changed.

 # Safety
 `region` is null or comes from headrace_region_alloc.
 */
uint64_t headrace_region_uses(const struct headrace_region *region);

/*
 Gives up a region. Its memory is freed after its last use.

 # Safety
 `region` is null or comes from headrace_region_alloc, and neither it nor its bytes are used
 again.
 */
void headrace_region_free(struct headrace_region *region);

/*
 Posts a message of the `len` bytes of `region` from byte `first` on, which are not copied. One
 event with `cookie` ends it, HEADRACE_SENT or HEADRACE_FAILED. The bytes must not be changed
 before that event, nor after HEADRACE_FAILED while headrace_region_uses says that a card still
 reads them.

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
