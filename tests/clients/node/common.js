// What the scripts for Node's drivers share: the line for each feature, the server's address, and a value of each type.
import assert from 'node:assert/strict';
import fs from 'node:fs';

export { assert };
export const PORT = Number(process.env.TIDEGATE_PORT);
export const PASSWORD = process.env.TIDEGATE_PASSWORD;
export const CA = fs.readFileSync(process.env.TIDEGATE_CA, 'utf8');
export const HOST = '127.0.0.1';
// The certificate is for this name.
export const TLS_HOST = 'localhost';

// Type and literal, as the server prints it again.
export const VALUES = [
  ['bool', 't'],
  ['int2', '-32768'],
  ['int4', '2147483647'],
  ['int8', '-9223372036854775808'],
  ['float4', '1.5'],
  ['float8', '-2.25e+100'],
  ['numeric', '12345.6789'],
  ['text', 'grüße \'n"\\'],
  ['varchar', 'x y'],
  ['bytea', '\\x00ff10'],
  ['date', '2026-02-28'],
  ['time', '23:59:58.123456'],
  ['timestamp', '1999-12-31 23:59:59.000001'],
  ['timestamptz', '2026-01-02 03:04:05.6+00'],
  ['interval', '3 days 04:05:06.7'],
  ['uuid', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'],
  ['json', '{"a":[1,null]}'],
  ['jsonb', '{"a": [1, null]}'],
  ['oid', '4294967295'],
  ['name', 'pg_class'],
  ['"char"', 'r'],
];

// The driver has no such thing; the text says why.
export class Missing extends Error {}

const say = (name, outcome) => console.log(`${name} ${outcome}`);

// Runs a function, and says how a feature did.
export async function feature(name, run) {
  try {
    await run();
    say(name, 'ok');
  } catch (error) {
    const text = String(error.message).replaceAll('\n', ' / ');
    const at = (error.stack ?? '').match(/\w+\.js:\d+/g) ?? [];
    say(name, error instanceof Missing ? `none: ${text}` : `failed: ${text} at ${at.slice(0, 4)}`);
  }
}

// Runs a check for every case and tells all that fail.
export async function each(cases, check) {
  const wrong = [];
  for (const one of cases) {
    try {
      await check(...one);
    } catch (error) {
      wrong.push(`${one[0]}: ${String(error.message).replaceAll('\n', ' / ')}`);
    }
  }
  assert.deepEqual(wrong, []);
}

export const literal = (type, text) => `'${text.replaceAll("'", "''")}'::${type}`;
