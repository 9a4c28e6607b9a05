//! Names of Arrow's types in a text of DataFusion as SQL's.

/// Types that stand alone.
const PLAIN: [(&str, &str); 26] = [
    ("Boolean", "boolean"),
    ("Int8", "smallint"),
    ("Int16", "smallint"),
    ("Int32", "integer"),
    ("Int64", "bigint"),
    ("UInt8", "smallint"),
    ("UInt16", "integer"),
    ("UInt32", "bigint"),
    ("UInt64", "bigint"),
    ("Float16", "real"),
    ("Float32", "real"),
    ("Float64", "double precision"),
    ("Utf8", "text"),
    ("Utf8View", "text"),
    ("LargeUtf8", "text"),
    ("Binary", "bytea"),
    ("LargeBinary", "bytea"),
    ("BinaryView", "bytea"),
    ("Date32", "date"),
    ("Date64", "date"),
    ("Null", "unknown"),
    ("TimestampMicrosecond", "timestamp without time zone"),
    ("TimestampNanosecond", "timestamp without time zone"),
    ("IntervalMonthDayNano", "interval"),
    ("Time64Microsecond", "time without time zone"),
    ("Time64Nanosecond", "time without time zone"),
];

/// Types that have more in brackets.
const BRACKETED: [(&str, &str); 15] = [
    ("Interval", "interval"),
    ("Duration", "interval"),
    ("Time32", "time without time zone"),
    ("Time64", "time without time zone"),
    ("Decimal32", "numeric"),
    ("Decimal64", "numeric"),
    ("Decimal128", "numeric"),
    ("Decimal256", "numeric"),
    ("Timestamp", ""),
    ("Struct", "record"),
    ("List", "[]"),
    ("LargeList", "[]"),
    ("FixedSizeList", "[]"),
    ("FixedSizeBinary", "bytea"),
    ("Map", "record"),
];

/// The text in SQL's words. A literal, `Int64(1)`, becomes its value.
pub fn in_sql(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut after_word = false;
    while let Some(c) = rest.chars().next() {
        let word_end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if after_word || word_end == 0 {
            out.push(c);
            after_word = c.is_ascii_alphanumeric() || c == '_';
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(word_end);
        let inner = bracketed(after);
        let plain = PLAIN.iter().find(|(name, _)| *name == word).map(|(_, sql)| *sql);
        let known = BRACKETED.iter().find(|(name, _)| *name == word).map(|(_, sql)| *sql);
        (out, rest) = match (plain, known, inner) {
            (Some(_), _, Some(inner)) => (out + literal(inner), &after[inner.len() + 2..]),
            (Some(sql), _, None) => (out + sql, after),
            (None, Some("[]"), Some(inner)) => (out + &item(inner) + "[]", &after[inner.len() + 2..]),
            (None, Some(""), Some(inner)) => {
                let zoned = inner.contains(',') && !inner.contains("None");
                let sql = if zoned { "timestamp with time zone" } else { "timestamp without time zone" };
                (out + sql, &after[inner.len() + 2..])
            }
            (None, Some(sql), Some(inner)) if sql != "[]" => (out + sql, &after[inner.len() + 2..]),
            _ => (out + word, after),
        };
        after_word = false;
    }
    out
}

/// What is in brackets at the start of a text.
fn bracketed(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('(')?;
    let mut depth = 1;
    for (at, c) in inner.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&inner[..at]);
        }
    }
    None
}

fn literal(inner: &str) -> &str {
    inner.trim_start_matches("Some(").trim_end_matches(')')
}

/// The type of an array's items, however it is printed.
fn item(inner: &str) -> String {
    let inner = inner.split("data_type: ").nth(1).unwrap_or(inner);
    let inner = inner.trim_start_matches("nullable ").trim_start_matches("non-null ");
    let end = inner.find(|c: char| !(c.is_ascii_alphanumeric())).unwrap_or(inner.len());
    let brackets = bracketed(&inner[end..]).map_or(0, |inner| inner.len() + 2);
    in_sql(&inner[..end + brackets])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_names_of_sql() {
        for (text, sql) in [
            ("upper(Int64)", "upper(bigint)"),
            ("f(Timestamp(ns, \"+00:00\"), Utf8)", "f(timestamp with time zone, text)"),
            ("f(Timestamp(Microsecond, None))", "f(timestamp without time zone)"),
            ("List(Int64) = Int64", "bigint[] = bigint"),
            ("List(Field { name: \"item\", data_type: Utf8, nullable: true })", "text[]"),
            ("Interval(MonthDayNano) * Decimal128(2, 1)", "interval * numeric"),
            ("predicate 'Int64(1)' returning Int64", "predicate '1' returning bigint"),
            ("Utf8(\"a\")", "\"a\""),
            ("my_Int64 and Int64s", "my_Int64 and Int64s"),
        ] {
            assert_eq!(in_sql(text), sql);
        }
    }
}
