//! Whether all hosts of a run would run the same: what they introduced themselves with, compared.

use experiments::plan::RunError;

use super::message::Hello;

/// Whether all hosts would run the same, in the same words of the protocol.
///
/// # Errors
/// [`RunError::Disagree`] with the host and the first thing that differs from the first host's.
pub(super) fn agree(names: &[String], hellos: &[Hello]) -> Result<(), RunError> {
    let Some(first) = hellos.first() else { return Ok(()) };
    for (name, hello) in names.iter().zip(hellos).skip(1) {
        let differs = |what: &str, here: &str, there: &str| {
            let first = &names[0];
            let text = format!("{what} is {there} on `{name}`, {here} on `{first}`");
            Err(RunError::Disagree(text))
        };
        if (hello.protocol, &hello.version) != (first.protocol, &first.version) {
            let version =
                |hello: &Hello| format!("{} (protocol {})", hello.version, hello.protocol);
            return differs("headrace", &version(first), &version(hello));
        }
        for (what, here) in &first.inputs {
            let there = hello.inputs.get(what).map_or("missing", String::as_str);
            if there != here {
                return differs(&format!("the fingerprint of the {what}"), here, there);
            }
        }
        for ((key, here), (other, there)) in first.settings.iter().zip(&hello.settings) {
            if key != other {
                return differs("a setting", key, other);
            }
            if here != there {
                return differs(&format!("setting {key}"), here, there);
            }
        }
        if first.settings.len() != hello.settings.len() {
            let [here, there] = [first, hello].map(|hello| hello.settings.len().to_string());
            return differs("the number of settings", &here, &there);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::message::PROTOCOL;
    use super::*;

    #[test]
    fn what_differs_is_named_with_both_values() {
        let names = ["a", "b"].map(str::to_owned);
        let says = |change: &dyn Fn(&mut Hello)| {
            let mut other = Hello::of_test(1);
            change(&mut other);
            agree(&names, &[Hello::of_test(0), other]).map_err(|error| error.to_string())
        };
        assert_eq!(says(&|_| {}), Ok(()));
        let setting = says(&|hello| hello.settings[0].1 = "9000".to_owned()).unwrap_err();
        assert!(setting.contains("setting mtu is 9000 on `b`, 4096 on `a`"), "{setting}");
        let version = says(&|hello| hello.version = "2".to_owned()).unwrap_err();
        let expected = format!("2 (protocol {PROTOCOL}) on `b`");
        assert!(version.contains(&expected), "{version}");
        let matrix = says(&|hello| hello.inputs.clear()).unwrap_err();
        assert!(matrix.contains("fingerprint of the matrix is missing on `b`"), "{matrix}");
        let more = says(&|hello| hello.settings.push(("x".into(), "y".into()))).unwrap_err();
        assert!(more.contains("number of settings is 2 on `b`"), "{more}");
    }
}
