/* The C side of the floor: what bindgen reads, and what Rust cannot call by itself.
 *
 * DPDK's fast path is `static inline`, so it has no symbols. Each function here wraps one inline at
 * burst granularity: one call for up to 32 packets costs under 0.1 ns a packet. The structs are
 * flat copies of DPDK structs whose layout differs between releases; the constants are macros that
 * bindgen cannot evaluate (casts and RTE_BIT64). Lengths are bytes, counts are packets.
 *
 * Not here: anything per packet that plain field access does; see `rte_mbuf` in lib.rs.
 */
#ifndef HEADRACE_SHIM_H
#define HEADRACE_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <rte_version.h>
#include <rte_alarm.h>
#include <rte_eal.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_ethdev.h>
#include <rte_eth_ring.h>
#include <rte_telemetry.h>

/* ---- offloads: RTE_BIT64 macros ---- */
static const uint64_t RDPDK_RX_OFFLOAD_UDP_CKSUM = RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
static const uint64_t RDPDK_RX_OFFLOAD_SCATTER = RTE_ETH_RX_OFFLOAD_SCATTER;
static const uint64_t RDPDK_RX_OFFLOAD_TIMESTAMP = RTE_ETH_RX_OFFLOAD_TIMESTAMP;
static const uint64_t RDPDK_TX_OFFLOAD_IPV4_CKSUM = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
static const uint64_t RDPDK_TX_OFFLOAD_UDP_CKSUM = RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
static const uint64_t RDPDK_TX_OFFLOAD_MULTI_SEGS = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
static const uint64_t RDPDK_TX_OFFLOAD_SEND_ON_TIMESTAMP = RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP;
static const uint64_t RDPDK_RSS_IPV4_UDP = RTE_ETH_RSS_NONFRAG_IPV4_UDP;
static const uint64_t RDPDK_RSS_IPV6_UDP = RTE_ETH_RSS_NONFRAG_IPV6_UDP;

/* ---- mbuf flags: typed 64 bits, where bindgen would choose by magnitude ---- */
static const uint64_t RDPDK_MBUF_F_RX_IP_CKSUM_MASK = RTE_MBUF_F_RX_IP_CKSUM_MASK;
static const uint64_t RDPDK_MBUF_F_RX_IP_CKSUM_BAD = RTE_MBUF_F_RX_IP_CKSUM_BAD;
static const uint64_t RDPDK_MBUF_F_RX_L4_CKSUM_MASK = RTE_MBUF_F_RX_L4_CKSUM_MASK;
static const uint64_t RDPDK_MBUF_F_RX_L4_CKSUM_GOOD = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
static const uint64_t RDPDK_MBUF_F_RX_L4_CKSUM_BAD = RTE_MBUF_F_RX_L4_CKSUM_BAD;
static const uint64_t RDPDK_MBUF_F_RX_L4_CKSUM_NONE = RTE_MBUF_F_RX_L4_CKSUM_NONE;
static const uint64_t RDPDK_MBUF_F_TX_IPV4 = RTE_MBUF_F_TX_IPV4;
static const uint64_t RDPDK_MBUF_F_TX_IPV6 = RTE_MBUF_F_TX_IPV6;
static const uint64_t RDPDK_MBUF_F_TX_UDP_CKSUM = RTE_MBUF_F_TX_UDP_CKSUM;
static const uint64_t RDPDK_MBUF_F_EXTERNAL = RTE_MBUF_F_EXTERNAL;
static const uint64_t RDPDK_MBUF_F_INDIRECT = RTE_MBUF_F_INDIRECT;

/* ---- limits ---- */
/* Year << 24 | month << 16 | ..., of the headers; one ABI lasts from one November to the next. */
static const uint32_t RDPDK_VERSION = RTE_VERSION;
static const uint16_t RDPDK_PKTMBUF_HEADROOM = RTE_PKTMBUF_HEADROOM;
static const uint32_t RDPDK_MEMPOOL_CACHE_MAX = RTE_MEMPOOL_CACHE_MAX_SIZE;
/* The header of a pool with caches, of which each lcore has one. */
static const uint32_t RDPDK_MEMPOOL_HEADER = RTE_MEMPOOL_HEADER_SIZE((struct rte_mempool *)0, 1);
static const uint32_t RDPDK_MAX_ETHPORTS = RTE_MAX_ETHPORTS;
static const uint32_t RDPDK_MAX_LCORE = RTE_MAX_LCORE;
static const uint32_t RDPDK_RING_SPSC = RING_F_SP_ENQ | RING_F_SC_DEQ;
static const uint32_t RDPDK_LINK_SPEED_UNKNOWN = RTE_ETH_SPEED_NUM_UNKNOWN;

