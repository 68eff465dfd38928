/* The wrappers that shim.h describes. One DPDK call each, but for three that
 * flatten structs. */
#define ALLOW_EXPERIMENTAL_API
#include "shim.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_flow.h>

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 0, 0)
#error "Headrace needs DPDK 22.11 or newer"
#endif

int rdpdk_errno(void)
{
	return rte_errno;
}

uint64_t rdpdk_tsc(void)
{
	return rte_rdtsc();
}

uint32_t rdpdk_lcore_id(void)
{
	return rte_lcore_id();
}

int rdpdk_log_to_stderr(void)
{
	return rte_openlog_stream(stderr) == 0 ? 0 : -EIO;
}

struct rte_mbuf *rdpdk_mbuf_alloc(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

int rdpdk_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t count)
{
	int ret = rte_mempool_get_bulk(pool, (void **)mbufs, count);
	uint32_t i;

	if (ret != 0)
		return ret;
	for (i = 0; i < count; i++) {
		struct rte_mbuf *mbuf = mbufs[i];

		/* Those in a pool are alone, unchained and direct (rte_mbuf_raw_free checks that).
		 * Of the rest, what flags announce needs no cleaning: so the header's second cache
		 * line, which another core may have had, stays untouched. */
		rte_pktmbuf_reset_headroom(mbuf);
		mbuf->port = RTE_MBUF_PORT_INVALID;
		mbuf->ol_flags = 0;
		mbuf->packet_type = 0;
		mbuf->pkt_len = 0;
		mbuf->data_len = 0;
	}
	return 0;
}

void rdpdk_mbuf_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

void rdpdk_mbuf_free_bulk(struct rte_mbuf **mbufs, uint32_t count)
{
	rte_pktmbuf_free_bulk(mbufs, count);
}

int rdpdk_mbuf_chain(struct rte_mbuf *head, struct rte_mbuf *tail)
{
	return rte_pktmbuf_chain(head, tail);
}

int rdpdk_mbuf_linearize(struct rte_mbuf *mbuf)
{
	return rte_pktmbuf_linearize(mbuf);
}

void rdpdk_mbuf_frame(struct rte_mbuf *head, uint16_t head_len, struct rte_mbuf *piece,
		      void *address, uint64_t iova, uint16_t length,
		      struct rte_mbuf_ext_shared_info *shared)
{
	rte_pktmbuf_attach_extbuf(piece, address, iova, length, shared);
	piece->data_len = length;
	piece->pkt_len = length;
	head->data_len = head_len;
	head->pkt_len = (uint32_t)head_len + length;
	head->nb_segs = 2;
	head->next = piece;
}

void rdpdk_mbuf_attach_extbuf(struct rte_mbuf *mbuf, void *address, uint64_t iova, uint16_t length,
			      struct rte_mbuf_ext_shared_info *shared)
{
	rte_pktmbuf_attach_extbuf(mbuf, address, iova, length, shared);
}

void rdpdk_ext_init(struct rte_mbuf_ext_shared_info *shared,
		    void (*free_callback)(void *address, void *opaque), void *opaque)
{
	shared->free_cb = free_callback;
	shared->fcb_opaque = opaque;
	rte_mbuf_ext_refcnt_set(shared, 1);
}

uint32_t rdpdk_ring_sp_enqueue_burst(struct rte_ring *ring, struct rte_mbuf *const *mbufs,
				     uint32_t count)
{
	return rte_ring_sp_enqueue_burst(ring, (void *const *)mbufs, count, NULL);
}

uint32_t rdpdk_ring_sc_dequeue_burst(struct rte_ring *ring, struct rte_mbuf **mbufs, uint32_t count)
{
	return rte_ring_sc_dequeue_burst(ring, (void **)mbufs, count, NULL);
}

uint32_t rdpdk_ring_count(const struct rte_ring *ring)
{
	return rte_ring_count(ring);
}

uint32_t rdpdk_ring_free_count(const struct rte_ring *ring)
{
	return rte_ring_free_count(ring);
}

