import java.io.StringWriter;
import java.sql.Array;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.TreeMap;

import org.postgresql.PGConnection;
import org.postgresql.PGResultSetMetaData;
import org.postgresql.util.PGobject;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/** pgjdbc: java -cp 'jars/*' Pgjdbc.java. */
public class Pgjdbc {
    static final String PORT = System.getenv("TIDEGATE_PORT");
    static final String PASSWORD = System.getenv("TIDEGATE_PASSWORD");
    static final String CA = System.getenv("TIDEGATE_CA");

    /** Type and literal, as the server prints it again. */
    static final String[][] VALUES = {
        {"bool", "t"},
        {"int2", "-32768"},
        {"int4", "2147483647"},
        {"int8", "-9223372036854775808"},
        {"float4", "1.5"},
        {"float8", "-2.25E100"},
        {"numeric", "12345.6789"},
        {"text", "grüße 'n\"\\"},
        {"varchar", "x y"},
        {"bytea", "\\x00ff10"},
        {"date", "2026-02-28"},
        {"time", "23:59:58.123456"},
        {"timestamp", "1999-12-31 23:59:59.000001"},
        {"timestamptz", "2026-01-02 03:04:05.6+00"},
        {"interval", "3 days 04:05:06.7"},
        {"uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
        {"json", "{\"a\":[1,null]}"},
        {"jsonb", "{\"a\": [1, null]}"},
        {"oid", "4294967295"},
        {"name", "pg_class"},
        {"\"char\"", "r"},
    };

    interface Run { void run() throws Exception; }
    interface Check { void check(String type, String text) throws Exception; }

    static class Missing extends Exception {
        Missing(String why) { super(why); }
    }

    static String oneLine(Throwable error) {
        StringBuilder at = new StringBuilder();
        for (StackTraceElement frame : error.getStackTrace()) {
            if (frame.getClassName().startsWith("Pgjdbc") && at.length() < 40) at.append(' ').append(frame.getLineNumber());
        }
        return (error.getClass().getSimpleName() + " at" + at + ": " + error.getMessage()).replace("\n", " / ");
    }

    static void feature(String name, Run run) {
        try {
            run.run();
            System.out.println(name + " ok");
        } catch (Missing why) {
            System.out.println(name + " none: " + why.getMessage());
        } catch (Throwable error) {
            System.out.println(name + " failed: " + oneLine(error));
        }
    }

    static void each(Check check) {
        StringBuilder wrong = new StringBuilder();
        for (String[] value : VALUES) {
            try {
                check.check(value[0], value[1]);
            } catch (Throwable error) {
                wrong.append(value[0]).append(": ").append(oneLine(error)).append("; ");
            }
        }
        if (wrong.length() > 0) throw new AssertionError(wrong.toString());
    }

    static void same(Object got, Object wanted) {
        boolean same = wanted == null ? got == null : wanted.equals(got);
        if (!same) throw new AssertionError("<" + got + "> isn't <" + wanted + ">");
    }

    static void yes(boolean held, Object what) {
        if (!held) throw new AssertionError("no: " + what);
    }

    static String literal(String type, String text) { return "'" + text.replace("'", "''") + "'::" + type; }

    static Connection connect(String host, String user, String password, String... options) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", user);
        if (password != null) properties.setProperty("password", password);
        for (String option : options) {
            String[] pair = option.split("=", 2);
            properties.setProperty(pair[0], pair[1]);
        }
        return DriverManager.getConnection("jdbc:postgresql://" + host + ":" + PORT + "/dev", properties);
    }

    static Connection plain(String... options) throws SQLException { return connect("127.0.0.1", "root", null, options); }

    static List<List<String>> rows(ResultSet set) throws SQLException {
        List<List<String>> rows = new ArrayList<>();
        while (set.next()) {
            List<String> row = new ArrayList<>();
            for (int i = 1; i <= set.getMetaData().getColumnCount(); i++) row.add(set.getString(i));
            rows.add(row);
        }
        set.close();
        return rows;
    }

