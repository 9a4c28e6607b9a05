use super::*;
use crate::backfill::target::Target;
use crate::secret::{HIDDEN, Options};
use crate::store::format::{Encode, Include, MessageFormat};
use crate::store::{Durability, Store};

fn moment() -> Moment {
    let surroundings = Surroundings { available: 2, barrier_interval: 100_000, now: 0, asking: None };
    Moment { epoch: Epoch(1), now: 0, surroundings }
}

/// Where a text is kept: every table and column that has it somewhere.
fn places_of(connection: &Connection, text: &str) -> Vec<String> {
    let sql = "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'";
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).unwrap();
    let holds = |(table, column): &(String, String)| -> bool {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM \"{table}\" WHERE CAST(\"{column}\" AS TEXT) LIKE '%{text}%')");
        connection.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    columns.map(Result::unwrap).filter(holds).map(|(table, column)| format!("{table}.{column}")).collect()
}

#[tokio::test]
async fn a_secret_is_kept_in_one_place_and_comes_back_to_the_connector() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let given = [("topic", "t"), ("properties.sasl.password", "hunter2"), ("properties.sasl.username", "u")];
    let options = Options(given.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    let sql = "CREATE SOURCE s (a INT) INCLUDE KEY WITH (connector = 'kafka', topic = 't', \
        properties.sasl.password = 'hunter2') FORMAT PLAIN ENCODE JSON";
    let request = CreateSource {
        name: "s".into(),
        owner: "root".into(),
        definition: crate::command::without_secrets(sql).into_owned(),
        connector: "kafka".into(),
        options: options.clone(),
        columns: vec![("a".into(), "int4".into()), ("_rw_kafka_key".into(), "bytea".into())],
        format: MessageFormat { encode: Encode::Json, include: vec![Include::Key] },
        parallelism: Target::Adaptive,
        rate_limit: None,
    };
    assert!(!format!("{request:?}").contains("hunter2"));
    let format = request.format.clone();
    let statement = Statement::CreateSource(request, Discovered::new());
    store.write(Durability::Full, move |tx| apply(tx, &moment(), &statement)).await.unwrap();
    store
        .snapshot()
        .unwrap()
        .with(|connection| {
            assert_eq!(places_of(connection, "hunter2"), ["sources.secrets_json"]);
            let hidden = HIDDEN.trim_matches(['[', ']']);
            assert_eq!(places_of(connection, hidden), ["relations.definition", "sources.options_json"]);
            let row = running::sources(connection)?.pop().unwrap();
            assert_eq!((&row.options, &row.format), (&options, &format));
            assert!(!format!("{row:?}").contains("hunter2"));
            Ok::<_, Error>(())
        })
        .unwrap();
}

/// The views are all that a client can read.
#[test]
fn no_view_reads_the_secrets() {
    let views = concat!(env!("CARGO_MANIFEST_DIR"), "/sql/views");
    for file in std::fs::read_dir(views).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("secrets_json") && !text.contains("main.sources.*"), "{}", path.display());
    }
}
