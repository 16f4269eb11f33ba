//! Object stores of others that speak the real protocols: moto for S3, Azurite for Azure Blob Storage.
//!
//! Each keeps its objects in memory and ends with the value that stands for it, or with the process that started it.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::tools;

/// Azurite's only account, and its key: everybody's, printed in its manual.
pub const AZURITE_ACCOUNT: &str = "devstoreaccount1";
/// See [`AZURITE_ACCOUNT`].
pub const AZURITE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// A shared access signature for everything in that account, made with that key once and for all.
pub const AZURITE_SAS: &str = "sv=2022-11-02&ss=b&srt=sco&sp=rwdlacx&se=2099-01-01T00%3A00%3A00Z&spr=https%2Chttp&\
     sig=JvywjIgp2la7pWgksMvUDaAyMSdOxMx011IuQk%2FTbZM%3D";

/// A program that is not ready by then never will be.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends the server when its own standard input ends, which it does with whoever started it, however that ended.
const WATCHED: &str = r#""$@" </dev/null & server=$!; read -r _; kill $server; wait $server"#;

/// A running store.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    watcher: Child,
}

impl Server {
    /// S3 by moto, with these buckets. Credentials are not looked at.
    ///
    /// # Panics
    /// If it is not installed or does not start: the message says what to do.
    #[must_use]
    pub fn moto(buckets: &[&str]) -> Self {
        let server = Self::start("moto_server", |command, address| {
            command.args(["-H", "127.0.0.1", "-p"]).arg(address.port().to_string());
        });
        for bucket in buckets {
            server.create(&format!("/{bucket}"));
        }
        server
    }

    /// Azure Blob Storage by Azurite, with these containers in its account.
    ///
    /// # Panics
    /// If it is not installed or does not start: the message says what to do.
    #[must_use]
    pub fn azurite(containers: &[&str]) -> Self {
        let server = Self::start("azurite-blob", |command, address| {
            let flags = ["--silent", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"];
            command
                .args(flags)
                .args(["--blobHost", "127.0.0.1", "--blobPort"])
                .arg(address.port().to_string());
        });
        for container in containers {
            server.create(&format!("/{AZURITE_ACCOUNT}/{container}?restype=container&{AZURITE_SAS}"));
        }
        server
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    fn start(name: &str, arguments: impl FnOnce(&mut Command, SocketAddr)) -> Self {
        let address = free_address().expect("a port is free");
        let program = tools::program(&tools::repository(), name);
        let mut command = Command::new("sh");
        command.args(["-c", WATCHED, "sh"]).arg(&program);
        arguments(&mut command, address);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let watcher = started.unwrap_or_else(|error| panic!("no shell for {name}: {error}"));
        let server = Self { address, watcher };
        let begin = Instant::now();
        // Whether it listens only asking tells.
        while TcpStream::connect(address).is_err() {
            let is_missing = begin.elapsed() > PATIENCE;
            assert!(
                !is_missing,
                "{} does not listen on {address}: `cargo xtask setup` installs it",
                Path::new(&program).display()
            );
            thread::sleep(Duration::from_millis(20));
        }
        server
    }

    fn create(&self, target: &str) {
        let status = self.put(target).unwrap_or_else(|error| panic!("PUT {target}: {error}"));
        assert!(matches!(status, 200 | 201), "PUT {target}: {status}");
    }

    fn put(&self, target: &str) -> io::Result<u16> {
        let mut connection = TcpStream::connect(self.address)?;
        write!(
            connection,
            "PUT {target} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nx-ms-version: 2022-11-02\r\n\
             Connection: close\r\n\r\n",
            self.address
        )?;
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer)?;
        let text = String::from_utf8_lossy(&answer);
        let status = text.split_ascii_whitespace().nth(1).and_then(|status| status.parse().ok());
        status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no status line"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The watcher sees the end of its input, and ends the server.
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}

/// Free a moment ago: whoever wants a port chosen for it cannot be told through a command line.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}
