// pgx, in the extended protocol with binary values, and in its other modes.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	. "tidegate-clients/common"
)

var ctx, _ = context.WithTimeout(context.Background(), 100*time.Second)

func plain(options string) string {
	return "host=127.0.0.1 port=" + Port + " user=root dbname=dev sslmode=disable " + options
}

func with(options string, run func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, plain(options))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return run(c)
}

// value reads the one value of a query as text, whatever its type.
func value(c *pgx.Conn, sql string, args ...any) (string, error) {
	var text string
	args = append([]any{pgx.QueryResultFormats{pgx.TextFormatCode}}, args...)
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return "", err
	}
	for rows.Next() {
		text = string(rows.RawValues()[0])
	}
	return text, rows.Err()
}

func is(c *pgx.Conn, wanted, sql string, args ...any) error {
	got, err := value(c, sql, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return Same(got, wanted)
}

// fails runs what has to fail with this SQLSTATE.
func fails(c *pgx.Conn, sqlstate, sql string, args ...any) (*pgconn.PgError, error) {
	_, err := c.Exec(ctx, sql, args...)
	var told *pgconn.PgError
	if !errors.As(err, &told) {
		return nil, fmt.Errorf("%s: %v", sql, err)
	}
	return told, Same(told.Code, sqlstate)
}

func all(errs ...error) error { return errors.Join(errs...) }

func main() {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/jackc/pgx/v5" {
				fmt.Println("version", strings.TrimPrefix(dep.Version, "v"))
			}
		}
	}
	db, err := pgx.Connect(ctx, plain(""))
	if err != nil {
		fmt.Println("connect failed:", err)
		os.Exit(0)
	}
	features(db)
}

