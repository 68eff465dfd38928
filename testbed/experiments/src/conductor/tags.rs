//! Tags of messages: the line of the matrix, and the number of the message in it.

use crate::workload::FlowIndex;

/// The tag of a message of a line, by its number.
#[must_use]
pub fn tag_of(flow: FlowIndex, number: u32) -> u64 {
    (u64::from(flow.0) + 1) | u64::from(number) << 32
}

/// The line of the matrix that a tag names, and the number of the message in it.
#[must_use]
pub fn message_of(tag: u64) -> Option<(FlowIndex, u32)> {
    let (line, number) = (tag & u64::from(u32::MAX), tag >> 32);
    let line = u32::try_from(line).ok()?.checked_sub(1)?;
    Some((FlowIndex(line), u32::try_from(number).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_its_message_and_0_names_none() {
        for message in [(0, 0), (7, 0), (7, 9), (u32::MAX - 1, u32::MAX)] {
            let (line, number) = (FlowIndex(message.0), message.1);
            assert_eq!(message_of(tag_of(line, number)), Some((line, number)));
        }
        assert_eq!([0, 5 << 32].map(message_of), [None, None]);
    }
}
