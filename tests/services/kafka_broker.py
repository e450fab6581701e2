"""A real Apache Kafka broker for the tests: one process (KRaft), its jars from Maven Central, kept in a cache folder.

`RPQ_KAFKA_JARS` names another folder of jars.  By itself (`python -m tests.services.kafka_broker PORT FOLDER`) it runs a
broker until Ctrl-C.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

VERSION = "4.1.2"
REPOSITORY = "https://repo1.maven.org/maven2/"
JARS = """
965af2d9c19be0c169110eb18468a0bee24e24d14071a57c7f8a57bc4d3f990e org/apache/kafka/kafka_2.13/4.1.2/kafka_2.13-4.1.2.jar
afe861c05067f4018a3148d73c1ed1e5fc90808757c15b043527d7e535a5d431 org/apache/kafka/kafka-clients/4.1.2/kafka-clients-4.1.2.jar
0e6697b6827fa635b4686ec9754b1c5583f4997e9bc0f33a8518f1dee518a454 org/apache/kafka/kafka-coordinator-common/4.1.2/kafka-coordinator-common-4.1.2.jar
1925a002ef7c527b72a0877ed0d9f3a5f88a08d130d1ed2bdfcc40457ded354b org/apache/kafka/kafka-group-coordinator/4.1.2/kafka-group-coordinator-4.1.2.jar
781f932fb3e3824420e7554ef745b57e1827dd801cfc71bf8fd31eef56e60638 org/apache/kafka/kafka-group-coordinator-api/4.1.2/kafka-group-coordinator-api-4.1.2.jar
ccc29f5423cf5fbe63b47871dbce00a16e05a38bd0d531b3bf21e5c71ba54fac org/apache/kafka/kafka-metadata/4.1.2/kafka-metadata-4.1.2.jar
01f6717d07472b577a1cfe1cdf4d098b14a1dae4e35574164712801bd2a55cce org/apache/kafka/kafka-raft/4.1.2/kafka-raft-4.1.2.jar
2b849f1c9d3d9a08a5ea4c2f0479c552592cd770d72263d8d1610701a9b3e8d4 org/apache/kafka/kafka-server/4.1.2/kafka-server-4.1.2.jar
0f1d8fb9478ca0e3eea23b81064749738b9bff705704067e2fe8d62047e5fc07 org/apache/kafka/kafka-server-common/4.1.2/kafka-server-common-4.1.2.jar
fffacfaa46e7f25696f673035f86669422ae81889dfd28d8fec29500ee888310 org/apache/kafka/kafka-share-coordinator/4.1.2/kafka-share-coordinator-4.1.2.jar
902a08f775a9957e1546ecec8e22fbda73b84be9dfbdf04cce7a023dd60bf8b9 org/apache/kafka/kafka-storage/4.1.2/kafka-storage-4.1.2.jar
20939d46e1e65a34d6a59b447f0a5e63721678abbfdc948a5f9422930d71612c org/apache/kafka/kafka-transaction-coordinator/4.1.2/kafka-transaction-coordinator-4.1.2.jar
22d1d4316c4ec13a68b559e98c8256d69071593731da96136640f864fa14fad8 org/hdrhistogram/HdrHistogram/2.2.2/HdrHistogram-2.2.2.jar
65ceb669d88f63306c680f8088bbf765bbca72d288a61a03703000076c3d3f56 net/sourceforge/argparse4j/argparse4j/0.7.0/argparse4j-0.7.0.jar
ed74711a78d793ca37f6075e4a1e93d107233dfd20d0bb17e32bad88d38e56aa commons-validator/commons-validator/1.10.1/commons-validator-1.10.1.jar
ab26383fa3c10c0df1ffd1bb035d81161c059b1af71927d73c24473c058baa16 com/fasterxml/jackson/core/jackson-annotations/2.19.4/jackson-annotations-2.19.4.jar
466ae4dc4f7054f51525f4211df411d9a64d65cc169995d32bf49e20e6f586e5 com/fasterxml/jackson/core/jackson-core/2.19.4/jackson-core-2.19.4.jar
b781c431be870deb0bf84421e99e774c256a701f4ba678df80248f55cd16ff74 com/fasterxml/jackson/core/jackson-databind/2.19.4/jackson-databind-2.19.4.jar
998e652806c49ca59e2b6432c4edc37580c4702cb6189d10e6053d0b7982c2e7 com/fasterxml/jackson/dataformat/jackson-dataformat-yaml/2.19.4/jackson-dataformat-yaml-2.19.4.jar
df26cc58f235f477db07f753ba5a3ab243ebe5789d9f89ecf68dd62ea9a66c28 net/sf/jopt-simple/jopt-simple/5.0.4/jopt-simple-5.0.4.jar
e886682920fa0fb9d6eb6395dcb4de088443f8646c89c5e5846e168e327f406f org/apache/logging/log4j/log4j-api/2.25.3/log4j-api-2.25.3.jar
362b7fcb65b73aa46cc4bc53abf4eb216f444a83b5d1a037cb6fdfff0ae9f0f9 org/apache/logging/log4j/log4j-core/2.25.3/log4j-core-2.25.3.jar
6b7a14a6f34c10f8683f7b5e2f39df0f07b58c7dff0e468ebbc713905c46979c com/yammer/metrics/metrics-core/2.2.0/metrics-core-2.2.0.jar
2bbeef5797a241300c4f7513cd546239629ed7deda4fc0c31df90bb95f5f13ef org/pcollections/pcollections/4.0.2/pcollections-4.0.2.jar
7b52c72156dd7f98b3237a5b35c1d34fba381b21048c89208913ad80a45dfbd7 com/google/re2j/re2j/1.8/re2j-1.8.jar
1ebb2b6f9e4eb4022497c19b1e1e825019c08514f962aaac197145f88ed730f1 org/scala-lang/scala-library/2.13.16/scala-library-2.13.16.jar
87a3017d3f43e6ace7566fe4c3d615134c6914ff871c8d64bb32ca1d996d0545 com/typesafe/scala-logging/scala-logging_2.13/3.9.5/scala-logging_2.13-3.9.5.jar
d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0 org/slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36.jar
""".split("\n")[1:-1]  # noqa: E501
"""The jars that a broker loads, with the SHA-256 of each: 27 MB."""

STARTUP_SECONDS = 90

PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:{controller}
listeners=PLAINTEXT://localhost:{port},SASL_PLAINTEXT://localhost:{secured},{tls}CONTROLLER://localhost:{controller}
advertised.listeners={tls}PLAINTEXT://localhost:{port},SASL_PLAINTEXT://localhost:{secured}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,CERTIFIED:SSL,\
    CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
    user_rpq="open-sesame";
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=5000
log.retention.ms=-1
"""

