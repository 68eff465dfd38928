//! Placeholder until the binding lands.
fn main() {}
