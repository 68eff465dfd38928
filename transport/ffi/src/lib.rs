//! Headrace for applications in C: messages, requests and responses, in the process of the stack.
//!
//! ```text
//! C program -> ffi (headrace.h) -> App -> rings -> Worker on the stack's thread -> device
//! ```
//!
//! `ffi` alone has `unsafe`: it checks pointers and hands over to `app`, `stack` and
//! `device`, which are ordinary Rust. The header is made from it by cbindgen and committed
//! (`include/headrace.h`); a test says when it is out of date. What a C program may do is in
//! docs/C_API.md.

mod app;
mod device;
pub mod ffi;
mod stack;
