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

/// The name that `text` means: that name itself, or the only one that begins with it.
#[must_use]
pub fn meant<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut begin = candidates.into_iter().filter(|known| known.starts_with(text));
    let first = begin.next().filter(|_| text.len() >= PREFIX_LEN_MIN)?;
    let exact = [first].into_iter().chain(begin).collect::<Vec<_>>();
    let same = exact.iter().find(|known| **known == text);
    same.copied().or_else(|| (exact.len() == 1).then_some(first))
}

/// Fewer letters mean no name.
const PREFIX_LEN_MIN: usize = 2;

/// A help text: the nearest name if there is one, and the list of all where that is short or there
/// is none.
#[must_use]
pub fn did_you_mean(name: &str, candidates: &[&str]) -> String {
    let all = candidates.join(", ");
    let begin = candidates.iter().filter(|known| known.starts_with(name)).copied();
    let begin: Vec<&str> = begin.filter(|_| name.len() >= PREFIX_LEN_MIN).collect();
    if begin.len() > 1 {
        return format!("several names begin so: {}", begin.join(", "));
    }
    match nearest(name, candidates.iter().copied()) {
        Some(near) if candidates.len() > LIST_MAX => format!("did you mean `{near}`?"),
        Some(near) => format!("did you mean `{near}`? known: {all}"),
        None => format!("known: {all}"),
    }
}

const NAME_LEN_MAX: usize = 64;
/// More names than these are no help beside the one that was meant.
const LIST_MAX: usize = 8;

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
    fn the_beginning_of_one_name_means_it() {
        let names = ["smartt", "smartt-paper", "phost", "uno"];
        assert_eq!(meant("ph", names), Some("phost"));
        assert_eq!(meant("smartt", names), Some("smartt"));
        assert_eq!(meant("smart", names), None);
        assert_eq!([meant("u", names), meant("x", names), meant("", names)], [None; 3]);
    }

    #[test]
    fn a_long_list_is_left_out_where_one_name_was_meant() {
        let many: Vec<String> = (0..20).map(|at| format!("name-{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).chain(["swift"]).collect();
        assert_eq!(did_you_mean("swfit", &many), "did you mean `swift`?");
        assert!(did_you_mean("quicksilver", &many).starts_with("known: name-0"));
    }

    #[test]
    fn the_beginning_of_several_names_is_answered_with_those() {
        let help = did_you_mean("sm", &["smartt", "smartt-paper", "swift"]);
        assert_eq!(help, "several names begin so: smartt, smartt-paper");
    }

    #[test]
    fn a_foreign_name_suggests_nothing_but_the_list() {
        assert_eq!(nearest("quicksilver", ["uno", "smartt"]), None);
        assert_eq!(did_you_mean("quicksilver", &["uno", "smartt"]), "known: uno, smartt");
    }
}
