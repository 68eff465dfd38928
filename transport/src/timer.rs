//! temp
use crate::time::*;
use alloc::collections::BTreeMap;
/// h
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerHandle(Instant, u64);
/// w
#[derive(Debug, Clone)]
pub struct Wheel<T> {
    m: BTreeMap<(Instant, u64), T>,
    n: u64,
}
impl<T: Copy> Wheel<T> {
    /// n
    pub fn new(_: Duration, _: usize) -> Self {
        Self { m: BTreeMap::new(), n: 0 }
    }
    /// i
    pub fn insert(&mut self, at: Instant, t: T) -> TimerHandle {
        self.n += 1;
        self.m.insert((at, self.n), t);
        TimerHandle(at, self.n)
    }
    /// c
    pub fn cancel(&mut self, h: TimerHandle) -> Option<T> {
        self.m.remove(&(h.0, h.1))
    }
    /// p
    pub fn poll_at(&self) -> Option<Instant> {
        self.m.keys().next().map(|k| k.0)
    }
    /// e
    pub fn expire(&mut self, now: Instant) -> Option<(Instant, T)> {
        let (&k, _) = self.m.iter().next()?;
        if k.0 > now {
            return None;
        }
        self.m.remove(&k).map(|t| (k.0, t))
    }
}
