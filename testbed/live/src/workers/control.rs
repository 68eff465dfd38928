//! The application of a process's hosts: starts flows as the conductor says and checks what
//! arrives.
//!
//! Runs on one thread, in `vdev` on the switch's, and reaches the hosts' workers through their
//! rings. Payload is a pattern of (seed, tag), so every message can be verified without keeping a
//! copy. The checksums of delivered messages are compared after the run, because computing the
//! expected ones takes long enough to delay polls. Instants are network time.

use std::collections::VecDeque;

use experiments::conductor::begun::begun;
use experiments::conductor::tags::message_of;
use experiments::conductor::{Conductor, PostOrder};
use experiments::plan::Plan;
use experiments::workload::FlowIndex;
use transport::{HostId, Instant};
use transport_dpdk::{AppEnd, Completion, MessageBytes, Pattern, Request};

use super::hosts::Polled;

/// Completions taken from one host in a poll.
const COMPLETIONS: usize = 64;

/// A delivered message, to be verified.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    tag: u64,
    len: u32,
    checksum: u64,
    /// The host at which it was delivered, and the host that is said to have sent it.
    ends: (HostId, HostId),
}

/// One host's application.
#[derive(Debug)]
struct App {
    ring: AppEnd,
    /// Requests that found the ring full.
    waiting: VecDeque<Request>,
    /// Connections opened so far.
    opened: u32,
}

/// The applications of all hosts.
#[derive(Debug)]
pub(crate) struct Control<'a> {
    plan: &'a Plan,
    conductor: Conductor<'a>,
    /// Applications of hosts with successive numbers.
    apps: Vec<App>,
    /// The number of the first host with an application in `apps`.
    first: u32,
    /// For each connection of the conductor: its number at its sender, once open.
    connections: Vec<Option<u32>>,
    deliveries: Vec<Delivery>,
}

impl<'a> Control<'a> {
    /// A control of which no flow has started; `rings[h]` leads to host `first + h`, and
    /// `conductor` starts flows of those hosts alone.
    pub(crate) fn new(
        plan: &'a Plan,
        conductor: Conductor<'a>,
        (first, rings): (HostId, Vec<AppEnd>),
    ) -> Self {
        let app = |ring| App { ring, waiting: VecDeque::new(), opened: 0 };
        Self {
            connections: vec![None; conductor.connections()],
            apps: rings.into_iter().map(app).collect(),
            deliveries: Vec::new(),
            first: first.0,
            conductor,
            plan,
        }
    }

    /// Starts flows that are due and takes reports of hosts; true when there was anything to do.
    pub(crate) fn poll(&mut self, now: Instant) -> bool {
        let mut any = false;
        for host in 0..self.apps.len() {
            for _ in 0..COMPLETIONS {
                let Some(completion) = self.apps[host].ring.poll() else { break };
                any = true;
                self.complete(host, completion);
            }
        }
        while let Some(order) = self.conductor.next_order(now) {
            any = true;
            self.post(&order);
        }
        for app in &mut self.apps {
            any |= app.submit();
        }
        any
    }

    /// Takes what the `hosts` have reported until their threads ended and what they still had to
    /// report, and notes the messages that are not whole.
    pub(crate) fn end(&mut self, hosts: &mut [Polled]) {
        // Each turn passes on some of what waits, or sums some of it, and no more comes. A ring
        // that is full takes nothing before it is read.
        loop {
            for host in 0..self.apps.len() {
                while let Some(completion) = self.apps[host].ring.poll() {
                    self.complete(host, completion);
                }
            }
            let hosts = hosts.iter_mut().flat_map(|polled| &mut polled.hosts);
            if hosts.map(|host| host.report_waiting()).sum::<usize>() == 0 {
                break;
            }
        }
        for host in hosts.iter().flat_map(|polled| &polled.hosts) {
            begun(host.endpoint()).for_each(|message| self.conductor.on_begun(message));
        }
    }