/* ---- where the C compiler puts the fields of rte_mbuf; lib.rs asserts its mirror against these.
 * offsetof sees through the anonymous unions that newer releases wrap around the same fields. ----
 * */
static const uint32_t RDPDK_MBUF_SIZE = sizeof(struct rte_mbuf);
static const uint32_t RDPDK_OFF_BUF_ADDR = offsetof(struct rte_mbuf, buf_addr);
static const uint32_t RDPDK_OFF_DATA_OFF = offsetof(struct rte_mbuf, data_off);
static const uint32_t RDPDK_OFF_REFCNT = offsetof(struct rte_mbuf, refcnt);
static const uint32_t RDPDK_OFF_NB_SEGS = offsetof(struct rte_mbuf, nb_segs);
static const uint32_t RDPDK_OFF_PORT = offsetof(struct rte_mbuf, port);
static const uint32_t RDPDK_OFF_OL_FLAGS = offsetof(struct rte_mbuf, ol_flags);
static const uint32_t RDPDK_OFF_PACKET_TYPE = offsetof(struct rte_mbuf, packet_type);
static const uint32_t RDPDK_OFF_PKT_LEN = offsetof(struct rte_mbuf, pkt_len);
static const uint32_t RDPDK_OFF_DATA_LEN = offsetof(struct rte_mbuf, data_len);
static const uint32_t RDPDK_OFF_VLAN_TCI = offsetof(struct rte_mbuf, vlan_tci);
static const uint32_t RDPDK_OFF_HASH = offsetof(struct rte_mbuf, hash);
static const uint32_t RDPDK_OFF_BUF_LEN = offsetof(struct rte_mbuf, buf_len);
static const uint32_t RDPDK_OFF_POOL = offsetof(struct rte_mbuf, pool);
static const uint32_t RDPDK_OFF_NEXT = offsetof(struct rte_mbuf, next);
static const uint32_t RDPDK_OFF_TX_OFFLOAD = offsetof(struct rte_mbuf, tx_offload);
static const uint32_t RDPDK_OFF_SHINFO = offsetof(struct rte_mbuf, shinfo);
static const uint32_t RDPDK_OFF_PRIV_SIZE = offsetof(struct rte_mbuf, priv_size);
static const uint32_t RDPDK_OFF_DYNFIELD1 = offsetof(struct rte_mbuf, dynfield1);

/* ---- process ---- */
/* The calling thread's rte_errno. */
int rdpdk_errno(void);
/* The time-stamp counter of this core, in ticks. Needs no EAL. */
uint64_t rdpdk_tsc(void);
/* The calling thread's lcore id; UINT32_MAX when it is not registered. */
uint32_t rdpdk_lcore_id(void);
/* Sends every DPDK log line to stderr; call it before rte_eal_init. 0 or -errno. */
int rdpdk_log_to_stderr(void);

/* ---- mbufs ---- */
/* One reset mbuf, or NULL when the pool is empty. */
struct rte_mbuf *rdpdk_mbuf_alloc(struct rte_mempool *pool);
/* All `count` mbufs (0) or none (negative), reset but for what their flags would have to announce:
 * tags, hashes, lengths for offloads. */
int rdpdk_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t count);
/* Frees a whole chain. */
void rdpdk_mbuf_free(struct rte_mbuf *mbuf);
/* Frees `count` chains; entries may come from several pools. */
void rdpdk_mbuf_free_bulk(struct rte_mbuf **mbufs, uint32_t count);
/* Appends the chain `tail` to `head`: 0, or -EOVERFLOW with nothing changed. */
int rdpdk_mbuf_chain(struct rte_mbuf *head, struct rte_mbuf *tail);
/* Gathers a chain in its first segment: 0, or -1 when that has no room (nothing changed). */
int rdpdk_mbuf_linearize(struct rte_mbuf *mbuf);
/* Points a direct mbuf at `length` bytes of foreign memory; its data length becomes 0. */
void rdpdk_mbuf_attach_extbuf(struct rte_mbuf *mbuf, void *address, uint64_t iova, uint16_t length,
			      struct rte_mbuf_ext_shared_info *shared);
/* Makes a frame of two fresh mbufs: `head_len` bytes of `head`, then `piece`, which is pointed at
 * `length` bytes of foreign memory. The caller has made sure that `head` has the room. */