uint16_t rdpdk_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	return rte_eth_rx_burst(port, queue, mbufs, count);
}

uint16_t rdpdk_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, mbufs, count);
}

int rdpdk_read_clock(uint16_t port, uint64_t *ticks)
{
	return rte_eth_read_clock(port, ticks);
}

uint16_t rdpdk_tx_prepare(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	return rte_eth_tx_prepare(port, queue, mbufs, count);
}

/* ethdev's own rule (eth_dev_get_overhead_len): believe the device when it names both limits. */
static uint16_t frame_overhead(const struct rte_eth_dev_info *info)
{
	if (info->max_mtu != UINT16_MAX && info->max_rx_pktlen > info->max_mtu)
		return (uint16_t)(info->max_rx_pktlen - info->max_mtu);
	return RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
}

struct rte_device *rdpdk_port_device(uint16_t port)
{
	struct rte_eth_dev_info info;

	return rte_eth_dev_info_get(port, &info) == 0 ? info.device : NULL;
}

int rdpdk_dma_map(struct rte_device *device, void *address, size_t length)
{
	return rte_dev_dma_map(device, address, (uint64_t)(uintptr_t)address, length);
}

int rdpdk_dma_unmap(struct rte_device *device, void *address, size_t length)
{
	return rte_dev_dma_unmap(device, address, (uint64_t)(uintptr_t)address, length);
}

int rdpdk_port_info(uint16_t port, struct rdpdk_port_info *out)
{
	struct rte_eth_dev_info info;
	uint64_t ticks;
	int ret = rte_eth_dev_info_get(port, &info);

	memset(out, 0, sizeof(*out));
	if (ret != 0)
		return ret;
	if (info.driver_name != NULL)
		snprintf(out->driver, sizeof(out->driver), "%s", info.driver_name);
	out->rx_offloads = info.rx_offload_capa;
	out->tx_offloads = info.tx_offload_capa;
	out->rss_types = info.flow_type_rss_offloads;
	out->max_rx_pktlen = info.max_rx_pktlen;
	out->min_rx_bufsize = info.min_rx_bufsize;
	out->min_mtu = info.min_mtu;
	out->max_mtu = info.max_mtu;
	out->frame_overhead = frame_overhead(&info);
	out->rx_queues_max = info.max_rx_queues;
	out->tx_queues_max = info.max_tx_queues;
	out->socket = rte_eth_dev_socket_id(port);
	out->interface = info.if_index;
	out->has_clock = rte_eth_read_clock(port, &ticks) != -ENOTSUP;
	return 0;
}

int rdpdk_port_configure(uint16_t port, const struct rdpdk_port_config *config)
{
	struct rte_eth_conf conf;

	memset(&conf, 0, sizeof(conf));
	conf.rxmode.offloads = config->rx_offloads;
	conf.rxmode.mtu = config->mtu;
	conf.txmode.offloads = config->tx_offloads;
	if (config->rss_types != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = config->rss_types;
	}
	return rte_eth_dev_configure(port, config->rx_queues, config->tx_queues, &conf);
}

#define RULE_QUEUES_MAX 128

