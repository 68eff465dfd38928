//! The way between an application and its worker: two single-producer, single-consumer rings.
//!
//! Requests go one way and completions the other, as descriptors of fixed layout (`descriptor.rs`).
//! Memory that a descriptor refers to takes a second ring in the same order; it is put there first,
//! so a reader of the descriptor finds the memory. A full ring gives the request back: nothing
//! blocks and nothing is dropped. Capacities are descriptors.

use rtrb::{Consumer, Producer, RingBuffer};

use crate::app::descriptor::{Completion, CompletionSlot, Request, RequestSlot, SourceMemory};
use crate::payload::memory::Received;
use crate::payload::message_bytes::MessageBytes;

/// The application's end; one thread's.
#[derive(Debug)]
pub struct AppEnd {
    requests: Producer<RequestSlot>,
    sources: Producer<SourceMemory>,
    completions: Consumer<CompletionSlot>,
    memory: Consumer<Received>,
}

/// The worker's end.
#[derive(Debug)]
pub struct WorkerEnd {
    requests: Consumer<RequestSlot>,
    sources: Consumer<SourceMemory>,
    completions: Producer<CompletionSlot>,
    memory: Producer<Received>,
}

/// Both ends of rings that hold `requests` and `completions`, at least 1 each.
#[must_use]
pub fn app_ring(requests: usize, completions: usize) -> (AppEnd, WorkerEnd) {
    let (requests, completions) = (requests.max(1), completions.max(1));
    let (request_tx, request_rx) = RingBuffer::new(requests);
    let (source_tx, source_rx) = RingBuffer::new(requests);
    let (completion_tx, completion_rx) = RingBuffer::new(completions);
    let (memory_tx, memory_rx) = RingBuffer::new(completions);
    let app = AppEnd {
        requests: request_tx,
        sources: source_tx,
        completions: completion_rx,
        memory: memory_rx,
    };
    let worker = WorkerEnd {
        requests: request_rx,
        sources: source_rx,
        completions: completion_tx,
        memory: memory_tx,
    };
    (app, worker)
}

impl AppEnd {
    /// Hands `request` to the worker.
    ///
    /// # Errors
    /// Gives it back when the ring is full: poll completions and try again.
    #[inline]
    pub fn submit(&mut self, request: Request) -> Result<(), Request> {
        if self.requests.is_full() || (request.has_memory() && self.sources.is_full()) {
            return Err(request);
        }
        // The slot is written in place: a processor stalls when memory that was just written in
        // words is moved in vectors.
        let put = self.requests.write_chunk_uninit(1);
        debug_assert!(put.is_ok(), "room was seen, and only this end fills the ring");
        let Ok(place) = put else { return Err(request) };
        let slot = RequestSlot::of(&request);
        if let Request::Send { source, .. } = request
            && let Some(memory) = SourceMemory::of(source)
        {
            let put = self.sources.push(memory);
            debug_assert!(put.is_ok(), "the source ring filled itself");
        }
        // Here the worker sees it, after the memory.
        place.fill_from_iter([slot]);
        Ok(())
    }

    /// The worker's next completion; `None` when there is none now.
    #[inline]
    pub fn poll(&mut self) -> Option<Completion> {
        let slot = self.completions.peek().ok()?;
        let memory = if slot.has_memory() { self.memory.pop().ok() } else { None };
        let completion = slot.read(memory);
        let taken = self.completions.pop();
        debug_assert!(taken.is_ok(), "it was there");
        completion
    }

    /// Requests that fit now, at least.
    #[must_use]
    pub fn room(&self) -> usize {
        self.requests.slots().min(self.sources.slots())
    }

    /// Whether the worker has ended, so that no request will be answered any more.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.requests.is_abandoned()
    }
}

impl WorkerEnd {
    /// The next request and the memory that belongs to it; both stay until they are taken.
    #[inline]
    pub(crate) fn peek(&self) -> Option<(&RequestSlot, Option<&SourceMemory>)> {
        let slot = self.requests.peek().ok()?;
        let memory = if slot.has_memory() { self.sources.peek().ok() } else { None };
        Some((slot, memory))
    }

    /// Takes the next request away; its source, if it has one.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<MessageBytes> {
        let slot = self.requests.peek().ok()?;
        let memory = if slot.has_memory() { self.sources.pop().ok() } else { None };
        let source = slot.source(memory);
        let taken = self.requests.pop();
        debug_assert!(taken.is_ok(), "it was there");
        source
    }

    /// Completions that fit now, at least.
    pub(crate) fn room(&self) -> usize {
        self.completions.slots().min(self.memory.slots())
    }

    /// Whether the application has ended, so that no completion will be read any more.
    pub(crate) fn is_unread(&self) -> bool {
        self.completions.is_abandoned()
    }

    /// Passes `completions` to the application, as many as there is room for; they are there for it
    /// at once.
    #[inline]
    pub(crate) fn complete(&mut self, completions: impl ExactSizeIterator<Item = Completion>) {
        let chunk = self.completions.write_chunk_uninit(completions.len());
        debug_assert!(chunk.is_ok(), "room was seen, and only this end fills the ring");
        let Ok(chunk) = chunk else { return };
        chunk.fill_from_iter(completions.map(|completion| {
            let slot = CompletionSlot::of(&completion);
            if let Completion::Delivered { memory, .. } = completion {
                let put = self.memory.push(memory);
                debug_assert!(put.is_ok(), "the memory ring filled itself");
            }
            slot
        }));
    }

    /// Whether the application has ended and has left no request.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.requests.is_abandoned() && self.requests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::message_bytes::MessageBytes;
    use std::num::NonZeroU32;
    use std::sync::Arc;
    use transport::Instant;

    fn send(cookie: u64) -> Request {
        let source = MessageBytes::Owned(Arc::from(cookie.to_le_bytes()));
        let len = NonZeroU32::new(8).unwrap();
        Request::Send { connection: 0, source, len, tag: 0, cookie }
    }

    /// The next request, as it was submitted.
    fn taken(worker: &mut WorkerEnd) -> Option<Request> {
        let asked = worker.peek().and_then(|(slot, memory)| slot.read(memory))?;
        Some(asked.with(worker.take()))
    }

    #[test]
    fn a_full_ring_gives_the_request_back_and_order_and_memory_are_kept() {
        let (mut app, mut worker) = app_ring(2, 2);
        assert!(app.submit(send(1)).is_ok() && app.submit(send(2)).is_ok());
        assert_eq!((app.submit(send(3)), app.room()), (Err(send(3)), 0));
        assert_eq!(taken(&mut worker), Some(send(1)));
        assert_eq!(app.submit(send(3)), Ok(()));
        assert_eq!(taken(&mut worker), Some(send(2)));
        assert_eq!(taken(&mut worker), Some(send(3)));
        assert_eq!(taken(&mut worker), None);
    }

    #[test]
    fn completions_come_in_order_and_as_many_as_fit() {
        let (mut app, mut worker) = app_ring(1, 2);
        let sent = |cookie| Completion::Sent { cookie, connection: 0, at: Instant::ZERO };
        worker.complete([sent(1), sent(2)].into_iter());
        assert_eq!(worker.room(), 0);
        assert_eq!(app.poll(), Some(sent(1)));
        assert_eq!(worker.room(), 1);
        worker.complete([sent(3)].into_iter());
        assert_eq!([app.poll(), app.poll(), app.poll()], [Some(sent(2)), Some(sent(3)), None]);
        assert!(!worker.is_abandoned());
        drop(app);
        assert!(worker.is_abandoned());
    }
}
