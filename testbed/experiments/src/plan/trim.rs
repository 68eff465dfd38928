//! Whether ports of switches trim: a preset's discipline follows `--trim`.

use fabric::QdiscKind;

use super::draft::Origin;
use super::{Draft, RunError};
use crate::input::InputError;

/// Where `trim` was set by hand, makes the ports for which the preset chose a discipline trim, or
/// not. A discipline that was set by hand stays.
pub(super) fn fit(draft: &mut Draft) {
    let (trim, origin) = (draft.trim, draft.origin("trim"));
    let chosen: Vec<_> = chosen_by_preset(draft).collect();
    for (key, chosen) in chosen {
        let fitting = with_trim(chosen, trim).filter(|qdisc| *qdisc != chosen);
        if let Some(qdisc) = fitting {
            draft.choose(key, qdisc.name(), origin.clone());
        }
    }
}

/// Refuses ports that are to trim where the preset's discipline has no form that does.
pub(super) fn check(draft: &Draft) -> Result<(), RunError> {
    let mut rigid = chosen_by_preset(draft).filter(|(_, qdisc)| with_trim(*qdisc, true).is_none());
    match rigid.next() {
        Some((key, qdisc)) if draft.trim => Err(refused(draft, key, qdisc)),
        _ => Ok(()),
    }
}

/// The disciplines that the preset chose for ports of switches, where `trim` was set by hand.
fn chosen_by_preset(draft: &Draft) -> impl Iterator<Item = (&'static str, QdiscKind)> {
    let is_preset = |key: &str| matches!(draft.origin(key), Origin::Transport(_));
    let by_hand = draft.is_given("trim");
    let switch = &draft.switch;
    let keys = [("switch.qdisc", switch.qdisc), ("switch.border_qdisc", switch.border_qdisc)];
    let chosen = keys.map(|(key, qdisc)| Some((key, qdisc.filter(|_| by_hand && is_preset(key))?)));
    chosen.into_iter().flatten()
}

/// The form of a discipline that trims, or the one that does not; `None` where there is none.
const fn with_trim(qdisc: QdiscKind, trim: bool) -> Option<QdiscKind> {
    match (qdisc, trim) {
        (QdiscKind::Ecn | QdiscKind::Trim, true) => Some(QdiscKind::Trim),
        (QdiscKind::Ecn | QdiscKind::Trim, false) => Some(QdiscKind::Ecn),
        (QdiscKind::PhantomEcn | QdiscKind::PhantomTrim, true) => Some(QdiscKind::PhantomTrim),
        (QdiscKind::PhantomEcn | QdiscKind::PhantomTrim, false) => Some(QdiscKind::PhantomEcn),
        _ => None,
    }
}

fn refused(draft: &Draft, key: &str, chosen: QdiscKind) -> RunError {
    let found = format!("`on`, by {}", draft.origin("trim"));
    let expected = format!(
        "`off`: {key} is `{}`, by {}, which has no form that trims",
        chosen.name(),
        draft.origin(key)
    );
    InputError::new(found, expected).at("trim", 0, 0).help("leave trim out, or off").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(transport: &str, trim: bool, set: &[(&str, &str)]) -> Result<Draft, RunError> {
        let mut draft = Draft::default();
        draft.set_transport(transport, Origin::Set).unwrap();
        draft.set_trim(trim, Origin::Flag("trim"));
        set.iter().for_each(|(key, value)| draft.set(key, value, Origin::Set).unwrap());
        fit(&mut draft);
        check(&draft).map(|()| draft)
    }

    #[test]
    fn ports_of_a_preset_trim_as_the_flag_says_and_ports_set_by_hand_as_they_were_set() {
        let qdisc = |transport, trim, set: &[(&str, &str)]| {
            fitted(transport, trim, set).unwrap().switch.qdisc
        };
        assert_eq!(qdisc("auto", false, &[]), Some(QdiscKind::PhantomEcn));
        assert_eq!(qdisc("auto", true, &[]), Some(QdiscKind::PhantomTrim));
        assert_eq!(qdisc("uno", true, &[]), Some(QdiscKind::PhantomTrim));
        assert_eq!(qdisc("dcqcn-hpcc", true, &[]), Some(QdiscKind::Trim));
        assert_eq!(qdisc("smartt", false, &[]), None, "by trim");
        let own = &[("switch.qdisc", "phantom-trim")];
        assert_eq!(qdisc("uno", false, own), Some(QdiscKind::PhantomTrim));
    }

    #[test]
    fn ports_that_cannot_trim_are_refused_by_name() {
        let error = fitted("roce", true, &[]).unwrap_err().to_string();
        for part in ["trim", "`on`, by flag --trim", "`lossless`, by transport roce"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(fitted("roce", false, &[]).is_ok());
    }
}
