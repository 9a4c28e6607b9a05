//! A row of the state table: what can be read is written again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::backfill::state::BackfillStateWithProgress;

fuzz_target!(|bytes: &[u8]| {
    let Ok(json) = std::str::from_utf8(bytes) else { return };
    if let Ok(state) = BackfillStateWithProgress::from_json(json) {
        assert_eq!(BackfillStateWithProgress::from_json(&state.to_string()), Ok(state));
    }
});