    fn post(&mut self, order: &PostOrder) {
        let path = self.plan.path(order.src, order.dst);
        let app = &mut self.apps[(order.src.0 - self.first) as usize];
        let known = &mut self.connections[order.connection as usize];
        let connection = *known.get_or_insert_with(|| {
            let connection = app.opened;
            app.opened += 1;
            let label = self.plan.matrix.flows[order.flow.index()].label();
            app.waiting.push_back(Request::Open { connection, peer: order.dst, path, label });
            connection
        });
        let seed = self.plan.seed;
        for (number, len) in order.messages().enumerate() {
            let tag = order.tag_of(number);
            let source = MessageBytes::Pattern(Pattern { seed, tag });
            let cookie = cookie(order.flow, len.get());
            app.waiting.push_back(Request::Send { connection, source, len, tag, cookie });
        }
        if order.last {
            app.waiting.push_back(Request::Close { connection });
        }
    }

    fn complete(&mut self, host: usize, completion: Completion) {
        match completion {
            Completion::Sent { cookie, at, .. } => {
                let (flow, len) = parts(cookie);
                self.conductor.on_acked(flow, u64::from(len), at);
            }
            Completion::Failed { cookie, reason, .. } => {
                tracing::debug!(host, %reason, "a message failed");
                self.conductor.on_failed(parts(cookie).0);
            }
            Completion::Refused { reason, .. } => {
                tracing::warn!(host, %reason, "a flow was refused");
            }
            Completion::Delivered { from, tag, checksum, memory, at } => {
                let len = u32::try_from(memory.len()).unwrap_or(u32::MAX);
                let to = HostId(self.first + u32::try_from(host).unwrap_or(0));
                self.deliveries.push(Delivery { tag, len, checksum, ends: (from, to) });
                if let Some((flow, _)) = message_of(tag) {
                    self.conductor.on_delivered(flow, u64::from(len), at);
                }
            }
            Completion::Closed { .. } => {}
            // The sender's end of the flow has failed, or will.
            Completion::Aborted { from, .. } => {
                tracing::debug!(host, %from, "a message was aborted");
            }
        }
    }

    /// The state of the matrix.
    pub(crate) fn conductor(&self) -> &Conductor<'a> {
        &self.conductor
    }

    /// The conductor, from which the records are taken when all is over.
    pub(crate) fn conductor_mut(&mut self) -> &mut Conductor<'a> {
        &mut self.conductor
    }

    /// Messages that were delivered with bytes, or between hosts, that are not those of the flow
    /// that their tag names. O(bytes delivered), about 10 GB a second.
    pub(crate) fn wrong_deliveries(&self) -> u64 {
        let flows = &self.plan.matrix.flows;
        let is_wrong = |delivery: &&Delivery| {
            let flow = message_of(delivery.tag).map(|(flow, _)| flow.index());
            let Some(spec) = flow.and_then(|flow| flows.get(flow)) else { return true };
            let pattern = Pattern { seed: self.plan.seed, tag: delivery.tag };
            delivery.ends != (spec.src, spec.dst)
                || delivery.checksum != pattern.checksum(delivery.len)
        };
        self.deliveries.iter().filter(is_wrong).count() as u64
    }
}

impl App {
    /// Hands over as many requests as the ring takes.
    fn submit(&mut self) -> bool {
        let mut any = false;
        while let Some(request) = self.waiting.pop_front() {
            if let Err(request) = self.ring.submit(request) {
                self.waiting.push_front(request);
                break;
            }
            any = true;
        }
        any
    }
}

/// The cookie of a message: its flow and its length, which its completion brings back.
fn cookie(flow: FlowIndex, len: u32) -> u64 {
    u64::from(flow.0) << 32 | u64::from(len)
}

fn parts(cookie: u64) -> (FlowIndex, u32) {
    let low = cookie & u64::from(u32::MAX);
    let narrow = |half| u32::try_from(half).unwrap_or(u32::MAX);
    (FlowIndex(narrow(cookie >> 32)), narrow(low))
}
