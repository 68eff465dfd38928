//! The smallest embedding of the core: the example runs to its end.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

#[path = "../examples/two_endpoints.rs"]
mod example;

#[test]
fn a_message_goes_from_one_endpoint_to_the_other() {
    example::main().unwrap();
}
