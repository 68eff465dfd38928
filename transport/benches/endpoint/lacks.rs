//! What the core without keys and checks lacks, for `secrets.rs` and for a test of it.

/// What the copy lacks: a file of `transport`, a text that it has once, and what is there instead.
pub(crate) const LACKS: [(&str, &str, &str); 19] = [
    (
        "src/units.rs",
        "pub struct Key(pub u64);",
        "pub struct Key {}
        /// Makes one.
        #[allow(non_snake_case)]
        pub const fn Key(_: u64) -> Key { Key {} }
        impl core::ops::Deref for Key {
            type Target = (u64,);
            fn deref(&self) -> &(u64,) { &(0,) }
        }",
    ),
    ("src/units.rs", "pub const NONE: Self = Self(0);", "pub const NONE: Self = Self {};"),
    (
        "src/flow/recovery.rs",
        "pub(crate) fn is_plausible(&self, ack: &Ack, parity: u8) -> bool {",
        "pub(crate) fn is_plausible(&self, ack: &Ack, parity: u8) -> bool {
        return true;",
    ),
    (
        "src/flow/recovery.rs",
        "pub(crate) fn is_plausible_report(&self, report: &Report, parity: u8) -> bool {",
        "pub(crate) fn is_plausible_report(&self, report: &Report, parity: u8) -> bool {
        return true;",
    ),
    (PROOF, "let trusting = config.unproven_max == u32::MAX;", "let trusting = true;"),
    (PROOF, "self.unproven > 0 && self.is_unproven(flow)", "false"),
    (
        PROOF,
        "pub(super) fn matter(&self) -> bool {",
        "pub(super) fn matter(&self) -> bool {
        return false;",
    ),
    ("src/endpoint/incoming.rs", "if open != self.rx_msgs.len() {", "if false {"),
    (DATA, "    key: U64,", "    key: [u8; 0],"),
    (DATA, "key: key.0.into(),", "key: { let _ = key; [] },"),
    (DATA, "Some(Glance { key: Key(fixed.key.get())", "Some(Glance { key: Key(0)"),
    (DATA, "Key(fixed.key.get())), data))", "Key(0)), data))"),
    (DATA, "pub const LEN: u16 = 30;", "pub const LEN: u16 = 22;"),
    (ACK, "    key: U64,", "    key: [u8; 0],"),
    (ACK, "key: key.0.into(),", "key: { let _ = key; [] },"),
    (ACK, "Key(fixed.key.get()));", "Key(0));"),
    (ACK, "pub const LEN: u16 = 44;", "pub const LEN: u16 = 36;"),
    // Windows count the octets of the key, so that they hold as many segments as in the product.
    (CONFIG, "self.flow_overhead() + data::LEN +", "self.flow_overhead() + data::LEN + 8 +"),
    (CONFIG, "self.flow_overhead() + ack::LEN +", "self.flow_overhead() + ack::LEN + 8 +"),
];

const DATA: &str = "src/wire/data.rs";
const ACK: &str = "src/wire/ack.rs";
const CONFIG: &str = "src/config/lengths.rs";
const PROOF: &str = "src/endpoint/proof.rs";