    static String value(Connection c, String sql, Object... parameters) throws SQLException {
        try (PreparedStatement statement = c.prepareStatement(sql)) {
            for (int i = 0; i < parameters.length; i++) statement.setObject(i + 1, parameters[i]);
            return rows(statement.executeQuery()).get(0).get(0);
        }
    }

    static PSQLException failing(Connection c, String sql) {
        try (Statement statement = c.createStatement()) {
            statement.execute(sql);
        } catch (PSQLException error) {
            return error;
        } catch (SQLException error) {
            throw new AssertionError(error);
        }
        throw new AssertionError(sql + " succeeded");
    }

    static void run(Connection c, String sql) throws SQLException {
        try (Statement statement = c.createStatement()) { statement.execute(sql); }
    }

    /** Java's value of a type, to send. */
    static Object java(String type, String text) throws Exception {
        switch (type) {
            case "bool": return true;
            case "int2": case "int4": return Integer.valueOf(text);
            case "int8": return Long.valueOf(text);
            case "float4": return Float.valueOf(text);
            case "float8": return Double.valueOf(text);
            case "numeric": return new java.math.BigDecimal(text);
            case "bytea": return new byte[] {0, (byte) 255, 16};
            case "date": return java.time.LocalDate.parse(text);
            case "time": return java.time.LocalTime.parse(text);
            case "timestamp": return java.time.LocalDateTime.parse(text.replace(' ', 'T'));
            case "timestamptz": return OffsetDateTime.parse(text.replace(' ', 'T') + ":00");
            case "uuid": return java.util.UUID.fromString(text);
            case "oid": return Long.valueOf(text);
            case "interval": return new org.postgresql.util.PGInterval(text);
            case "json": case "jsonb": {
                PGobject object = new PGobject();
                object.setType(type);
                object.setValue(text);
                return object;
            }
            default: return text;
        }
    }

    static void read(Connection c) {
        each((type, text) -> {
            try (PreparedStatement statement = c.prepareStatement("SELECT " + literal(type, text))) {
                ResultSet set = statement.executeQuery();
                set.next();
                String got = set.getString(1);
                switch (type) {
                    case "timestamptz": same(set.getObject(1, OffsetDateTime.class).toInstant(), ((OffsetDateTime) java(type, text)).toInstant()); break;
                    case "bytea": yes(Arrays.equals(set.getBytes(1), (byte[]) java(type, text)), Arrays.toString(set.getBytes(1))); break;
                    case "interval": same(set.getObject(1), java(type, text)); break;
                    case "float4": case "float8": same(set.getDouble(1), Double.valueOf(text)); break;
                    case "date": case "time": case "timestamp": same(set.getObject(1, java(type, text).getClass()), java(type, text)); break;
                    case "uuid": same(set.getObject(1), java(type, text)); break;
                    default: same(got, text);
                }
                same(set.getMetaData().getColumnTypeName(1), type.replace("\"", ""));
            }
        });
    }

    public static void main(String[] args) throws Exception {
        System.out.println("version " + org.postgresql.util.DriverInfo.DRIVER_VERSION);
        try (Connection c = plain()) { features(c); }
    }