TLS_PROPERTIES = """
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
    user_rpq="open-sesame";
ssl.keystore.type=PKCS12
ssl.keystore.location={store}
ssl.keystore.password={password}
listener.name.certified.ssl.client.auth=required
listener.name.certified.ssl.truststore.type=PEM
listener.name.certified.ssl.truststore.location={clients}
"""

PASSWORD_OF_STORES = "of-the-store"


class NoBroker(Exception):
    """There can be no broker here; says why."""


def jars() -> Path:
    """The folder of the jars, which are fetched if they are not there; `NoBroker` where that cannot be."""
    given = os.environ.get("RPQ_KAFKA_JARS")
    return Path(given) if given else fetched(JARS, f"kafka-{VERSION}")


def fetched(jars: Sequence[str], name: str) -> Path:
    """A cache folder of that name with jars of Maven Central, each a line with its SHA-256 and path; `NoBroker` without."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "streaming-rpq" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.gettempdir()) / f"streaming-rpq-{name}-{os.getuid()}"
        folder.mkdir(exist_ok=True)
    for line in jars:
        digest, path = line.split()
        if not (folder / Path(path).name).exists():
            _fetch(path, digest, folder)
    return folder


def _fetch(path: str, digest: str, folder: Path) -> None:
    """Get one jar; it is in the folder as a whole or not at all, whoever else gets it at the same time."""
    try:
        with urllib.request.urlopen(REPOSITORY + path, timeout=30) as response:
            content = response.read()
    except (OSError, urllib.error.URLError) as error:
        raise NoBroker(f"{REPOSITORY}{path} cannot be had: {error}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise NoBroker(f"{REPOSITORY}{path} is another file than expected: its SHA-256 is {found}")
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        file.write(content)
    os.replace(file.name, folder / Path(path).name)


def java() -> str:
    """The program that runs Java 17 or newer; `NoBroker` without."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None or not Path(program).exists():
        raise NoBroker("there is no Java")
    says = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    version = says.split('"')[1].split(".")[0] if '"' in says else ""
    if not version.isdigit() or int(version) < 17:
        raise NoBroker(f"Kafka {VERSION} needs Java 17 or newer")
    return program


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at."""
    with contextlib.ExitStack() as closing:
        sockets = [closing.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("localhost", 0))
        return [one.getsockname()[1] for one in sockets]


class Broker:
    """A broker whose data lie in a folder: it may be stopped or killed, and started again where it stood."""

    def __init__(self, folder: Path, port: int | None = None, *, with_tls: bool = False) -> None:
        self.folder = folder
        ports = free_ports(6)
        self.port = port or ports[0]
        self.address = f"localhost:{self.port}"
        self.secured_address = f"localhost:{ports[2]}"
        """Where the user rpq signs in with the password open-sesame (SASL, PLAIN)."""
        self.tls_address = f"localhost:{ports[3]}"
        """Where the same user signs in over TLS, if there is any; `authority` is who vouches for the broker."""
        self.authority = folder / "authority.pem"
        self.open_tls_address, self.certified_address = (f"localhost:{port}" for port in ports[4:])
        """Where anybody is let in over TLS, and where those are that have the key in `client_store`."""
        self.client_store = folder / "client.p12"
        self._process: subprocess.Popen[bytes] | None = None
        self._command = [java(), "-Xmx384m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*"]
        self._properties = folder / "server.properties"
        self._log = folder / "broker.log"
        folder.mkdir(parents=True, exist_ok=True)
        data = folder / "data"
        tls = ""
        if with_tls:
            tls = f"SASL_SSL://{self.tls_address},SSL://{self.open_tls_address},CERTIFIED://{self.certified_address},"
        about = PROPERTIES.format(port=self.port, controller=ports[1], secured=ports[2], tls=tls, data=data)
        if with_tls:
            clients = folder / "clients.pem"
            self._make_keys(self.client_store, clients)
            store = folder / "keys.p12"
            self._make_keys(store, self.authority)
            about += TLS_PROPERTIES.format(store=store, password=PASSWORD_OF_STORES, clients=clients)
        self._properties.write_text(about)
        if not data.exists():
            format_ = [*self._command, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c"]
            made = subprocess.run([*format_, str(self._properties)], capture_output=True, text=True, check=False)
            if made.returncode:
                raise NoBroker(f"the folder of a broker cannot be made: {made.stdout}{made.stderr}")

    def _make_keys(self, store: Path, certificate: Path) -> None:
        """Make a key with a certificate that it has signed itself, and the certificate apart from it."""
        if store.exists():
            return
        tool = str(Path(self._command[0]).resolve().parent / "keytool")
        of_store = ["-keystore", str(store), "-storepass", PASSWORD_OF_STORES, "-alias", "key"]
        names = ["-dname", "CN=localhost", "-ext", "SAN=dns:localhost,ip:127.0.0.1", "-validity", "7"]
        make = ["-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-storetype", "PKCS12", *names]
        for arguments in (make, ["-exportcert", "-rfc", "-file", str(certificate)]):
            made = subprocess.run([tool, *arguments, *of_store], capture_output=True, text=True, check=False)
            if made.returncode:
                raise NoBroker(f"no certificate can be made: {made.stdout}{made.stderr}")

    def start(self, *, wait: bool = True) -> Broker:
        """Start it; returns when it answers, unless told not to wait."""
        log = open(self._log, "ab")  # noqa: SIM115 - it is the process's
        self._process = subprocess.Popen(
            [*self._command, "kafka.Kafka", str(self._properties)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it calls the system alone
        )
        log.close()
        if wait:
            self.wait()
        return self

    def wait(self) -> None:
        """Wait until it answers; `NoBroker` if it ends or takes too long."""
        from confluent_kafka.admin import AdminClient

        assert self._process is not None
        until = time.monotonic() + STARTUP_SECONDS
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise NoBroker(f"the broker ended at once: {self._log.read_text()[-2000:]}")
            with contextlib.suppress(Exception):
                if admin.list_topics(timeout=1).brokers:
                    return
        self.stop()
        raise NoBroker(f"the broker does not answer after {STARTUP_SECONDS} s: {self._log.read_text()[-2000:]}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it, and see that it is gone."""
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """End it as a crash would."""
        self.stop(signal.SIGKILL)

    close = stop

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()


def die_with_parent() -> None:
    """Whatever becomes of the tests, the broker does not outlive them."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@contextlib.contextmanager
def required_or_skipped() -> Iterator[None]:
    """A block that needs a broker: where there can be none tests skip, but fail where `RPQ_NEEDS_KAFKA` is set."""
    import pytest

    try:
        yield
    except (NoBroker, ImportError) as missing:
        if os.environ.get("RPQ_NEEDS_KAFKA"):
            raise
        pytest.skip(f"no Kafka broker: {missing}")


if __name__ == "__main__":
    with Broker(Path(sys.argv[2]), int(sys.argv[1])) as running:
        print(running.address, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.sigwait({signal.SIGTERM, signal.SIGINT})
