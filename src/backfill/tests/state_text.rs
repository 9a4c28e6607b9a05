//! The text of a state row, whatever is in it.

use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

use crate::backfill::state::BackfillStateWithProgress;

/// A row's JSON of which something may be wrong.
fn text() -> impl Strategy<Value = String> {
    let offset = prop_oneof![
        4 => any::<i64>().prop_map(|offset| format!("\"{offset}\"")),
        1 => any::<i128>().prop_map(|offset| format!("\"{offset}\"")),
        1 => "\"[-+]?0{0,2}[0-9]{0,25}\"",
        1 => Just("null".to_owned()),
        1 => Just("7".to_owned()),
    ];
    let state = prop_oneof![
        Just("\"Finished\"".to_owned()),
        offset.clone().prop_map(|offset| format!("{{\"Backfilling\": {offset}}}")),
        offset.clone().prop_map(|offset| format!("{{\"SourceCachingUp\": {offset}}}")),
        any::<String>(),
    ];
    let row = ("0{0,1}[0-9]{1,25}", state, offset, any::<bool>()).prop_map(|(rows, state, target, apart)| {
        let text = format!("{{\"num_consumed_rows\": {rows}, \"state\": {state}, \"target_offset\": {target}}}");
        if apart { text.replace(' ', "") } else { text }
    });
    let cut = (row.clone(), any::<proptest::sample::Index>(), any::<char>()).prop_map(|(row, at, with)| {
        let mut chars: Vec<char> = row.chars().collect();
        let at = at.index(chars.len());
        chars[at] = with;
        chars.into_iter().collect()
    });
    prop_oneof![3 => row, 2 => cut, 1 => any::<String>()]
}

proptest! {
    /// There is a fast way to read a row's own form: it reads nothing that JSON's reader wouldn't, and nothing otherwise.
    #[test]
    fn both_ways_to_read_a_state_agree(text in text()) {
        let state = BackfillStateWithProgress::from_json(&text).ok();
        prop_assert_eq!(serde_json::from_str::<BackfillStateWithProgress>(&text).ok(), state);
        if let Some(state) = state {
            prop_assert_eq!(BackfillStateWithProgress::from_json(&state.to_string()), Ok(state));
        }
    }
}