    static void features(Connection db) throws Exception {
        feature("connect", () -> {
            try (Connection c = plain("ApplicationName=drivers", "options=-c statement_timeout=9000", "readOnly=true")) {
                same(value(c, "SHOW application_name"), "drivers");
                same(value(c, "SHOW statement_timeout"), "9s");
                same(c.getMetaData().getDatabaseMajorVersion(), 15);
                same(c.getCatalog(), "dev");
                same(c.getSchema(), "public");
                yes(c.isValid(5), "valid");
                c.setSchema("tidegate");
                same(value(c, "SELECT current_schema()"), "tidegate");
            }
            try (Connection c = plain("preferQueryMode=simple")) { same(value(c, "SELECT ?", 1), "1"); }
            try (Connection c = plain("targetServerType=primary")) { same(value(c, "SELECT 1"), "1"); }
        });
        feature("scram", () -> {
            try (Connection c = connect("127.0.0.1", "reader", PASSWORD)) { same(value(c, "SELECT current_user"), "reader"); }
            try {
                connect("127.0.0.1", "reader", "wrong").close();
                throw new AssertionError("it came in");
            } catch (SQLException error) {
                same(error.getSQLState(), "28P01");
            }
        });
        feature("tls", () -> {
            try (Connection c = connect("localhost", "reader", PASSWORD, "sslmode=verify-full", "sslrootcert=" + CA, "channelBinding=require")) {
                same(value(c, "SELECT 1"), "1");
            }
        });
        feature("text", () -> { try (Connection c = plain("prepareThreshold=0", "binaryTransfer=false")) { read(c); } });
        feature("binary", () -> { try (Connection c = plain("prepareThreshold=-1", "binaryTransfer=true")) { read(c); } });
        feature("parameters", () -> {
            for (String mode : new String[] {"prepareThreshold=0", "prepareThreshold=-1", "preferQueryMode=simple"}) {
                try (Connection c = plain(mode)) {
                    each((type, text) -> {
                        String sql = "SELECT (?::" + type + ")::text";
                        String wanted = value(c, "SELECT (" + literal(type, text) + ")::text");
                        same(value(c, sql, java(type, text)), wanted);
                    });
                    same(value(c, "SELECT count(*) FROM mv WHERE id < ?", -1L), "0");
                    same(value(c, "SELECT relname FROM pg_class WHERE oid = ?", 1259L), "pg_class");
                }
            }
        });
        feature("arrays", () -> {
            for (String mode : new String[] {"prepareThreshold=0", "prepareThreshold=-1"}) {
                try (Connection c = plain(mode)) {
                    each((type, text) -> {
                        try (PreparedStatement statement = c.prepareStatement("SELECT array[" + literal(type, text) + ", NULL]")) {
                            ResultSet set = statement.executeQuery();
                            set.next();
                            Array array = set.getArray(1);
                            same(array.getBaseTypeName(), type.replace("\"", ""));
                            Object[] items = (Object[]) array.getArray();
                            same(items.length, 2);
                            same(items[1], null);
                            if (type.startsWith("int8") || type.equals("text")) same(items[0].toString(), text);
                        }
                    });
                    Array sent = c.createArrayOf("int4", new Object[] {1, null, 3});
                    same(value(c, "SELECT ?::int4[]::text", sent), "{1,NULL,3}");
                    same(value(c, "SELECT (?::text[])::text", c.createArrayOf("text", new Object[] {"a,b", null})), "{\"a,b\",NULL}");
                    same(value(c, "SELECT ?::uuid[]::text", c.createArrayOf("uuid", new Object[] {java("uuid", VALUES[15][1])})), "{" + VALUES[15][1] + "}");
                    same(value(c, "SELECT count(*) FROM pg_class WHERE relname = ANY(?)", c.createArrayOf("text", new Object[] {"mv", "s", "no"})), "2");
                }
            }
        });
        feature("nulls", () -> {
            for (String mode : new String[] {"prepareThreshold=0", "prepareThreshold=-1"}) {
                try (Connection c = plain(mode)) {
                    each((type, text) -> same(value(c, "SELECT ?::" + type, new Object[] {null}), null));
                    try (PreparedStatement statement = c.prepareStatement("SELECT ?, ? IS NULL, coalesce(?, 5)")) {
                        statement.setNull(1, Types.VARCHAR);
                        statement.setNull(2, Types.BIGINT);
                        statement.setNull(3, Types.INTEGER);
                        same(rows(statement.executeQuery()).get(0), Arrays.asList(null, "t", "5"));
                    }
                }
            }
        });
        feature("batch", () -> {
            try (Statement statement = db.createStatement()) {
                for (int n = 1; n <= 3; n++) statement.addBatch("SET application_name = 'batch " + n + "'");
                same(statement.executeBatch().length, 3);
                same(value(db, "SHOW application_name"), "batch 3");
                yes(statement.execute("SELECT 1; SELECT 'two'"), "a result");
                yes(statement.getMoreResults(), "another");
                same(rows(statement.getResultSet()).get(0).get(0), "two");
                statement.addBatch("SET statement_timeout = '90s'");
                statement.addBatch("SET no_such_setting = 1");
                try {
                    statement.executeBatch();
                    throw new AssertionError("nothing failed");
                } catch (BatchUpdateException error) {
                    same(error.getSQLState(), "42704");
                }
            }
            same(value(db, "SELECT 1"), "1");
        });
        feature("cursor", () -> {
            for (String mode : new String[] {"prepareThreshold=0", "prepareThreshold=-1"}) {
                try (Connection c = plain(mode)) {
                    c.setAutoCommit(false);
                    try (PreparedStatement statement = c.prepareStatement("SELECT id FROM mv WHERE id >= ? ORDER BY id")) {
                        statement.setFetchSize(7);
                        statement.setLong(1, -1000);
                        same(rows(statement.executeQuery()).size(), 1000);
                        statement.setMaxRows(10);
                        same(rows(statement.executeQuery()).size(), 10);
                    }
                    // A scrollable result is read as a whole.
                    try (Statement statement = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY)) {
                        ResultSet set = statement.executeQuery("SELECT n FROM generate_series(1, 10) g(n)");
                        yes(set.absolute(5) && set.getInt(1) == 5 && set.previous() && set.getInt(1) == 4, "scrolling");
                    }
                    c.commit();
                }
            }
        });
        feature("cancel", () -> {
            try (Statement statement = db.createStatement()) {
                Thread canceling = new Thread(() -> {
                    try {
                        Thread.sleep(500);
                        statement.cancel();
                    } catch (Exception error) {
                        throw new RuntimeException(error);
                    }
                });
                canceling.start();
                try {
                    statement.executeQuery("SELECT pg_sleep(60)");
                    throw new AssertionError("it went on");
                } catch (SQLException error) {
                    same(error.getSQLState(), "57014");
                }
                canceling.join();
                statement.setQueryTimeout(1);
                try {
                    statement.executeQuery("SELECT pg_sleep(60)");
                    throw new AssertionError("it went on");
                } catch (SQLException error) {
                    same(error.getSQLState(), "57014");
                }
            }
            same(value(db, "SELECT 1"), "1");
        });
        feature("errors", () -> {
            ServerErrorMessage error = failing(db, "SELECT nme FROM mv").getServerErrorMessage();
            same(error.getSQLState(), "42703");
            same(error.getPosition(), 8);
            same(failing(db, "SELECT * FROM nowhere").getSQLState(), "42P01");
            same(failing(db, "SELECT 1 / 0").getSQLState(), "22012");
            same(failing(db, "SELECT 'x'::int4").getSQLState(), "22P02");
            error = failing(db, "ALTER SOURCE slow SET PARALLELISM = 3").getServerErrorMessage();
            yes(error.getDetail() != null && error.getHint() != null, error);
        });
        feature("transactions", () -> {
            try (Connection c = plain()) {
                c.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
                same(c.getTransactionIsolation(), Connection.TRANSACTION_REPEATABLE_READ);
                c.setAutoCommit(false);
                same(value(c, "SHOW transaction_isolation"), "repeatable read");
                failing(c, "SELECT 1 / 0");
                same(failing(c, "SELECT 1").getSQLState(), "25P02");
                c.rollback();
                value(c, "SELECT 1");
                Savepoint savepoint = c.setSavepoint("a");
                failing(c, "SELECT 1 / 0");
                c.rollback(savepoint);
                same(value(c, "SELECT 2"), "2");
                c.releaseSavepoint(c.setSavepoint());
                c.commit();
                c.setReadOnly(true);
                same(value(c, "SHOW transaction_read_only"), "on");
                c.rollback();
            }
            try (Connection c = plain("autosave=always")) {
                c.setAutoCommit(false);
                value(c, "SELECT 1");
                failing(c, "SELECT 1 / 0");
                same(value(c, "SELECT 2"), "2");
                c.commit();
            }
        });
        feature("prepared", () -> {
            // From the fifth use on it is a statement of the server's.
            try (PreparedStatement statement = db.prepareStatement("SELECT ?::int8 + 1, ? || '!', amount FROM mv WHERE id = ? LIMIT 1")) {
                for (int n = 0; n < 12; n++) {
                    statement.setLong(1, n);
                    statement.setString(2, "x");
                    statement.setLong(3, n);
                    rows(statement.executeQuery());
                }
                yes(statement.unwrap(org.postgresql.PGStatement.class).isUseServerPrepare(), "prepared on the server");
                ResultSetMetaData meta = statement.getMetaData();
                same(meta.getColumnTypeName(1) + meta.getColumnTypeName(2) + meta.getColumnTypeName(3), "int8textfloat8");
                same(statement.getParameterMetaData().getParameterCount(), 3);
            }
            run(db, "CREATE MATERIALIZED VIEW again AS SELECT id FROM s");
            try (PreparedStatement statement = db.prepareStatement("SELECT * FROM again LIMIT 1")) {
                for (int n = 0; n < 8; n++) rows(statement.executeQuery());
                run(db, "DROP MATERIALIZED VIEW again");
                run(db, "CREATE MATERIALIZED VIEW again AS SELECT amount FROM s");
                for (int n = 0; n < 8; n++) rows(statement.executeQuery());
            }
            run(db, "DROP MATERIALIZED VIEW again");
        });
        feature("copy", () -> {
            StringWriter out = new StringWriter();
            long copied = db.unwrap(PGConnection.class).getCopyAPI().copyOut("COPY (SELECT n, 'x' || n FROM generate_series(1, 3) g(n)) TO STDOUT", out);
            same(copied, 3L);
            same(out.toString(), "1\tx1\n2\tx2\n3\tx3\n");
        });
        feature("statements", () -> {
            run(db, "CREATE SOURCE mine (id BIGINT) WITH (connector = 'datagen', splits = 2, rows_per_split = 10) FORMAT PLAIN ENCODE JSON");
            run(db, "CREATE MATERIALIZED VIEW my_view AS SELECT id FROM mine");
            same(value(db, "SELECT count(*) FROM my_view"), "20");
            PSQLException error = failing(db, "ALTER SOURCE slow SET PARALLELISM = 3");
            same(error.getSQLState(), "55000");
            yes(error.getServerErrorMessage().getDetail().contains("of materialized view \"busy\" would move"), error);
            for (int n = 0; n < 6; n++) value(db, "SELECT check_name FROM tidegate.check_rescale(?, ?)", "slow", "3");
            try (PreparedStatement statement = db.prepareStatement("SELECT * FROM tidegate.split_backfill_progress")) {
                for (int n = 0; n < 6; n++) yes(rows(statement.executeQuery()).size() >= 8, n);
            }
            run(db, "DROP SOURCE mine CASCADE");
        });
        feature("notices", () -> {
            try (Statement statement = db.createStatement()) {
                statement.execute("DROP SOURCE IF EXISTS nowhere");
                yes(statement.getWarnings() != null, "a warning");
                same(statement.getWarnings().getSQLState(), "00000");
            }
        });
        feature("catalog", () -> catalog(db));
    }

    static void catalog(Connection db) throws Exception {
        DatabaseMetaData meta = db.getMetaData();
        TreeMap<String, Integer> counts = new TreeMap<>();
        StringBuilder wrong = new StringBuilder();
        Object[][] questions = {
            {"schemas", (Question) () -> meta.getSchemas()},
            {"schemas like", (Question) () -> meta.getSchemas(null, "tide%")},
            {"catalogs", (Question) () -> meta.getCatalogs()},
            {"tables", (Question) () -> meta.getTables(null, null, "%", null)},
            {"progress", (Question) () -> meta.getTables("dev", "tidegate", "split%", new String[] {"TABLE", "VIEW"})},
            {"views", (Question) () -> meta.getTables(null, "public", "%", new String[] {"MATERIALIZED VIEW"})},
            {"sources", (Question) () -> meta.getTables(null, "public", "%", new String[] {"FOREIGN TABLE"})},
            {"table types", (Question) () -> meta.getTableTypes()},
            {"columns", (Question) () -> meta.getColumns(null, "public", "mv", "%")},
            {"all columns", (Question) () -> meta.getColumns(null, null, "%", "%")},
            {"primary keys", (Question) () -> meta.getPrimaryKeys(null, "public", "mv")},
            {"unique keys", (Question) () -> meta.getBestRowIdentifier(null, "public", "mv", DatabaseMetaData.bestRowSession, false)},
            {"imported keys", (Question) () -> meta.getImportedKeys(null, "public", "mv")},
            {"exported keys", (Question) () -> meta.getExportedKeys(null, "public", "mv")},
            {"cross reference", (Question) () -> meta.getCrossReference(null, "public", "mv", null, "public", "s")},
            {"types", (Question) () -> meta.getTypeInfo()},
            {"indexes", (Question) () -> meta.getIndexInfo(null, "public", "mv", false, false)},
            {"functions", (Question) () -> meta.getFunctions(null, null, "%")},
            {"function columns", (Question) () -> meta.getFunctionColumns(null, null, "check%", "%")},
            {"procedures", (Question) () -> meta.getProcedures(null, null, "%")},
            {"procedure columns", (Question) () -> meta.getProcedureColumns(null, null, "%", "%")},
            {"table privileges", (Question) () -> meta.getTablePrivileges(null, "public", "%")},
            {"column privileges", (Question) () -> meta.getColumnPrivileges(null, "public", "mv", "%")},
            {"user types", (Question) () -> meta.getUDTs(null, null, "%", null)},
            {"version columns", (Question) () -> meta.getVersionColumns(null, "public", "mv")},
            {"client info", (Question) () -> meta.getClientInfoProperties()},
        };
        for (Object[] question : questions) {
            try {
                counts.put((String) question[0], rows(((Question) question[1]).ask()).size());
            } catch (Throwable error) {
                wrong.append(question[0]).append(": ").append(oneLine(error)).append("; ");
            }
        }
        if (wrong.length() > 0) throw new AssertionError(wrong.toString());
        yes(counts.get("schemas") >= 4 && counts.get("schemas like") == 1, counts);
        same(counts.get("progress") >= 3, true);
        same(counts.get("columns"), 2);
        yes(counts.get("views") >= 2 && counts.get("sources") >= 2 && counts.get("types") > 20, counts);
        yes(counts.get("functions") > 50 && counts.get("all columns") > 500, counts);
        same(counts.get("primary keys") + counts.get("imported keys") + counts.get("exported keys"), 0);
        List<String> column = rows(meta.getColumns(null, "public", "mv", "amount")).get(0);
        same(column.subList(3, 6), Arrays.asList("amount", String.valueOf(Types.DOUBLE), "float8"));
        yes(meta.getMaxConnections() > 0 && meta.getSQLKeywords().length() > 0, "limits and key words");
        yes(meta.getSystemFunctions().length() > 0 && meta.getUserName().equals("root"), "functions and user");
        // Which table and column each column of a result is of.
        try (Statement statement = db.createStatement()) {
            ResultSet set = statement.executeQuery("SELECT id, amount AS renamed, 1 AS one FROM mv LIMIT 1");
            ResultSetMetaData columns = set.getMetaData();
            same(((PGResultSetMetaData) columns).getBaseColumnName(2), "amount");
            same(((PGResultSetMetaData) columns).getBaseTableName(1), "mv");
            same(columns.getColumnName(2) + columns.getTableName(3) + columns.isAutoIncrement(1), "renamedfalse");
            same(columns.isNullable(1), ResultSetMetaData.columnNullable);
        }
    }

    interface Question { ResultSet ask() throws SQLException; }
}
