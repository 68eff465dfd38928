//! The loop around an endpoint and a device: the example runs to its end, with the same bytes.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

#[path = "../examples/device_loop.rs"]
mod example;

#[test]
fn a_message_crosses_a_device_whole() {
    example::main().unwrap();
}
