# DBD::Pg, Perl's driver.
use strict;
use warnings;
use utf8;
use open qw(:std :encoding(UTF-8));
use DBI;
use DBD::Pg qw(:pg_types);

my ($port, $password, $ca) = @ENV{qw(TIDEGATE_PORT TIDEGATE_PASSWORD TIDEGATE_CA)};
my $plain = "dbi:Pg:dbname=dev;host=127.0.0.1;port=$port";
my %quiet = (RaiseError => 1, PrintError => 0, PrintWarn => 0);
my $db = DBI->connect("$plain;sslmode=disable", 'root', '', {%quiet});

my @values = (
    ['bool', 't'], ['int2', '-32768'], ['int4', '2147483647'], ['int8', '-9223372036854775808'], ['float4', '1.5'],
    ['float8', '-2.25e+100'], ['numeric', '12345.6789'], ['text', qq(grüße 'n"\\)], ['varchar', 'x y'],
    ['bytea', '\x00ff10'], ['date', '2026-02-28'], ['time', '23:59:58.123456'],
    ['timestamp', '1999-12-31 23:59:59.000001'], ['timestamptz', '2026-01-02 03:04:05.6+00'],
    ['interval', '3 days 04:05:06.7'], ['uuid', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'], ['json', '{"a":[1,null]}'],
    ['jsonb', '{"a": [1, null]}'], ['oid', '4294967295'], ['name', 'pg_class'], ['"char"', 'r'],
);

sub feature {
    my ($name, $run) = @_;
    my $missing = eval { $run->() };
    if (my $error = $@) {
        $error =~ s/\n/ \/ /g;
        print "$name failed: $error\n";
    } else {
        print "$name ", (defined $missing && $missing =~ /^none: / ? $missing : 'ok'), "\n";
    }
}

sub same {
    my ($got, $wanted) = map { defined $_ ? $_ : 'undef' } @_[0, 1];
    die "<$got> isn't <$wanted>" unless $got eq $wanted;
}

sub each_value {
    my ($check) = @_;
    my @wrong;
    for my $value (@values) {
        eval { $check->(@$value); 1 } or push @wrong, "$value->[0]: $@";
    }
    die join('; ', @wrong) if @wrong;
}

sub value { return ($db->selectrow_array($_[0], undef, @_[1 .. $#_]))[0] }

sub literal { my ($type, $text) = @_; return $db->quote($text) . "::$type" }

sub fails {
    my ($state, $sql, @parameters) = @_;
    eval { $db->do($sql, undef, @parameters); 1 } and die "$sql succeeded";
    same($db->state, $state);
    return $db->errstr;
}

# What Perl makes of a value's text.
sub shown {
    my ($type, $text) = @_;
    return 1 if $type eq 'bool';
    return "\x{00}\x{ff}\x{10}" if $type eq 'bytea';
    return $text;
}

feature(connect => sub {
    my $c = DBI->connect("$plain;sslmode=disable;application_name=drivers", 'root', '', {%quiet});
    same(($c->selectrow_array('SHOW application_name'))[0], 'drivers');
    same(int($c->{pg_server_version} / 10000), 15);
    die unless $c->ping;
});
feature(scram => sub {
    my $c = DBI->connect($plain, 'reader', $password, {%quiet});
    same(($c->selectrow_array('SELECT current_user'))[0], 'reader');
    eval { DBI->connect($plain, 'reader', 'wrong', {%quiet}); 1 } and die 'it came in';
    die $@ unless $@ =~ /password authentication failed/;
});
feature(tls => sub {
    my $c = DBI->connect("dbi:Pg:dbname=dev;host=localhost;port=$port;sslmode=verify-full;sslrootcert=$ca", 'reader', $password, {%quiet});
    same(($c->selectrow_array('SELECT 1'))[0], 1);
});
feature(text => sub {
    each_value(sub { my ($type, $text) = @_; same(value('SELECT ' . literal($type, $text)), shown($type, $text)) });
});
feature(binary => sub { 'none: it only reads the text format' });
feature(parameters => sub {
    each_value(sub {
        my ($type, $text) = @_;
        same(value("SELECT ?::$type", $text), shown($type, $text)) unless $type eq 'bytea';
    });
    my $statement = $db->prepare('SELECT ?::bytea');
    $statement->bind_param(1, "\0\xff\x10", {pg_type => PG_BYTEA});
    $statement->execute;
    same(($statement->fetchrow_array)[0], "\0\xff\x10");
    same(value('SELECT count(*) FROM mv WHERE id < ?', -1), 0);
    same(value('SELECT relname FROM pg_class WHERE oid = ?', 1259), 'pg_class');
});
feature(arrays => sub {
    each_value(sub {
        my ($type, $text) = @_;
        my $array = value('SELECT array[' . literal($type, $text) . ', NULL]');
        if (ref $array) {
            same(scalar(@$array), 2);
            same($array->[1], undef);
        }
    });
    my $got = value('SELECT ?::text[]', ['a,b', undef, 'c"d']);
    same(join('|', map { $_ // 'undef' } @$got), 'a,b|undef|c"d');
    same(value('SELECT count(*) FROM pg_class WHERE relname = ANY(?)', ['mv', 's', 'no']), 2);
});
feature(nulls => sub {
    each_value(sub {
        my ($type) = @_;
        same(value("SELECT NULL::$type"), undef);
        same(value("SELECT ?::$type", undef), undef);
    });
});
feature(batch => sub {
    my $statement = $db->prepare('SELECT ?::int4');
    same($statement->execute_array({}, [1 .. 20]), 20);
    $db->do("SET statement_timeout = '9s'; SELECT 1; RESET statement_timeout");
});
feature(cursor => sub {
    $db->begin_work;
    $db->do('DECLARE parts CURSOR FOR SELECT id FROM mv ORDER BY id');
    my ($seen, $part) = (0, 1);
    while ($part) {
        $part = @{$db->selectall_arrayref('FETCH 300 FROM parts')};
        $seen += $part;
    }
    same($seen, 1000);
    $db->commit;
});
feature(cancel => sub {
    my $statement = $db->prepare('SELECT pg_sleep(60)', {pg_async => PG_ASYNC});
    $statement->execute;
    select(undef, undef, undef, 0.5);
    $db->pg_cancel;
    same($db->state, '57014');
    same(value('SELECT 1'), 1);
});
feature(errors => sub {
    fails('42703', 'SELECT nme FROM mv');
    die 'no position' unless $db->pg_error_field('statement_position') == 8;
    fails('42P01', 'SELECT * FROM nowhere');
    fails('22012', 'SELECT 1 / 0');
    fails('22P02', 'SELECT ?::int4', 'x');
    fails('55000', 'ALTER SOURCE slow SET PARALLELISM = 3');
    die 'no hint' unless $db->pg_error_field('message_hint') && $db->pg_error_field('message_detail');
});
feature(transactions => sub {
    $db->begin_work;
    fails('22012', 'SELECT 1 / 0');
    fails('25P02', 'SELECT 1');
    $db->rollback;
    $db->begin_work;
    $db->pg_savepoint('a');
    fails('22012', 'SELECT 1 / 0');
    $db->pg_rollback_to('a');
    same(value('SELECT 2'), 2);
    $db->pg_release('a');
    $db->commit;
    same($db->pg_ping, 1);
});
feature(prepared => sub {
    my $statement = $db->prepare(q(SELECT ?::int8 + 1, ? || '!'), {pg_server_prepare => 1});
    for my $n (1 .. 20) {
        $statement->execute($n, 'x');
        same(join('|', $statement->fetchrow_array), $n + 1 . '|x!');
    }
});
feature(copy => sub {
    $db->do(q(COPY (SELECT n, 'x' || n FROM generate_series(1, 3) g(n)) TO STDOUT));
    my ($line, $all) = ('', '');
    while ($db->pg_getcopydata($line) >= 0) { $all .= $line }
    same($all, "1\tx1\n2\tx2\n3\tx3\n");
});
feature(statements => sub {
    $db->do(q(CREATE SOURCE mine (id BIGINT) WITH (connector = 'datagen', splits = 2, rows_per_split = 10) FORMAT PLAIN ENCODE JSON));
    $db->do('CREATE MATERIALIZED VIEW my_view AS SELECT id FROM mine');
    same(value('SELECT count(*) FROM my_view'), 20);
    my $text = fails('55000', 'ALTER SOURCE slow SET PARALLELISM = 3');
    die $text unless $text =~ /of materialized view "busy" would move/;
    die unless @{$db->selectall_arrayref('SELECT * FROM tidegate.check_rescale(?, ?)', undef, 'slow', '3')};
    $db->do('DROP SOURCE mine CASCADE');
});
feature(notices => sub {
    my @heard;
    local $SIG{__WARN__} = sub { push @heard, @_ };
    local $db->{PrintWarn} = 1;
    $db->do('DROP SOURCE IF EXISTS nowhere');
    die "@heard" unless @heard == 1 && $heard[0] =~ /NOTICE/;
});
feature(catalog => sub {
    my $tables = $db->table_info(undef, 'tidegate', '%', 'TABLE,VIEW,FOREIGN TABLE')->fetchall_arrayref({});
    die 'tables' unless grep { $_->{TABLE_NAME} eq 'split_backfill_progress' } @$tables;
    my $columns = $db->column_info(undef, 'public', 'mv', '%')->fetchall_arrayref({});
    same(join('|', map { "$_->{COLUMN_NAME} $_->{pg_type}" } @$columns), 'id bigint|amount double precision');
    $db->primary_key_info(undef, 'public', 'mv');
    $db->foreign_key_info(undef, 'public', 'mv', undef, undef, undef);
    die 'types' unless @{$db->type_info_all} > 5;
    die 'names' unless grep { /mv/ } $db->tables(undef, 'public', '%', '');
});