void rdpdk_mbuf_frame(struct rte_mbuf *head, uint16_t head_len, struct rte_mbuf *piece,
		      void *address, uint64_t iova, uint16_t length,
		      struct rte_mbuf_ext_shared_info *shared);
/* Prepares `shared` with reference count 1. */
void rdpdk_ext_init(struct rte_mbuf_ext_shared_info *shared,
		    void (*free_callback)(void *address, void *opaque), void *opaque);

/* ---- rings: single producer, single consumer; each returns how many moved ---- */
uint32_t rdpdk_ring_sp_enqueue_burst(struct rte_ring *ring, struct rte_mbuf *const *mbufs,
				     uint32_t count);
uint32_t rdpdk_ring_sc_dequeue_burst(struct rte_ring *ring, struct rte_mbuf **mbufs,
				     uint32_t count);
uint32_t rdpdk_ring_count(const struct rte_ring *ring);
uint32_t rdpdk_ring_free_count(const struct rte_ring *ring);

/* ---- ports ---- */
uint16_t rdpdk_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
uint16_t rdpdk_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
/* Has the driver look at packets with offloads: how many from the front it can send. */
uint16_t rdpdk_tx_prepare(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
/* What the device's clock shows, the one that stamps its packets: 0 or -errno. An experimental API
 * of DPDK, so it is called here. */
int rdpdk_read_clock(uint16_t port, uint64_t *ticks);

/* What a device offers; flat, so that Rust never sees rte_eth_dev_info. */
struct rdpdk_port_info {
	char driver[32];
	uint64_t rx_offloads;
	uint64_t tx_offloads;
	uint64_t rss_types;
	uint32_t max_rx_pktlen;
	uint32_t min_rx_bufsize;
	uint16_t min_mtu;
	uint16_t max_mtu;
	/* Bytes of frame around the MTU, by the rule ethdev itself applies. */
	uint16_t frame_overhead;
	uint16_t rx_queues_max;
	uint16_t tx_queues_max;
	int32_t socket;
	/* The kernel's number of the interface behind the port; 0 where there is none. */
	uint32_t interface;
	/* The driver can read the device's clock; perhaps only once it is started. */
	uint8_t has_clock;
};
/* 0 or -errno. */
int rdpdk_port_info(uint16_t port, struct rdpdk_port_info *out);

struct rdpdk_port_config {
	uint64_t rx_offloads;
	uint64_t tx_offloads;
	/* 0: no receive-side scaling. */
	uint64_t rss_types;
	/* 0: the device's own default. */
	uint16_t mtu;
	uint16_t rx_queues;
	uint16_t tx_queues;
};
/* rte_eth_dev_configure: 0 or -errno. */
int rdpdk_port_configure(uint16_t port, const struct rdpdk_port_config *config);
/* Link speed in Mbit/s and whether it is up, without waiting: 0 or -errno. */
int rdpdk_port_link(uint16_t port, uint32_t *speed_mbps, int32_t *up);

/* ---- memory of applications ---- */
/* What a port belongs to; lives until EAL ends. NULL when the port does not say. */
struct rte_device *rdpdk_port_device(uint16_t port);
/* Has a device read registered pages by their process address, and no longer: 0, or -1 with
 * rte_errno. */
int rdpdk_dma_map(struct rte_device *device, void *address, size_t length);
int rdpdk_dma_unmap(struct rte_device *device, void *address, size_t length);

/* ---- rules for received packets (rte_flow) ---- */
/* Of UDP packets to `udp_port`, those to address `dst` come to `queue`; with `queues` above 0 those
 * to any address come to the first `queues`, spread by address. */
struct rdpdk_rule {
	uint8_t v6;
	/* Network order; 4 octets of IPv4, or 16. */
	uint8_t dst[16];
	uint16_t udp_port;
	uint16_t queue;
	uint16_t queues;
};
/* 0, or -errno with the driver's words in `words`, NUL-terminated within `length` bytes. */
int rdpdk_rule_add(uint16_t port, const struct rdpdk_rule *rule, char *words, uint32_t length);
/* Takes all rules of a port back; nothing where there are none. */
void rdpdk_rules_clear(uint16_t port);

/* ---- telemetry ---- */
/* Adds one unsigned value to a dictionary, under the name that this release gives the function. */
int rdpdk_tel_add_u64(struct rte_tel_data *data, const char *name, uint64_t value);
/* The same for an array of unsigned values, and for one of strings. */
int rdpdk_tel_start_u64s(struct rte_tel_data *data);
int rdpdk_tel_push_u64(struct rte_tel_data *data, uint64_t value);
int rdpdk_tel_start_texts(struct rte_tel_data *data);

#endif
