//! The way between an application and its worker: two single-producer, single-consumer rings.
//!
//! Requests go one way and completions the other, as descriptors of fixed layout (`descriptor.rs`).
//! Memory that a descriptor speaks of takes a second ring in the same order; it is put there first,
//! so who sees the descriptor finds the memory. A full ring gives the request back: nothing blocks
//! and nothing is dropped. Capacities are descriptors.

use rtrb::{Consumer, Producer, RingBuffer};

use crate::descriptor::{Completion, CompletionSlot, Memory, Request, RequestSlot};
use crate::payload::Received;

/// The application's end; one thread's.
#[derive(Debug)]
pub struct AppEnd {
    requests: Producer<RequestSlot>,
    sources: Producer<Memory>,
    completions: Consumer<CompletionSlot>,
    memory: Consumer<Received>,
}

/// The worker's end.
#[derive(Debug)]
pub struct WorkerEnd {
    requests: Consumer<RequestSlot>,
    sources: Consumer<Memory>,
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
    pub fn submit(&mut self, request: Request) -> Result<(), Request> {
        let slot = RequestSlot::of(&request);
        if self.requests.is_full() || (slot.has_memory() && self.sources.is_full()) {
            return Err(request);
        }
        if let Request::Send { source, .. } = request
            && let Some(memory) = Memory::of(source)
        {
            // Room was seen above, and only this end fills the ring.
            let put = self.sources.push(memory);
            debug_assert!(put.is_ok(), "the source ring filled itself");
        }
        let put = self.requests.push(slot);
        debug_assert!(put.is_ok(), "the request ring filled itself");
        Ok(())
    }

    /// The next thing that the worker has to tell; `None` when there is none now.
    pub fn poll(&mut self) -> Option<Completion> {
        let slot = self.completions.pop().ok()?;
        let memory = if slot.has_memory() { self.memory.pop().ok() } else { None };
        slot.read(memory)
    }

    /// Requests that fit now, at least.
    #[must_use]
    pub fn room(&self) -> usize {
        self.requests.slots().min(self.sources.slots())
    }

    /// Whether the worker is gone: nothing will be answered any more.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.requests.is_abandoned()
    }
}

impl WorkerEnd {
    /// The next request; `Err` is a slot that holds none, with the connection and cookie it names.
    pub(crate) fn take(&mut self) -> Option<Result<Request, (u32, u64)>> {
        let slot = self.requests.pop().ok()?;
        let memory = if slot.has_memory() { self.sources.pop().ok() } else { None };
        Some(slot.read(memory).ok_or_else(|| slot.names()))
    }

    /// Completions that fit now, at least.
    pub(crate) fn room(&self) -> usize {
        self.completions.slots().min(self.memory.slots())
    }

    /// Tells the application; gives the completion back when the ring is full.
    pub(crate) fn tell(&mut self, completion: Completion) -> Result<(), Completion> {
        if self.room() == 0 {
            return Err(completion);
        }
        let slot = CompletionSlot::of(&completion);
        if let Completion::Delivered { memory, .. } = completion {
            let put = self.memory.push(memory);
            debug_assert!(put.is_ok(), "the memory ring filled itself");
        }
        let put = self.completions.push(slot);
        debug_assert!(put.is_ok(), "the completion ring filled itself");
        Ok(())
    }

    /// Whether the application is gone and has left no request.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.requests.is_abandoned() && self.requests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;
    use std::num::NonZeroU32;
    use std::sync::Arc;
    use transport::Instant;

    fn send(cookie: u64) -> Request {
        let source = Source::Owned(Arc::from(cookie.to_le_bytes()));
        let len = NonZeroU32::new(8).unwrap();
        Request::Send { connection: 0, source, len, tag: 0, cookie }
    }

    #[test]
    fn a_full_ring_gives_the_request_back_and_order_and_memory_are_kept() {
        let (mut app, mut worker) = app_ring(2, 2);
        assert!(app.submit(send(1)).is_ok() && app.submit(send(2)).is_ok());
        assert_eq!((app.submit(send(3)), app.room()), (Err(send(3)), 0));
        assert_eq!(worker.take(), Some(Ok(send(1))));
        assert_eq!(app.submit(send(3)), Ok(()));
        assert_eq!(worker.take(), Some(Ok(send(2))));
        assert_eq!(worker.take(), Some(Ok(send(3))));
        assert_eq!(worker.take(), None);
    }

    #[test]
    fn a_full_completion_ring_gives_the_completion_back() {
        let (mut app, mut worker) = app_ring(1, 1);
        let sent = |cookie| Completion::Sent { cookie, connection: 0, at: Instant::ZERO };
        assert_eq!(worker.tell(sent(1)), Ok(()));
        assert_eq!((worker.tell(sent(2)), worker.room()), (Err(sent(2)), 0));
        assert_eq!(app.poll(), Some(sent(1)));
        assert_eq!((worker.tell(sent(2)), app.poll()), (Ok(()), Some(sent(2))));
        assert!(!worker.is_abandoned());
        drop(app);
        assert!(worker.is_abandoned());
    }
}
