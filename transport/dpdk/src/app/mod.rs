//! Between an application and its worker: the language of requests and completions, and the ring
//! that carries them.

pub mod descriptor;
pub mod ring;
