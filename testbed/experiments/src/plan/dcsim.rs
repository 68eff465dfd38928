//! Whether the parts of a run fit DCsim's hosts: switches that neither trim nor pause, room for
//! data beside the small queues, a delay that the network can keep, a window that never binds.

use fabric::QdiscKind;
use transport::sched::SchedKind;
use transport::sched::dcsim::DcSim;
use transport::{Bytes, Config, Duration, Rng};

use super::{Draft, RunError};
use crate::input::InputError;
use crate::topology::{FabricParams, FatTreeSpec};

/// Refuses what DCsim cannot work with; nothing of another scheduler's.
pub(super) fn check(
    draft: &Draft,
    config: &Config,
    fabric: &FabricParams,
    topology: &FatTreeSpec,
) -> Result<(), RunError> {
    if fabric.qdisc == QdiscKind::DcSim || config.sched == SchedKind::DcSim {
        check_ports(draft, config, fabric, topology)?;
    }
    if config.sched == SchedKind::DcSim {
        check_switches(draft, fabric)?;
        check_delay(draft, config)?;
    }
    Ok(())
}

fn refused(key: &str, found: String, expected: String, help: &str) -> RunError {
    InputError::new(found, expected).at(key, 0, 0).help(help).into()
}

fn check_switches(draft: &Draft, fabric: &FabricParams) -> Result<(), RunError> {
    let expected = || "switches that neither trim nor pause, with sched=dcsim".to_owned();
    if draft.trim {
        let help = "leave --trim out, or say --trim off";
        return Err(refused("trim", "`on`".to_owned(), expected(), help));
    }
    let qdiscs = [Some(fabric.qdisc), fabric.border_qdisc];
    let wrong = [QdiscKind::Lossless, QdiscKind::Trim, QdiscKind::PhantomTrim];
    match qdiscs.into_iter().flatten().find(|qdisc| wrong.contains(qdisc)) {
        None => Ok(()),
        Some(qdisc) => {
            let help = "use --set switch.qdisc=dcsim";
            Err(refused("switch.qdisc", format!("`{}`", qdisc.name()), expected(), help))
        }
    }
}

/// B packets of each small class and two of data fit every buffer, and the bucket is no larger
/// than B.
fn check_ports(
    draft: &Draft,
    config: &Config,
    fabric: &FabricParams,
    topology: &FatTreeSpec,
) -> Result<(), RunError> {
    let params = &fabric.qdiscs.dcsim;
    if params.bucket > params.queue {
        let expected = format!("1 to switch.dcsim.queue, {}", params.queue);
        let help = "lower it, or raise switch.dcsim.queue";
        return Err(refused("switch.dcsim.bucket", params.bucket.to_string(), expected, help));
    }
    if fabric.qdisc != QdiscKind::DcSim {
        return Ok(());
    }
    let small = 3 * u64::from(params.queue) * config.probe_len().0;
    let least = small + 2 * config.packet_max().0;
    let mut buffers = vec![("switch.queue".to_owned(), fabric.buffer)];
    for (tier, spec) in topology.tier.iter().enumerate() {
        buffers.push((format!("topology, Queue_Down of tier {tier}"), spec.queue_down));
        buffers.push((format!("topology, Queue_Up of tier {tier}"), spec.queue_up));
    }
    let set = draft.switch.queue.is_some();
    let mut short = buffers.into_iter().filter(|(key, _)| set == (key == "switch.queue"));
    let short = short.find(|(_, buffer)| buffer.is_some_and(|buffer| buffer < Bytes(least)));
    let Some((key, Some(buffer))) = short else { return Ok(()) };
    let found = format!("{} bytes", buffer.0);
    let expected = format!("at least {least} bytes: {small} for small packets, and two of data");
    let help = format!("raise it with --set switch.queue={least}, or lower switch.dcsim.queue");
    Err(refused(&key, found, expected, &help))
}

/// RTT_max is longer than an idle round trip, and the window lets as much be sent in it.
fn check_delay(draft: &Draft, config: &Config) -> Result<(), RunError> {
    let rtt_max = DcSim::new(&config.sched_setup(Rng::new(0))).rtt_max();
    let params = &config.sched_params.dcsim;
    let slot = config.line_rate.time_for(config.mtu());
    let waits = slot * u64::from(params.bucket.max(1));
    let least = params.rtt_p.unwrap_or(Duration::ZERO) + waits;
    if rtt_max < least {
        let expected = format!("at least {least}: RTT_p, and what a full bucket lets go at once");
        let help = "raise it, or leave it out: paper";
        return Err(refused("sched.dcsim.rtt_max", rtt_max.to_string(), expected, help));
    }
    let cc = config.cc;
    let path = config.default_path();
    let window = path.bdp().scaled(f64::from(cc.window_max(&config.cc_params)));
    let wanted = config.line_rate.bytes_in(rtt_max);
    if window < wanted {
        let found = format!("`{}`, whose window is {} bytes at most", cc.name(), window.0);
        let expected = format!("a window of {} bytes, what a host sends in RTT_max", wanted.0);
        let help = "use --cc fixed, with cc.fixed.bdps as the preset has it";
        return Err(refused("cc", found, expected, help));
    }
    debug_assert!(!draft.trim, "checked before");
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::plan::{Draft, Origin, Plan};
    use crate::topology::by_name;
    use crate::workload::{FlowSpec, Matrix};
    use transport::{Bytes, HostId};

    fn refusal(set: &[(&str, &str)]) -> String {
        let mut draft = Draft::default();
        draft.set_transport("dcsim", Origin::Default).unwrap();
        for (key, value) in set {
            match *key {
                "trim" => draft.set_trim(*value == "on", Origin::Set),
                "cc" => draft.set_cc(value, Origin::Set).unwrap(),
                _ => {
                    if let Err(error) = draft.set(key, value, Origin::Set) {
                        return error.to_string();
                    }
                }
            }
        }
        let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(1000)));
        let plan = Plan::new(&draft, matrix, &by_name("dcsim").unwrap());
        plan.map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn what_does_not_fit_is_refused_with_key_value_and_expectation() {
        assert_eq!(refusal(&[]), "");
        for (set, words) in [
            (&[("trim", "on")][..], &["trim", "`on`", "neither trim nor pause"][..]),
            (&[("switch.qdisc", "lossless")], &["switch.qdisc", "`lossless`", "neither"]),
            (&[("switch.dcsim.queue", "0")], &["switch.dcsim.queue=0", "1..=1024"]),
            (&[("switch.dcsim.bucket", "13")], &["switch.dcsim.bucket", "13", "12"]),
            (&[("sched.dcsim.fraction", "1.5")], &["fraction=1.5", "0.0..=1.0"]),
            (&[("sched.dcsim.rtt_max", "5us")], &["sched.dcsim.rtt_max", "5.000us", "RTT_p"]),
            (&[("sched.dcsim.rtt_max", "soon")], &["rtt_max=soon", "paper, tight"]),
            (&[("switch.queue", "10000")], &["switch.queue", "10000 bytes", "two of data"]),
            (&[("cc.fixed.bdps", "0.5")], &["cc", "`fixed`", "RTT_max"]),
            (&[("cc", "smartt")], &["cc", "`smartt`", "RTT_max"]),
        ] {
            let said = refusal(set);
            for word in words {
                assert!(said.contains(word), "{set:?}: no `{word}` in `{said}`");
            }
        }
    }
}
