// lib/pq, behind Go's database/sql.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/lib/pq"

	. "tidegate-clients/common"
)

var ctx, _ = context.WithTimeout(context.Background(), 100*time.Second)

func open(options string) *sql.DB {
	db, err := sql.Open("postgres", "host=127.0.0.1 port="+Port+" user=root dbname=dev sslmode=disable "+options)
	if err != nil {
		panic(err)
	}
	return db
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func is(db querier, wanted, query string, args ...any) error {
	var got sql.NullString
	if err := db.QueryRowContext(ctx, query, args...).Scan(&got); err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return Same(got.String, wanted)
}

// fails runs what has to fail with this SQLSTATE.
func fails(db querier, sqlstate, query string, args ...any) (*pq.Error, error) {
	_, err := db.ExecContext(ctx, query, args...)
	var told *pq.Error
	if !errors.As(err, &told) {
		return nil, fmt.Errorf("%s: %v", query, err)
	}
	return told, Same(string(told.Code), sqlstate)
}

func all(errs ...error) error { return errors.Join(errs...) }

func login(options string) error {
	db, err := sql.Open("postgres", "port="+Port+" user=reader dbname=dev "+options)
	if err != nil {
		return err
	}
	defer db.Close()
	return is(db, "reader", "SELECT current_user")
}

func main() {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/lib/pq" {
				fmt.Println("version", strings.TrimPrefix(dep.Version, "v"))
			}
		}
	}
	db := open("")
	db.SetMaxOpenConns(1)
	features(db)
}

// What a value is in text that database/sql has made of it.
func shown(v Value) string {
	switch v.Type {
	case "bool":
		return "true"
	case "bytea":
		return "\x00\xff\x10"
	case "float8":
		return "-2.25e+100"
	case "date":
		return v.Text + "T00:00:00Z"
	case "time":
		return "0000-01-01T" + v.Text + "Z"
	case "timestamp":
		return strings.Replace(v.Text, " ", "T", 1) + "Z"
	case "timestamptz":
		return "2026-01-02T03:04:05.6Z"
	}
	return v.Text
}

