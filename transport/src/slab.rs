//! temp
use crate::units::{FlowId, MsgId};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::marker::PhantomData;
/// k
pub trait Key: Copy {
    /// n
    fn make(i: u32, g: u32) -> Self;
    /// i
    fn idx(self) -> usize;
    /// g
    fn gen_(self) -> u32;
}
impl Key for FlowId {
    fn make(i: u32, g: u32) -> Self {
        FlowId::new(i, g)
    }
    fn idx(self) -> usize {
        self.index()
    }
    fn gen_(self) -> u32 {
        self.generation()
    }
}
impl Key for MsgId {
    fn make(i: u32, g: u32) -> Self {
        MsgId::new(i, g)
    }
    fn idx(self) -> usize {
        self.index()
    }
    fn gen_(self) -> u32 {
        self.generation()
    }
}
/// s
#[derive(Debug, Clone)]
pub struct Slab<K, T> {
    e: Vec<(u32, Option<T>)>,
    free: VecDeque<u32>,
    p: PhantomData<K>,
}
impl<K: Key, T> Slab<K, T> {
    /// n
    pub fn new(c: usize) -> Self {
        Self {
            e: (0..c).map(|_| (1, None)).collect(),
            free: (0..c as u32).collect(),
            p: PhantomData,
        }
    }
    /// n
    pub fn next_key(&self) -> Option<K> {
        self.free.front().map(|&i| K::make(i, self.e[i as usize].0))
    }
    /// n
    pub fn insert(&mut self, t: T) -> Option<K> {
        let i = self.free.pop_front()?;
        let s = &mut self.e[i as usize];
        s.1 = Some(t);
        Some(K::make(i, s.0))
    }
    /// n
    pub fn get(&self, k: K) -> Option<&T> {
        self.e.get(k.idx()).filter(|s| s.0 == k.gen_()).and_then(|s| s.1.as_ref())
    }
    /// n
    pub fn get_mut(&mut self, k: K) -> Option<&mut T> {
        self.e.get_mut(k.idx()).filter(|s| s.0 == k.gen_()).and_then(|s| s.1.as_mut())
    }
    /// n
    pub fn remove(&mut self, k: K) -> Option<T> {
        self.get(k)?;
        let s = &mut self.e[k.idx()];
        s.0 = if s.0 == 4095 { 1 } else { s.0 + 1 };
        self.free.push_back(k.idx() as u32);
        s.1.take()
    }
}
