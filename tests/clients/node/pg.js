// node-postgres, with pg-cursor, pg-query-stream and pg-copy-streams.
import fs from 'node:fs';

import pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import Cursor from 'pg-cursor';
import QueryStream from 'pg-query-stream';

import { assert, CA, each, feature, HOST, literal, PASSWORD, PORT, TLS_HOST, VALUES } from './common.js';

console.log('version', JSON.parse(fs.readFileSync(new URL('node_modules/pg/package.json', import.meta.url), 'utf8')).version);
const PLAIN = { host: HOST, port: PORT, user: 'root', database: 'dev' };

async function connect(config = PLAIN) {
  const client = new pg.Client(config);
  await client.connect();
  return client;
}

const db = await connect();
const rows = async (text, values) => (await db.query({ text, values, rowMode: 'array' })).rows;
const value = async (text, values) => (await rows(text, values))[0][0];
const failing = async (text, values, client = db) => {
  try {
    await client.query(text, values);
  } catch (error) {
    return error;
  }
  throw new Error(`${text} succeeded`);
};

// Values as the text that the server sends, whatever the driver would make of them.
const asText = { getTypeParser: () => (text) => String(text) };
const textOf = async (text, values) =>
  (await db.query({ text, values, rowMode: 'array', types: asText })).rows[0][0];

// What the driver makes of some of them.
const JS = {
  bool: true,
  int2: -32768,
  int4: 2147483647,
  float4: 1.5,
  float8: -2.25e100,
  bytea: Buffer.from([0, 255, 16]),
  timestamptz: new Date('2026-01-02T03:04:05.600Z'),
  json: { a: [1, null] },
  jsonb: { a: [1, null] },
  oid: 4294967295,
};

await feature('connect', async () => {
  const client = await connect({ ...PLAIN, application_name: 'drivers', statement_timeout: 9000 });
  assert.equal((await client.query('SHOW application_name')).rows[0].application_name, 'drivers');
  assert.equal((await client.query('SHOW statement_timeout')).rows[0].statement_timeout, '9s');
  await client.end();
  const pool = new pg.Pool({ ...PLAIN, max: 3 });
  const all = await Promise.all([...Array(9).keys()].map((n) => pool.query('SELECT $1::int4 AS n', [n])));
  assert.deepEqual(all.map((result) => result.rows[0].n), [...Array(9).keys()]);
  await pool.end();
});

await feature('scram', async () => {
  const client = await connect({ ...PLAIN, user: 'reader', password: PASSWORD });
  assert.equal((await client.query('SELECT current_user AS u')).rows[0].u, 'reader');
  await client.end();
  await assert.rejects(connect({ ...PLAIN, user: 'reader', password: 'wrong' }), { code: '28P01' });
});

await feature('tls', async () => {
  const client = await connect({ ...PLAIN, host: TLS_HOST, user: 'reader', password: PASSWORD, ssl: { ca: CA } });
  assert.equal((await client.query('SELECT 1::int4 AS one')).rows[0].one, 1);
  await client.end();
});

await feature('text', async () => {
  await each(VALUES, async (type, text) => {
    assert.equal(await textOf(`SELECT ${literal(type, text)}`), text);
    if (type in JS) assert.deepEqual(await value(`SELECT ${literal(type, text)}`), JS[type]);
  });
  const interval = await value("SELECT '3 days 04:05:06.7'::interval");
  assert.deepEqual([interval.days, interval.hours, interval.milliseconds], [3, 4, 700]);
  const date = await value("SELECT '2026-02-28'::date");
  assert.equal(date.getDate(), 28);
});

await feature('binary', async () => {
  await each(VALUES, async (type, text) => {
    const result = await db.query({ text: `SELECT ${literal(type, text)}`, rowMode: 'array', binary: true });
    const got = result.rows[0][0];
    if (['bool', 'int2', 'int4', 'float4', 'float8', 'timestamptz', 'oid'].includes(type)) {
      assert.deepEqual(got, JS[type]);
    } else if (type === 'int8') {
      assert.equal(String(got), text);
    } else if (type === 'text' || type === 'varchar') {
      assert.equal(String(got), text);
    }
  });
});

await feature('parameters', async () => {
  await each(VALUES, async (type, text) => {
    assert.equal(await textOf(`SELECT $1::${type}`, [text]), text);
    if (type in JS) assert.deepEqual(await value(`SELECT $1::${type}`, [JS[type]]), JS[type]);
  });
  assert.equal(await value('SELECT count(*) FROM mv WHERE id < $1', [-1]), '0');
  assert.equal(await value('SELECT relname FROM pg_class WHERE oid = $1', [1259]), 'pg_class');
  assert.equal(await value("SELECT $1 || 'x'", ['a']), 'ax');
});