func features(db *sql.DB) {
	Feature("connect", func() error {
		named := open("application_name=drivers search_path=tidegate")
		defer named.Close()
		return all(is(named, "drivers", "SHOW application_name"), is(named, "tidegate", "SHOW search_path"), named.Ping())
	})
	Feature("scram", func() error {
		err := login("host=127.0.0.1 sslmode=disable password=wrong")
		var told *pq.Error
		if !errors.As(err, &told) {
			return fmt.Errorf("it came in, or %w", err)
		}
		return all(login("host=127.0.0.1 sslmode=disable password='"+Password+"'"), Same(string(told.Code), "28P01"))
	})
	Feature("tls", func() error {
		return login("host=localhost sslmode=verify-full sslrootcert=" + CA + " password='" + Password + "'")
	})
	Feature("text", func() error {
		return Each(func(v Value) error {
			if v.Type == "timestamptz" {
				return is(db, "true", "SELECT $1::timestamptz = "+v.Literal(), time.Date(2026, 1, 2, 3, 4, 5, 600000000, time.UTC))
			}
			return is(db, shown(v), "SELECT "+v.Literal())
		})
	})
	Feature("binary", func() error {
		binary := open("binary_parameters=yes")
		defer binary.Close()
		return Each(func(v Value) error {
			if v.Type != "bytea" && v.Type != "text" && v.Type != "int8" && v.Type != "uuid" {
				// It asks for others in text.
				return nil
			}
			return is(binary, shown(v), "SELECT "+v.Literal()+" WHERE $1 = 1", 1)
		})
	})
	Feature("parameters", func() error {
		return all(Each(func(v Value) error {
			var sent any = v.Text
			if v.Type == "bytea" {
				sent = []byte{0, 255, 16}
			}
			return is(db, "true", "SELECT $1::"+v.Type+"::text = ("+v.Literal()+")::text", sent)
		}),
			is(db, "0", "SELECT count(*) FROM mv WHERE id < $1", -1),
			is(db, "pg_class", "SELECT relname FROM pg_class WHERE oid = $1", 1259),
			is(db, "ax", "SELECT $1 || 'x'", "a"),
			is(db, "true", "SELECT $1::bytea = '\\x00ff'::bytea", []byte{0, 255}))
	})
	Feature("arrays", func() error {
		var got []sql.NullInt64
		err := db.QueryRowContext(ctx, "SELECT $1::int8[]", pq.Array([]int64{1, 2})).Scan(pq.Array(&got))
		var names pq.StringArray
		read := db.QueryRowContext(ctx, "SELECT array['a,b', 'c\"d']").Scan(&names)
		return all(err, Same(len(got), 2), read, Same([]string(names), []string{"a,b", `c"d`}),
			Each(func(v Value) error {
				return is(db, "true", "SELECT $1::"+v.Type+"[]::text = array["+v.Literal()+", NULL]::text", "{"+v.Quoted()+",NULL}")
			}),
			is(db, "2", "SELECT count(*) FROM pg_class WHERE relname = ANY($1)", pq.Array([]string{"mv", "s", "no"})))
	})
	Feature("nulls", func() error {
		return Each(func(v Value) error {
			var one, two any
			err := db.QueryRowContext(ctx, "SELECT NULL::"+v.Type+", $1::"+v.Type, nil).Scan(&one, &two)
			return all(err, Same(one, nil), Same(two, nil))
		})
	})
	Feature("batch", func() error {
		rows, err := db.QueryContext(ctx, "SELECT 1; SELECT 'two'")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
		}
		more := rows.NextResultSet()
		rows.Next()
		var two string
		return all(Same(more, true), rows.Scan(&two), Same(two, "two"))
	})
	Feature("cursor", func() error {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		defer tx.Rollback()
		_, err = tx.Exec("DECLARE parts CURSOR FOR SELECT id FROM mv ORDER BY id")
		seen := 0
		for err == nil {
			var part int
			rows, failed := tx.Query("FETCH 300 FROM parts")
			if err = failed; err == nil {
				for rows.Next() {
					part++
				}
				err = rows.Err()
			}
			if seen += part; part == 0 {
				break
			}
		}
		return all(err, Same(seen, 1000))
	})
	Feature("cancel", func() error {
		soon, stop := context.WithTimeout(ctx, 500*time.Millisecond)
		defer stop()
		_, err := db.ExecContext(soon, "SELECT pg_sleep(60)")
		return all(Same(err != nil, true), is(db, "1", "SELECT 1"))
	})
	Feature("errors", func() error {
		told, err := fails(db, "42703", "SELECT nme FROM mv")
		if err != nil {
			return err
		}
		_, table := fails(db, "42P01", "SELECT * FROM nowhere")
		_, text := fails(db, "22P02", "SELECT $1::int4", "x")
		refused, err := fails(db, "55000", "ALTER SOURCE slow SET PARALLELISM = 3")
		return all(Same(told.Position, "8"), table, text, err, Same(refused.Detail != "" && refused.Hint != "", true))
	})
	Feature("transactions", func() error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
		if err != nil {
			return err
		}
		isolation := is(tx, "repeatable read", "SHOW transaction_isolation")
		_, saved := tx.Exec("SAVEPOINT a")
		_, zero := fails(tx, "22012", "SELECT 1 / 0")
		_, failed := fails(tx, "25P02", "SELECT 1")
		_, back := tx.Exec("ROLLBACK TO SAVEPOINT a")
		return all(isolation, saved, zero, failed, back, is(tx, "2", "SELECT 2"), tx.Commit())
	})
	Feature("prepared", func() error {
		statement, err := db.Prepare("SELECT $1::int8 + 1, $2 || '!'")
		if err != nil {
			return err
		}
		for n := range 20 {
			var next int
			var said string
			err = all(err, statement.QueryRow(n, "x").Scan(&next, &said), Same(next, n+1), Same(said, "x!"))
		}
		return all(err, statement.Close())
	})
	Feature("copy", func() error { return Missing("it has COPY only towards the server") })
	Feature("statements", func() error {
		_, created := db.Exec("CREATE SOURCE mine (id BIGINT) WITH (connector = 'datagen', splits = 2, rows_per_split = 10) FORMAT PLAIN ENCODE JSON")
		_, view := db.Exec("CREATE MATERIALIZED VIEW my_view AS SELECT id FROM mine")
		counted := is(db, "20", "SELECT count(*) FROM my_view")
		told, err := fails(db, "55000", "ALTER SOURCE slow SET PARALLELISM = 3")
		if err != nil {
			return all(created, view, counted, err)
		}
		checked := is(db, "true", "SELECT count(*) > 0 FROM tidegate.check_rescale($1, $2)", "slow", "3")
		_, dropped := db.Exec("DROP SOURCE mine CASCADE")
		return all(created, view, counted, checked, dropped,
			Same(strings.Contains(told.Detail, `of materialized view "busy" would move`), true))
	})
	Feature("notices", func() error {
		connector, err := pq.NewConnector("host=127.0.0.1 port=" + Port + " user=root dbname=dev sslmode=disable")
		if err != nil {
			return err
		}
		var heard []string
		listening := sql.OpenDB(pq.ConnectorWithNoticeHandler(connector, func(notice *pq.Error) {
			heard = append(heard, notice.Severity)
		}))
		defer listening.Close()
		_, err = listening.Exec("DROP SOURCE IF EXISTS nowhere")
		return all(err, Same(heard, []string{"NOTICE"}))
	})
	Feature("catalog", func() error {
		rows, err := db.Query("SELECT oid, relname, relkind FROM pg_class WHERE relname = 'mv'")
		if err != nil {
			return err
		}
		defer rows.Close()
		types, err := rows.ColumnTypes()
		if err != nil {
			return err
		}
		return Same([]string{types[0].DatabaseTypeName(), types[1].DatabaseTypeName(), types[2].DatabaseTypeName()}, []string{"OID", "NAME", "CHAR"})
	})
}
