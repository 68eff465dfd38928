//! All figures on one page, which needs neither network nor other files.

use super::Numbers;
use crate::failure::Failure;

/// The page, with a place for the numbers.
const TEMPLATE: &str = include_str!("html/page.html");
/// That place.
const PLACE: &str = "/*NUMBERS*/";

/// The page of `figures`.
///
/// # Errors
/// When the numbers cannot be written as JSON, which they have no reason to.
pub(super) fn page(figures: &[Numbers]) -> Result<String, Failure> {
    let numbers = serde_json::to_string(figures).map_err(std::io::Error::from)?;
    // Text in a script ends at the first `</`; in JSON a `<` may be written by its number.
    let numbers = numbers.replace('<', "\\u003c");
    Ok(TEMPLATE.replacen(PLACE, &numbers, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_contains_stays_data() {
        let name = "</script><b>";
        let numbers = Numbers {
            schema: 1,
            name: name.to_owned(),
            of: String::new(),
            about: String::new(),
            claim: String::new(),
            runs: Vec::new(),
            invalid: Vec::new(),
            plots: Vec::new(),
        };
        let text = page(&[numbers]).unwrap();
        assert!(!text.contains(name) && !text.contains(PLACE));
        let data = text.split_once("id=\"numbers\">").unwrap().1.split_once("</script>").unwrap().0;
        let read: Vec<Numbers> = serde_json::from_str(data).unwrap();
        assert_eq!(read[0].name, name);
        // Nothing is fetched: the only address is the name of a language.
        let addresses = text.match_indices("http").count();
        assert_eq!(addresses, text.matches("http://www.w3.org/2000/svg").count());
    }
}