await feature('arrays', async () => {
  const quoted = (text) => `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
  await each(VALUES, async (type, text) => {
    const got = await textOf(`SELECT array[${literal(type, text)}, NULL]::text`);
    assert.equal(await textOf(`SELECT $1::${type}[]::text`, [`{${quoted(text)},NULL}`]), got);
  });
  assert.deepEqual(await value('SELECT $1::int4[]', [[1, null, 3]]), [1, null, 3]);
  assert.deepEqual(await value('SELECT $1::text[]', [['a,b', null, 'c"d']]), ['a,b', null, 'c"d']);
  assert.deepEqual(await value("SELECT array['{}'::jsonb, NULL]"), [{}, null]);
  assert.deepEqual(await value('SELECT $1::int4[]', [[]]), []);
  assert.equal(await value('SELECT count(*) FROM pg_class WHERE relname = ANY($1)', [['mv', 's', 'no']]), '2');
});

await feature('nulls', async () => {
  await each(VALUES, async (type) => {
    assert.deepEqual(await rows(`SELECT NULL::${type}, $1::${type}`, [null]), [[null, null]]);
  });
});

await feature('batch', async () => {
  // Queries that don't wait for each other.
  const all = await Promise.all([...Array(50).keys()].map((n) => value('SELECT $1::int4 + 1::int4', [n])));
  assert.deepEqual(all, [...Array(50).keys()].map((n) => n + 1));
  const results = await db.query("SELECT 1::int4 AS a; SELECT 'two' AS b");
  assert.deepEqual(results.map((result) => result.rows[0]), [{ a: 1 }, { b: 'two' }]);
});

await feature('cursor', async () => {
  const cursor = db.query(new Cursor('SELECT id FROM mv WHERE id >= $1 ORDER BY id', [-1000]));
  assert.equal((await cursor.read(7)).length, 7);
  assert.equal((await cursor.read(2000)).length, 993);
  assert.equal((await cursor.read(1)).length, 0);
  await cursor.close();
  const unread = db.query(new Cursor('SELECT n FROM generate_series(1, 1000000) g(n)'));
  await unread.read(1);
  await unread.close();
  let seen = 0;
  for await (const _ of db.query(new QueryStream('SELECT id FROM mv', [], { batchSize: 13 }))) seen += 1;
  assert.equal(seen, 1000);
});

await feature('cancel', async () => {
  const sleeping = failing('SELECT pg_sleep(60)');
  const other = await connect();
  await new Promise((resolve) => setTimeout(resolve, 500));
  await other.query('SELECT pg_cancel_backend($1)', [db.processID]);
  assert.equal((await sleeping).code, '57014');
  await other.end();
  assert.equal(await value('SELECT 1::int4'), 1);
});

await feature('errors', async () => {
  const error = await failing('SELECT nme FROM mv');
  assert.deepEqual([error.code, error.position, error.severity], ['42703', '8', 'ERROR']);
  assert.equal((await failing('SELECT * FROM nowhere')).code, '42P01');
  assert.equal((await failing('SELECT $1::int4', ['x'])).code, '22P02');
  assert.equal((await failing('SELECT 1 / 0')).code, '22012');
  const refused = await failing('ALTER SOURCE slow SET PARALLELISM = 3');
  assert.ok(refused.detail && refused.hint);
});

await feature('transactions', async () => {
  await db.query('BEGIN');
  await failing('SELECT 1 / 0');
  assert.equal((await failing('SELECT 1')).code, '25P02');
  await db.query('ROLLBACK');
  await db.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  assert.equal(await value('SHOW transaction_isolation'), 'repeatable read');
  await db.query('SAVEPOINT a');
  await failing('SELECT 1 / 0');
  await db.query('ROLLBACK TO SAVEPOINT a');
  assert.equal(await value('SELECT 2::int4'), 2);
  assert.equal((await db.query('COMMIT')).command, 'COMMIT');
});

await feature('prepared', async () => {
  for (let n = 0; n < 20; n += 1) {
    const query = { name: 'counting', text: "SELECT $1::int8 + 1, $2 || '!'", values: [n, 'x'], rowMode: 'array' };
    assert.deepEqual((await db.query(query)).rows, [[String(n + 1), 'x!']]);
  }
});

await feature('copy', async () => {
  const chunks = [];
  const query = "COPY (SELECT n, 'x' || n FROM generate_series(1, 3) g(n)) TO STDOUT";
  for await (const chunk of db.query(copyTo(query))) chunks.push(chunk);
  assert.equal(Buffer.concat(chunks).toString(), '1\tx1\n2\tx2\n3\tx3\n');
});

await feature('statements', async () => {
  await db.query(`CREATE SOURCE mine (id BIGINT)
    WITH (connector = 'datagen', splits = 2, rows_per_split = 10) FORMAT PLAIN ENCODE JSON`);
  await db.query('CREATE MATERIALIZED VIEW my_view AS SELECT id FROM mine');
  assert.equal(await value('SELECT count(*) FROM my_view'), '20');
  const error = await failing('ALTER SOURCE slow SET PARALLELISM = 3');
  assert.equal(error.code, '55000');
  assert.match(error.detail, /of materialized view "busy" would move/);
  assert.ok((await rows('SELECT * FROM tidegate.check_rescale($1, $2)', ['slow', '3'])).length > 0);
  await db.query('DROP SOURCE mine CASCADE');
});

await feature('notices', async () => {
  const heard = [];
  db.on('notice', (notice) => heard.push(notice.severity));
  await db.query('DROP SOURCE IF EXISTS nowhere');
  assert.deepEqual(heard, ['NOTICE']);
});

await feature('catalog', async () => {
  const result = await db.query('SELECT oid, relname, relkind FROM pg_class WHERE relname = $1', ['mv']);
  assert.deepEqual(result.fields.map((field) => [field.name, field.dataTypeID]), [['oid', 26], ['relname', 19], ['relkind', 18]]);
  assert.equal(result.fields[1].tableID, 1259);
  assert.equal(result.fields[1].columnID, 2);
});

await db.end();
