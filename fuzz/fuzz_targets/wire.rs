//! Messages of a client, before and in a session.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::wire::messages;

fuzz_target!(|bytes: &[u8]| {
    if let Some((first, rest)) = bytes.split_first() {
        messages(rest, first & 1 == 1);
    }
});
