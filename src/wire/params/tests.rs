use proptest::prelude::*;

use super::*;

#[test]
fn arrays_are_read_as_in_postgresql() {
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(parse_array("{}").unwrap(), vec![]);
    assert_eq!(parse_array("{1, 2 ,NULL}").unwrap(), vec![some("1"), some("2"), None]);
    assert_eq!(
        parse_array(r#"{"a,b","x\"y","NULL",""}"#).unwrap(),
        [some("a,b"), some("x\"y"), some("NULL"), some("")]
    );
    assert_eq!(parse_array("{{1,2},{3}}").unwrap(), vec![some("{1,2}"), some("{3}")]);
    assert_eq!(parse_array("{1,,2}"), None);
    assert_eq!(parse_array("1,2"), None);
}

#[test]
fn times_beyond_the_calendar_are_refused() {
    let read = |pg_type: Type, bytes: &[u8]| match Param::new(Some(bytes), 1, &pg_type, 1) {
        Ok(param) => param.to_text().unwrap().unwrap(),
        Err(error) => format!("{} {error}", error.sqlstate()),
    };
    let days = |days: i32| read(Type::DATE, &days.to_be_bytes());
    assert_eq!(days(0), "2000-01-01");
    assert_eq!(days(i32::MAX - 1), "22008 date out of range");
    assert_eq!(days(i32::MIN + 1), "22008 date out of range");
    assert_eq!(days(i32::MAX), "0A000 the date \"infinity\" is not supported");
    for pg_type in [Type::TIMESTAMP, Type::TIMESTAMPTZ] {
        let micros = |micros: i64| read(pg_type.clone(), &micros.to_be_bytes());
        assert!(micros(0).starts_with("2000-01-01 00:00:00"));
        assert_eq!(micros(i64::MAX - 1), "22008 timestamp out of range");
        assert_eq!(micros(i64::MIN + 1), "22008 timestamp out of range");
        assert_eq!(micros(i64::MIN), "0A000 the timestamp \"-infinity\" is not supported");
    }
    let micros = |micros: i64| read(Type::TIME, &micros.to_be_bytes());
    assert_eq!(micros(DAY_MICROS - 1), "23:59:59.999999");
    assert_eq!(micros(DAY_MICROS + 1), "22008 time out of range");
    assert_eq!(micros(-1), "22008 time out of range");
}

proptest! {
    /// Whatever the bytes are, and whatever is done with the value then.
    #[test]
    fn no_binary_parameter_panics(bytes in prop::collection::vec(any::<u8>(), 0..40), at in 0..NAMES.len(), extreme in 0..3) {
        let mut bytes = bytes;
        // Values near the ends of their range, which bytes at random never are.
        if let Some(first) = bytes.first_mut() && extreme > 0 {
            *first = if extreme == 1 { 0x7F } else { 0x80 };
        }
        let (pg_type, ..) = &NAMES[at];
        if let Ok(param) = Param::new(Some(&bytes), 1, pg_type, 1) {
            let _ = param.to_text();
            for target in [DataType::Date32, DataType::Int16, DataType::Float32, DataType::Utf8,
                DataType::Timestamp(TimeUnit::Microsecond, None), DataType::Decimal128(38, 10)] {
                let _ = param.value(&target, "Europe/Berlin");
            }
        }
    }
}

#[test]
fn wrong_text_is_told_in_postgresqls_words() {
    let message = |text: &str, target: DataType| {
        let error = from_text(text, &target, "UTC").unwrap_err();
        format!("{} {error}", error.sqlstate())
    };
    assert_eq!(message("x", DataType::Int64), "22P02 invalid input syntax for type bigint: \"x\"");
    assert_eq!(message("99999999999", DataType::Int32), "22003 value \"99999999999\" is out of range for type integer");
    assert_eq!(message("x", DataType::Boolean), "22P02 invalid input syntax for type boolean: \"x\"");
    assert_eq!(message("x", DataType::Float64), "22P02 invalid input syntax for type double precision: \"x\"");
    assert_eq!(message("x", DataType::Date32), "22007 invalid input syntax for type date: \"x\"");
}

#[test]
fn times_without_an_offset_are_of_the_sessions_zone() {
    let target = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    let micros = |text: &str, zone: &str| match from_text(text, &target, zone).unwrap() {
        ScalarValue::TimestampMicrosecond(Some(micros), _) => micros,
        other => panic!("{other:?}"),
    };
    assert_eq!(micros("1970-01-01 02:00:00", "Europe/Berlin"), 3_600_000_000);
    assert_eq!(micros("1970-01-01 02:00:00+00", "Europe/Berlin"), 7_200_000_000);
}