int rdpdk_rule_add(uint16_t port, const struct rdpdk_rule *rule, char *words, uint32_t length)
{
	const struct rte_flow_attr attr = { .ingress = 1 };
	const bool spread = rule->queues > 0;
	struct rte_flow_item_ipv4 v4, v4_mask;
	struct rte_flow_item_ipv6 v6, v6_mask;
	struct rte_flow_item_udp udp, udp_mask;
	struct rte_flow_action_queue queue = { .index = rule->queue };
	uint16_t queues[RULE_QUEUES_MAX];
	struct rte_flow_action_rss rss;
	struct rte_flow_error error;
	uint16_t i;

	memset(&v4, 0, sizeof(v4));
	memset(&v4_mask, 0, sizeof(v4_mask));
	memset(&v6, 0, sizeof(v6));
	memset(&v6_mask, 0, sizeof(v6_mask));
	memset(&udp, 0, sizeof(udp));
	memset(&udp_mask, 0, sizeof(udp_mask));
	memset(&rss, 0, sizeof(rss));
	memset(&error, 0, sizeof(error));
	if (!spread) {
		memcpy(&v4.hdr.dst_addr, rule->dst, sizeof(v4.hdr.dst_addr));
		memset(&v4_mask.hdr.dst_addr, 0xff, sizeof(v4_mask.hdr.dst_addr));
		memcpy(&v6.hdr.dst_addr, rule->dst, sizeof(v6.hdr.dst_addr));
		memset(&v6_mask.hdr.dst_addr, 0xff, sizeof(v6_mask.hdr.dst_addr));
	}
	udp.hdr.dst_port = rte_cpu_to_be_16(rule->udp_port);
	udp_mask.hdr.dst_port = UINT16_MAX;
	rss.types = RTE_ETH_RSS_L3_DST_ONLY |
		    (rule->v6 ? RTE_ETH_RSS_NONFRAG_IPV6_UDP : RTE_ETH_RSS_NONFRAG_IPV4_UDP);
	rss.queue_num = RTE_MIN(rule->queues, RULE_QUEUES_MAX);
	rss.queue = queues;
	for (i = 0; i < rss.queue_num; i++)
		queues[i] = i;

	const struct rte_flow_item ip4 = { RTE_FLOW_ITEM_TYPE_IPV4, &v4, NULL, &v4_mask };
	const struct rte_flow_item ip6 = { RTE_FLOW_ITEM_TYPE_IPV6, &v6, NULL, &v6_mask };
	const struct rte_flow_item items[] = {
		{ .type = RTE_FLOW_ITEM_TYPE_ETH },
		rule->v6 ? ip6 : ip4,
		{ RTE_FLOW_ITEM_TYPE_UDP, &udp, NULL, &udp_mask },
		{ .type = RTE_FLOW_ITEM_TYPE_END },
	};
	const struct rte_flow_action actions[] = {
		{ spread ? RTE_FLOW_ACTION_TYPE_RSS : RTE_FLOW_ACTION_TYPE_QUEUE,
		  spread ? (const void *)&rss : (const void *)&queue },
		{ .type = RTE_FLOW_ACTION_TYPE_END },
	};
	if (rte_flow_create(port, &attr, items, actions, &error) != NULL)
		return 0;
	snprintf(words, length, "%s", error.message != NULL ? error.message : strerror(rte_errno));
	return -rte_errno;
}

void rdpdk_rules_clear(uint16_t port)
{
	struct rte_flow_error error;

	rte_flow_flush(port, &error);
}

int rdpdk_port_link(uint16_t port, uint32_t *speed_mbps, int32_t *up)
{
	struct rte_eth_link link;
	int ret;

	memset(&link, 0, sizeof(link));
	ret = rte_eth_link_get_nowait(port, &link);
	*speed_mbps = link.link_speed;
	*up = link.link_status == RTE_ETH_LINK_UP;
	return ret;
}

int rdpdk_tel_add_u64(struct rte_tel_data *data, const char *name, uint64_t value)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	return rte_tel_data_add_dict_uint(data, name, value);
#else
	return rte_tel_data_add_dict_u64(data, name, value);
#endif
}

int rdpdk_tel_start_u64s(struct rte_tel_data *data)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	return rte_tel_data_start_array(data, RTE_TEL_UINT_VAL);
#else
	return rte_tel_data_start_array(data, RTE_TEL_U64_VAL);
#endif
}

int rdpdk_tel_push_u64(struct rte_tel_data *data, uint64_t value)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	return rte_tel_data_add_array_uint(data, value);
#else
	return rte_tel_data_add_array_u64(data, value);
#endif
}

int rdpdk_tel_start_texts(struct rte_tel_data *data)
{
	return rte_tel_data_start_array(data, RTE_TEL_STRING_VAL);
}
