//! A text of statements: read, or refused with a place that is in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::command::parse;

fuzz_target!(|bytes: &[u8]| {
    let Ok(sql) = std::str::from_utf8(bytes) else { return };
    match parse(sql) {
        Ok(statements) => {
            for parsed in statements {
                let rest: String = sql.chars().skip(parsed.position - 1).collect();
                assert!(rest.starts_with(&parsed.text));
                drop(parsed.clone());
            }
        }
        Err(error) => {
            assert_ne!(error.sqlstate(), "XX000", "{error}");
            let places = 1..=sql.chars().count() + 1;
            assert!(error.position().is_none_or(|position| places.contains(&position)), "{error}");
        }
    }
});
