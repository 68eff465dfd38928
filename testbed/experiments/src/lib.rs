//! Experiments: from files and settings to a plan, and from a plan in virtual time to results.
//!
//! | Module | Is |
//! |---|---|
//! | [`input`] | diagnostics with file, line and column; tokens, numbers, nearest names |
//! | [`workload`], [`topology`], [`scenario`] | traffic, network, and both with faults |
//! | [`plan`] | a run wholly decided, and every setting with its source |
//! | [`forecast`] | hops, time and memory of a simulation, before it runs |
//! | [`flow_set`] | flows by their lines of the matrix, as text |
//! | [`hosts_file`] | the hosts of a real network, as a file describes them |
//! | [`conductor`] | starts flows when due and keeps their records |
//! | [`virtual_time`] | the `sim` world |
//! | [`ideal`] | the transport that is computed flow by flow: shortest remaining size first |
//! | [`capture`] | frames in a file that Wireshark reads |
//! | [`observe`] | what a run shows of itself while it goes on |
//! | [`progress`] | how far a run has come, and whether it should go on |
//! | [`tournament`] | mixes of traffic, networks and faults, drawn to compare settings |
//! | [`series`] | samples of a run over time |
//! | [`shown`] | times and sizes as people write them |
//! | [`why`] | where the time of each flow of a simulation went |
//! | [`measure`] | what a run leaves behind: summary, flows, samples, audit |
#![forbid(unsafe_code)]

pub mod capture;
pub mod conductor;
pub mod flow_set;
pub mod forecast;
pub mod hosts_file;
pub mod ideal;
pub mod input;
pub mod measure;
pub mod observe;
pub mod plan;
pub mod progress;
pub mod scenario;
pub mod series;
pub mod shown;
pub mod topology;
pub mod tournament;
pub mod virtual_time;
pub mod why;
pub mod workload;
