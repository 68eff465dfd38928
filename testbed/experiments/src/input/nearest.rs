//! The known name that a misspelt one was probably meant to be.
//!
//! Distance is Damerau-Levenshtein over lower-case letters, with `-` and `_` taken as equal. Ties
//! go to the name that comes first among the candidates.

/// The candidate nearest to `name`, unless even that one differs in more than a third of its
/// letters.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A name longer than any candidate can be near is not worth its quadratic distance.
    if name.len() > NAME_LEN_MAX {
        return None;
    }
    let folded = fold(name);
    candidates
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(&folded, &fold(known)), known))
        .filter(|&(distance, known)| distance <= 1 + known.chars().count() / 3)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, known)| known)
}

/// A help text: the nearest name if there is one, and in any case the list of all.
#[must_use]
pub fn did_you_mean(name: &str, candidates: &[&str]) -> String {
    let all = candidates.join(", ");
    match nearest(name, candidates.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? known: {all}"),
        None => format!("known: {all}"),
    }
}

const NAME_LEN_MAX: usize = 64;

fn fold(name: &str) -> String {
    name.to_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_the_name() {
        let names = ["smartt", "uno", "dcsim"];
        assert_eq!(nearest("smart", names), Some("smartt"));
        assert_eq!(nearest("SMARTT", names), Some("smartt"));
        assert_eq!(nearest("dcism", names), Some("dcsim"));
        assert_eq!(nearest("all_to_all", ["all-to-all"]), Some("all-to-all"));
    }

    #[test]
    fn a_foreign_name_suggests_nothing_but_the_list() {
        assert_eq!(nearest("quicksilver", ["uno", "smartt"]), None);
        assert_eq!(did_you_mean("quicksilver", &["uno", "smartt"]), "known: uno, smartt");
    }
}
