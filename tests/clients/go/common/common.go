// Package common is what the programs for Go's drivers share: the line for each feature, the server's address, and a
// value of each type.
package common

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

var (
	Port     = os.Getenv("TIDEGATE_PORT")
	Password = os.Getenv("TIDEGATE_PASSWORD")
	CA       = os.Getenv("TIDEGATE_CA")
)

// Value is a type and a literal, as the server prints it again.
type Value struct{ Type, Text string }

var Values = []Value{
	{"bool", "t"},
	{"int2", "-32768"},
	{"int4", "2147483647"},
	{"int8", "-9223372036854775808"},
	{"float4", "1.5"},
	{"float8", "-2.25e+100"},
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
	{"json", `{"a":[1,null]}`},
	{"jsonb", `{"a": [1, null]}`},
	{"oid", "4294967295"},
	{"name", "pg_class"},
	{`"char"`, "r"},
}

// Missing says why the driver has no such thing.
type Missing string

func (m Missing) Error() string { return string(m) }

// Feature runs a function, and says how a feature did.
func Feature(name string, run func() error) {
	err := run()
	var missing Missing
	switch {
	case err == nil:
		fmt.Println(name, "ok")
	case errors.As(err, &missing):
		fmt.Println(name, "none:", string(missing))
	default:
		fmt.Println(name, "failed:", strings.ReplaceAll(err.Error(), "\n", " / "))
	}
}

// Each runs a check for every value and tells all that fail.
func Each(check func(Value) error) error {
	var wrong []error
	for _, value := range Values {
		if err := check(value); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", value.Type, err))
		}
	}
	return errors.Join(wrong...)
}

// Literal is the value as SQL.
func (v Value) Literal() string {
	return "'" + strings.ReplaceAll(v.Text, "'", "''") + "'::" + v.Type
}

// Quoted is the value as an item of an array's text.
func (v Value) Quoted() string {
	return `"` + strings.ReplaceAll(strings.ReplaceAll(v.Text, `\`, `\\`), `"`, `\"`) + `"`
}

// Same compares what two values look like.
func Same(got, wanted any) error {
	if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", wanted) {
		return fmt.Errorf("%#v isn't %#v", got, wanted)
	}
	return nil
}