func features(db *pgx.Conn) {
	Feature("connect", func() error {
		return with("application_name=drivers search_path=tidegate", func(c *pgx.Conn) error {
			return all(is(c, "drivers", "SHOW application_name"), is(c, "tidegate", "SHOW search_path"),
				Same(c.PgConn().ParameterStatus("server_encoding"), "UTF8"), c.Ping(ctx))
		})
	})
	Feature("scram", func() error {
		login := "host=127.0.0.1 port=" + Port + " user=reader dbname=dev sslmode=disable "
		c, err := pgx.Connect(ctx, login+"password='"+Password+"'")
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		_, err = pgx.Connect(ctx, login+"password=wrong")
		var told *pgconn.PgError
		if !errors.As(err, &told) {
			return fmt.Errorf("it came in, or %w", err)
		}
		return all(is(c, "reader", "SELECT current_user"), Same(told.Code, "28P01"))
	})
	Feature("tls", func() error {
		c, err := pgx.Connect(ctx, "host=localhost port="+Port+" user=reader dbname=dev password='"+Password+
			"' sslmode=verify-full sslrootcert="+CA+" channel_binding=require")
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		return is(c, "1", "SELECT 1")
	})
	Feature("text", func() error {
		return Each(func(v Value) error { return is(db, v.Text, "SELECT "+v.Literal()) })
	})
	Feature("binary", func() error {
		return Each(func(v Value) error {
			// Decoded from binary, encoded into text.
			rows, err := db.Query(ctx, "SELECT "+v.Literal(), pgx.QueryResultFormats{pgx.BinaryFormatCode})
			if err != nil {
				return err
			}
			defer rows.Close()
			if !rows.Next() {
				return fmt.Errorf("no row: %w", rows.Err())
			}
			var got any
			if err := rows.Scan(&got); err != nil {
				return err
			}
			oid := rows.FieldDescriptions()[0].DataTypeOID
			if id, isUUID := got.([16]byte); isUUID {
				got = pgtype.UUID{Bytes: id, Valid: true}
			}
			text, err := db.TypeMap().Encode(oid, pgx.TextFormatCode, got, nil)
			if err != nil {
				return fmt.Errorf("%T: %w", got, err)
			}
			wanted := map[string]string{
				"float8": "-22500000000000000", "timestamptz": "2026-01-02 03:04:05.6Z",
				"interval": "3 day 04:05:06.7", "json": `{"a":[1,null]}`, "jsonb": `{"a":[1,null]}`,
			}
			shown := strings.TrimSuffix(string(text), "000")
			if v.Type == "float8" {
				return Same(strings.HasPrefix(string(text), "-225000") || string(text) == v.Text, true)
			}
			if v.Type == "interval" {
				return Same(strings.Contains(shown, "04:05:06.7") && strings.HasPrefix(shown, "3 day"), true)
			}
			if w, special := wanted[v.Type]; special {
				return Same(string(text), w)
			}
			return Same(string(text), v.Text)
		})
	})
	Feature("parameters", func() error {
		for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
			err := with("default_query_exec_mode="+mode, func(c *pgx.Conn) error {
				values := Each(func(v Value) error { return is(c, v.Text, "SELECT $1::"+v.Type, v.Text) })
				if mode == "exec" || mode == "simple_protocol" {
					values = nil
				}
				var n int64
				var name string
				var at time.Time
				typed := c.QueryRow(ctx, "SELECT $1::int8, $2::text, $3::timestamptz", int64(7), "x", time.Unix(0, 0)).Scan(&n, &name, &at)
				return all(values, typed, Same([]any{n, name, at.Unix()}, []any{int64(7), "x", int64(0)}),
					is(c, "0", "SELECT count(*) FROM mv WHERE id < $1", -1))
			})
			if err != nil {
				return fmt.Errorf("%s: %w", mode, err)
			}
		}
		return is(db, "pg_class", "SELECT relname FROM pg_class WHERE oid = $1", 1259)
	})
	Feature("arrays", func() error {
		var some []*int32
		err := db.QueryRow(ctx, "SELECT $1::int4[]", []int32{1, 2}).Scan(&some)
		return all(err, Same(len(some), 2),
			Each(func(v Value) error {
				got, err := value(db, "SELECT array["+v.Literal()+", NULL]")
				return all(err, is(db, got, "SELECT $1::"+v.Type+"[]", "{"+v.Quoted()+",NULL}"))
			}),
			is(db, "2", "SELECT count(*) FROM pg_class WHERE relname = ANY($1)", []string{"mv", "s", "no"}),
			is(db, "{}", "SELECT $1::int4[]", []int32{}))
	})
	Feature("nulls", func() error {
		return Each(func(v Value) error {
			var one, two any
			err := db.QueryRow(ctx, "SELECT NULL::"+v.Type+", $1::"+v.Type, nil).Scan(&one, &two)
			return all(err, Same(one, nil), Same(two, nil))
		})
	})
	Feature("batch", func() error {
		batch := &pgx.Batch{}
		for n := range 50 {
			batch.Queue("SELECT $1::int4 + 1", n)
		}
		results := db.SendBatch(ctx, batch)
		for n := range 50 {
			var got int
			if err := results.QueryRow().Scan(&got); err != nil || got != n+1 {
				return fmt.Errorf("%d: %d, %w", n, got, err)
			}
		}
		return results.Close()
	})
	Feature("cursor", func() error {
		tx, err := db.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		_, err = tx.Exec(ctx, "DECLARE parts CURSOR FOR SELECT id FROM mv ORDER BY id")
		seen := 0
		for err == nil {
			var tag pgconn.CommandTag
			tag, err = tx.Exec(ctx, "FETCH 300 FROM parts")
			if tag.RowsAffected() == 0 {
				break
			}
			seen += int(tag.RowsAffected())
		}
		return all(err, Same(seen, 1000))
	})
	Feature("cancel", func() error {
		go func() {
			time.Sleep(500 * time.Millisecond)
			db.PgConn().CancelRequest(ctx)
		}()
		_, err := fails(db, "57014", "SELECT pg_sleep(60)")
		return all(err, is(db, "1", "SELECT 1"))
	})
	Feature("errors", func() error {
		told, err := fails(db, "42703", "SELECT nme FROM mv")
		if err != nil {
			return err
		}
		_, table := fails(db, "42P01", "SELECT * FROM nowhere")
		_, text := fails(db, "22P02", "SELECT $1::int4", "x")
		refused, err := fails(db, "55000", "ALTER SOURCE slow SET PARALLELISM = 3")
		return all(Same(told.Position, int32(8)), table, text, err, Same(refused.Detail != "" && refused.Hint != "", true))
	})
	Feature("transactions", func() error {
		tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			return err
		}
		inner, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		_, zero := fails(db, "22012", "SELECT 1 / 0")
		_, failed := fails(db, "25P02", "SELECT 1")
		return all(zero, failed, inner.Rollback(ctx), is(db, "repeatable read", "SHOW transaction_isolation"), tx.Commit(ctx))
	})
	Feature("prepared", func() error {
		described, err := db.Prepare(ctx, "counting", "SELECT $1::int8 + 1, $2 || '!'")
		if err != nil {
			return err
		}
		for n := range 20 {
			if err := is(db, fmt.Sprint(n+1), "counting", n, "x"); err != nil {
				return err
			}
		}
		return all(Same(described.ParamOIDs, []uint32{20, 25}), db.Deallocate(ctx, "counting"))
	})
	Feature("copy", func() error {
		var out bytes.Buffer
		_, err := db.PgConn().CopyTo(ctx, &out, "COPY (SELECT n, 'x' || n FROM generate_series(1, 3) g(n)) TO STDOUT")
		return all(err, Same(out.String(), "1\tx1\n2\tx2\n3\tx3\n"))
	})
	Feature("statements", func() error {
		_, created := db.Exec(ctx, "CREATE SOURCE mine (id BIGINT) WITH (connector = 'datagen', splits = 2, rows_per_split = 10) FORMAT PLAIN ENCODE JSON")
		_, view := db.Exec(ctx, "CREATE MATERIALIZED VIEW my_view AS SELECT id FROM mine")
		counted := is(db, "20", "SELECT count(*) FROM my_view")
		told, err := fails(db, "55000", "ALTER SOURCE slow SET PARALLELISM = 3")
		if err != nil {
			return all(created, view, counted, err)
		}
		_, checked := value(db, "SELECT decision FROM tidegate.check_rescale($1, $2)", "slow", "3")
		rows, err := db.Query(ctx, "SELECT * FROM tidegate.split_backfill_progress")
		if err == nil {
			for rows.Next() {
				_, err = rows.Values()
			}
			err = all(err, rows.Err())
		}
		_, dropped := db.Exec(ctx, "DROP SOURCE mine CASCADE")
		return all(created, view, counted, checked, err, dropped,
			Same(strings.Contains(told.Detail, `of materialized view "busy" would move`), true))
	})
	Feature("notices", func() error {
		config, err := pgx.ParseConfig(plain(""))
		if err != nil {
			return err
		}
		var heard []string
		config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { heard = append(heard, notice.Severity) }
		c, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		_, err = c.Exec(ctx, "DROP SOURCE IF EXISTS nowhere")
		return all(err, Same(heard, []string{"NOTICE"}))
	})
	Feature("catalog", func() error {
		// What it asks to register a type.
		for _, name := range []string{"_jsonb", "_timestamptz", "int4range", "int4multirange"} {
			if _, err := db.LoadType(ctx, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		types, err := db.LoadTypes(ctx, []string{"_uuid"})
		return all(err, Same(len(types) > 0, true))
	})
}
