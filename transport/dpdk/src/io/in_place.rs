//! Received frames that are changed in place.

/// A device whose received frames a worker may change: those that are sealed.
pub trait InPlace {
    /// All bytes of frame `index` of the received burst, to be changed; `None` when there is no
    /// such frame, or no buffer for one that lies in several or is shared.
    fn rx_edit(&mut self, index: usize) -> Option<&mut [u8]>;
}
