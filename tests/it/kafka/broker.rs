//! An Apache Kafka broker of one node in a process of its own, on free ports of the loopback.

use std::fs::File;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::server::PATIENCE;

/// What a broker's Java needs least of: memory, and time to start.
const JAVA_FLAGS: [&str; 3] = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"];

/// The password of every user and of the key store.
pub const PASSWORD: &str = "s3cret-of-tests";

/// The shell that runs the broker. It ends the broker (by its own process id) as soon as the test process is gone,
/// however that ended, since then its input ends; and it keeps the broker's files only if it is told so.
const KEEPER: &str = r#"
"$@" <&- & broker=$!
read -r word
if [ "$word" = stop ]; then kill "$broker"; else kill -9 "$broker"; fi
wait "$broker"
[ "$word" = stop ] || rm -rf "$DIR"
"#;

/// A broker. It ends, with its files, when it is dropped or when the process of the tests ends.
pub struct Broker {
    jars: PathBuf,
    dir: PathBuf,
    ports: Ports,
    running: Option<(Child, ChildStdin)>,
}

struct Ports {
    plain: SocketAddr,
    sasl: SocketAddr,
    tls: SocketAddr,
    controller: SocketAddr,
}

impl Broker {
    /// The broker that tests share, each with topics of its own. `None`, and said so, on a machine without it.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Broker>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| jars().map(Self::with_jars).ok());
        if shared.is_none() {
            tell_skipped();
        }
        shared.as_ref()
    }

    /// A broker that the caller may stop. `None`, and said so, on a machine without it.
    pub fn start() -> Option<Self> {
        let Ok(jars) = jars() else {
            tell_skipped();
            return None;
        };
        Some(Self::with_jars(jars))
    }

    fn with_jars(jars: PathBuf) -> Self {
        let dir = tempfile::tempdir().unwrap().keep();
        let mut broker = Self { jars, dir, ports: Ports::free(), running: None };
        std::fs::write(broker.properties(), broker.ports.properties(&broker.dir)).unwrap();
        std::fs::write(broker.dir.join("log4j2.properties"), LOGGING).unwrap();
        broker.make_keys();
        broker.format();
        broker.start_again();
        broker
    }

    /// `host:port` of the listener without any security.
    pub fn address(&self) -> String {
        self.ports.plain.to_string()
    }

    /// `host:port` of the listener that wants SASL/PLAIN.
    pub fn sasl_address(&self) -> String {
        self.ports.sasl.to_string()
    }

    /// `host:port` of the listener that wants SASL/PLAIN over TLS.
    pub fn tls_address(&self) -> String {
        self.ports.tls.to_string()
    }

    /// The certificate that the TLS listener shows, as PEM.
    pub fn certificate(&self) -> PathBuf {
        self.dir.join("broker.pem")
    }

    /// Ends the process in order.
    pub fn stop(&mut self) {
        let (mut child, mut stdin) = self.running.take().expect("a broker that runs");
        stdin.write_all(b"stop\n").unwrap();
        child.wait().unwrap();
    }

    /// Starts the process, on the same data and ports as before, and waits until it answers.
    pub fn start_again(&mut self) {
        let log = File::options().create(true).append(true).open(self.dir.join("broker.log")).unwrap();
        let mut child = Command::new("sh")
            .args(["-c", KEEPER, "kafka", "java"])
            .args(JAVA_FLAGS)
            .arg(format!("-Dlog4j2.configurationFile={}", self.dir.join("log4j2.properties").display()))
            .args(["-cp", &self.class_path(), "kafka.Kafka"])
            .arg(self.properties())
            .env("DIR", &self.dir)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        self.running = Some((child, stdin));
        let since = Instant::now();
        while TcpStream::connect(self.ports.plain).is_err() {
            assert!(since.elapsed() < PATIENCE, "the broker did not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Runs a command-line tool of Kafka (a class) that has to succeed.
    pub fn tool(&self, class: &str, arguments: &[&str]) {
        let mut java = Command::new("java");
        java.args(JAVA_FLAGS)
            .arg(format!("-Dlog4j2.configurationFile={}", self.dir.join("log4j2.properties").display()))
            .args(["-cp", &self.class_path(), class])
            .args(arguments);
        must_succeed(&mut java);
    }

    fn class_path(&self) -> String {
        self.jars.join("*").to_str().unwrap().to_owned()
    }

    fn properties(&self) -> PathBuf {
        self.dir.join("server.properties")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("broker.log")).unwrap_or_default()
    }

    fn format(&self) {
        let properties = self.properties();
        let cluster = "tidegate-tests-cluster";
        self.tool("kafka.tools.StorageTool", &["format", "-t", cluster, "-c", properties.to_str().unwrap()]);
    }

    /// A key that signs itself, and its certificate.
    fn make_keys(&self) {
        let store = self.dir.join("broker.p12");
        let keytool = |arguments: &[&str]| {
            let mut keytool = Command::new("keytool");
            keytool.args(arguments).args(["-alias", "broker", "-storepass", PASSWORD, "-keystore"]).arg(&store);
            keytool
        };
        must_succeed(&mut keytool(&[
            "-genkeypair",
            "-keyalg",
            "EC",
            "-dname",
            "CN=127.0.0.1",
            "-ext",
            "SAN=IP:127.0.0.1",
            "-storetype",
            "PKCS12",
            "-validity",
            "30",
        ]));
        must_succeed(&mut keytool(&["-exportcert", "-rfc", "-file", self.certificate().to_str().unwrap()]));
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some((mut child, stdin)) = self.running.take() {
            drop(stdin);
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Ports {
    fn free() -> Self {
        let listeners: [TcpListener; 4] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let [plain, sasl, tls, controller] = listeners.map(|listener| listener.local_addr().unwrap());
        Self { plain, sasl, tls, controller }
    }

    /// Settings of a broker that does soon what brokers do every few minutes: retention, compaction, deletion.
    fn properties(&self, dir: &Path) -> String {
        let Self { plain, sasl, tls, controller } = self;
        let dir = dir.display();
        let login = format!(
            "org.apache.kafka.common.security.plain.PlainLoginModule required user_reader=\"{PASSWORD}\" \
             user_admin=\"{PASSWORD}\";"
        );
        format!(
            "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{controller}
controller.listener.names=CONTROLLER
listeners=PLAIN://{plain},SASL://{sasl},TLS://{tls},CONTROLLER://{controller}
advertised.listeners=PLAIN://{plain},SASL://{sasl},TLS://{tls}
listener.security.protocol.map=PLAIN:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config={login}
listener.name.tls.plain.sasl.jaas.config={login}
ssl.keystore.type=PKCS12
ssl.keystore.location={dir}/broker.p12
ssl.keystore.password={PASSWORD}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin
auto.create.topics.enable=false
log.dirs={dir}/data
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.initial.task.delay.ms=200
log.retention.ms=-1
log.retention.check.interval.ms=300
log.cleaner.backoff.ms=200
log.cleaner.dedupe.buffer.size=2097152
log.segment.delete.delay.ms=200
"
        )
    }
}

/// The broker's own log: what goes wrong, into its standard output.
const LOGGING: &str = "appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{HH:mm:ss.SSS} %p %c{1} %m%n
rootLogger.level=warn
rootLogger.appenderRef.out.ref=out
";

/// The folder of the jars: what TIDEGATE_KAFKA_JARS names, or else where `fetch.sh` puts them.
fn jars() -> Result<PathBuf, &'static str> {
    let jars = match std::env::var_os("TIDEGATE_KAFKA_JARS") {
        Some(jars) => PathBuf::from(jars),
        None => {
            let (_, version) = include_str!("../../clients/kafka/pom.xml").split_once("<kafka.version>").unwrap();
            let (version, _) = version.split_once('<').unwrap();
            let cache = std::env::var_os("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
                .ok_or("no home")?;
            cache.join("tidegate").join(format!("kafka-{version}"))
        }
    };
    let java = Command::new("java").arg("-version").output().is_ok_and(|output| output.status.success());
    if java && jars.is_dir() { Ok(jars) } else { Err("no java, or no jars") }
}

/// Says so where it is seen: what a passing test prints is not.
fn tell_skipped() {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(
        std::io::stderr(),
        "skipped: {test} needs Java and the jars of Apache Kafka (tests/clients/kafka/fetch.sh)"
    );
}

fn must_succeed(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
